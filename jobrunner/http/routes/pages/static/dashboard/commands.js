// What can be done with a job. Every command that its workflow declares is there; one that would be
// refused now says why. What the service decides in the end may be another thing, and is told.
import { html, useState } from "./preact.js";
import { go, to } from "./address.js";
import { acted } from "./bulk.js";
import { post } from "./asking.js";
import { AsJson, Form, plain, tidy } from "./form.js";
import { Act, Dialog } from "./parts.js";
import { Problem } from "./submit.js";
import { Upload } from "./uploads.js";

const GRAVE = /cancel|delete|stop|reject|refund/;
export const WHOSE = { user: "its owner", workflow: "programs with a token of role workflow", admin: "admins" };
const WORDS = {
  pause: "No further attempt begins until it is resumed; one that is under way goes on.",
  resume: "It goes on from where it was paused.",
  rerun: "A new job that does the same work, from any stage on.",
  delete: "The job goes, with its history and its files. Money and audit stay.",
  stop: "The attempt that is under way ends for good, as failed with STOPPED, and the job goes where its workflow leads what fails. \"rerun\" does the work again.",
  release: "It goes on from where it stands. If what it is stuck at still fails, it is stuck again.",
};

export function Commands({ session, job, workflow, onActed }) {
  const [open, show] = useState(null);
  const [fault, fail] = useState(null);
  if (session.role === "reader") return html`<p class="faint">This token reads only.</p>`;
  const all = [...declared(job, workflow, session), ...builtIn(job, session)];
  const act = async (one) => {
    fail(null);
    if (one.schema || GRAVE.test(one.name) || one.name === "rerun") return show(one);
    try {
      onActed(one.admin ? await post(`admin/jobs/${job.id}/${one.name}`) : await acted(job, one.name));
    } catch (refused) {
      fail(refused);
    }
    return undefined;
  };
  return html`<div class="actions">${all.map((one) => html`
      <button disabled=${Boolean(one.why)} title=${one.why || one.words} class=${one.why ? "" : GRAVE.test(one.name) ? "danger" : isWanted(one, job) ? "strong" : ""} onClick=${() => act(one)}>${one.name}</button>`)}
      <a class="button" href=${to(["new"], { like: job.id })}>start like this one</a></div>
    <details class="why"><summary>Why some are grey</summary><dl>${all.filter((one) => one.why).map((one) => html`<dt>${one.name}</dt><dd>${one.why}</dd>`)}</dl></details>
    <${Problem} fault=${fault} />
    ${(workflow?.uploads || []).filter((one) => one.source.includes(job.status)).map((one) => html`
      <${Upload} path=${`jobs/${job.id}/uploads`} named=${one.name} accept=${one.types.filter((type) => type.endsWith("/*")).join(",")}
        words=${`Send ${one.name}`} onSent=${() => onActed()} />`)}
    ${open && (open.name === "rerun"
      ? html`<${Rerun} job=${job} workflow=${workflow} onClose=${() => show(null)} />`
      : html`<${Command} job=${job} one=${open} onActed=${onActed} onClose=${() => show(null)} />`)}`;
}

/** What the job rests for; and what helps one that is stuck. */
const isWanted = (one, job) => (job.stuck ? one.name === "release" : job.needs_person && one.own);

function declared(job, workflow, session) {
  return (workflow?.commands || []).map((command) => {
    const allowed = job.allowed.commands.includes(command.name);
    const forMe = command.roles.includes(session.role) || (session.role === "admin" && job.user_id === session.name);
    const here = command.from.includes(job.status) || command.satisfied.includes(job.status);
    const why = allowed ? "" : !here ? `not in ${job.status}; it is for ${command.from.join(", ")}` : !forMe ? `for ${command.roles.map((role) => (role === "user" ? `${WHOSE.user}, ${job.user_id}` : WHOSE[role] || role)).join(" or ")}` : "not now";
    const schema = command.fields_schema && Object.keys(plain(command.fields_schema, command.fields_schema).properties || {}).length ? command.fields_schema : null;
    return { name: command.name, own: true, why, schema, words: walks(command.path[job.status]) };
  });
}

