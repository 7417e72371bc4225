// The inputs of a batch, each with the files that came of it or the reason why none did, as they are
// finished; and the bundle of an export.
import { html, render, useEffect, useState } from "./preact.js";
import { artifact, download, fileUrl, files, onJob } from "./jobrunner.js";

const PAGE = /^finished_\d+$/;
const SHOWN = 60;

function App({ job }) {
  const [made, know] = useState({ inputs: [], assets: [], more: null });
  const [fault, fail] = useState(null);
  const [shown, show] = useState(SHOWN);
  useEffect(() => { gather(job).then(know, fail); }, [job.version, job.progress, Object.keys(job.artifacts).length]);
  const failed = [...made.inputs.filter((one) => one.error), ...(Array.isArray(job.result?.failed) && !made.inputs.length ? job.result.failed : [])];
  const of = job.params.inputs?.length;
  return html`${fault && html`<div class="notice bad" role="alert">${fault.message}</div>`}
    <p><strong>${made.inputs.length ? `${made.inputs.length} of ${of ?? "?"} inputs` : `${made.assets.length} files`}</strong>${made.inputs.length > 0 && html`, ${made.assets.length}${made.more ? " and more" : ""} files`}${failed.length > 0 && html`, <span class="bad-text">${failed.length} failed</span>`}</p>
    ${failed.length > 0 && html`<details open><summary>What failed</summary><ul>${failed.map((one) => html`<li><code>${one.source || one.input || one.asset}</code> <span class="bad-text">${one.error}</span></li>`)}</ul></details>`}
    <ul class="gallery">${made.assets.slice(0, shown).map((one) => html`<li key=${one.id}><${Picture} one=${one} />
      <button class="small" onClick=${() => download(one.id).catch(fail)}>${one.storage_path.split("/").pop()}</button></li>`)}</ul>
    ${(made.assets.length > shown) && html`<p><button onClick=${() => show(shown + SHOWN)}>Show more of them</button></p>`}`;
}

/** Fetched when it is shown: a batch may have thousands. */
function Picture({ one }) {
  const [src, know] = useState(null);
  const isPicture = one.asset_type === "thumbnail" || one.asset_type === "image";
  useEffect(() => { if (isPicture) fileUrl(one.id).then(know, () => {}); }, [one.id]);
  return src ? html`<img src=${src} alt=${one.storage_path.split("/").pop()} />` : html`<span class="faint">${isPicture ? "…" : one.asset_type}</span>`;
}

async function gather(job) {
  const pages = Object.keys(job.artifacts).filter((name) => PAGE.test(name));
  const [told, assets] = await Promise.all([Promise.all(pages.map((name) => artifact(name))), all()]);
  return { inputs: told.flatMap((one) => (Array.isArray(one.value?.inputs) ? one.value.inputs : [])), ...assets };
}

async function all() {
  const found = [];
  let cursor;
  for (let page = 0; page < 10; page += 1) {
    const told = await files(cursor);
    found.push(...told.assets.filter((one) => one.storage_path));
    cursor = told.next_cursor;
    if (!cursor) break;
  }
  found.sort((one, other) => (one.storage_path < other.storage_path ? -1 : 1));
  return { assets: found, more: cursor };
}

onJob((job) => render(html`<${App} job=${job} />`, document.body));
