// A job along its time: when each stage worked, for how long and how it ended, and where it rested
// between them, in line or for somebody.
import { html, useState } from "./preact.js";
import { now } from "./asking.js";
import { Time, useTick } from "./parts.js";
import { duration, roughly } from "./words.js";

const COLOURS = { done: "good", partial: "good", failed: "bad", rejected: "bad", interrupted: "wait", awaits: "wait" };

const RESTS = { waiting: "rest", queued: "line" };
const SHORT_MS = 1, AT_ONCE_MS = 1500;
const WORDS = { parked: "waits", due: "to come" };

/** The spans in which nobody worked on it, by the states that it rested in. */
function rests(history, workflow, endMs) {
  const kinds = new Map((workflow?.states || []).map((state) => [state.name, state.kind]));
  return history.flatMap((hop, place) => {
    const colour = RESTS[kinds.get(hop.to_status)], from = Date.parse(hop.at);
    const to = history[place + 1] ? Date.parse(history[place + 1].at) : endMs;
    return colour && to - from > SHORT_MS ? [{ rest: hop.to_status, colour, from, to, started_at: hop.at }] : [];
  });
}

/** What has not begun comes last. */
const begun = (one) => (one.started_at ? Date.parse(one.started_at) : Infinity);

export function Timeline({ job, attempts, history, workflow }) {
  const [open, turn] = useState(new Set());
  useTick(job.kind !== "final" && job.kind !== "settled");
  const until = job.kind === "final" || job.kind === "settled" ? Date.parse(job.completed_at || job.updated_at) : now();
  const rows = [...attempts, ...rests(history, workflow, until)].sort((one, other) => begun(one) - begun(other));
  if (!rows.length) return html`<p class="faint">No stage has worked on this job yet.</p>`;
  const begin = Date.parse(job.created_at);
  const end = Math.max(until, begin + 1,
    ...attempts.map((one) => Date.parse(one.ended_at || one.started_at || job.created_at)));
  const part = (ms) => `min(100% - 4px, ${(100 * Math.min(1, Math.max(0, (ms - begin) / (end - begin)))).toFixed(3)}%)`;
  const flip = (place) => turn((was) => { const news = new Set(was); if (!news.delete(place)) news.add(place); return news; });
  return html`<ol class="timeline">${rows.map((one) => {
    const place = `${one.run_id} ${one.state} ${one.attempt}`;
    if (one.rest) {
      return html`<li class="resting"><span class="what faint">${one.rest}</span><div class="track"><div class=${`span ${one.colour}`} style=${{ left: part(one.from), width: `max(4px, ${((one.to - one.from) / (end - begin) * 100).toFixed(3)}%)` }}></div></div>
        <div class="far faint">${duration(one.to - one.from)}</div></li>`;
    }
    const from = one.started_at && Date.parse(one.started_at), to = one.ended_at ? Date.parse(one.ended_at) : end;
    const colour = one.status === "running" ? "busy" : COLOURS[one.outcome] || (one.failure_code ? "bad" : one.status === "ended" ? "good" : "wait");
    const long = from ? duration(to - from) : "";
    return html`<li key=${place}>
      <button class="plain what" aria-expanded=${open.has(place) ? "true" : "false"} onClick=${() => flip(place)}>
        <span>${open.has(place) ? "▾" : "▸"} ${one.state}${one.attempt > 1 ? ` · ${one.attempt}` : ""}</span><small class="faint">${one.stage}</small></button>
      <div class="track">${from && html`<div class=${`span ${colour}`} style=${{ left: part(from), width: `max(4px, ${((to - from) / (end - begin) * 100).toFixed(3)}%)` }}></div>`}</div>
      <div class="far"><span class=${`badge ${colour}`}>${one.status === "ended" ? one.outcome || "ended" : WORDS[one.status] || one.status}</span> ${long}</div>
      ${open.has(place) && html`<div class="told">
        <p class="faint">${from ? html`began <${Time} at=${one.started_at} />, ${from - begin < AT_ONCE_MS ? "as soon as" : `${roughly(begin - from).replace("in ", "")} after`} the job was made` : "has not begun"}
          ${one.ended_at && html`; ended <${Time} at=${one.ended_at} />`}</p>
        ${one.failure_message && html`<p class="bad-text"><code>${one.failure_code}</code> ${one.failure_message}</p>`}
        ${one.log.length > 0 ? html`<pre tabindex="0">${one.log.join("\n")}</pre>` : html`<p class="faint">It wrote no line.</p>`}</div>`}
    </li>`;
  })}</ol>`;
}
