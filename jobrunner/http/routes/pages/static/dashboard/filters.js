// Which jobs a list shows. What is asked for stands in the address and nowhere else, so a view can be
// sent to somebody, kept, and gone back to.
import { html, useEffect, useState } from "./preact.js";
import { become, to } from "./address.js";
import { useKept } from "./keeping.js";
import { shortly } from "./words.js";

const KINDS = {
  waiting: "for a person, a program outside or a moment", queued: "in line for a slot", active: "a stage works on it, or waits inside it",
  settled: "ended, and a command can still revive it", final: "ended for good",
};
const FAILED = ["failed", "expired"];
const WIDE_PX = 820;
export const SPANS = { "": "any time", 1: "the last hour", 24: "the last day", 168: "the last week" };
const MANY = ["status", "kind", "label", "param"];
const ALL = ["workflow", "status", "kind", "job_type", "user_id", "label", "within", "from", "before", "stuck", "paused", "id", "order", "parent", "batch", "schedule", "text", "param"];
// What no row tells, so that only the service can say whether a job that changed is in the list.
const UNTOLD = ["paused", "parent", "batch", "schedule", "text", "param"];

/** The address as the service is asked: times are made of "within the last so many hours". */
export function asked(query, nowMs) {
  const found = {};
  for (const name of ALL) {
    const values = query.getAll(name).filter(Boolean);
    if (values.length) found[name] = MANY.includes(name) ? values : values[0];
  }
  const { within, from, before, ...rest } = found;
  // To the minute, so that the next page is one of the same question.
  if (within) rest.created_from = new Date(Math.floor((nowMs - within * 3600_000) / 60_000) * 60_000).toISOString();
  if (from) rest.created_from = instant(from);
  if (before) rest.created_before = instant(before);
  return rest;
}

/** The same as a bulk order wants it; null where it cannot say it. */
export function asFilter(question) {
  const { order, id, label, status, ...rest } = question;
  if (id || ["parent", "batch", "schedule", "text", "param"].some((name) => rest[name])) return null;
  const labels = Object.fromEntries((label || []).map((text) => split(text)));
  return { ...rest, ...(status ? { status } : {}), ...(label ? { labels } : {}),
    ...(rest.stuck ? { stuck: true } : {}), ...(rest.paused ? { paused: true } : {}) };
}

/** Whether a job that changed would be in the list: for what can be told from a row. */
export function fits(question, job) {
  const one = (name, value) => question[name] === undefined || question[name] === value;
  const some = (name, value) => !question[name] || question[name].includes(value);
  return one("workflow", job.workflow) && one("job_type", job.job_type) && one("user_id", job.user_id)
    && some("status", job.status) && some("kind", job.kind) && (!question.stuck || job.stuck)
    && (question.label || []).every((text) => { const [key, value] = split(text); return job.labels[key] === value; })
    && (!question.id || job.id.startsWith(question.id)) && (!question.created_before || job.created_at < question.created_before)
    && (!question.created_from || job.created_at >= question.created_from);
}

/** Whether rows tell everything that is asked for. */
export const tells = (question) => !UNTOLD.some((name) => question[name]);

/** Whether the service looks into so many jobs for it and no further. */
export const searches = (question) => Boolean(question.text || question.param);

