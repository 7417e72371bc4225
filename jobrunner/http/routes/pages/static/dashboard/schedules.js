// Jobs on a timetable: when each fires next, what came of its moments, and pause, resume, trigger and
// backfill, the last with a look at what it would do.
import { html, useState } from "./preact.js";
import { to } from "./address.js";
import { get, post, useAsked } from "./asking.js";
import { Paged } from "./paged.js";
import { Act, Dialog, Empty, Fault, Json, Time } from "./parts.js";
import { Problem } from "./submit.js";
import { duration, many, shortly } from "./words.js";

const NEXT = 3;
const SHOWN_MAX = 50;
const STATES = { active: "good", paused: "rest", waits: "wait", faulty: "bad" };
const OUTCOMES = { fired: "good", same: "quiet", refused: "bad", skipped: "rest", missed: "wait" };

export function Schedules({ session, address }) {
  const name = address.path[1];
  const acts = session.role === "admin";
  return name ? html`<${One} key=${name} name=${name} acts=${acts} />` : html`<${All} />`;
}

function All() {
  const { told, fault } = useAsked(() => get("admin/schedules", { next: NEXT }), []);
  return html`<h1>Schedules</h1><${Fault} fault=${fault} />
    ${told && !told.schedules.length && html`<${Empty}>There are none. <code>jobrunner schedule add</code> makes one, and so does <code>[schedules]</code> in the settings.<//>`}
    ${told?.schedules.length > 0 && html`<div class="wide" tabindex="0"><table><thead><tr><th>Name</th><th>State</th><th>When</th><th>Makes</th><th>Next</th><th>Last job</th></tr></thead><tbody>
      ${told.schedules.map((one) => html`<tr><td><a href=${to(["schedules", one.name])}>${one.name}</a></td><td><${State} one=${one} /></td><td><${When} one=${one} /></td>
        <td>${one.workflow} <span class="faint">for ${one.user}</span></td><td>${one.next.map((moment) => html`<div><${Time} at=${moment.fires_at} /></div>`)}</td>
        <td>${one.last_job_id && html`<a class="mono" href=${to(["jobs", one.last_job_id])}>${shortly(one.last_job_id)}</a>`}</td></tr>`)}</tbody></table></div>`}`;
}

const State = ({ one }) => html`<span class=${`badge ${STATES[one.state]}`}>${one.state}</span> <span class="faint">${one.reason || one.paused?.reason || ""}</span>`;
const When = ({ one }) => html`${one.cron ? html`<code>${one.cron}</code> <span class="faint">${one.zone}</span>` : `every ${duration(one.every * 1000)}`}`;

function One({ name, acts }) {
  const path = `admin/schedules/${encodeURIComponent(name)}`;
  const { told, fault, again } = useAsked(() => get(path, { next: NEXT * 2 }), [name]);
  const [fills, fill] = useState(false);
  const [round, turn] = useState(0);
  const anew = () => { again(); turn(round + 1); };
  if (!told) return html`<h1>${name}</h1><${Fault} fault=${fault} />`;
  return html`<div class="title"><h1>${name}</h1><${State} one=${told} /></div>
    ${acts && html`<div class="actions">
      <${Act} onAct=${() => post(`${path}/${told.paused ? "resume" : "pause"}`).then(anew)}>${told.paused ? "resume" : "pause"}<//>
      <${Act} title="A job of it now, whatever time it is" onAct=${() => post(`${path}/trigger`).then(anew)}>trigger<//>
      <button onClick=${() => fill(true)}>backfill</button>
      <a class="button" href=${to(["jobs"], { schedule: name })}>its jobs</a></div>`}
    <div class="two"><section class="card"><h2>What it does</h2><dl class="facts">
        <dt>When</dt><dd><${When} one=${told} /></dd><dt>Makes</dt><dd>${told.workflow} ${told.job_type || ""}</dd><dt>For</dt><dd>${told.user}</dd>
        <dt>If one still goes on</dt><dd>${told.overlap}</dd><dt>May be late for</dt><dd>${duration(told.catch_up * 1000)}, then ${told.catch_up_policy}</dd>
        ${told.jitter > 0 && html`<dt>Up to later</dt><dd>${duration(told.jitter * 1000)}</dd>`}<dt>Made by</dt><dd>${told.made_by}, <${Time} at=${told.made_at} /></dd>
        ${told.owner === "file" && html`<dt>Stands in</dt><dd>the settings, and is changed there</dd>`}</dl>
        <h3>Parameters</h3><${Json} value=${told.params} /></section>
      <section class="card"><h2>Next</h2>${told.next.length ? html`<ol>${told.next.map((one) => html`<li><${Time} at=${one.fires_at} /> <span class="faint">${one.local}</span></li>`)}</ol>` : html`<p class="faint">Nothing while it is ${told.state}.</p>`}</section></div>
    <section class="card"><h2>What came of its moments</h2><${Paged} key=${round} path=${`${path}/firings`} of="firings" heads=${["Moment", "How", "Outcome", "Job", "Why"]} none="None has come yet."
      row=${(one) => html`<td><${Time} at=${one.moment} />${one.count > 1 && html` <span class="faint">and ${many(one.count - 1, "other")} until <${Time} at=${one.last} /></span>`}</td><td>${one.how}</td>
        <td><span class=${`badge ${OUTCOMES[one.outcome] || "quiet"}`}>${one.outcome}</span></td><td>${one.job_id && html`<a class="mono" href=${to(["jobs", one.job_id])}>${shortly(one.job_id)}</a>`}</td>
        <td class="what">${one.error_code && html`<code>${one.error_code}</code>`} ${one.detail || ""}</td>`} /></section>
    ${fills && html`<${Backfill} path=${path} onClose=${(done) => { fill(false); if (done) anew(); }} />`}`;
}

/** Moments that are over and made no job: shown first, made then. */
function Backfill({ path, onClose }) {
  const [span, say] = useState({ from: "", to: "" });
  const [seen, look] = useState(null);
  const [fault, fail] = useState(null);
  const ask = async (dry_run) => {
    fail(null);
    try {
      const from = new Date(span.from).toISOString(), until = new Date(span.to).toISOString();
      look(await post(`${path}/backfill`, { from, to: until, dry_run }));
    } catch (refused) {
      fail(refused);
    }
  };
  const field = (name, words) => html`<div class="entry"><label for=${name}>${words}</label><input id=${name} type="datetime-local" value=${span[name]}
    onInput=${(event) => { say({ ...span, [name]: event.target.value }); look(null); }} /></div>`;
  return html`<${Dialog} title="Backfill" onClose=${() => onClose(Boolean(seen && !seen.dry_run))}>
    <div class="form">${field("from", "From")}${field("to", "Up to, and without")}</div><${Problem} fault=${fault} />
    ${seen && html`<p role="status">${seen.dry_run ? html`It would make the jobs of ${many(seen.total, "moment")}, but for those that made one before.` : `${seen.fired} made, ${seen.same} were there, ${seen.refused} refused.`}</p>
      <div class="wide short" tabindex="0"><table><thead><tr><th>Moment</th><th>Outcome</th></tr></thead><tbody>${seen.moments.slice(0, SHOWN_MAX).map((one) => html`<tr><td><${Time} at=${one.moment} /></td>
        <td>${one.outcome || ""} ${one.job_id && html`<a class="mono" href=${to(["jobs", one.job_id])}>${shortly(one.job_id)}</a>`} <span class="bad-text">${one.detail || ""}</span></td></tr>`)}</tbody></table></div>
      ${seen.moments.length > SHOWN_MAX && html`<p class="faint">These are the first ${SHOWN_MAX}.</p>`}`}
    <div class="actions">${!seen && html`<${Act} disabled=${!span.from || !span.to} onAct=${() => ask(true)}>Look what it would do<//>`}
      ${seen?.dry_run && html`<${Act} kind="strong" disabled=${!seen.total} onAct=${() => ask(false)}>Make the jobs of ${many(seen.total, "moment")}<//>`}
      <button onClick=${() => onClose(Boolean(seen && !seen.dry_run))}>${seen && !seen.dry_run ? "Close" : "Leave it"}</button></div><//>`;
}
