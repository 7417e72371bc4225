// What was heard, where it is to be reviewed; then the instruction, step by step: read, corrected, put in
// another order, parts of it written anew, given another moment of the film, and exported. Every save is
// a version.
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
  if (job.status === "TRANSCRIPT_READY" && job.artifacts.transcript !== undefined) return html`<${Fault} fault=${fault} /><${Heard} key=${job.version} job=${job} onFault=${fail} />`;
  if (job.artifacts.draft === undefined) return html`<p class="faint">There is no draft yet: the film is listened to first.</p>`;
  if (!draft) return html`<${Fault} fault=${fault} />`;
  return html`<${Fault} fault=${fault} /><${Editor} key=${draft.version} job=${job} draft=${draft} onFault=${fail} /><${Exported} job=${job} onFault=${fail} />`;
}

function Heard({ job, onFault }) {
  const [held, know] = useState(null);
  const [value, change] = useState(null);
  useEffect(() => { artifact("transcript").then((found) => { know(found); change(found.value); }, onFault); }, []);
  if (!Array.isArray(value?.segments)) return null;
  const changed = JSON.stringify(value) !== JSON.stringify(held.value);
  const told = (doing) => doing.then(() => onFault(null), onFault);
  const put = (place, text) => change((was) => ({ ...was, segments: was.segments.map((one, at) => (at === place ? { ...one, text, doubtful: [] } : one)) }));
  return html`<${Warnings} of=${value.warnings} /><div class="bar-of-editor"><strong>What was heard</strong>
      <button class="strong" disabled=${!changed} onClick=${() => told(save("transcript", value, held.version))}>Save</button>
      <button disabled=${changed || !job.allowed.commands.includes("run")} title=${changed ? "save first" : ""} onClick=${() => told(command("run", {}, job.version))}>Go on</button></div>
    <ol class="steps">${value.segments.map((one, place) => html`<li key=${place}><span class="faint">${time(one.start_s)}–${time(one.end_s)}</span>
      <textarea rows="2" aria-label=${`Heard ${place + 1}`} value=${one.text} onInput=${(event) => put(place, event.target.value)} /><${Doubts} of=${one} /></li>`)}</ol>`;
}

/** The words of a text that the recogniser was not sure of. */
function Doubts({ of }) {
  const words = String(of.text || "").split(/\s+/);
  const places = (Array.isArray(of.doubtful) ? of.doubtful : []).filter((place) => words[place]);
  return places.length > 0 && html`<p class="faint">Not sure of ${places.map((place) => html`<mark>${words[place]}</mark> `)}</p>`;
}

const Warnings = ({ of }) => Array.isArray(of) && of.map((one) => html`<div class="notice">${String(one)}</div>`);

function Editor({ job, draft, onFault }) {
  const [value, change] = useState(draft.value);
  const [film, find] = useState(null);
  useEffect(() => { files().then((found) => find(found.assets.find((one) => one.asset_type === "video")?.id), () => {}); }, []);
  const open = OPEN.has(job.status);
  const changed = JSON.stringify(value) !== JSON.stringify(draft.value);
  const may = (name) => job.allowed.commands.includes(name);
  const told = (doing) => doing.then(() => onFault(null), onFault);
  const keep = () => told(save("draft", value, draft.version));
  const anew = (selection, instruction) => told(command("regenerate", { base_version: draft.version, selection, ...(instruction ? { instruction } : {}) }, job.version));
  const moment = (selection, moment_s) => told(command("regenerate", { base_version: draft.version, selection, moment_s }, job.version));
  const steps = Array.isArray(value?.steps) ? value.steps : null;
  // Of the steps as they are by then: the second of two quick acts comes before the first is drawn.
  const put = (place, news) => change((was) => ({ ...was, steps: was.steps.map((step, at) => (at === place ? { ...step, ...news } : step)) }));
  const move = (place, by) => change((was) => ({ ...was, steps: moved(was.steps, place, by) }));
  const drop = (place) => change((was) => ({ ...was, steps: was.steps.filter((_, at) => at !== place) }));
  return html`<div class="bar-of-editor"><strong>Version ${draft.version}</strong> <span class="faint">${changed ? "changed, not saved" : "saved"}</span>
      <button class="strong" disabled=${!open || !changed} onClick=${keep}>Save</button>
      <button disabled=${!changed} onClick=${() => change(draft.value)}>Undo all</button>
      ${["PDF", "MD_ZIP", ["PDF", "MD_ZIP"]].map((format) => html`<button disabled=${!may("export") || changed} title=${!may("export") ? `not in ${job.status}` : changed ? "save first" : ""} onClick=${() => told(command("export", { format }, job.version))}>Export ${Array.isArray(format) ? "both" : format === "PDF" ? "PDF" : "Markdown"}</button>`)}</div>
    <${Warnings} of=${value?.warnings} />
    ${steps ? html`<label for="title">Title</label><input id="title" class="whole" disabled=${!open} value=${value.title || ""} onInput=${({ target }) => change((was) => ({ ...was, title: target.value }))} />
        <ol class="steps">${steps.map((step, place) => html`<${Step} key=${step.id || place} step=${step} place=${place} last=${place === steps.length - 1} open=${open}
          onPut=${(news) => put(place, news)} onMove=${(by) => move(place, by)} onDrop=${() => drop(place)}
          film=${film} onMoment=${may("regenerate") && !changed ? (at) => moment(step.id || place + 1, at) : null}
          onAnew=${may("regenerate") && !changed ? (words) => anew(step.id || place + 1, words) : null} />`)}</ol>`
      : html`<textarea rows="16" aria-label="The draft" disabled=${!open} value=${typeof value === "string" ? value : JSON.stringify(value, null, 2)} onInput=${(event) => change(event.target.value)} />`}`;
}

