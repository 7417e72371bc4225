// What a job made: values in versions with what changed between two of them, and files. A file is
// shown only as a picture, sound, film, table, Markdown or as plain text; everything else is handed over.
import { html, useState } from "./preact.js";
import { ask, get, place } from "./asking.js";
import { AsJson } from "./form.js";
import { Act, Dialog, Fault, Json, Link, Time } from "./parts.js";
import { Markdown, Sheet } from "./previews.js";
import { Problem } from "./submit.js";
import { size } from "./words.js";

const PICTURE = /\.(png|jpe?g|gif|webp)$/i, SOUND = /\.(mp3|m4a|ogg|wav)$/i, FILM = /\.(mp4|webm|mov)$/i;
const TEXT = /\.(txt|md|csv|tsv|json|srt|vtt|log|html?|xml|svg)$/i;
const TABLE = /\.(csv|tsv)$/i, MARKED = /\.md$/i;
const TEXT_MAX = 64 * 1024;
const LINES_MAX = 1500;

export function Artifacts({ job, session, onChanged }) {
  const names = Object.keys(job.artifacts || {}).sort();
  if (!names.length) return html`<p class="faint">None.</p>`;
  return names.map((name) => html`<${Artifact} key=${`${name}${job.version}`} job=${job} name=${name} value=${job.artifacts[name]} session=${session} onChanged=${onChanged} />`);
}

function Artifact({ job, name, value, session, onChanged }) {
  const [told, see] = useState(null);
  const [edits, edit] = useState(false);
  const [fault, fail] = useState(null);
  const look = () => get(`jobs/${job.id}/artifacts/${name}`).then(see, fail);
  const isFar = value && typeof value === "object" && Object.keys(value).join() === "ref";
  return html`<details class="artifact"><summary onClick=${() => told || look()}><code>${name}</code> <span class="faint">${isFar ? "" : brief(value)}</span></summary>
    <${Fault} fault=${fault} />
    ${told ? html`<${Versions} job=${job} told=${told} />` : !isFar && html`<${Json} value=${value} />`}
    ${told && session.role !== "reader" && html`<button class="small" onClick=${() => edit(true)}>edit</button>`}
    ${edits && html`<${Edit} job=${job} told=${told} onClose=${(done) => { edit(false); if (done) onChanged(); }} />`}
  </details>`;
}

function brief(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

function Versions({ job, told }) {
  const [older, compare] = useState(null);
  const [fault, fail] = useState(null);
  const pick = (event) => {
    const version = event.target.value;
    if (!version) compare(null);
    else get(`jobs/${job.id}/artifacts/${told.name}`, { version }).then(compare, fail);
  };
  return html`<p class="faint">version ${told.version}, <${Time} at=${told.created_at} />
      ${told.versions.length > 1 && html` <label>compared with <select onChange=${pick}><option value="">none</option>
        ${told.versions.filter((one) => one.version !== told.version).map((one) => html`<option value=${one.version}>${one.version}</option>`)}</select></label>`}</p>
    <${Fault} fault=${fault} />
    ${older ? html`<${Difference} before=${older.value} after=${told.value} />` : html`<${Json} value=${told.value} />`}`;
}

/** Line by line, what went and what came. */
function Difference({ before, after }) {
  const lines = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2)).split("\n");
  return html`<pre class="difference" tabindex="0">${differences(lines(before), lines(after)).map(([mark, line]) => html`<span class=${{ "+": "came", "-": "went" }[mark] || ""}>${mark} ${line}${"\n"}</span>`)}</pre>`;
}

/** The longest common run of lines, by the usual table; very long texts only line against line. */
export function differences(before, after) {
  if (before.length * after.length > LINES_MAX * LINES_MAX) {
    return [...before.map((line) => ["-", line]), ...after.map((line) => ["+", line])];
  }
  const same = Array.from({ length: before.length + 1 }, () => new Uint16Array(after.length + 1));
  for (let b = before.length - 1; b >= 0; b -= 1) {
    for (let a = after.length - 1; a >= 0; a -= 1) {
      same[b][a] = before[b] === after[a] ? same[b + 1][a + 1] + 1 : Math.max(same[b + 1][a], same[b][a + 1]);
    }
  }
  const found = [];
  let b = 0, a = 0;
  while (b < before.length || a < after.length) {
    if (b < before.length && a < after.length && before[b] === after[a]) { found.push([" ", before[b++]]); a += 1; }
    else if (a >= after.length || (b < before.length && same[b + 1][a] >= same[b][a + 1])) found.push(["-", before[b++]]);
    else found.push(["+", after[a++]]);
  }
  return found;
}

function Edit({ job, told, onClose }) {
  const [value, change] = useState(told.value);
  const [fault, fail] = useState(null);
  const act = async () => {
    try {
      await ask("PUT", `jobs/${job.id}/artifacts/${told.name}`, { body: { value, base_version: told.version } });
      onClose(true);
    } catch (refused) {
      fail(refused);
    }
  };
  return html`<${Dialog} title=${`Edit ${told.name}`} wide onClose=${() => onClose(false)}>
    ${typeof told.value === "string"
      ? html`<textarea rows="20" aria-label=${told.name} value=${value} onInput=${(event) => change(event.target.value)} />`
      : html`<${AsJson} id=${told.name} rows="20" value=${value} onChange=${change} />`}
    <${Problem} fault=${fault} />
    <div class="actions"><${Act} kind="strong" onAct=${act}>Store as a new version<//><button onClick=${() => onClose(false)}>Leave it</button></div><//>`;
}

export function Files({ files }) {
  if (!files.length) return html`<p class="faint">None.</p>`;
  return html`<ul class="files">${files.map((file) => html`<${Asset} key=${file.id} file=${file} />`)}</ul>`;
}

function Asset({ file }) {
  const [text, read] = useState(null);
  const [fault, fail] = useState(null);
  const name = (file.storage_path || file.url).split("/").pop();
  const at = file.storage_path ? place(`assets/${file.id}/content`) : "";
  const show = async () => {
    try {
      const said = await fetch(at, { headers: { Range: `bytes=0-${TEXT_MAX - 1}` }, credentials: "same-origin" });
      read(await said.text());
    } catch (refused) {
      fail(refused);
    }
  };
  return html`<li><div>${at ? html`<a href=${at} download=${name}>${name}</a>` : html`<${Link} to=${file.url} />`}
      ${" "}<span class="faint">${file.asset_type} ${file.file_size ? size(file.file_size) : ""} <${Time} at=${file.created_at} /></span>
      ${at && TEXT.test(name) && text === null && html` <button class="small" onClick=${show}>look</button>`}</div>
    ${at && PICTURE.test(name) && html`<a href=${at} download=${name}><img src=${at} alt=${name} loading="lazy" /></a>`}
    ${at && SOUND.test(name) && html`<audio controls preload="none" src=${at} />`}
    ${at && FILM.test(name) && html`<video controls preload="metadata" src=${at} />`}
    ${text !== null && html`<${Told} name=${name} text=${text} cut=${file.file_size > TEXT_MAX} />`}<${Fault} fault=${fault} /></li>`;
}

function Told({ name, text, cut }) {
  const [plain, turn] = useState(false);
  const made = TABLE.test(name) ? html`<${Sheet} text=${text} cut=${cut} />` : MARKED.test(name) ? html`<${Markdown} text=${text} />` : null;
  if (!made) return html`<pre tabindex="0">${text}</pre>`;
  return html`<button class="plain small" aria-pressed=${plain ? "true" : "false"} onClick=${() => turn(!plain)}>as text</button>${plain ? html`<pre tabindex="0">${text}</pre>` : made}`;
}
