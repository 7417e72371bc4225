// One command for many jobs: what it would do is shown first. An admin's order is the service's to
// carry out, through crashes and restarts; a user's is given job by job, here.
import { html, useEffect, useState } from "./preact.js";
import { ask, get, post } from "./asking.js";
import { asFilter } from "./filters.js";
import { Act, Dialog, Fault } from "./parts.js";
import { many, shortly } from "./words.js";

const ALWAYS = ["pause", "resume", "rerun", "delete"];
const ADMINS = [...ALWAYS, "release", "stop"];
const LOOK_MS = 700;

export function Bulk({ session, jobs, chosen, question, onDone, onNone }) {
  const [order, change] = useState(null);
  if (!chosen.size && !order) return null;
  const isAdmin = session.role === "admin";
  const some = jobs.filter((job) => chosen.has(job.id));
  const own = [...new Set(some.flatMap((job) => job.allowed?.commands || []))];
  const commands = [...new Set([...own, ...(isAdmin ? ADMINS : ALWAYS)])].sort();
  const filter = isAdmin ? asFilter(question) : null;
  const everything = filter && Object.keys(filter).length > 0 && some.length === jobs.length;
  return html`<div class="bulk" role="region" aria-label="What to do with the selected jobs">
      <strong>${chosen.size} selected</strong>
      ${commands.map((name) => html`<button class=${name === "delete" ? "danger" : ""} onClick=${() => change({ command: name })}>${name}</button>`)}
      ${everything && html`<span class="faint">or for all that fit the filter:</span>
        <select aria-label="For all that fit the filter" onChange=${(event) => event.target.value && change({ command: event.target.value, filter })}>
          <option value="">choose…</option>${commands.map((name) => html`<option value=${name}>${name} all</option>`)}</select>`}
      <button class="plain" onClick=${onNone}>Select nothing</button></div>
    ${order && (isAdmin
      ? html`<${Ordered} order=${{ ...order, ids: order.filter ? undefined : [...chosen] }} onClose=${(done) => { change(null); if (done) onDone(); }} />`
      : html`<${OneByOne} command=${order.command} jobs=${some} onClose=${(done) => { change(null); if (done) onDone(); }} />`)}`;
}

/** The service says what it would do, and then does it. */
function Ordered({ order, onClose }) {
  const [foreseen, see] = useState(null);
  const [fault, fail] = useState(null);
  const [bulk, follow] = useState(null);
  const [reason, say] = useState("");
  useEffect(() => { post("admin/bulk", { ...order, dry_run: true }).then(see, fail); }, []);
  useEffect(() => {
    if (!bulk || ["done", "aborted"].includes(bulk.status)) return undefined;
    const later = setTimeout(() => get(`admin/bulk/${bulk.id}`).then(follow, fail), LOOK_MS);
    return () => clearTimeout(later);
  }, [bulk]);
  const act = async () => follow(await post("admin/bulk", { ...order, ...(reason ? { reason } : {}) }));
  return html`<${Dialog} title=${`${order.command}: ${foreseen ? many(foreseen.total, "job") : "…"}`} wide onClose=${() => onClose(Boolean(bulk))}>
    <${Fault} fault=${fault} />
    ${bulk ? html`<${Progress} bulk=${bulk} />
      <div class="actions"><button onClick=${() => onClose(true)}>Close</button></div>` : !foreseen ? !fault && html`<p class="faint">Looking at what it would do…</p>` : html`
      <${Foreseen} foreseen=${foreseen} />
      <label class="field"><span>Reason</span><input value=${reason} maxlength="2000" onInput=${(event) => say(event.target.value)} /></label>
      <div class="actions">
        <${Act} kind=${order.command === "delete" ? "danger" : "strong"} onAct=${act} disabled=${!foreseen.total}>${order.command} ${many(foreseen.total, "job")}<//>
        <button onClick=${() => onClose(false)}>Leave it</button></div>`}
  <//>`;
}

function Foreseen({ foreseen }) {
  const words = { done: "will be done", satisfied: "have it already" };
  return html`<ul class="outcomes">${Object.entries(foreseen.outcomes).map(([name, jobs]) => html`
      <li><strong>${jobs}</strong> ${words[name] || html`will be refused: <code>${name}</code>`}</li>`)}</ul>
    ${foreseen.examined < foreseen.total && html`<p class="faint">Looked at the first ${foreseen.examined} of ${foreseen.total}.</p>`}
    <div class="wide short" tabindex="0"><table><thead><tr><th>Job</th><th>Is</th><th>Will be</th></tr></thead><tbody>${foreseen.jobs.map((job) => html`
      <tr><td class="mono" title=${job.job_id}>${shortly(job.job_id)}</td><td>${job.status}</td>
        <td>${job.to || words[job.outcome] || html`<span class="bad-text">${job.outcome}</span>`} <span class="faint">${job.detail || ""}</span></td></tr>`)}</tbody></table></div>`;
}

function Progress({ bulk }) {
  const over = bulk.total - bulk.left;
  return html`<p>${bulk.status === "done" ? "Done" : "Under way"}: ${bulk.done} done, ${bulk.satisfied} had it already, ${bulk.failed} refused.</p>
    <progress max=${bulk.total || 1} value=${over} aria-label="Progress">${over}</progress>
    ${bulk.failures.length > 0 && html`<ul>${bulk.failures.map((one) => html`<li><span class="mono">${shortly(one.job_id)}</span> <code>${one.error_code}</code> ${one.detail}</li>`)}</ul>`}`;
}

function OneByOne({ command, jobs, onClose }) {
  const [said, change] = useState([]);
  const [busy, work] = useState(false);
  const fit = jobs.filter((job) => ALWAYS.includes(command) || job.allowed?.commands.includes(command));
  const act = async () => {
    work(true);
    for (const job of fit) {
      const answer = await acted(job, command).then(() => "done", (fault) => fault.message);
      change((was) => [...was, [job.id, answer]]);
    }
  };
  return html`<${Dialog} title=${`${command}: ${many(fit.length, "job")}`} onClose=${() => onClose(said.length > 0)}>
    <p>${fit.length} of ${jobs.length} selected ${jobs.length === 1 ? "job takes" : "jobs take"} this now.</p>
    ${said.length > 0 && html`<ul>${said.map(([id, words]) => html`<li><span class="mono">${shortly(id)}</span> ${words}</li>`)}</ul>`}
    <div class="actions">${busy
      ? html`<button disabled=${said.length < fit.length} onClick=${() => onClose(true)}>Close</button>`
      : html`<button class="strong" disabled=${!fit.length} onClick=${act}>${command} ${many(fit.length, "job")}</button><button onClick=${() => onClose(false)}>Leave it</button>`}</div>
  <//>`;
}

export function acted(job, command, fields = {}) {
  return command === "delete" ? ask("DELETE", `jobs/${job.id}`) : post(`jobs/${job.id}/${command}`, fields);
}
