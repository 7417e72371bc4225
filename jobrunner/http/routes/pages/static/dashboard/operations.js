// What an operator looks after: endpoints that fail, work that was given up, who did what, tokens, and
// the stored file with its backups.
import { html, useEffect, useState } from "./preact.js";
import { become, to } from "./address.js";
import { ask, get, post, useAsked } from "./asking.js";
import { Limits } from "./limits.js";
import { Notifications } from "./notifications.js";
import { Act, Copy, Dialog, Fault, Time, inView } from "./parts.js";
import { Problem } from "./submit.js";
import { Paged } from "./paged.js";
import { Bulks, Declarations, Drills, FileMoves } from "./records.js";
import { count, many, shortly, size } from "./words.js";

const TABS = {
  dead: ["Dead letters", DeadLetters], endpoints: ["Endpoints", Endpoints], deliveries: ["Notifications", Deliveries],
  limits: ["Limits and rates", Limits], declarations: ["Declarations", Declarations], bulks: ["Bulk", Bulks],
  tokens: ["Tokens", Tokens], audit: ["Audit", Audit], file: ["File and backups", Stored],
};
const LOOK_MS = 1500;

export function Operations({ session, address }) {
  const tab = address.query.get("tab") in TABS ? address.query.get("tab") : "dead";
  const View = TABS[tab][1];
  useEffect(() => inView(".tabs"), [tab]);
  return html`<h1>Operations</h1>
    <div class="tabs" role="tablist">${Object.entries(TABS).map(([name, [words]]) => html`
      <button role="tab" id=${`tab-${name}`} aria-controls="told" aria-selected=${tab === name ? "true" : "false"} onClick=${() => become(to(["operations"], { tab: name }))}>${words}</button>`)}</div>
    <section class="card" id="told" role="tabpanel" aria-labelledby=${`tab-${tab}`}><${View} key=${tab} session=${session} acts=${session.role === "admin"} /></section>`;
}

function DeadLetters() {
  return html`<p class="faint">Work that was given up. A dead letter stays when its job goes.</p>
    <${Paged} path="admin/dead-letters" of="dead_letters" heads=${["Job", "Workflow", "User", "Why", "When"]} none="Nothing was given up."
      row=${(one) => html`<td><a class="mono" href=${to(["jobs", one.job_id])} title=${one.job_id}>${shortly(one.job_id)}</a></td><td>${one.workflow} <span class="faint">${one.failed_stage}</span></td>
        <td>${one.user_id}</td><td class="what"><code>${one.failure_code}</code> ${one.failure_message} <span class="faint">${one.reason}</span></td><td><${Time} at=${one.at} /></td>`} />`;
}

function Endpoints({ acts }) {
  const [round, again] = useState(0);
  return html`<p class="faint">Where notifications go: those that fail or were disabled stand out.</p>
    <${Paged} key=${round} path="admin/endpoints" query=${{ all: true }} of="endpoints" heads=${["Owner", "Address", "State", "Waiting", ""]} none="Nobody is told anything."
      row=${(one) => html`<td>${one.owner}</td><td class="what">${one.url}</td>
        <td class="what">${one.disabled_at ? html`<span class="badge bad">disabled</span> <${Time} at=${one.disabled_at} />` : one.failing_since ? html`<span class="badge rest">fails</span> since <${Time} at=${one.failing_since} />, ${many(one.failures, "time")}` : html`<span class="badge good">well</span>`}
          ${one.last_error && html`<div class="bad-text">${one.last_error}</div>`}</td><td>${one.due}</td>
        <td>${acts && one.disabled_at && html`<${Act} kind="small" onAct=${() => post(`admin/endpoints/${one.id}/enable`).then(() => again(round + 1))}>enable<//>`}</td>`} />`;
}

function Deliveries({ session }) {
  return html`<${Notifications} path="admin/deliveries" session=${session} />`;
}

function Audit() {
  return html`<p class="faint">Who did what. None of these records ever changes.</p>
    <${Paged} path="admin/audit" of="audit" heads=${["When", "Who", "What", "Job", "More"]} none="Nobody did anything."
      row=${(one) => html`<td><${Time} at=${one.at} /></td><td>${one.actor}</td><td><code>${one.event}</code></td>
        <td>${one.job_id && html`<a class="mono" href=${to(["jobs", one.job_id])}>${shortly(one.job_id)}</a>`}</td>
        <td class="what"><code class="faint">${Object.entries(one.fields).filter(([, value]) => value !== null && value !== "").map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join("  ")}</code></td>`} />`;
}

