// The list of jobs. Rows change where they stand and never jump: what is new is counted above the
// list until somebody wants to see it, and a row that no longer fits stays until then, pale.
import { html, useEffect, useMemo, useRef, useState } from "./preact.js";
import { go, to } from "./address.js";
import { get, now, useAsked } from "./asking.js";
import { Bulk } from "./bulk.js";
import { Filters, SPANS, asked, fits, searches, tells } from "./filters.js";
import { useKeys } from "./keys.js";
import { useLive } from "./live.js";
import { Badge, Copy, Empty, Fault, Time } from "./parts.js";
import { count as count_, many, shortly } from "./words.js";

const PAGE = 50;
const LOOKS_MAX = 120;
const AGAIN_MS = 3000;
const NEW_MAX = 1000;
const LOOK = 10_000;

export function Jobs({ session, address }) {
  const { query } = address;
  const key = query.toString();
  const question = useMemo(() => asked(query, now()), [key]);
  const sees = session.role !== "user";
  const { told: known } = useAsked(() => get("workflows"), []);
  const { told: overview } = useAsked(() => get("overview"), []);
  const [counts, count] = useState([]);
  const [list, change] = useState({ jobs: [], next: null, fault: null, busy: true, fresh: new Set() });
  const [chosen, choose] = useState(new Set());
  const [row, walk] = useState(-1);
  const turn = useRef(0);
  const due = useRef(0);

  const load = async (after) => {
    const mine = ++turn.current;
    change((was) => ({ ...was, busy: true }));
    try {
      const found = await page(question, after, () => mine === turn.current);
      if (mine !== turn.current) return;
      change((was) => ({
        looks: after ? was.looks + 1 : 1,
        jobs: after ? [...was.jobs, ...found.jobs] : found.jobs,
        next: found.next, fault: null, busy: false, fresh: after ? was.fresh : new Set(),
      }));
    } catch (fault) {
      if (mine === turn.current) change((was) => ({ ...was, fault, busy: false }));
    }
  };
  useEffect(() => {
    choose(new Set());
    walk(-1);
    load();
    return () => { turn.current += 1; clearTimeout(due.current); due.current = 0; };
  }, [key]);
  useEffect(() => { if (overview) count(overview.counts); }, [overview]);

  // Rows that are shown and of which nobody told us: asked for together, now and then.
  const look = () => {
    if (searches(question)) return;  // That looks at many more jobs than are shown.
    due.current ||= setTimeout(async () => {
      due.current = 0;
      const mine = turn.current;
      const found = await get("jobs", { ...question, limit: 100 }).catch(() => null);
      if (found && mine === turn.current) change((was) => merged(was, found.jobs, question));
    }, AGAIN_MS);
  };
  const open = useLive("overview/events", {
    changes: (told) => {
      if (told.counts) count(told.counts);
      change((was) => merged(was, told.jobs, question));
      if (told.more) look();
    },
    missed: look,
  }, look);

  const show = list.jobs;
  const told = useMemo(() => aboutRows(overview), [overview]);
  const turnRow = (id) => choose((was) => { const news = new Set(was); if (!news.delete(id)) news.add(id); return news; });
  const step = (by) => {
    const next = Math.max(0, Math.min(show.length - 1, row + by));
    walk(next);
    document.querySelectorAll("tbody tr[data-id]")[next]?.scrollIntoView({ block: "nearest" });
  };
  useKeys({
    j: ["Down", () => step(1)],
    k: ["Up", () => step(-1)],
    x: ["Select the row", () => show[row] && turnRow(show[row].id)],
    ...Object.fromEntries(["o", "Enter"].map((key) => [key, ["Open the row", () => show[row] && go(to(["jobs", show[row].id]))]])),
    r: ["Show what is new", () => load()],
    n: ["A new job", () => go(to(["new"], { workflow: query.get("workflow") || "" }))],
    Escape: ["Select nothing", () => choose(new Set())],
  }, [row, show, key]);

  return html`<div class="title"><h1>Jobs</h1>
      <span class=${open ? "live on" : "live"} role="status">${open ? "live" : "not live"}</span>
      ${session.role !== "reader" && html`<a class="button strong" href=${to(["new"], { workflow: query.get("workflow") || "" })}>New job</a>`}</div>
    <${Filters} query=${query} workflows=${known?.workflows || []} counts=${counts} sees=${sees} />
    <${Fault} fault=${list.fault} />
    ${searches(question) && !list.busy && html`<p class="faint" role="note">${looked(list)}</p>`}
    <div class="above" aria-live="polite">${list.fresh.size > 0 && html`
      <button class="news" onClick=${() => { load(); scrollTo(0, 0); }}>${many(list.fresh.size, "new job")}: show</button>`}</div>
    <div><${Table} jobs=${show} told=${told} question=${question} row=${row} chosen=${chosen} turnRow=${turnRow} sees=${sees}
      selects=${session.role !== "reader"} all=${() => choose(chosen.size ? new Set() : new Set(show.map((job) => job.id)))} />
    ${!show.length && !list.busy && !list.fault && html`<${Empty}>No job is like this${list.next ? " among those looked at" : ""}${told_(question, query)}.<//>`}</div>
    <div class="actions">${list.busy && html`<span class="faint">Looking…</span>`}
      ${list.next && !list.busy && html`<button onClick=${() => load(list.next)}>${searches(question) ? `Look at ${count_(LOOK)} older ones` : "Older ones"}</button>`}</div>
    ${session.role !== "reader" && html`<${Bulk} session=${session} jobs=${show} chosen=${chosen} question=${question}
      onDone=${() => { choose(new Set()); load(); }} onNone=${() => choose(new Set())} />`}`;
}

/** What was asked for by a press, in words. */
function told_({ stuck, status = [], kind = [] }, query) {
  const all = [stuck && "stuck", status.join(" or "), kind.join(" or "), query.get("within") && `made within ${SPANS[query.get("within")]}`].filter(Boolean);
  return all.length ? `: ${all.join(", and ")}` : "";
}

const looked = (list) => (list.next
  ? `A text or a parameter is looked for job by job: in ${count_((list.looks || 1) * LOOK)} jobs at most so far.`
  : "All jobs were looked at.");

/** One page of rows. A question for what is rare is answered in parts, each of them a look at so many
 *  jobs: ask on until there is something to show. */
async function page(question, after, wanted) {
  const jobs = [];
  let cursor = after;
  for (let look = 0; look < LOOKS_MAX && wanted(); look += 1) {
    const found = await get("jobs", { ...question, limit: PAGE, cursor });
    jobs.push(...found.jobs);
    cursor = found.next_cursor;
    if (!cursor || jobs.length >= PAGE || searches(question)) break;
  }
  return { jobs, next: cursor };
}

function merged(was, news, question) {
  const shown = new Map(was.jobs.map((job, place) => [job.id, place]));
  const jobs = [...was.jobs], fresh = new Set(was.fresh);
  const newest = question.order === "oldest" ? "" : was.jobs[0]?.id || "";
  for (const job of news) {
    const place = shown.get(job.id);
    if (place !== undefined) {
      if (job.version >= jobs[place].version) jobs[place] = { ...jobs[place], ...job };
    } else if (newest !== undefined && job.id > newest && question.order !== "oldest" && fresh.size < NEW_MAX && tells(question) && fits(question, job)) fresh.add(job.id);
  }
  return { ...was, jobs, fresh };
}

/** What the overview knows and no row tells: what a job in line is held by, why one is tried again and
 *  which awaits a callback; of a job that has changed since it tells nothing. */
function aboutRows(overview) {
  const { retrying = [], parked = [], obstacles } = overview?.attention || {};
  const rows = new Map([...retrying, ...parked].map((job) => [job.id, job]));
  const paused = new Set((obstacles?.pauses || []).filter((one) => one.scope === "workflow").map((one) => one.name));
  return (job) => {
    const seen = rows.get(job.id);
    if (job.kind === "queued" && paused.has(job.workflow)) return `${job.workflow} is paused`;
    if (!seen || seen.version !== job.version) return "";
    return parked.includes(seen) ? "awaits a callback" : [seen.failure_code, seen.failure_message].filter(Boolean).join(": ");
  };
}

function Table({ jobs, told, question, row, chosen, turnRow, all, sees, selects }) {
  if (!jobs.length) return null;
  return html`<div class="wide" tabindex="0"><table class="jobs"><thead><tr>
      ${selects && html`<th class="tick"><input type="checkbox" aria-label="Select all shown" checked=${chosen.size > 0} onChange=${all} /></th>`}
      <th>Job</th><th>Status</th><th>Workflow</th>${sees && html`<th>User</th>`}<th>What</th><th>Changed</th><th>Made</th>
    </tr></thead><tbody>${jobs.map((job, place) => html`
      <tr key=${job.id} data-id=${job.id} class=${`${place === row ? "at" : ""} ${fits(question, job) ? "" : "pale"}`} aria-selected=${chosen.has(job.id) ? "true" : null}>
        ${selects && html`<td class="tick"><input type="checkbox" aria-label=${`Select job ${job.id}`} checked=${chosen.has(job.id)} onChange=${() => turnRow(job.id)} /></td>`}
        <td data-of="Job"><a class="mono" href=${to(["jobs", job.id])} title=${job.id}>${shortly(job.id)}</a><${Copy} text=${job.id} what="the id" /></td>
        <td data-of="Status"><${Badge} job=${job} /></td>
        <td data-of="Workflow">${job.workflow}${job.job_type !== job.workflow && html` <span class="faint">${job.job_type}</span>`}</td>
        ${sees && html`<td data-of="User">${job.user_id}</td>`}
        <td data-of="What" class="what"><${What} job=${job} more=${told(job)} /></td>
        <td data-of="Changed"><${Time} at=${job.updated_at} /></td>
        <td data-of="Made"><${Time} at=${job.created_at} /></td>
      </tr>`)}</tbody></table></div>`;
}

/** How far it is, or what went wrong, or what somebody called it. */
function What({ job, more }) {
  const labels = Object.entries(job.labels);
  return html`${job.stuck && html`<span class="bad-text">stuck: ${job.stuck.reason}</span> `}
    ${job.paused && html`<span class="faint">paused</span> `}
    ${!job.stuck && job.failure_message && html`<span class="bad-text" title=${job.failure_message}>${job.failure_code ? `${job.failure_code}: ` : ""}${job.failure_message}</span> `}
    ${job.kind === "active" && !job.stuck && html`<progress max="100" value=${job.progress} aria-label="Progress">${job.progress} %</progress> ${job.progress_message || ""}`}
    ${job.retry_count > 0 && job.kind !== "final" && html` <span class="faint">${many(job.retry_count, "retry", "retries")}</span>`}
    ${more && html` <span class="faint">${more}</span>`}
    ${labels.map(([key, value]) => html`<span class="label">${key}:${value}</span> `)}`;
}