export function Filters({ query, workflows, counts, sees }) {
  const [all, unfold] = useKept("filters", innerWidth > WIDE_PX);
  const change = (name, value) => {
    const news = new URLSearchParams(query);
    news.delete(name);
    for (const one of [value].flat()) if (one) news.append(name, one);
    if (name === "workflow") for (const other of ["status", "job_type"]) news.delete(other);
    become(to(["jobs"], news));
  };
  const workflow = query.get("workflow") || "";
  const lost = counts.filter((one) => FAILED.includes(one.ends) && (!workflow || one.workflow === workflow));
  const failed = lost.length ? [...new Set(lost.map((one) => one.status))] : FAILED.slice(0, 1);
  const isFailed = failed.every((name) => query.getAll("status").includes(name));
  const types = workflows.find((one) => one.name === workflow)?.job_types || [];
  return html`<div class="filters" role="group" aria-label="Filters">
    <${Choice} label="Workflow" value=${workflow} onChange=${(value) => change("workflow", value)}
      options=${[["", "all workflows"], ...workflows.map(({ name }) => [name, told(name, sum(counts, { workflow: name }))])]} />
    ${types.length > 1 && html`<${Choice} label="Type" value=${query.get("job_type") || ""} onChange=${(value) => change("job_type", value)}
      options=${[["", "all types"], ...types.map((name) => [name, name])]} />`}
    <${Choice} label="Made" value=${query.get("within") || ""} onChange=${(value) => change("within", value)}
      options=${Object.entries(SPANS).map(([value, words]) => [value, words])} />
    ${all && html`<${Moment} label="From" value=${query.get("from") || ""} onChange=${(value) => change("from", value)} />
    <${Moment} label="Before" value=${query.get("before") || ""} onChange=${(value) => change("before", value)} />`}
    ${sees && html`<${Typed} label="User" value=${query.get("user_id") || ""} onChange=${(value) => change("user_id", value)} />`}
    ${all && html`<${Typed} label="Label" hint="key:value" value=${query.getAll("label").join(" ")}
      onChange=${(value) => change("label", value.split(/\s+/).filter((text) => text.includes(":")))} />`}
    <${Typed} label="Text" hint="any words" title="In its id, in what it was given, made or failed with" value=${query.get("text") || ""} onChange=${(value) => change("text", value.trim())} />
    ${all && html`<${Typed} label="Parameter" hint="name:value" value=${query.getAll("param").join(" ")}
      onChange=${(value) => change("param", value.includes(":") ? [value.trim()] : [])} />
    ${sees && html`<${Typed} label="Schedule" value=${query.get("schedule") || ""} onChange=${(value) => change("schedule", value.trim())} />`}
    <${Typed} label="Child of" hint="a job's id" value=${query.get("parent") || ""} onChange=${(value) => change("parent", value.trim().toLowerCase())} />`}
    <button class="plain small unfold" aria-expanded=${String(all)} onClick=${() => unfold(!all)}>${all ? "Fewer filters" : "More filters"}</button>
    <${Views} query=${query} />
  </div>
  <div class="chips" role="group" aria-label="States">
    ${Object.entries(KINDS).map(([kind, title]) => html`<${Chip} title=${title} on=${query.getAll("kind").includes(kind)} count=${sum(counts, { kind, workflow })}
      onTurn=${() => change("kind", turned(query.getAll("kind"), kind))}>${kind}<//>`)}
    <${Chip} on=${query.has("stuck")} onTurn=${() => change("stuck", query.has("stuck") ? "" : "true")} hidden=${!sees}>stuck<//>
    <${Chip} on=${isFailed} count=${lost.reduce((sum_, one) => sum_ + one.jobs, 0)} title="ended as failed or expired"
      onTurn=${() => change("status", isFailed ? [] : failed)}>failed<//>
    <${Chip} on=${query.has("paused")} onTurn=${() => change("paused", query.has("paused") ? "" : "true")}>paused<//>
    ${workflow && counts.filter((one) => one.workflow === workflow && failed.join() !== one.status).map((one) => html`
      <${Chip} on=${query.getAll("status").includes(one.status)} count=${one.jobs} fine
        onTurn=${() => change("status", turned(query.getAll("status"), one.status))}>${one.status}<//>`)}
    ${[...query.getAll("status")].filter((name) => !(isFailed && failed.includes(name)) && (!workflow || !counts.some((one) => one.workflow === workflow && one.status === name)))
      .map((name) => html`<${Chip} on fine onTurn=${() => change("status", turned(query.getAll("status"), name))}>${name}<//>`)}
    ${query.get("id") && html`<${Chip} on fine onTurn=${() => change("id", "")}>id ${query.get("id")}…<//>`}
    ${query.get("batch") && html`<${Chip} on fine onTurn=${() => change("batch", "")}>batch ${shortly(query.get("batch"))}<//>`}
    ${[...query.keys()].length > 0 && html`<a class="small" href=${to(["jobs"])}>clear</a>`}
  </div>`;
}

function Choice({ label, value, options, onChange }) {
  return html`<label class="field"><span>${label}</span>
    <select value=${value} onChange=${(event) => onChange(event.target.value)}>${options.map(([one, words]) => html`
      <option value=${one} selected=${one === value}>${words}</option>`)}</select></label>`;
}

function Moment({ label, value, onChange }) {
  return html`<label class="field"><span>${label}</span><input type="datetime-local" value=${value} onChange=${(event) => onChange(event.target.value)} /></label>`;
}

function Typed({ label, hint, title, value, onChange }) {
  const [text, change] = useState(value);
  useEffect(() => change(value), [value]);
  return html`<label class="field" title=${title}><span>${label}</span>
    <input size="12" placeholder=${hint} value=${text} onInput=${(event) => change(event.target.value)}
      onBlur=${() => text !== value && onChange(text)} onKeyDown=${(event) => { if (event.key === "Enter") onChange(text); }} /></label>`;
}

function Chip({ on, count, fine, hidden, title, onTurn, children }) {
  if (hidden) return null;
  return html`<button class=${`chip ${fine ? "mono" : ""}`} title=${title} aria-pressed=${on ? "true" : "false"} onClick=${onTurn}>
    ${children}${count === undefined ? "" : html` <small>${count.toLocaleString("en")}</small>`}</button>`;
}

/** Views that this browser keeps. */
function Views({ query }) {
  const [views, keep] = useKept("views", []);
  const link = to(["jobs"], query);
  const known = views.find((view) => view.link === link);
  const save = () => {
    const name = prompt("A name for this view", [...query.values()].join(" "));
    if (name) keep([...views, { name, link }]);
  };
  if (!views.length && !query.size) return null;
  return html`<div class="field views"><span>Views</span><div>
    ${views.map((view) => html`<a class="chip" href=${view.link} aria-current=${view === known ? "true" : null}>${view.name}</a>`)}
    ${known
      ? html`<button class="plain small" onClick=${() => keep(views.filter((view) => view !== known))}>forget</button>`
      : query.size > 0 && html`<button class="plain small" onClick=${save}>keep this view</button>`}</div></div>`;
}

const turned = (values, value) => (values.includes(value) ? values.filter((one) => one !== value) : [...values, value]);
const told = (words, jobs) => `${words} (${jobs.toLocaleString("en")})`;
const split = (text) => { const at = text.indexOf(":"); return [text.slice(0, at), text.slice(at + 1)]; };

function instant(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

function sum(counts, { workflow, kind }) {
  return counts.filter((one) => (!workflow || one.workflow === workflow) && (!kind || one.kind === kind))
    .reduce((all, one) => all + one.jobs, 0);
}