function Tokens({ acts }) {
  const { told, fault, again } = useAsked(() => get("admin/tokens"), []);
  const [made, show] = useState(null);
  const [makes, make] = useState(false);
  const [ended, end] = useState(null);
  if (!told) return html`<${Fault} fault=${fault} />`;
  const good = (one) => !one.revoked_at && !(one.expires_at && Date.parse(one.expires_at) < Date.now());
  return html`${acts && html`<div class="actions"><button onClick=${() => make(true)}>New token</button></div>`}
    <div class="wide" tabindex="0"><table><thead><tr><th>Name</th><th>Role</th><th>State</th><th>Made</th><th>Ends</th><th></th></tr></thead><tbody>
      ${told.tokens.map((one) => html`<tr class=${good(one) ? "" : "pale"}><td>${one.name} <small class="faint mono" title=${one.id}>${shortly(one.id)}</small></td>
        <td>${one.role}${one.workflows.length ? html` <span class="faint">${one.workflows.join(", ")}</span>` : ""}</td>
        <td>${one.revoked_at ? html`<span class="badge">revoked</span>` : good(one) ? html`<span class="badge good">good</span>` : html`<span class="badge">over</span>`}</td>
        <td><${Time} at=${one.created_at} /></td><td><${Time} at=${one.expires_at} /></td>
        <td>${acts && good(one) && html`<${Act} kind="small" onAct=${() => post(`admin/tokens/${one.id}/rotate`).then((token) => { show(token); again(); })} title="A new one in its place; this one is good for a day more">rotate<//>
          <button class="small danger" onClick=${() => end(one)}>revoke</button>`}</td></tr>`)}</tbody></table></div>
    ${makes && html`<${NewToken} onClose=${(token) => { make(false); if (token) { show(token); again(); } }} />`}
    ${ended && html`<${Dialog} title=${`Revoke a token of ${ended.name}`} onClose=${() => end(null)}>
      <p>Whoever sends it is refused from now on; its sessions end. It cannot be taken back.</p>
      <div class="actions"><${Act} kind="danger" onAct=${() => ask("DELETE", `admin/tokens/${ended.id}`).then(() => { end(null); again(); })}>Revoke it<//>
        <button onClick=${() => end(null)}>Leave it</button></div><//>`}
    ${made && html`<${Dialog} title=${`A token for ${made.name}`} onClose=${() => show(null)}>
      <p>It is shown this once.</p><p><code class="secret">${made.token}</code><${Copy} text=${made.token} what="the token" /></p><//>`}`;
}

function NewToken({ onClose }) {
  const [order, change] = useState({ name: "", role: "user", days: "" });
  const [fault, fail] = useState(null);
  const act = () => post("admin/tokens", { name: order.name, role: order.role, ...(order.days ? { expires_in: order.days * 86400 } : {}) }).then(onClose, fail);
  const say = (name) => ({ target }) => change((was) => ({ ...was, [name]: target.value }));
  return html`<${Dialog} title="New token" onClose=${() => onClose()}>
    <div class="form"><div class="entry"><label for="name">Name</label><input id="name" maxlength="64" value=${order.name} onInput=${say("name")} /><small class="faint">It is the id of its user, too.</small></div>
      <div class="entry"><label for="role">Role</label><select id="role" onChange=${say("role")}>${["user", "workflow", "admin", "reader"].map((role) => html`<option value=${role} selected=${role === order.role}>${role}</option>`)}</select></div>
      <div class="entry"><label for="days">Good for so many days</label><input id="days" type="number" min="1" max="3660" placeholder="for good" value=${order.days} onInput=${say("days")} /></div></div>
    <${Problem} fault=${fault} /><div class="actions"><${Act} kind="strong" onAct=${act}>Make it<//><button onClick=${() => onClose()}>Leave it</button></div><//>`;
}

function Stored({ acts }) {
  const { told, fault, again } = useAsked(() => get("admin/db"), []);
  const [backup, follow] = useState(null);
  const [checked, tell] = useState(null);
  const look = () => get("admin/db/backup").then(follow, () => {});
  useEffect(() => { look(); }, []);
  useEffect(() => {
    if (backup?.state !== "running") return undefined;
    const later = setTimeout(look, LOOK_MS);
    return () => clearTimeout(later);
  }, [backup]);
  if (!told) return html`<${Fault} fault=${fault} />`;
  const most = Math.max(1, ...told.tables.map((one) => one.bytes));
  return html`<div class="two"><div class="stack"><h2>Backups</h2>
      ${backup && backup.state !== "idle" && html`<p><span class=${`badge ${{ done: "good", failed: "bad", running: "busy" }[backup.state]}`}>${backup.state}</span> ${backup.name} ${backup.ended_at && html`<${Time} at=${backup.ended_at} />`}
        <div class="faint">${count(backup.jobs)} jobs, ${count(backup.files)} files, ${size(backup.bytes)} of which ${size(backup.new_bytes)} were new</div>
        ${backup.detail && html`<div class="bad-text">${backup.detail}</div>`}</p>`}
      <p class="faint">The last one that is whole: <${Time} at=${told.last_backup_at} />. <code>jobrunner db restore</code> puts one back.</p>
      <${Drills} acts=${acts} round=${backup?.state === "running" ? "" : backup?.name} />
      ${acts && html`<div class="actions"><${Act} onAct=${() => post("admin/db/backup").then((made) => { follow(made); again(); })}>Make one now<//></div>`}
      <h2>The file</h2><dl class="facts"><dt>Path</dt><dd><code>${told.path}</code></dd><dt>Size</dt><dd>${size(told.file_bytes)}</dd><dt>Unused</dt><dd>${size(told.free_pages * told.page_bytes)}</dd>
        <dt>Its log</dt><dd>${size(told.wal_bytes)} of ${size(told.wal_max_bytes)}</dd><dt>Jobs</dt><dd>${count(told.jobs)}</dd><dt>A flush takes</dt><dd>${told.flush_ms} ms</dd><dt>Schema</dt><dd>${told.schema}, SQLite ${told.sqlite_version}</dd></dl>
      ${acts && html`<div class="actions"><${Act} onAct=${() => post("admin/db/check").then(tell)}>Examine it<//></div>`}
      ${checked && html`<p>${checked.ok ? html`<span class="badge good">whole</span>` : html`<ul class="bad-text">${checked.faults.map((text) => html`<li>${text}</li>`)}</ul>`}</p>`}</div>
    <div class="stack"><h2>What takes the room</h2><dl class="bars">${told.tables.slice(0, 14).map((one) => html`<dt>${one.name}</dt>
      <dd><progress max=${most} value=${one.bytes} aria-label=${one.name} /> ${size(one.bytes)}</dd>`)}</dl></div></div>
    <${FileMoves} />`;
}
