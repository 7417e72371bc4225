// Everything at a glance: what needs somebody, how many jobs stand where, and how the service is.
import { html, useEffect, useRef, useState } from "./preact.js";
import { to } from "./address.js";
import { get, glance, useAsked } from "./asking.js";
import { Attention } from "./attention.js";
import { Charts } from "./charts.js";
import { useLive } from "./live.js";
import { Badge, Fault, Time, mood } from "./parts.js";
import { count, duration, shortly, size } from "./words.js";

const AGAIN_MS = 5000;
const ORDER = ["waiting", "queued", "active", "settled", "final"];

export function Overview({ session }) {
  const begins = useRef(true);
  const { told, fault, again } = useAsked(() => {
    const first = begins.current;
    begins.current = false;
    return first ? glance() : get("overview");
  }, []);
  const [counts, count_] = useState([]);
  const due = useRef(0);
  const soon = () => { due.current ||= setTimeout(() => { due.current = 0; again(); }, AGAIN_MS); };
  useEffect(() => { if (told) count_(told.counts); }, [told]);
  useEffect(() => {
    // Ages and the state of the service change by themselves.
    const turn = setInterval(() => { if (!document.hidden) again(); }, 3 * AGAIN_MS);
    return () => { clearInterval(turn); clearTimeout(due.current); due.current = 0; };
  }, []);
  const open = useLive("overview/events", { changes: (news) => { if (news.counts) count_(news.counts); soon(); }, missed: soon }, soon);
  if (!told) return html`<h1>Overview</h1><${Fault} fault=${fault} />`;
  return html`<div class="title"><h1>Overview</h1><span class=${open ? "live on" : "live"} role="status">${open ? "live" : "not live"}</span>
      ${session.role !== "reader" && html`<a class="button strong" href=${to(["new"])}>New job</a>`}</div>
    <${Fault} fault=${fault} />
    <${Attention} session=${session} told=${told} counts=${counts} />
    ${told.work && html`<${Work} work=${told.work} />`}
    <${Charts} session=${session} />
    <${Counts} counts=${counts} />
    ${told.attention && html`<div class="two even"><${Few} title="Failed last" jobs=${told.attention.failed} none="Nothing has failed." />
      <${Few} title="Will be tried again" jobs=${told.attention.retrying} none="Nothing waits for another try." next /></div>`}
    ${told.attention?.parked.length > 0 && html`<${Few} title="Await a callback, the longest first" jobs=${told.attention.parked} />`}
    ${told.system && html`<${System} system=${told.system} />`}`;
}

function Work({ work }) {
  const users = Object.entries(work.users);
  return html`<div class="tiles">
    <${Tile} name="Running" value=${count(work.running)} link=${to(["jobs"], { kind: "active" })} more=${work.slots ? html`of ${work.slots} slots` : ""} far=${work.slots && work.running / work.slots} />
    <${Tile} name="In line" value=${count(work.in_line)} link=${to(["jobs"], { kind: ["queued", "active"] })} far=${work.line_max && work.in_line / work.line_max} more=${work.oldest_in_line_at ? html`the oldest <${Time} at=${work.oldest_in_line_at} />` : "nobody waits"} />
    <${Tile} name="Await a callback" value=${count(work.parked)} more="without a slot" />
    <${Tile} name="Next timer" value=${work.next_timer_at ? html`<${Time} at=${work.next_timer_at} />` : "–"} more="" />
    ${work.resources.map((one) => html`<${Tile} name=${one.name} value=${`${one.taken} / ${one.there}`} more="taken" far=${one.there && one.taken / one.there} />`)}
    ${users.length > 0 && html`<${Tile} name="Users at work" value=${users.length} more=${users.slice(0, 3).map(([name, slots]) => `${name}: ${slots}`).join(", ")} />`}
  </div>`;
}

function Tile({ name, value, more, far, link }) {
  return html`<div class="tile"><div class="faint">${link ? html`<a href=${link}>${name}</a>` : name}</div><div class="value">${value}</div><div class="faint small-text">${more}</div>
    ${typeof far === "number" && html`<progress max="1" value=${Math.min(1, far)} aria-label=${`${name}: how full`} />`}</div>`;
}

/** One row a workflow: its jobs by state, in the order in which a job walks through kinds. */
function Counts({ counts }) {
  const workflows = [...new Set(counts.map((one) => one.workflow))];
  if (!workflows.length) return html`<section class="card"><h2>Jobs</h2><p class="faint">There is no job yet. <a href=${to(["new"])}>Make one</a></p></section>`;
  return html`<section class="card"><h2>Jobs by state</h2><dl class="states">${workflows.map((name) => {
    const states = counts.filter((one) => one.workflow === name && one.jobs).sort((one, other) => ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind));
    const all = states.reduce((sum, one) => sum + one.jobs, 0);
    return html`<dt><a href=${to(["workflows", name])}>${name}</a> <span class="faint">${count(all)}</span></dt>
      <dd>${states.map((one) => html`<a class=${`count ${mood(one.kind, one.ends)}`} href=${to(["jobs"], { workflow: name, status: one.status })}>${one.status} <strong>${count(one.jobs)}</strong></a>`)}</dd>`;
  })}</dl></section>`;
}

function Few({ title, jobs, none, next }) {
  return html`<section class="card"><h2>${title}</h2>${jobs.length ? html`<ul class="few">${jobs.map((job) => html`
    <li><a class="mono" href=${to(["jobs", job.id])}>${shortly(job.id)}</a> <${Badge} job=${job} /> ${job.workflow}
      <span class="faint"><${Time} at=${next ? job.next_attempt_at || job.updated_at : job.updated_at} /></span>
      ${(job.failure_code || job.failure_message) && html`<div class="bad-text clip" title=${job.failure_message}>${job.failure_code || ""} ${job.failure_message || ""}</div>`}</li>`)}</ul>` : html`<p class="faint">${none}</p>`}</section>`;
}

function System({ system }) {
  return html`<section class="card"><h2>The service</h2><dl class="facts across">
    <dt>Version</dt><dd>${system.version}</dd>
    <dt>File</dt><dd>${size(system.file_bytes)} <span class="faint">${size(system.unused_bytes)} unused</span></dd>
    <dt>Log of the file</dt><dd>${size(system.wal_bytes)} <span class="faint">of ${size(system.wal_max_bytes)}</span></dd>
    <dt>Free disk</dt><dd>${size(system.free_bytes)}</dd>
    <dt>Last backup</dt><dd>${system.backup_at ? html`<${Time} at=${system.backup_at} />` : "none"}</dd>
    <dt>Loop lag</dt><dd>${duration(system.lag_ms)}</dd>
    <dt>Writes in line</dt><dd>${count(system.writes_waiting)}</dd>
    <dt>Live views</dt><dd>${count(system.streams)}</dd>
  </dl></section>`;
}
