// Sending files in pieces (tus 1.0.0): what broke off goes on where the service says it stood.
import { html, useState } from "./preact.js";
import { Refusal, place } from "./asking.js";
import { Copy, Fault } from "./parts.js";
import { size } from "./words.js";

const PIECE = 4 * 1024 * 1024;
const TRIES = 4;
const SENDING = { "Tus-Resumable": "1.0.0", "X-Jobrunner-Page": "1" };

export function Upload({ path, named, words, accept, onSent, shows }) {
  const [state, change] = useState({ far: null, fault: null, sent: [] });
  const send = async (event) => {
    const input = event.target;
    for (const file of input.files) {
      try {
        change((was) => ({ ...was, far: 0, fault: null }));
        const id = await sent(path, file, named, (far) => change((was) => ({ ...was, far: far / (file.size || 1) })));
        change((was) => ({ ...was, far: null, sent: [...was.sent, { id, name: file.name, size: file.size }] }));
        await onSent?.(id);
      } catch (fault) {
        change((was) => ({ ...was, far: null, fault }));
      }
    }
    input.value = "";
  };
  const id = `send-${path.replace(/\W/g, "-")}`;
  return html`<div class="entry"><label for=${id}>${words}</label>
    <input id=${id} type="file" accept=${accept} disabled=${state.far !== null} onChange=${send} />
    ${state.far !== null && html`<progress max="1" value=${state.far} aria-label="Sent">${Math.round(state.far * 100)} %</progress>`}
    ${shows && state.sent.map((one) => html`<div><code>${one.id}</code><${Copy} text=${one.id} what="the file's id" /> ${one.name} <span class="faint">${size(one.size)}</span></div>`)}
    <${Fault} fault=${state.fault} /></div>`;
}

async function sent(path, file, upload, tell) {
  const made = await asked(place(path), "POST", {
    "Upload-Length": String(file.size), "Upload-Metadata": metadata({ filename: safe(file.name), filetype: file.type, upload }),
  });
  const url = new URL(made.headers.get("Location"), place("")).href;
  let at = 0, tries = 0;
  while (at < file.size) {
    try {
      const said = await asked(url, "PATCH", { "Upload-Offset": String(at), "Content-Type": "application/offset+octet-stream" }, file.slice(at, at + PIECE));
      at = Number(said.headers.get("Upload-Offset"));
      tries = 0;
    } catch (fault) {
      if ((tries += 1) >= TRIES || (fault.status >= 400 && fault.status < 500 && fault.status !== 409)) throw fault;
      at = Number((await asked(url, "HEAD", {})).headers.get("Upload-Offset"));
    }
    tell(at);
  }
  return url.split("/").pop();
}

async function asked(url, method, headers, body) {
  const said = await fetch(url, { method, headers: { ...SENDING, ...headers }, body, credentials: "same-origin" })
    .catch(() => { throw new Refusal(0, { detail: "the service does not answer" }); });
  if (!said.ok) throw new Refusal(said.status, await said.json().catch(() => ({})));
  return said;
}

/** The service keeps names of these letters. */
const safe = (name) => name.replace(/[^A-Za-z0-9._-]+/g, "-").slice(-100) || "file";

function metadata(values) {
  return Object.entries(values).filter(([, value]) => value)
    .map(([name, value]) => `${name} ${btoa(String.fromCharCode(...new TextEncoder().encode(value)))}`).join(",");
}
