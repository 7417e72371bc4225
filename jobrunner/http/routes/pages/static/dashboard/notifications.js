// What was told to others about a job: each try with its answer, and once more on request.
import { html } from "./preact.js";
import { get, post, useAsked } from "./asking.js";
import { Act, Fault, Time } from "./parts.js";

const COLOURS = { delivered: "good", failed: "bad", disabled: "bad", due: "rest" };

export function Notifications({ path, session }) {
  const { told, fault, again } = useAsked(() => get(path, { limit: 100 }), [path]);
  if (!told) return html`<${Fault} fault=${fault} />`;
  if (!told.deliveries.length) return html`<p class="faint">Nobody was told anything.</p>`;
  return html`<div class="wide" tabindex="0"><table><thead><tr><th>What</th><th>Whom</th><th>Status</th><th>Tries</th><th>When</th><th></th></tr></thead><tbody>
    ${told.deliveries.map((one) => html`<tr><td>${one.type}</td><td class="what">${one.url}</td>
      <td><span class=${`badge ${COLOURS[one.status]}`}>${one.status}</span> <span class="faint">${one.note || ""}</span></td>
      <td><ul class="tries">${one.tries.map((attempt) => html`<li><${Time} at=${attempt.at} /> ${attempt.http_status || ""} ${attempt.latency_ms} ms <span class="bad-text">${attempt.error || ""}</span></li>`)}</ul></td>
      <td><${Time} at=${one.created_at} /></td>
      <td>${session.role !== "reader" && one.status !== "due" && html`<${Act} kind="small" onAct=${() => post(session.role === "admin" ? `admin/deliveries/${one.id}/redeliver` : `jobs/${one.job_id}/deliveries/${one.id}/redeliver`).then(again)}>tell again<//>`}</td></tr>`)}
  </tbody></table></div>`;
}
