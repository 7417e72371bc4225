// What was ordered and what came of it: variants of a text, or one picture, film or sound.
import { html, render, useEffect, useState } from "./preact.js";
import { download, fileUrl, files, onJob } from "./jobrunner.js";

function App({ job }) {
  const [made, know] = useState([]);
  const [fault, fail] = useState(null);
  useEffect(() => { gather().then(know, fail); }, [job.version]);
  const variants = Array.isArray(job.result?.variants) ? job.result.variants : [];
  const nothing = !variants.length && !made.length && !job.result?.product;
  return html`${fault && html`<div class="notice bad" role="alert">${fault.message}</div>`}
    ${nothing && html`<p class="faint">${job.kind === "final" || job.kind === "settled" ? "Nothing was delivered." : "Nothing is there yet."}</p>`}
    <div class="variants">${variants.map((one) => html`<${Variant} one=${one} />`)}</div>
    ${made.map((one) => html`<figure key=${one.id}><${Shown} one=${one} /><figcaption><button class="small" onClick=${() => download(one.id).catch(fail)}>Take ${one.name}</button></figcaption></figure>`)}
    ${job.result?.product && html`<dl class="facts">${Object.entries(job.result.product).map(([name, value]) => html`<dt>${name}</dt><dd>${typeof value === "object" ? JSON.stringify(value) : String(value)}</dd>`)}</dl>`}`;
}

function Variant({ one }) {
  return html`<article class="card"><small class="faint">${one?.angle}</small><h2>${one?.headline}</h2><p>${one?.text}</p><p><strong>${one?.call_to_action}</strong></p>
    <p class="faint">${[one?.headline, one?.text].map((text) => String(text ?? "").length).join(" and ")} letters</p></article>`;
}

function Shown({ one }) {
  if (one.asset_type === "image") return html`<img src=${one.src} alt=${one.name} />`;
  if (one.asset_type === "video") return html`<video controls src=${one.src} />`;
  return one.asset_type === "audio" ? html`<audio controls src=${one.src} />` : html`<code>${one.name}</code>`;
}

async function gather() {
  const { assets } = await files();
  return Promise.all(assets.filter((one) => one.storage_path).map(async (one) => ({ ...one, name: one.storage_path.split("/").pop(), src: await fileUrl(one.id) })));
}

onJob((job) => render(html`<${App} job=${job} />`, document.body));
