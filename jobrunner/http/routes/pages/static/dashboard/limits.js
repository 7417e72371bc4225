// Limits that can be changed while the service runs: what each is, where that comes from, and since when.
import { html, useState } from "./preact.js";
import { ask, get, useAsked } from "./asking.js";
import { Act, Dialog, Fault, Time } from "./parts.js";
import { Problem } from "./submit.js";

export function Limits({ acts }) {
  const { told, fault, again } = useAsked(() => get("admin/limits"), []);
  const [changes, change] = useState(null);
  if (!told) return html`<${Fault} fault=${fault} />`;
  return html`<p class="faint">Slots, stages, resources, rates and quotas. A change holds from now on, over restarts too, and stands in the audit; what runs goes on.</p>
    <div class="wide" tabindex="0"><table><thead><tr><th>Limit</th><th>Value</th><th>Settings say</th><th>From</th><th></th></tr></thead><tbody>
    ${told.limits.map((one) => html`<tr class=${one.idle ? "pale" : ""}><td><code>${one.key}</code>${one.idle && html` <span class="faint">nothing uses it</span>`}</td><td><strong>${value(one, one.value)}</strong></td><td>${value(one, one.configured)}</td>
      <td>${one.origin}${one.by ? html` by ${one.by} <span class="faint">${one.reason || ""}</span> ${one.at && html`<${Time} at=${one.at} />`}` : ""}</td>
      <td>${acts && html`<button class="small" aria-label=${`Change ${one.key}`} onClick=${() => change(one)}>change</button>
        ${one.origin === "set" && html`<${Act} kind="small" title="The settings say it again" onAct=${() => ask("DELETE", `admin/limits/${encodeURIComponent(one.key)}`).then(again)}>reset<//>`}`}</td></tr>`)}</tbody></table></div>
    ${changes && html`<${Change} one=${changes} onClose=${(done) => { change(null); if (done) again(); }} />`}`;
}

const OPEN = /\.(concurrency|open_jobs|per_day|per_minute)$/;
const value = ({ key }, found) => (found === null || (found === 0 && OPEN.test(key)) ? html`<span class="faint">no limit</span>` : String(found));

function Change({ one, onClose }) {
  const [order, say] = useState({ value: one.value === null ? "" : String(one.value), reason: "" });
  const [fault, fail] = useState(null);
  const text = order.value.trim();
  const act = () => ask("PUT", `admin/limits/${encodeURIComponent(one.key)}`, { body: { value: text === "" ? null : /^\d+$/.test(text) ? Number(text) : text, ...(order.reason ? { reason: order.reason } : {}) } }).then(() => onClose(true), fail);
  return html`<${Dialog} title=${one.key} onClose=${() => onClose(false)}><div class="form">
    <div class="entry"><label for="value">Value</label><input id="value" value=${order.value} onInput=${(event) => say({ ...order, value: event.target.value })} /><small class="faint">A number, or a rate as 10/min; empty is no limit.</small></div>
    <div class="entry"><label for="why">Why</label><input id="why" maxlength="200" value=${order.reason} onInput=${(event) => say({ ...order, reason: event.target.value })} /></div></div>
    <${Problem} fault=${fault} /><div class="actions"><${Act} kind="strong" onAct=${act}>Change it<//><button onClick=${() => onClose(false)}>Leave it</button></div><//>`;
}
