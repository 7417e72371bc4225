// Batches: how far each is, what was refused of it, and close, cancel and rerun.
import { html, useState } from "./preact.js";
import { go, to } from "./address.js";
import { ask, get, post, useAsked } from "./asking.js";
import { Paged } from "./paged.js";
import { Act, Copy, Fault, Time } from "./parts.js";
import { count, many, shortly } from "./words.js";

const STATES = { open: "rest", running: "busy", ended: "quiet" };

export function Batches({ session, address }) {
  const id = address.path[1];
  return id ? html`<${One} key=${id} id=${id} session=${session} />` : html`<${All} sees=${session.role !== "user"} />`;
}

function All({ sees }) {
  return html`<h1>Batches</h1><section class="card"><${Paged} path="batches" of="batches" heads=${["Batch", "State", "Go on", ...(sees ? ["User"] : []), "Made", "Ended"]} none="None yet. A batch is made with POST /batches or jobrunner batch submit."
    row=${(one) => html`<td><a class="mono" href=${to(["batches", one.id])} title=${one.id}>${shortly(one.id)}</a> <span class="faint">${one.key || ""}</span></td><td><span class=${`badge ${STATES[one.status]}`}>${one.status}</span></td>
      <td>${count(one.left)}</td>${sees && html`<td>${one.user_id}</td>`}<td><${Time} at=${one.created_at} /></td><td><${Time} at=${one.ended_at} /></td>`} /></section>`;
}

function One({ id, session }) {
  const { told, fault, again } = useAsked(() => get(`batches/${id}`), [id]);
  const [wrong, fail] = useState(null);
  if (!told) return html`<h1>Batch</h1><${Fault} fault=${fault} />`;
  const acts = session.role !== "reader";
  const all = told.well + told.ill + told.left;
  const act = (verb) => post(`batches/${id}/${verb}`).then(again);
  const drop = () => ask("DELETE", `batches/${id}`).then(() => go(to(["batches"])), fail);
  return html`<div class="title"><h1>Batch <span class="mono" title=${id}>${shortly(id)}</span><${Copy} text=${id} what="the id" /></h1><span class=${`badge ${STATES[told.status]}`}>${told.status}</span></div>
    ${acts && html`<div class="actions">${told.status === "open" && html`<${Act} title="It takes no more jobs" onAct=${() => act("close")}>close<//>`}
      ${told.status !== "ended" && html`<${Act} kind="danger" title="Close it, and cancel its jobs that go on" onAct=${() => act("cancel")}>cancel<//>`}
      ${told.ill > 0 && html`<${Act} title="A new batch of those that did not end well" onAct=${() => post(`batches/${id}/rerun`).then((made) => go(to(["batches", made.id])))}>rerun ${many(told.ill, "job")}<//>`}
      ${told.status === "ended" && html`<${Act} kind="danger" title="Its jobs stay" onAct=${drop}>delete<//>`}
      <a class="button" href=${to(["jobs"], { batch: id })}>its jobs</a></div>`}
    <${Fault} fault=${wrong} />
    <p><progress max=${all || 1} value=${told.well + told.ill} aria-label="Progress">${told.well + told.ill}</progress> ${count(told.well)} well, ${count(told.ill)} not, ${count(told.left)} go on${told.deleted ? `, ${count(told.deleted)} deleted` : ""}.</p>
    <div class="two"><section class="card"><h2>Jobs by state</h2><dl class="facts">${Object.entries(told.counts).map(([status, jobs]) => html`<dt>${status}</dt><dd><a href=${to(["jobs"], { batch: id, status })}>${count(jobs)}</a></dd>`)}</dl></section>
      <section class="card"><h2>Facts</h2><dl class="facts"><dt>Owner</dt><dd>${told.user_id}</dd><dt>Made</dt><dd><${Time} at=${told.created_at} /></dd><dt>Ended</dt><dd><${Time} at=${told.ended_at} /></dd>
        ${told.key && html`<dt>Key</dt><dd><code>${told.key}</code></dd>`}${told.notify_url && html`<dt>Tells</dt><dd>${told.notify_url}</dd>`}
        ${told.rerun_of && html`<dt>Done again from</dt><dd><a class="mono" href=${to(["batches", told.rerun_of])}>${shortly(told.rerun_of)}</a></dd>`}</dl></section></div>
    ${told.refused > 0 && html`<section class="card"><h2>${many(told.refused, "submission")} refused</h2><div class="wide" tabindex="0"><table><thead><tr><th>Key</th><th>Why</th></tr></thead><tbody>
      ${told.refusals.map((one) => html`<tr><td>${one.key}</td><td class="what"><code>${one.error_code}</code> ${one.detail}</td></tr>`)}</tbody></table></div></section>`}`;
}
