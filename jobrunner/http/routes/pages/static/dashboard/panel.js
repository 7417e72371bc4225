// A panel: a page of the plugin's own, in a frame that has no session, no storage and no network. It
// asks for the job that it stands for, by messages; this page asks the service for it, in the session
// of whoever looks, and for nothing else. The rights are the service's to judge, as ever.
import { html, useLayoutEffect, useRef, useState } from "./preact.js";
import { Refusal, ask, get, place, post } from "./asking.js";

const NAME = /^\w[\w-]{0,127}$/;
const ID = /^[0-9a-f-]{36}$/;
const OPEN_MAX = 32;
const HEIGHT_MAX = 20_000;
const SILENT_MS = 10_000;
const LATE_MS = 25, LATE_TURNS = 20;
const ACTS = new Set(["command", "save", "answer", "download"]);

export function Panel({ job, workflow, session, onActed }) {
  const frame = useRef(null), port = useRef(null), known = useRef(null);
  const [there, come] = useState(false);
  const [late, miss] = useState(false);
  known.current = { job, workflow, session, onActed };
  useLayoutEffect(() => {
    const hear = (event) => {
      // Only a frame without an origin is answered: one that has come elsewhere is a stranger.
      if (event.source !== frame.current?.contentWindow || event.origin !== "null" || event.data?.jobrunner !== "hello") return;
      port.current?.close();
      const { port1, port2 } = new MessageChannel();
      port.current = port1;
      port1.onmessage = listening(port1, known, frame);
      event.source.postMessage({ jobrunner: "welcome", theme: theme(), ...told(known.current) }, "*", [port2]);
      come(true);
    };
    const dressed = new MutationObserver(() => port.current?.postMessage({ event: "theme", theme: theme() }));
    dressed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    addEventListener("message", hear);
    return () => {
      removeEventListener("message", hear);
      dressed.disconnect();
      port.current?.close();
    };
  }, []);
  useLayoutEffect(() => { port.current?.postMessage({ event: "job", job }); }, [job]);
  useLayoutEffect(() => {
    if (there) return undefined;
    const turn = setTimeout(() => {
      miss(true);
      if (session.role !== "reader") post(`panels/${workflow.name}/silence`).catch(() => {});
    }, SILENT_MS);
    return () => clearTimeout(turn);
  }, [there]);
  return html`<section class="card panel"><h2>${workflow.panel.title}</h2>
    ${!there && (late ? html`<p class="notice wait" role="status">This panel has not started: its page or one of its scripts failed, and the console of the browser says how. It is the plugin's to mend; whatever it would do is done by the commands of the job, too.</p>`
      : html`<p class="faint" role="status">It has not said anything yet.</p>`)}
    <iframe ref=${frame} title=${workflow.panel.title} sandbox="allow-scripts allow-forms" referrerpolicy="no-referrer" src=${place(workflow.panel.url)} /></section>`;
}

const theme = () => document.documentElement.dataset.theme || "auto";

function told({ job, workflow, session }) {
  return { job, workflow: { name: workflow.name, version: workflow.version, commands: workflow.commands, artifacts: workflow.artifacts },
    session: { name: session.name, role: session.role } };
}

function listening(port, known, frame) {
  let open = 0;
  const acts = () => document.activeElement === frame.current && (!navigator.userActivation || navigator.userActivation.isActive);
  const reply = (turn, said) => port.postMessage({ turn, ...said });
  return async ({ data }) => {
    const { turn, ask: what, given } = object(data);
    if (what === "height") return grow(frame.current, object(given).height);
    if (open >= OPEN_MAX) return reply(turn, { refused: plainly(refusal("PANEL_BUSY", `${OPEN_MAX} questions are open; wait for an answer`)) });
    open += 1;
    try {
      reply(turn, { told: await answered(known.current, what, object(given), acts) });
    } catch (fault) {
      reply(turn, { refused: plainly(fault) });
    }
    open -= 1;
    return undefined;
  };
}

const plainly = (fault) => ({ status: fault.status || 0, code: fault.code || "", message: fault.message, problem: fault.problem || null });

function grow(frame, height) {
  if (frame && Number.isFinite(height)) frame.style.height = `${Math.min(Math.max(height, 24), HEIGHT_MAX)}px`;
}

async function answered(known, what, given, acts) {
  const answer = Object.hasOwn(ANSWERS, what) ? ANSWERS[what] : null;
  if (!answer) throw refusal("PANEL_REFUSED", "a panel cannot ask for this");
  if (!ACTS.has(what)) return answer(known, given);
  // A frame alone does nothing in anybody's name: somebody must just have pressed something in it. The
  // browser tells this page of the press on another way than the frame asks, and at times later.
  for (let turn = 0; turn < LATE_TURNS && !acts(); turn += 1) await new Promise((go) => setTimeout(go, LATE_MS));
  if (!acts()) throw refusal("PANEL_REFUSED", "nobody has just pressed anything in this panel");
  const done = await answer(known, given);
  known.onActed?.();
  return done;
}

const ANSWERS = {
  history: ({ job }) => get(`jobs/${job.id}/history`).then((found) => found.history),
  files: ({ job }, { cursor }) => get(`jobs/${job.id}/assets`, { limit: 100, cursor: cursor ? String(cursor) : undefined }),
  file: async ({ job }, { id }) => content(await ours(job, id)),
  artifact: ({ job }, { name, version }) => get(`jobs/${job.id}/artifacts/${fit(NAME, name)}`, { version: Number.isInteger(version) ? version : undefined }),
  questions: ({ job }) => get("answers", { job_id: job.id }).then((found) => found.answers),
  command: ({ job, workflow }, { name, fields, version }) => {
    if (!workflow.commands.some((one) => one.name === name)) throw refusal("UNKNOWN_COMMAND", "the workflow declares no such command");
    return post(`jobs/${job.id}/${name}`, { ...object(fields), expected_version: version ?? job.version });
  },
  save: ({ job }, { name, value, base_version }) => ask("PUT", `jobs/${job.id}/artifacts/${fit(NAME, name)}`, { body: { value, base_version } }),
  answer: ({ job }, { name, value }) => post(`jobs/${job.id}/answers/${fit(NAME, name)}`, value ?? null),
  download: async ({ job }, { id }) => {
    const found = await ours(job, id);
    const link = Object.assign(document.createElement("a"), { href: place(`assets/${found.id}/content`), download: "" });
    link.click();
  },
};

const refusal = (code, detail) => new Refusal(403, { error_code: code, detail });
const object = (fields) => (fields && typeof fields === "object" && !Array.isArray(fields) ? fields : {});

/** A name is put into an address, so it must be one. */
function fit(pattern, name) {
  if (typeof name === "string" && pattern.test(name)) return name;
  throw refusal("PANEL_REFUSED", "this is no name");
}

/** A file of this job, and of no other. */
async function ours(job, id) {
  const found = await get(`assets/${fit(ID, id)}`);
  if (found.job_id !== job.id) throw refusal("PANEL_REFUSED", "this is no file of the job that is shown");
  return found;
}

async function content(found) {
  const said = await fetch(place(`assets/${found.id}/content`), { credentials: "same-origin" });
  if (!said.ok) throw new Refusal(said.status, await said.json().catch(() => ({})));
  return said.blob();
}
