// A tour of two minutes: the example of each workflow is submitted, and its job walks its diagram.
import { html, useEffect, useMemo, useRef, useState } from "./preact.js";
import { to } from "./address.js";
import { get, now, post, useAsked } from "./asking.js";
import { Diagram, walked } from "./diagram.js";
import { example } from "./form.js";
import { keep, useKept } from "./keeping.js";
import { useLive } from "./live.js";
import { Badge, Fault, Json, mood } from "./parts.js";
import { Problem } from "./submit.js";
import { many } from "./words.js";

const KEPT = "tour";
const AGAIN_MS = 300;

/** The offer, until it was taken or dismissed in this browser. */
export function Offer({ session }) {
  const [tour] = useKept(KEPT, "");
  if (tour || session.role === "reader") return null;
  return html`<div class="notice offer" role="note"><span>New here? In two minutes the example of each workflow walks its way.</span>
    <a class="button strong" href=${to(["tour"])}>Take the tour</a><button onClick=${() => keep(KEPT, "dismissed")}>Not now</button></div>`;
}

export function Tour({ address }) {
  const { told, fault } = useAsked(loaded, []);
  const [jobs, change] = useState({});
  const names = (told || []).map((one) => one.name);
  const at = Math.min(names.length, Math.max(0, Number(address.query.get("at")) || 0));
  useEffect(() => { if (told && at === names.length) keep(KEPT, "taken"); }, [told, at]);
  if (!told) return html`<h1>A tour of two minutes</h1><${Fault} fault=${fault} />`;
  const link = (place) => to(["tour"], { at: String(place) });
  return html`<div class="title"><h1>A tour of two minutes</h1><a class="button" href=${to([])} onClick=${() => keep(KEPT, "dismissed")}>Leave it</a></div>
    <ol class="stops" aria-label="Workflows">${names.map((name, place) => html`<li><a class="chip" href=${link(place)} aria-current=${place === at ? "step" : null}>${jobs[name] ? "✓ " : ""}${name}</a></li>`)}</ol>
    ${at < names.length
      ? html`<${Stop} key=${names[at]} workflow=${told[at]} id=${jobs[names[at]]} onMade=${(id) => change((was) => ({ ...was, [names[at]]: id }))} />
        <div class="actions"><a class="button" href=${link(at + 1)}>${at + 1 < names.length ? `Next: ${names[at + 1]}` : "To the end"}</a></div>`
      : html`<section class="card"><h2>That is all there is to it</h2>
        <p>A workflow declares states and edges; a job is in one state at a time; stages work in some of them, and people, callbacks and timers move it on from others. Whatever happens is written down before anything is done about it.</p>
        <p><a href=${to(["jobs"], { label: "of:tour" })}>Jobs</a> lists what you have just made. <a href=${to([])}>Overview</a> says what needs somebody. <a href="docs">The HTTP interface</a> does all of this for programs.</p></section>`}`;
}

/** All workflows: those with an example first, and of these the simplest. */
async function loaded() {
  const { workflows } = await get("workflows");
  const found = await Promise.all(workflows.map(({ name }) => get(`workflows/${name}`)));
  const weight = (one) => one.states.length + (Object.keys(exampled(one).params).length ? 0 : 1000);
  return found.sort((one, other) => weight(one) - weight(other));
}

/** The first type of job that has an example, else the first. */
function exampled(workflow) {
  const all = Object.entries(workflow.job_types).map(([type, { params_schema: schema }]) => ({ type, params: example(schema, schema) || {} }));
  return all.find((one) => Object.keys(one.params).length) || all[0];
}

/** One workflow: what it is, its example, and the job that comes of it. */
function Stop({ workflow, id, onMade }) {
  const [wrong, fail] = useState(null);
  const [busy, work] = useState(false);
  const { name } = workflow;
  const { type, params } = exampled(workflow);
  const submit = async () => {
    work(true);
    fail(null);
    try {
      onMade((await post("jobs", { workflow: name, job_type: type, params, labels: { of: "tour" } })).id);
    } catch (refused) {
      fail(refused);
    }
    work(false);
  };
  return html`<section class="card"><h2>${name} <small class="faint">${many(workflow.states.length, "state")}, ${many(workflow.edges.length, "edge")}; it begins in <code>${workflow.initial}</code></small></h2>
    ${id ? html`<${Walk} key=${id} id=${id} workflow=${workflow} />` : html`<div class="two"><${Diagram} workflow=${workflow} />
      <div class="stack"><h3>The example of <code>${type}</code></h3><${Json} value=${params} />
        <div class="actions"><button class="strong" disabled=${busy} onClick=${submit}>Submit the example</button></div><${Problem} fault=${wrong} /></div></div>`}</section>`;
}

/** The job as it walks. */
function Walk({ id, workflow }) {
  const { told, fault, again } = useAsked(async () => {
    const [job, history, why] = await Promise.all([get(`jobs/${id}`), get(`jobs/${id}/history`), get(`jobs/${id}/explain`)]);
    return { job, history: history.history, why };
  }, [id]);
  const due = useRef(0);
  const soon = () => { due.current ||= setTimeout(() => { due.current = 0; again(); }, AGAIN_MS); };
  useEffect(() => () => clearTimeout(due.current), []);
  useLive(told && told.job.kind !== "final" ? `jobs/${id}/events` : null, { transition: soon, settled: soon }, soon);
  const way = useMemo(() => walked(told?.history || [], now()), [told]);
  if (!told) return html`<${Fault} fault=${fault} />`;
  const { job, why } = told;
  const ended = job.kind === "final" || job.kind === "settled";
  return html`<div class="two"><${Diagram} workflow=${workflow} way=${way} now=${job.status} mood=${mood(job.kind, job.ended_as, job.stuck)} />
    <div class="stack"><p><${Badge} job=${job} /> ${ended ? "It has ended." : html`It waits for ${why.waits_for}.`}</p>
      ${job.failure_message && html`<p class="bad-text"><code>${job.failure_code}</code> ${job.failure_message}</p>`}
      <ol>${told.history.map((hop) => html`<li>${hop.from_status ? `${hop.from_status} → ` : ""}<strong>${hop.to_status}</strong> <span class="faint">by ${hop.trigger}</span></li>`)}</ol>
      ${job.result != null && html`<${Json} value=${job.result} />`}
      <p><a href=${to(["jobs", id])}>All about this job</a></p></div></div>`;
}
