// The draft with its questions, the plan that was agreed on, and what came of it.
import { html, render, useEffect, useState } from "./preact.js";
import { artifact, command, download, fileUrl, files, onJob, save } from "./jobrunner.js";

const SEVERAL = new Set(["predictors", "by"]);
const ROWS = 30;

function App({ job }) {
  const [draft, know] = useState(null);
  const [fault, fail] = useState(null);
  useEffect(() => {
    if (job.artifacts.draft === undefined) know(null);
    else artifact("draft").then(know, fail);
  }, [job.version, job.artifacts.draft === undefined]);
  const may = (name) => job.allowed.commands.includes(name);
  const act = (name, fields) => command(name, fields, job.version).then(() => fail(null), fail);
  return html`<${Fault} fault=${fault} />
    ${!draft && job.artifacts.draft === undefined && html`<p>There is no draft yet. Send the table, then have a draft written of it, or write one.</p>`}
    ${may("draft") && !draft && html`<p><button class="strong" onClick=${() => act("draft", {})}>Have a draft written</button></p>`}
    ${may("draft") && !draft && html`<${Written} onWritten=${(text) => act("draft", { draft: text })} />`}
    ${draft && html`<${Draft} key=${draft.version} job=${job} draft=${draft} may=${may} onAct=${act} onFault=${fail} />`}
    <${Plan} plan=${job.artifacts.plan} />
    <${Results} job=${job} />`;
}

/** A text of one's own in the place of a draft that is written by rules. */
function Written({ onWritten, text = "", words = "Take this as the draft" }) {
  const [said, say] = useState(text);
  return html`<details open=${Boolean(text)}><summary>${text ? "The draft" : "Write it"}</summary>
    <textarea rows="8" aria-label="The draft" value=${said} onInput=${(event) => say(event.target.value)} />
    <p><button disabled=${!said.trim() || said === text} onClick=${() => onWritten(said)}>${words}</button></p></details>`;
}

function Draft({ job, draft, may, onAct, onFault }) {
  const { value, version } = draft;
  const asks = value && typeof value === "object" ? questions(value) : [];
  const [answers, answer] = useState({ ...job.params.answers, ...job.artifacts.answers, ...job.artifacts.plan?.answers });
  const open = job.kind === "waiting" && may("confirm");
  const missing = asks.filter((one) => one.required && !given(answers[one.id])).map((one) => one.id);
  const keep = (text) => save("draft", text, version).then(() => onFault(null), onFault);
  return html`<h2>The draft <small class="faint">version ${version}</small></h2>
    ${typeof value === "string" ? html`<${Written} text=${value} words="Save it" onWritten=${keep} />` : html`<${Proposal} value=${value} />`}
    ${open && asks.length > 0 && html`<h3>Questions</h3><div class="form">${asks.map((one) => html`
      <${Question} key=${one.id} one=${one} value=${answers[one.id]} onAnswer=${(said) => answer({ ...answers, [one.id]: said })} />`)}</div>`}
    ${open && html`<div class="actions">
      <button class="strong" disabled=${missing.length > 0} title=${missing.length ? `answers are missing: ${missing.join(", ")}` : "freezes the plan and puts it in line"}
        onClick=${() => onAct("confirm", { confirmed: true, answers: said(answers) })}>Agree and run</button>
      <button disabled=${missing.length > 0 || !may("freeze-plan")} onClick=${() => onAct("freeze-plan", { answers: said(answers) })}>Only freeze the plan</button></div>
      ${missing.length > 0 && html`<p class="faint">Answers are missing: ${missing.join(", ")}.</p>`}`}
    ${may("run") && job.kind === "settled" && html`<p><button class="strong" onClick=${() => onAct("run", {})}>Run it again</button></p>`}`;
}

/** The questions of a draft, those too that it only names as required. */
function questions(draft) {
  const found = list(draft.questions).filter((one) => one && typeof one.id === "string");
  const named = list(draft.required).filter((id) => typeof id === "string" && !found.some((one) => one.id === id));
  return [...found, ...named.map((id) => ({ id, required: true }))];
}

const list = (value) => (Array.isArray(value) ? value : []);
const given = (answer) => (Array.isArray(answer) ? answer.length > 0 : answer !== undefined && answer !== null && String(answer).trim() !== "");
const said = (answers) => Object.fromEntries(Object.entries(answers).filter(([, one]) => given(one)));

