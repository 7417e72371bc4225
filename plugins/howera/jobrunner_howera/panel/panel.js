// The instruction, step by step: read, corrected, put in another order, parts of it written anew, and
// exported. Every save is a version of the draft.
import { html, render, useEffect, useState } from "./preact.js";
import { artifact, command, download, fileUrl, files, onJob, save } from "./jobrunner.js";

const FILE = /\/assets\/([0-9a-f-]{36})(\/content)?$/;
const OPEN = new Set(["DRAFT_READY", "EDITING"]);

function App({ job }) {
  const [draft, know] = useState(null);
  const [fault, fail] = useState(null);
  useEffect(() => {
    if (job.artifacts.draft !== undefined) artifact("draft").then(know, fail);
  }, [job.version, job.artifacts.draft === undefined]);
  if (job.artifacts.draft === undefined) return html`<p class="faint">There is no draft yet: the film is listened to first.</p>`;
  if (!draft) return html`<${Fault} fault=${fault} />`;
  return html`<${Fault} fault=${fault} /><${Editor} key=${draft.version} job=${job} draft=${draft} onFault=${fail} /><${Exported} job=${job} onFault=${fail} />`;
}

function Editor({ job, draft, onFault }) {
  const [value, change] = useState(draft.value);
  const open = OPEN.has(job.status);
  const changed = JSON.stringify(value) !== JSON.stringify(draft.value);
  const may = (name) => job.allowed.commands.includes(name);
  const told = (doing) => doing.then(() => onFault(null), onFault);
  const keep = () => told(save("draft", value, draft.version));
  const anew = (selection, instruction) => told(command("regenerate", { base_version: draft.version, selection, ...(instruction ? { instruction } : {}) }, job.version));
  const steps = Array.isArray(value?.steps) ? value.steps : null;
  const put = (place, news) => change({ ...value, steps: steps.map((step, at) => (at === place ? { ...step, ...news } : step)) });
  const move = (place, by) => change({ ...value, steps: moved(steps, place, by) });
  const drop = (place) => change({ ...value, steps: steps.filter((_, at) => at !== place) });
  return html`<div class="bar-of-editor"><strong>Version ${draft.version}</strong> <span class="faint">${changed ? "changed, not saved" : "saved"}</span>
      <button class="strong" disabled=${!open || !changed} onClick=${keep}>Save</button>
      <button disabled=${!changed} onClick=${() => change(draft.value)}>Undo all</button>
      ${["PDF", "MD_ZIP"].map((format) => html`<button disabled=${!may("export") || changed} title=${changed ? "save first" : ""} onClick=${() => told(command("export", { format }, job.version))}>Export ${format}</button>`)}</div>
    ${steps ? html`<label for="title">Title</label><input id="title" class="whole" disabled=${!open} value=${value.title || ""} onInput=${(event) => change({ ...value, title: event.target.value })} />
        <ol class="steps">${steps.map((step, place) => html`<${Step} key=${step.id || place} step=${step} place=${place} last=${place === steps.length - 1} open=${open}
          onPut=${(news) => put(place, news)} onMove=${(by) => move(place, by)} onDrop=${() => drop(place)}
          onAnew=${may("regenerate") && !changed ? (words) => anew(step.id || place + 1, words) : null} />`)}</ol>`
      : html`<textarea rows="16" aria-label="The draft" disabled=${!open} value=${typeof value === "string" ? value : JSON.stringify(value, null, 2)} onInput=${(event) => change(event.target.value)} />`}`;
}

function moved(steps, place, by) {
  const found = [...steps];
  const [one] = found.splice(place, 1);
  found.splice(place + by, 0, one);
  return found;
}

function Step({ step, place, last, open, onPut, onMove, onDrop, onAnew }) {
  const [words, say] = useState("");
  const pictures = [step.image, ...(Array.isArray(step.images) ? step.images : [])].filter((one) => typeof one === "string" && one);
  const first = (at) => onPut({ image: pictures[at], images: pictures.filter((_, other) => other !== at) });
  const less = (at) => { const [image = "", ...images] = pictures.filter((_, other) => other !== at); onPut({ image, images }); };
  const name = `Step ${place + 1}`;
  return html`<li><div class="of-step"><input class="whole" aria-label=${`${name}: title`} disabled=${!open} value=${step.title || ""} onInput=${(event) => onPut({ title: event.target.value })} />
      <span class="faint">${time(step.start_s)}–${time(step.end_s)}</span></div>
    <textarea rows="4" aria-label=${`${name}: text`} disabled=${!open} value=${step.text || ""} onInput=${(event) => onPut({ text: event.target.value })} />
    <div class="pictures">${pictures.map((one, at) => html`<figure key=${one}><${Picture} address=${one} words=${`${name}: picture ${at + 1}`} />
      ${open && html`<figcaption>${at > 0 && html`<button class="small" onClick=${() => first(at)}>first</button>`} <button class="small" aria-label=${`${name}: leave picture ${at + 1} out`} onClick=${() => less(at)}>leave out</button></figcaption>`}</figure>`)}</div>
    ${open && html`<div class="actions"><button class="small" disabled=${place === 0} aria-label=${`${name}: up`} onClick=${() => onMove(-1)}>↑</button>
      <button class="small" disabled=${last} aria-label=${`${name}: down`} onClick=${() => onMove(1)}>↓</button>
      <button class="small danger" aria-label=${`${name}: leave out`} onClick=${onDrop}>leave out</button>
      <input aria-label=${`${name}: what should become of it`} placeholder="shorter, list, tidy…" value=${words} onInput=${(event) => say(event.target.value)} />
      <button class="small" disabled=${!onAnew} title=${onAnew ? "" : "in EDITING, with everything saved"} onClick=${() => onAnew(words)}>Write it anew</button></div>`}</li>`;
}

/** A picture of this job; one that is gone, or is elsewhere, is told as its address. */
function Picture({ address, words }) {
  const [src, know] = useState(null);
  useEffect(() => {
    const id = FILE.exec(address)?.[1];
    if (id) fileUrl(id).then(know, () => know(""));
    else know("");
  }, [address]);
  if (src === null) return html`<span class="faint">…</span>`;
  return src ? html`<img src=${src} alt=${words} />` : html`<code class="faint">${address}</code>`;
}

function Exported({ job, onFault }) {
  const [made, know] = useState([]);
  useEffect(() => { files().then((found) => know(found.assets.filter((one) => one.asset_type === "export")), onFault); }, [job.version]);
  return made.length > 0 && html`<h2>Exported</h2><p>${made.map((one) => html`<button onClick=${() => download(one.id).catch(onFault)}>${one.storage_path.split("/").pop()}</button> `)}</p>`;
}

function time(seconds) {
  if (typeof seconds !== "number") return "";
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}

const Fault = ({ fault }) => fault && html`<div class="notice bad" role="alert"><strong>${fault.code}</strong> ${fault.message}</div>`;

onJob((job) => render(html`<${App} job=${job} />`, document.body));
