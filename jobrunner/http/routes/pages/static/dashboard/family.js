// Where a job belongs: the job that submitted it, its batch, its schedule, and its own children as a
// tree that is asked for branch by branch.
import { html, useState } from "./preact.js";
import { to } from "./address.js";
import { get, useAsked } from "./asking.js";
import { Badge, Fault, Time } from "./parts.js";
import { shortly } from "./words.js";

const PAGE = 50;

export function Family({ job, why, sees }) {
  const some = why?.children && Object.keys(why.children).length > 0;
  const { told, fault } = useAsked(() => get("jobs", { parent: job.id, limit: 1 }), [job.id, job.version]);
  const children = some || told?.jobs.length > 0;
  if (!job.parent && !job.batch && !job.schedule && !children) return html`<${Fault} fault=${fault} />`;
  return html`<section class="card"><h2>Belongs to</h2><dl class="facts">
      ${job.parent && html`<dt>Submitted by</dt><dd><a class="mono" href=${to(["jobs", job.parent])}>${shortly(job.parent)}</a></dd>`}
      ${job.batch && html`<dt>Batch</dt><dd><a class="mono" href=${to(["batches", job.batch])}>${shortly(job.batch)}</a></dd>`}
      ${job.schedule && html`<dt>Schedule</dt><dd>${sees ? html`<a href=${to(["schedules", job.schedule.name])}>${job.schedule.name}</a>` : job.schedule.name} <span class="faint">for <${Time} at=${job.schedule.moment} /></span></dd>`}
    </dl>
    ${children && html`<h2>Children <small><a href=${to(["jobs"], { parent: job.id })}>as a list</a></small></h2><${Branch} parent=${job.id} key=${`${job.id}${job.version}`} />`}</section>`;
}

function Branch({ parent }) {
  const [state, change] = useState({ jobs: [], next: null, fault: null });
  const { busy } = useAsked(() => load(), [parent]);
  const load = async (cursor) => {
    try {
      const found = await get("jobs", { parent, order: "oldest", limit: PAGE, cursor });
      change((was) => ({ jobs: cursor ? [...was.jobs, ...found.jobs] : found.jobs, next: found.next_cursor, fault: null }));
    } catch (fault) {
      change((was) => ({ ...was, fault }));
    }
  };
  return html`<${Fault} fault=${state.fault} />
    <ul class="tree">${state.jobs.map((job) => html`<${Child} key=${job.id} job=${job} />`)}</ul>
    ${!state.jobs.length && !busy && html`<p class="faint">None.</p>`}
    ${state.next && html`<button class="small" onClick=${() => load(state.next)}>More of them</button>`}`;
}

function Child({ job }) {
  const [open, turn] = useState(false);
  return html`<li><button class="plain small" aria-expanded=${open ? "true" : "false"} aria-label=${`Children of ${shortly(job.id)}`} onClick=${() => turn(!open)}>${open ? "▾" : "▸"}</button>
    <a class="mono" href=${to(["jobs", job.id])} title=${job.id}>${shortly(job.id)}</a> ${job.workflow} <${Badge} job=${job} />
    ${open && html`<${Branch} parent=${job.id} />`}</li>`;
}