function Question({ one, value, onAnswer }) {
  const options = list(one.options).map(String);
  const id = `answer-${one.id}`;
  const words = html`${one.question || one.id}${one.required && html`<span class="bad-text" title="must be answered"> *</span>`}`;
  if (options.length && SEVERAL.has(one.id)) {
    const chosen = list(value);
    return html`<fieldset><legend>${words}</legend><div class="choices">${options.map((option) => html`<label>
      <input type="checkbox" checked=${chosen.includes(option)} onChange=${(event) => onAnswer(event.target.checked ? [...chosen, option] : chosen.filter((other) => other !== option))} /> ${option}</label>`)}</div></fieldset>`;
  }
  return html`<div class="entry"><label for=${id}>${words}</label>${options.length
    ? html`<select id=${id} onChange=${(event) => onAnswer(event.target.value)}><option value="">as in the draft</option>
        ${options.map((option) => html`<option value=${option} selected=${option === value}>${option}</option>`)}</select>`
    : html`<input id=${id} value=${value ?? ""} onInput=${(event) => onAnswer(event.target.value)} />`}</div>`;
}

function Proposal({ value }) {
  const { analysis = {}, data = {} } = value || {};
  const facts = Object.entries(analysis).filter(([, one]) => given(one));
  return html`<dl class="facts">${facts.map(([name, one]) => html`<dt>${name}</dt><dd>${list(one).length ? one.join(", ") : String(one)}</dd>`)}</dl>
    ${list(data.columns).length > 0 && html`<${Table} title=${`${data.rows ?? "?"} rows`} rows=${data.columns} />`}
    ${list(data.notes).map((note) => html`<p class="faint">${String(note)}</p>`)}
    ${!facts.length && html`<pre tabindex="0">${JSON.stringify(value, null, 2)}</pre>`}`;
}

function Plan({ plan }) {
  if (!plan || typeof plan !== "object") return null;
  const answers = Object.entries(plan.answers || {});
  return html`<h2>The plan</h2><p class="faint">Frozen: it covers version ${plan.draft_version} of the draft, which cannot be changed any more.</p>
    <dl class="facts"><dt>Requirement</dt><dd>${plan.requirement || "–"}</dd>
    ${answers.map(([name, one]) => html`<dt>${name}</dt><dd>${typeof one === "object" ? JSON.stringify(one) : String(one)}</dd>`)}
    <dt>Plan</dt><dd><code>${String(plan.plan_id).slice(0, 16)}</code></dd></dl>`;
}

function Results({ job }) {
  const [made, know] = useState(null);
  useEffect(() => { if (job.artifacts.results !== undefined) gather().then(know, () => {}); }, [job.version, job.artifacts.results === undefined]);
  if (!made) return null;
  const { results, figure, shelf } = made;
  const { model } = results;
  return html`<h2>Results</h2>
    ${figure && html`<img class="figure" src=${figure} alt="The figure of this analysis" />`}
    ${model && html`<p><strong>${model.kind}</strong> of ${model.outcome}, ${model.rows} rows, ${model.left_out} left out, errors ${model.errors}</p>
      <dl class="facts">${Object.entries(model.fit || {}).map(([name, one]) => html`<dt>${name}</dt><dd>${number(one)}</dd>`)}</dl>
      <${Table} title="Coefficients" rows=${list(model.coefficients)} />`}
    ${list(results.groups).length > 0 && html`<${Table} title="Groups" rows=${results.groups} />`}
    ${list(results.columns).length > 0 && html`<${Table} title="Columns" rows=${results.columns} />`}
    <p>${shelf.map((one) => html`<button onClick=${() => download(one.id)}>${one.storage_path.split("/").pop()}</button> `)}</p>`;
}

async function gather() {
  const [told, found] = await Promise.all([artifact("results"), files()]);
  const shelf = found.assets.filter((one) => ["table", "figure", "report"].includes(one.asset_type));
  const drawn = shelf.find((one) => one.asset_type === "figure");
  return { results: told.value, shelf, figure: drawn && await fileUrl(drawn.id) };
}

function Table({ title, rows }) {
  const heads = [...new Set(rows.slice(0, ROWS).flatMap((row) => Object.keys(row || {})))];
  return html`<div class="wide" tabindex="0"><table><caption>${title}</caption><thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, ROWS).map((row) => html`<tr>${heads.map((head) => html`<td>${number(row?.[head])}</td>`)}</tr>`)}</tbody></table></div>
    ${rows.length > ROWS && html`<p class="faint">and ${rows.length - ROWS} more, in the file</p>`}`;
}

function number(value) {
  if (typeof value === "number" && !Number.isInteger(value)) return Number(value.toPrecision(5)).toString();
  return value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

function Fault({ fault }) {
  if (!fault) return null;
  const missing = fault.problem?.missing;
  return html`<div class="notice bad" role="alert"><strong>${fault.code}</strong> ${fault.message}${Array.isArray(missing) ? ` (${missing.join(", ")})` : ""}</div>`;
}

onJob((job) => render(html`<${App} job=${job} />`, document.body));
