// A new job: which workflow, which type, and what the declaration of that type asks for. An old job
// can be the pattern: "start like this one".
import { html, useEffect, useState } from "./preact.js";
import { become, go, to } from "./address.js";
import { get, post, useAsked } from "./asking.js";
import { AsJson, Form, example, tidy } from "./form.js";
import { Fault } from "./parts.js";
import { Upload } from "./uploads.js";
import { many } from "./words.js";

export function Submit({ address }) {
  const { query } = address;
  const { told: known, fault } = useAsked(() => get("workflows"), []);
  const like = query.get("like");
  const { told: pattern, fault: unknown } = useAsked(() => (like ? get(`jobs/${like}`) : Promise.resolve(null)), [like]);
  if (!known || pattern === undefined) return html`<h1>New job</h1><${Fault} fault=${fault || unknown} />`;
  const name = pattern?.workflow || query.get("workflow") || known.workflows[0]?.name;
  if (!name) return html`<h1>New job</h1><p>No workflow is loaded.</p>`;
  return html`<h1>${pattern ? "A job like this one" : "New job"}</h1>
    <${Order} key=${name} name=${name} workflows=${known.workflows} pattern=${pattern} query=${query} />`;
}

function Order({ name, workflows, pattern, query }) {
  const { told: workflow, fault } = useAsked(() => get(`workflows/${name}`), [name]);
  const types = Object.keys(workflow?.job_types || {});
  const type = pattern?.job_type || query.get("job_type") || types[0];
  const [params, change] = useState(pattern?.params || {});
  const [more, say] = useState({ labels: pattern ? labelled(pattern.labels) : "", priority: pattern?.priority || "", run_at: "", key: "" });
  const [raw, turn] = useState(false);
  const [state, tell] = useState({ busy: false, fault: null });
  const [round, again] = useState(0);
  useEffect(() => { if (!pattern) change({}); }, [type]);
  if (!workflow) return html`<${Fault} fault=${fault} />`;
  const about = workflow.job_types[type];
  const given = about && example(about.params_schema, about.params_schema);
  const submit = async (event) => {
    event.preventDefault();
    tell({ busy: true, fault: null });
    try {
      const job = await post("jobs", ordered(name, type, params, more));
      go(to(["jobs", job.id]));
    } catch (refused) {
      tell({ busy: false, fault: refused });
    }
  };
  return html`<form class="card order" onSubmit=${submit}>
    <div class="filters">
      <label class="field"><span>Workflow</span><select disabled=${Boolean(pattern)} onChange=${(event) => become(to(["new"], { workflow: event.target.value }))}>
        ${workflows.map((one) => html`<option value=${one.name} selected=${one.name === name}>${one.name}</option>`)}</select></label>
      <label class="field"><span>Type</span><select disabled=${Boolean(pattern)} onChange=${(event) => become(to(["new"], { workflow: name, job_type: event.target.value }))}>
        ${types.map((one) => html`<option value=${one} selected=${one === type}>${one}</option>`)}</select></label>
      ${about?.price > 0 && html`<span class="faint">costs ${many(about.price, "credit")}</span>`}
    </div>
    <div class="title"><h2>Parameters</h2>
      ${given !== undefined && html`<button type="button" class="small" onClick=${() => { change(given); again(round + 1); }}>Fill in the example</button>`}
      <button type="button" class="small" aria-pressed=${raw ? "true" : "false"} onClick=${() => turn(!raw)}>as JSON</button></div>
    ${raw
      ? html`<label class="entry"><span class="faint">The parameters as JSON</span><${AsJson} key=${round} rows="12" value=${params} onChange=${(news) => change(news || {})} /></label>`
      : html`<${Form} key=${`${type}${round}`} schema=${about.params_schema} value=${params} onChange=${change} />`}
    <details><summary>Files, labels, when</summary><div class="form">
      <${Upload} path="uploads" words="Send a file; its id can be named above" shows />
      <${Say} id="labels" words="Labels, as key:value" value=${more.labels} onSay=${(labels) => say({ ...more, labels })} />
      <${Say} id="priority" words="Priority, -100 to 100" type="number" value=${more.priority} onSay=${(priority) => say({ ...more, priority })} />
      <${Say} id="run_at" words="Not before" type="datetime-local" value=${more.run_at} onSay=${(run_at) => say({ ...more, run_at })} />
      <${Say} id="key" words="Key: under one key nothing is done twice" value=${more.key} onSay=${(key) => say({ ...more, key })} />
    </div></details>
    <${Problem} fault=${state.fault} />
    <div class="actions"><button class="strong" disabled=${state.busy}>Submit</button></div>
  </form>`;
}

function Say({ id, words, type = "text", value, onSay }) {
  return html`<div class="entry"><label for=${id}>${words}</label><input id=${id} type=${type} value=${value} onInput=${(event) => onSay(event.target.value)} /></div>`;
}

/** A refusal with what was wrong where. */
export function Problem({ fault }) {
  const errors = fault?.problem?.errors || [];
  return html`<${Fault} fault=${fault} />${errors.length > 0 && html`<ul class="bad-text">${errors.map((one) => html`<li><code>${one.path}</code> ${one.message}</li>`)}</ul>`}`;
}

function ordered(workflow, job_type, params, more) {
  const labels = Object.fromEntries(more.labels.split(/\s+/).filter((text) => text.includes(":")).map((text) => {
    const at = text.indexOf(":");
    return [text.slice(0, at), text.slice(at + 1)];
  }));
  return {
    workflow, job_type, params: tidy(params),
    ...(Object.keys(labels).length ? { labels } : {}),
    ...(more.priority !== "" ? { priority: Number(more.priority) } : {}),
    ...(more.run_at ? { run_at: new Date(more.run_at).toISOString() } : {}),
    ...(more.key ? { idempotency_key: more.key } : {}),
  };
}

const labelled = (labels) => Object.entries(labels).map(([key, value]) => `${key}:${value}`).join(" ");