const walks = (path) => (path?.length ? `leads to ${path.join(", then ")}` : "");

function builtIn(job, session) {
  const over = job.kind === "final" || job.kind === "settled";
  const mine = session.role === "admin" || job.user_id === session.name;
  const found = [
    job.paused ? { name: "resume", why: mine ? "" : "for its owner" } : { name: "pause", why: over ? "the job has ended" : "" },
    { name: "rerun", why: over ? "" : "the job has not ended" },
    { name: "delete", why: over ? "" : "the job has not ended" },
  ];
  if (session.role !== "admin") return worded(found);
  return worded([...found,
    { name: "stop", admin: true, why: job.kind === "active" ? "" : "no attempt is under way" },
    { name: "release", admin: true, why: job.stuck ? "" : "the job is not stuck" }]);
}

const worded = (all) => all.map((one) => ({ ...one, words: WORDS[one.name] }));

function Command({ job, one, onActed, onClose }) {
  const [fields, change] = useState({});
  const [reason, say] = useState("");
  const [fault, fail] = useState(null);
  const act = async () => {
    try {
      const body = { ...tidy(fields), ...(reason ? { reason } : {}) };
      const path = one.admin ? `admin/jobs/${job.id}/${one.name}` : `jobs/${job.id}/${one.name}`;
      onActed(one.name === "delete" ? await acted(job, "delete") : await post(path, body));
      onClose();
      if (one.name === "delete") go(to(["jobs"]));
    } catch (refused) {
      fail(refused);
    }
  };
  return html`<${Dialog} title=${one.name} onClose=${onClose}>
    ${one.words && html`<p>${one.words}</p>`}
    ${one.schema && html`<${Form} schema=${one.schema} value=${fields} onChange=${change} />`}
    ${one.name !== "delete" && html`<div class="entry"><label for="reason">Reason</label><input id="reason" maxlength="2000" value=${reason} onInput=${(event) => say(event.target.value)} /></div>`}
    <${Problem} fault=${fault} />
    <div class="actions"><${Act} kind=${GRAVE.test(one.name) ? "danger" : "strong"} onAct=${act}>${one.name}<//><button onClick=${onClose}>Leave it</button></div>
  <//>`;
}

/** A new job from this one: from which stage on, and with which parameters in the place of its own. */
function Rerun({ job, workflow, onClose }) {
  const [place, choose] = useState("");
  const [params, change] = useState(job.params || {});
  const [fault, fail] = useState(null);
  const places = (workflow?.states || []).filter((state) => state.kind === "active");
  const schema = workflow?.job_types[job.job_type]?.params_schema;
  const act = async () => {
    try {
      const news = Object.fromEntries(Object.entries(tidy(params)).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(job.params?.[name])));
      const made = await post(`jobs/${job.id}/rerun`, { ...(place ? { from: place } : {}), params: news });
      onClose();
      go(to(["jobs", made.id]));
    } catch (refused) {
      fail(refused);
    }
  };
  return html`<${Dialog} title="Do it again" wide onClose=${onClose}>
    <p class="faint">A new job. It brings along what the stages before the chosen one made.</p>
    <div class="entry"><label for="from">Begin again from</label><select id="from" onChange=${(event) => choose(event.target.value)}>
      <option value="">the first stage of all</option>${places.map((state) => html`<option value=${state.name}>${state.name}</option>`)}</select></div>
    <h3>Parameters</h3>
    ${schema ? html`<${Form} schema=${schema} value=${params} onChange=${change} />` : html`<${AsJson} value=${params} onChange=${(news) => change(news || {})} />`}
    <${Problem} fault=${fault} />
    <div class="actions"><${Act} kind="strong" onAct=${act}>Do it again<//><button onClick=${onClose}>Leave it</button></div>
  <//>`;
}
