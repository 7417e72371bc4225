// The bridge of a panel: it asks the page around this frame, which asks the service in the session of
// whoever looks, for the one job that the frame stands for. Nothing else can be reached from here.
const open = new Map();
const hearers = new Set();
const urls = new Map();
let port = null, number = 0;

/** A refusal in the service's own words. */
export class Refusal extends Error {
  constructor({ status, code, message, problem }) {
    super(message);
    Object.assign(this, { status, code, problem });
  }
}

/** The job, its workflow and who looks, as soon as the page around has answered. */
export const ready = new Promise((known) => {
  addEventListener("message", ({ source, data, ports }) => {
    if (source !== parent || data?.jobrunner !== "welcome" || !ports[0]) return;
    port = ports[0];
    port.onmessage = hear;
    dress(data.theme);
    new ResizeObserver(tellHeight).observe(document.body);
    known({ job: data.job, workflow: data.workflow, session: data.session });
  });
});
parent.postMessage({ jobrunner: "hello" }, "*");

/** Calls `heard` with the job, now and whenever it has changed; returns what stops it. */
export function onJob(heard) {
  hearers.add(heard);
  ready.then(({ job }) => { if (hearers.has(heard)) heard(latest || job); });
  return () => hearers.delete(heard);
}

export const history = () => ask("history");
export const files = (cursor) => ask("files", { cursor });
export const artifact = (name, version) => ask("artifact", { name, version });
export const questions = () => ask("questions");
/** The bytes of a file of this job, as a Blob. */
export const file = (id) => ask("file", { id });

/** An address for `src`, good in this frame alone. */
export async function fileUrl(id) {
  if (!urls.has(id)) urls.set(id, file(id).then((blob) => URL.createObjectURL(blob)));
  return urls.get(id);
}

// These act, so somebody must just have pressed something. Each is for the version of the job that
// was told last, or for `version`: one that comes twice is refused, and not done twice.
export const command = (name, fields = {}, version) => ask("command", { name, fields, version });
export const save = (name, value, base_version) => ask("save", { name, value, base_version });
export const answer = (name, value) => ask("answer", { name, value });
export const download = (id) => ask("download", { id });

let latest = null;

async function ask(what, given = {}) {
  await ready;
  return new Promise((told, refused) => {
    number += 1;
    open.set(number, { told, refused });
    port.postMessage({ turn: number, ask: what, given });
  });
}

function hear({ data }) {
  if (data.event === "theme") return dress(data.theme);
  if (data.event === "job") {
    latest = data.job;
    return hearers.forEach((heard) => heard(latest));
  }
  const asked = open.get(data.turn);
  open.delete(data.turn);
  return data.refused ? asked?.refused(new Refusal(data.refused)) : asked?.told(data.told);
}

function tellHeight() {
  port.postMessage({ ask: "height", given: { height: Math.ceil(document.body.getBoundingClientRect().height) } });
}

function dress(theme) {
  document.documentElement.dataset.theme = theme;
}
