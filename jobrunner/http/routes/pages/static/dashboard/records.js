// What the service holds: declarations in use, bulks of the past, and backups with their drills.
import { html, useState } from "./preact.js";
import { to } from "./address.js";
import { ask, get, post, useAsked } from "./asking.js";
import { Paged } from "./paged.js";
import { Act, Dialog, Fault, Time } from "./parts.js";
import { count, duration, many, shortly, size } from "./words.js";

export function Declarations() {
  const { told, fault } = useAsked(() => get("admin/declarations"), []);
  if (!told) return html`<${Fault} fault=${fault} />`;
  return html`<p class="faint">Each job stays under the declaration that it was born under until it is moved. Counted are jobs that have not ended.</p>
    <div class="wide" tabindex="0"><table><thead><tr><th>Workflow</th><th>Declaration</th><th>Jobs</th><th>Where</th><th>Lacks</th></tr></thead><tbody>
    ${told.declarations.map((one) => html`<tr><td><a href=${to(["workflows", one.workflow])}>${one.workflow}</a></td><td>version ${one.version} <code class="faint" title=${one.digest}>${one.digest.slice(0, 12)}</code> ${one.today && html`<span class="badge good">today's</span>`}</td>
      <td>${count(one.jobs)}</td><td>${one.places.map((place) => html`<div>${place.status} <span class="faint">${place.job_type}</span> ${count(place.jobs)}</div>`)}</td>
      <td class="what bad-text">${one.lacks.join("; ")}</td></tr>`)}</tbody></table></div>
    <${Paged} path="admin/upgrades" of="upgrades" title="Orders to move jobs to today's declaration" heads=${["Workflow", "To", "State", "Moved", "Stay", "By", "When"]}
      row=${(one) => html`<td>${one.workflow}</td><td>version ${one.version} <code class="faint" title=${one.digest}>${one.digest.slice(0, 12)}</code></td>
        <td><${Standing} of=${one} />${one.dry_run ? html` <span class="faint">only tried</span>` : ""}</td><td>${count(one.moved)}</td>
        <td class="what">${count(one.stay)}${one.stays.map((stay) => html`<div class="faint">${count(stay.jobs)}: ${stay.why}</div>`)}</td><td>${one.by} <span class="faint">${one.reason || ""}</span></td><td><${Time} at=${one.created_at} /></td>`} />`;
}

const Standing = ({ of }) => html`<span class=${`badge ${{ done: "good", aborted: "bad" }[of.status] || "busy"}`}>${of.status}</span>`;

/** Orders to move files; nothing where there never was one. */
export function FileMoves() {
  return html`<${Paged} path="admin/file-moves" of="file_moves" title="Files, moved between disk and store" heads=${["To", "State", "Moved", "Skipped", "By", "When"]}
    row=${(one) => html`<td>${one.to}</td><td><${Standing} of=${one} /></td><td>${many(one.moved, "file")}, ${size(one.bytes)}</td>
      <td class=${one.skipped ? "bad-text" : ""} title=${one.skipped ? "They are not where their rows say, or not what they say: the log names them" : ""}>${count(one.skipped)}</td><td>${one.by}</td><td><${Time} at=${one.created_at} /></td>`} />`;
}

export function Bulks({ acts }) {
  const [round, again] = useState(0);
  return html`<p class="faint">Orders for many jobs, of the last 30 days.</p>
    <${Paged} key=${round} path="admin/bulk" of="bulks" heads=${["Bulk", "Command", "State", "Jobs", "By", "When", ""]} none="Nothing was ordered for many jobs."
      row=${(one) => html`<td class="mono" title=${one.id}>${shortly(one.id)}</td><td>${one.command} <span class="faint">${one.reason || ""}</span></td><td><${Standing} of=${one} /></td>
        <td>${count(one.done)} done of ${count(one.total)}${one.failed ? html`, <span class="bad-text">${count(one.failed)} refused</span>` : ""}</td><td>${one.by}</td><td><${Time} at=${one.created_at} /></td>
        <td>${acts && one.status === "running" && html`<${Act} kind="small danger" onAct=${() => ask("DELETE", `admin/bulk/${one.id}`).then(() => again(round + 1))}>stop<//>`}
          ${one.failed > 0 && html`<${Refused} id=${one.id} />`}</td>`} />`;
}

function Refused({ id }) {
  const [told, see] = useState(null);
  return html`<${Act} kind="small" onAct=${() => get(`admin/bulk/${id}`).then(see)}>why<//>
    ${told && html`<${Dialog} title="Refused" onClose=${() => see(null)}><ul>${told.failures.map((one) => html`<li><a class="mono" href=${to(["jobs", one.job_id])}>${shortly(one.job_id)}</a> <code>${one.error_code}</code> ${one.detail}</li>`)}</ul><//>`}`;
}

/** The backups that there are, each of which can be read from end to end. */
export function Drills({ acts, round }) {
  const { told, fault, again } = useAsked(() => get("admin/db/backups"), [round]);
  if (!told) return html`<${Fault} fault=${fault} />`;
  if (!told.backups.length) return html`<p class="faint">None lies in the folder of <code>[backup]</code>.</p>`;
  return html`<div class="wide short" tabindex="0"><table><thead><tr><th>As of</th><th>Holds</th><th>Drill</th><th></th></tr></thead><tbody>
    ${told.backups.map((one) => html`<tr><td><${Time} at=${one.as_of} /></td><td>${one.fault ? html`<span class="bad-text">${one.fault}</span>` : html`${many(one.jobs, "job")}, ${many(one.files, "file")}, ${size(one.bytes)}`}</td>
      <td>${one.drill && (one.drill.faults.length ? html`<ul class="bad-text">${one.drill.faults.map((text) => html`<li>${text}</li>`)}</ul>`
        : html`<span class="badge good">can be put back</span> <${Time} at=${one.drill.ended_at} /> <span class="faint">read in ${duration(Date.parse(one.drill.ended_at) - Date.parse(one.drill.began_at))}</span>`)}${one.drill && one.drill.far_seen && html`<div class="faint">${farSeen(one.drill.far_seen)}</div>`}</td>
      <td>${acts && html`<${Act} kind="small" title="Read it from end to end: digests, the database, and that nothing is missing" onAct=${() => post(`admin/db/backups/${one.name}/verify`).finally(again)}>drill<//>`}</td></tr>`)}</tbody></table></div>`;
}

const farSeen = (told) => (told === "listed" ? "Its files in the store of objects were looked for there; their content is read by jobrunner db verify --contents." : `Its files in the store of objects were not looked for: ${told.replace(/^no: /, "")}`);
