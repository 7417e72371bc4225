// The workflows that are loaded: their pictures with how many jobs stand where, what they ask for and
// what they cost; and those that were refused, with the reasons.
import { html, useEffect, useRef, useState } from "./preact.js";
import { go, to } from "./address.js";
import { get, post, useAsked } from "./asking.js";
import { WHOSE } from "./commands.js";
import { Diagram } from "./diagram.js";
import { useLive } from "./live.js";
import { Act, Fault } from "./parts.js";
import { duration, many } from "./words.js";

export function Workflows({ session, address }) {
  const name = address.path[1];
  return name ? html`<${Workflow} key=${name} name=${name} session=${session} />` : html`<${All} />`;
}

const AGAIN_MS = 2000;

/** How many jobs stand where, as they move. */
function useCounts() {
  const { told, again } = useAsked(() => get("overview"), []);
  const [counts, count] = useState([]);
  const due = useRef(0);
  const soon = () => { due.current ||= setTimeout(() => { due.current = 0; again(); }, AGAIN_MS); };
  useEffect(() => () => clearTimeout(due.current), []);
  useEffect(() => { if (told) count(told.counts); }, [told]);
  useLive("overview/events", { changes: (news) => { if (news.counts) count(news.counts); }, missed: soon }, soon);
  return counts;
}

function All() {
  const { told, fault } = useAsked(() => get("workflows"), []);
  const counts = useCounts();
  const jobs = (name) => counts.filter((one) => one.workflow === name).reduce((all, one) => all + one.jobs, 0);
  return html`<h1>Workflows</h1><${Fault} fault=${fault} />
    ${told && html`<div class="cards">${told.workflows.map((one) => html`
      <section class="card"><h2><a href=${to(["workflows", one.name])}>${one.name}</a> <small class="faint">version ${one.version}</small></h2>
        <p>${one.job_types.map((type) => html`<span class="label">${type}</span> `)}</p><p class="faint">${many(jobs(one.name), "job")}</p></section>`)}
      ${told.refused.map((one) => html`<section class="card bad"><h2>${one.name} <span class="badge bad">refused</span></h2>
        <ul>${one.faults.map((text) => html`<li>${text}</li>`)}</ul></section>`)}</div>`}`;
}

function Workflow({ name, session }) {
  const { told, fault } = useAsked(() => get(`workflows/${name}`), [name]);
  const counts = useCounts();
  const { told: pauses, again } = useAsked(() => (session.role === "user" ? Promise.resolve(null) : get("admin/pauses")), []);
  if (!told) return html`<h1>${name}</h1><${Fault} fault=${fault} />`;
  const here = Object.fromEntries(counts.filter((one) => one.workflow === name).map((one) => [one.status, one.jobs]));
  const paused = pauses?.pauses.find((one) => one.scope === "workflow" && one.name === name);
  return html`<div class="title"><h1>${name} <small class="faint">version ${told.version}</small></h1>
      ${session.role !== "reader" && html`<a class="button strong" href=${to(["new"], { workflow: name })}>New job</a>`}
      <a class="button" href=${to(["jobs"], { workflow: name })}>Its jobs</a>
      ${session.role === "admin" && html`<${Act} onAct=${() => post(`admin/workflows/${name}/${paused ? "resume" : "pause"}`).then(again)}>${paused ? "Resume" : "Pause"}<//>`}</div>
    ${paused && html`<div class="notice wait">Paused by ${paused.by}${paused.reason ? `: ${paused.reason}` : ""}. No attempt of its jobs starts.</div>`}
    <div class="two"><section class="card"><h2>States</h2>
        <${Diagram} workflow=${told} counts=${here} onState=${(status) => go(to(["jobs"], { workflow: name, status }))} /></section>
      <div><section class="card"><h2>Stages</h2><div class="wide" tabindex="0"><table><thead><tr><th>State</th><th>Stage</th><th>Tries</th><th>Limit</th><th>Deadline</th></tr></thead><tbody>
          ${told.states.filter((state) => state.stage).map((state) => html`<tr><td>${state.name}</td><td>${stage(state.stage)}</td><td>${state.retry_max ?? ""}</td>
            <td>${state.limit_s ? duration(state.limit_s * 1000) : ""}</td><td>${state.deadline_s ? duration(state.deadline_s * 1000) : ""}</td></tr>`)}</tbody></table></div></section>
        <section class="card"><h2>Types</h2><dl class="facts">${Object.entries(told.job_types).map(([type, about]) => html`<dt>${type}</dt><dd>${about.price ? many(about.price, "credit") : "free"}</dd>`)}</dl></section>
        <section class="card"><h2>Commands</h2><dl class="facts">${told.commands.map((one) => html`<dt>${one.name}</dt><dd>from ${one.from.join(", ")} <span class="faint">for ${one.roles.map((role) => WHOSE[role] || role).join(", ")}</span></dd>`)}</dl>
          ${!told.commands.length && html`<p class="faint">None of its own.</p>`}</section></div></div>
    <${Proof} key=${told.digest} name=${name} />`;
}

/** What the checker made sure of, by what it would have to show without one edge or another. */
function Proof({ name }) {
  const { told, fault } = useAsked(() => get(`workflows/${name}/proof`), [name]);
  return html`<section class="card"><h2>Proved</h2><${Fault} fault=${fault} />
    <p>It was loaded, so the checker found nothing: every job ends, all money is settled and every lock let go, whatever happens.
      ${told?.excluded.length > 0 && html` These are counter-examples that there would be without one edge each.`}</p>
    ${told && told.excluded.map((one) => html`<details><summary>without ${one.from} → ${one.to} <span class="faint">${one.rule}</span></summary>
      <p>${one.text}</p><ol>${one.trace.map((step) => html`<li><code>${step}</code></li>`)}</ol></details>`)}</section>`;
}

const stage = (bound) => (typeof bound === "string" ? bound : Object.entries(bound).map(([type, name]) => html`<div>${type}: ${name}</div>`));
