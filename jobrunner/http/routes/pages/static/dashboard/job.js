// One job: where it is and why, the way it came, what its stages did, what it made, and what can be
// done with it. It is told of every change as it happens.
import { html, useEffect, useRef, useState } from "./preact.js";
import { become, to } from "./address.js";
import { get, now, useAsked } from "./asking.js";
import { Artifacts, Files } from "./artifacts.js";
import { Commands } from "./commands.js";
import { Diagram, walked } from "./diagram.js";
import { Family } from "./family.js";
import { useLive } from "./live.js";
import { Notifications } from "./notifications.js";
import { Panel } from "./panel.js";
import { Badge, Copy, Fault, Json, Link, Time, mood, useTick } from "./parts.js";
import { Timeline } from "./timeline.js";
import { Travel } from "./travel.js";
import { duration, many, shortly } from "./words.js";

const TABS = { made: "What it made", history: "History", decisions: "Decisions", notifications: "Notifications", raw: "JSON" };
const AGAIN_MS = 400;
// Above so many attempts the facts stand below the diagram, where there is room.
const FEW = 4;

export function Job({ session, address }) {
  const id = address.path[1];
  const [job, change] = useState(null);
  const [fault, fail] = useState(null);
  const about = useAsked(() => around(id), [id]);
  const { told: workflow } = useAsked(() => (job ? declaration(job) : Promise.resolve(undefined)), [job?.id, job?.workflow_version]);
  const due = useRef(0);
  const load = () => get(`jobs/${id}`).then((told) => { change(told); fail(null); }, fail);
  const again = () => { due.current ||= setTimeout(() => { due.current = 0; load(); about.again(); }, AGAIN_MS); };
  useEffect(() => {
    change(null);
    load();
    return () => { clearTimeout(due.current); due.current = 0; };
  }, [id]);
  // What is under way comes without what may be large; that stays as it was told last.
  const hear = (told) => change((was) => (was && was.id === told.id ? { ...was, ...told } : was));
  const open = useLive(job && job.kind !== "final" ? `jobs/${id}/events` : null, { transition: again, progress: hear, settled: (told) => { hear(told); again(); } }, again);
  // An attempt that fails and is tried again moves the job nowhere.
  const tried = job ? `${job.attempt} ${job.retry_count} ${job.next_attempt_at}` : "";
  const before = useRef("");
  useEffect(() => {
    if (before.current && before.current !== tried) again();
    before.current = tried;
  }, [tried]);
  useEffect(() => { if (job) document.title = `${job.status} · ${shortly(id)} · jobrunner`; }, [job?.status]);
  const history = about.told?.history || [];
  if (fault && !job) return html`<h1>Job</h1><${Fault} fault=${fault} />`;
  if (!job) return html`<p class="faint">One moment…</p>`;
  const tabs = Object.entries(TABS).filter(([name]) => name !== "decisions" || ["user", "admin"].includes(session.role));
  const isLong = (about.told?.attempts || []).length > FEW;
  const tab = tabs.some(([name]) => name === address.query.get("tab")) ? address.query.get("tab") : "made";
  return html`<div class="title"><h1><a href=${to(["workflows", job.workflow])}>${job.workflow}</a> <span class="mono" title=${job.id}>${shortly(job.id)}</span><${Copy} text=${job.id} what="the id" /></h1>
      <${Badge} job=${job} /> ${!over(job) && html`<span class=${open ? "live on" : "live"} role="status">${open ? "live" : "not live"}</span>`}</div>
    ${job.kind === "active" && html`<div class="far-on"><progress max="100" value=${job.progress} aria-label="Progress">${job.progress} %</progress> <strong>${job.progress} %</strong> ${job.progress_message || ""}</div>`}
    <${Why} job=${job} why=${about.told?.why} attempts=${about.told?.attempts || []} />
    <${Commands} session=${session} job=${job} workflow=${workflow} onActed=${() => { load(); about.again(); }} />
    ${workflow?.panel && html`<${Panel} job=${job} workflow=${workflow} session=${session} onActed=${() => { load(); about.again(); }} />`}
    <div class="two">
      <div>
        <section class="card"><h2>Its way</h2>${workflow && html`<${Way} job=${job} workflow=${workflow} history=${history} />`}</section>
        ${isLong && html`<${Facts} job=${job} />`}
      </div>
      <div>
        <section class="card"><h2>Attempts</h2><${Timeline} job=${job} attempts=${about.told?.attempts || []} history=${history} workflow=${workflow} /></section>
        <${Family} job=${job} why=${about.told?.why} sees=${session.role !== "user"} />
        ${!isLong && html`<${Facts} job=${job} />`}
      </div>
    </div>
    <div class="tabs" role="tablist">${tabs.map(([name, words]) => html`
      <button role="tab" id=${`tab-${name}`} aria-controls="told" aria-selected=${tab === name ? "true" : "false"} onClick=${() => become(to(["jobs", id], { tab: name }))}>${words}</button>`)}</div>
    <section class="card" id="told" role="tabpanel" aria-labelledby=${`tab-${tab}`}>
      ${tab === "made" && html`<${Made} job=${job} session=${session} files=${about.told?.files || []} onChanged=${load} />`}
      ${tab === "history" && html`<${History} rows=${history} />`}
      ${tab === "decisions" && html`<${Travel} job=${job} workflow=${workflow} session=${session} address=${address} />`}
      ${tab === "notifications" && html`<${Notifications} path=${`jobs/${id}/deliveries`} session=${session} />`}
      ${tab === "raw" && html`<${Json} value=${job} />`}
    </section>`;
}