function moved(steps, place, by) {
  const found = [...steps];
  const [one] = found.splice(place, 1);
  found.splice(place + by, 0, one);
  return found;
}

function Step({ step, place, last, open, film, onPut, onMove, onDrop, onAnew, onMoment }) {
  const [words, say] = useState("");
  const pictures = [step.image, ...(Array.isArray(step.images) ? step.images : [])].filter((one) => typeof one === "string" && one);
  const first = (at) => onPut({ image: pictures[at], images: pictures.filter((_, other) => other !== at) });
  const less = (at) => { const [image = "", ...images] = pictures.filter((_, other) => other !== at); onPut({ image, images }); };
  const name = `Step ${place + 1}`;
  return html`<li><div class="of-step"><input class="whole" aria-label=${`${name}: title`} disabled=${!open} value=${step.title || ""} onInput=${(event) => onPut({ title: event.target.value })} />
      <span class="faint">${time(step.start_s)}–${time(step.end_s)}</span></div>
    <textarea rows="4" aria-label=${`${name}: text`} disabled=${!open} value=${step.text || ""} onInput=${(event) => onPut({ text: event.target.value, doubtful: [] })} />
    <${Doubts} of=${step} />
    <div class="pictures">${pictures.map((one, at) => html`<figure key=${one}><${Picture} address=${one} words=${`${name}: picture ${at + 1}`} />
      ${open && html`<figcaption>${at > 0 && html`<button class="small" onClick=${() => first(at)}>first</button>`} <button class="small" aria-label=${`${name}: leave picture ${at + 1} out`} onClick=${() => less(at)}>leave out</button></figcaption>`}</figure>`)}
      ${open && html`<${Moment} step=${step} name=${name} film=${film} onTake=${onMoment} />`}</div>
    ${open && html`<div class="actions"><button class="small" disabled=${place === 0} aria-label=${`${name}: up`} onClick=${() => onMove(-1)}>↑</button>
      <button class="small" disabled=${last} aria-label=${`${name}: down`} onClick=${() => onMove(1)}>↓</button>
      <button class="small danger" aria-label=${`${name}: leave out`} onClick=${onDrop}>leave out</button>
      <input aria-label=${`${name}: what should become of it`} placeholder="shorter, list, tidy…" value=${words} onInput=${(event) => say(event.target.value)} />
      <button class="small" disabled=${!onAnew} title=${onAnew ? "" : "in EDITING, with everything saved"} onClick=${() => onAnew(words)}>Write it anew</button></div>`}</li>`;
}

/** The film beside the pictures of a step, to take the picture of another moment from. */
function Moment({ step, name, film, onTake }) {
  const [src, know] = useState(null);
  const [at, move] = useState(step.image_s ?? step.start_s ?? 0);
  const [begin] = useState(at);
  const show = () => fileUrl(film).then(know, () => know(null));
  return html`<figure>${src ? html`<video controls muted aria-label=${`${name}: the film`} src=${`${src}#t=${begin}`} onTimeUpdate=${(event) => move(Math.round(event.target.currentTime * 10) / 10)} />` : film && html`<button class="small" onClick=${show}>show the film</button>`}
    <figcaption><span class="faint">picture at</span> <input type="number" min="0" step="0.1" aria-label=${`${name}: moment in seconds`} value=${at} onInput=${(event) => move(Number(event.target.value))} /> <span class="faint">s</span>
      <button class="small" disabled=${!onTake} title=${onTake ? "" : "in EDITING, with everything saved"} aria-label=${`${name}: take this moment`} onClick=${() => onTake(at)}>Take this moment</button></figcaption></figure>`;
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
