// The picture with the words that it was made of, and who drew it.
import { html, render, useEffect, useState } from "./preact.js";
import { download, fileUrl, files, onJob } from "./jobrunner.js";

const WAITS = { queued: "It waits to be drawn.", running: "It is being drawn.", failed: "An attempt failed; it is tried again." };

function App({ job }) {
  const [made, know] = useState([]);
  const [fault, fail] = useState(null);
  useEffect(() => { gather().then(know, fail); }, [job.version]);
  const { prompt, ...rest } = job.params || {};
  const facts = Object.entries({ ...rest, ...job.result }).filter(([, value]) => value !== "" && value !== null);
  return html`${fault && html`<div class="notice bad" role="alert">${fault.message}</div>`}
    <div class="shown">${made.map((one) => html`<figure key=${one.id}><img src=${one.src} alt=${`A picture of: ${prompt}`} />
      <figcaption><button class="small" onClick=${() => download(one.id).catch(fail)}>Take it</button></figcaption></figure>`)}
    ${!made.length && html`<p class="faint">${WAITS[job.status] || "There is no picture."}</p>`}
    <div><blockquote>${prompt}</blockquote>
    <dl class="facts">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${typeof value === "object" ? JSON.stringify(value) : String(value)}</dd>`)}</dl></div></div>`;
}

async function gather() {
  const { assets } = await files();
  return Promise.all(assets.filter((one) => one.asset_type === "image" && one.storage_path).map(async (one) => ({ ...one, src: await fileUrl(one.id) })));
}

onJob((job) => render(html`<${App} job=${job} />`, document.body));