const over = (job) => job.kind === "final" || job.kind === "settled";

/** The one that the job is under, which may not be that of today. */
const declaration = (job) => get(`jobs/${job.id}/workflow`).catch(() => get(`workflows/${job.workflow}`)).catch(() => null);

async function around(id) {
  const [history, attempts, why, files] = await Promise.all([
    get(`jobs/${id}/history`), get(`jobs/${id}/attempts`), get(`jobs/${id}/explain`), get(`jobs/${id}/assets`, { limit: 100 })]);
  return { history: history.history, attempts: attempts.attempts, why, files: files.assets };
}

/** The path that it took so far; the time in the state where it is goes on. */
function Way({ job, workflow, history }) {
  useTick(!over(job));
  const way = walked(history, over(job) ? Date.parse(job.completed_at || job.updated_at) : now());
  return html`<${Diagram} workflow=${workflow} way=${way} now=${job.status} mood=${mood(job.kind, job.ended_as, job.stuck)} />`;
}

// The moments that it waits for, by what happens then; others say nothing to a person.
const THEN = { run_at: "it begins", retry: "tried again", backoff: "tried again", deadline: "given up", lease: "taken from who holds it", lapse: "it lapses" };

/** Why it is where it is, in a sentence, with whatever makes that sentence certain. */
function Why({ job, why, attempts }) {
  if (job.stuck) return html`<div class="notice bad"><strong>Stuck:</strong> ${job.stuck.reason}. When that is mended, an admin releases it; before, it would be stuck again.</div>`;
  if (over(job) && job.failure_message) {
    return html`<div class="notice bad"><strong>${job.failed_stage ? `${job.failed_stage} failed` : "Failed"}</strong> ${job.failure_code && html`<code>${job.failure_code}</code>`} ${job.failure_message}</div>`;
  }
  if (!why || over(job)) return null;
  const due = (why.timers || []).filter((one) => THEN[one.purpose]);
  const lost = job.kind === "active" && attempts.filter((one) => one.failure_code).at(-1);
  return html`<div class=${`notice ${job.needs_person || job.paused ? "wait" : ""}`}>
    ${job.paused && html`<strong>Paused</strong> by ${job.paused.by}${job.paused.reason ? `: ${job.paused.reason}` : ""}. `}
    It waits for ${why.waits_for}.
    ${why.queue_position && html` Place ${why.queue_position}${why.queue_position_exact ? "" : " or later"} in the line.`}
    ${due.map((one) => html` <span class="faint">${THEN[one.purpose]} <${Time} at=${one.due_at} /></span>`)}
    ${why.credits_short > 0 && html` <span class="bad-text">${many(why.credits_short, "credit")} short.</span>`}
    ${why.paused?.what === "workflow" && html` <a href=${to(["workflows", job.workflow])}>To ${job.workflow}, to resume it</a>`}
    ${(why.locks || []).filter((lock) => lock.holder !== "stage").map((lock) => html` <span class="faint">held by ${lock.holder}${lock.lease_until ? html` until <${Time} at=${lock.lease_until} />` : ""}</span>`)}
    ${job.failure_message ? html`<div class="bad-text">Failed before: <code>${job.failure_code}</code> ${job.failure_message}</div>`
      : lost && html`<div class="bad-text">The last attempt that failed: <code>${lost.failure_code}</code> ${lost.failure_message}</div>`}
  </div>`;
}

function Facts({ job }) {
  const facts = [
    ["Owner", job.user_id], ["Type", job.job_type], ["Made", html`<${Time} at=${job.created_at} />`],
    ["Began", job.started_at && html`<${Time} at=${job.started_at} />`], ["Ended", job.completed_at && html`<${Time} at=${job.completed_at} />`],
    ["Took", job.started_at && job.completed_at && duration(Date.parse(job.completed_at) - Date.parse(job.started_at))],
    ["Not before", job.run_at && html`<${Time} at=${job.run_at} />`], ["Next attempt", job.next_attempt_at && html`<${Time} at=${job.next_attempt_at} />`],
    ["Deadline", job.deadline_at && html`<${Time} at=${job.deadline_at} />`], ["Attempt", job.attempt || null], ["Retries", job.retry_count || null],
    ["Priority", job.priority || null], ["Credits", job.credits.cost ? `${job.credits.cost}, ${job.credits.state}` : null],
    ["Key", job.idempotency_key && html`<code>${job.idempotency_key}</code>`],
    ["Labels", Object.keys(job.labels).length ? Object.entries(job.labels).map(([key, value]) => html`<a class="label" href=${to(["jobs"], { label: `${key}:${value}` })}>${key}:${value}</a> `) : null],
    ["Done again from", job.forked_from && html`<a class="mono" href=${to(["jobs", job.forked_from])}>${shortly(job.forked_from)}</a>`],
    ["Tells", job.notify_url], ["Result at", job.result_url && html`<${Link} to=${job.result_url} />`],
    ["Changed", many(job.version, "time")], ["Declaration", `version ${job.workflow_version} of ${job.workflow}`],
  ];
  return html`<section class="card"><h2>Facts</h2><dl class="facts">${facts.filter(([, value]) => value != null && value !== "" && value !== false).map(([name, value]) => html`
    <dt>${name}</dt><dd>${value}</dd>`)}</dl></section>`;
}

function Made({ job, session, files, onChanged }) {
  return html`<div class="two"><div class="stack"><h2>Parameters</h2><${Json} value=${job.params} />
      ${job.result != null && html`<h2>Result</h2><${Json} value=${job.result} />`}</div>
    <div class="stack"><h2>Files</h2><${Files} files=${files} />
      <h2>Artifacts</h2><${Artifacts} job=${job} session=${session} onChanged=${onChanged} /></div></div>`;
}

function History({ rows }) {
  return html`<div class="wide" tabindex="0"><table><thead><tr><th>Change</th><th>From</th><th>To</th><th>By</th><th>Why</th><th>When</th></tr></thead><tbody>
    ${rows.map((row) => html`<tr><td>${row.version}${row.hop ? `.${row.hop}` : ""}</td><td>${row.from_status || html`<span class="faint">made</span>`}</td><td>${row.to_status}</td>
      <td>${row.trigger}${row.actor !== row.trigger && html` <span class="faint">${row.actor}</span>`}</td><td class="what">${row.reason || ""}</td><td><${Time} at=${row.at} /></td></tr>`)}</tbody></table></div>`;
}
