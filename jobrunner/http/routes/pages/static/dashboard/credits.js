// What can be spent, and where credits went.
import { html, useState } from "./preact.js";
import { become, to } from "./address.js";
import { get, post, useAsked } from "./asking.js";
import { Paged } from "./paged.js";
import { Act, Dialog, Fault, Time } from "./parts.js";
import { count, shortly } from "./words.js";

export function Credits({ session, address }) {
  const user = address.query.get("user_id") || "";
  const asked = user ? { user_id: user } : {};
  const { told, fault, again } = useAsked(() => get("credits", asked), [user]);
  const [text, change] = useState(user);
  const [grants, grant] = useState(false);
  const [round, turn] = useState(0);
  return html`<div class="title"><h1>Credits</h1>${session.role === "admin" && told && html`<button class="button" onClick=${() => grant(true)}>Give some</button>`}</div>
    ${session.role !== "user" && html`<form class="filters" onSubmit=${(event) => { event.preventDefault(); become(to(["credits"], { user_id: text })); }}>
      <label class="field"><span>User</span><input value=${text} onInput=${(event) => change(event.target.value)} /></label><button>Look</button></form>`}
    <${Fault} fault=${fault} />
    ${told && html`<div class="tiles"><div class="tile"><div class="faint">${told.user_id} can spend</div><div class="value">${count(told.balance)}</div></div>
      <div class="tile"><div class="faint">held for jobs</div><div class="value">${count(told.held)}</div></div></div>
    <section class="card"><h2>Ledger</h2><${Paged} key=${`${user}${round}`} path="credits/history" query=${asked} of="history" heads=${["When", "What", "Amount", "Balance", "Held", "Job", "Why"]} none="Nothing yet."
      row=${(one) => html`<td><${Time} at=${one.created_at} /></td><td>${one.kind}</td><td>${one.amount > 0 ? "+" : ""}${one.amount}</td><td>${one.balance_after}</td><td>${one.held_after}</td>
        <td>${one.job_id && html`<a class="mono" href=${to(["jobs", one.job_id])}>${shortly(one.job_id)}</a>`}</td><td class="what">${one.reason}</td>`} /></section>`}
    ${grants && html`<${Grant} user=${told.user_id} onClose=${(done) => { grant(false); if (done) { again(); turn(round + 1); } }} />`}`;
}

function Grant({ user, onClose }) {
  const [order, say] = useState({ amount: "", reason: "" });
  const act = () => post(`admin/credits/${encodeURIComponent(user)}/grant`, { amount: Number(order.amount), reason: order.reason }).then(() => onClose(true));
  return html`<${Dialog} title=${`Credits for ${user}`} onClose=${() => onClose(false)}><div class="form">
    <div class="entry"><label for="amount">How many</label><input id="amount" type="number" min="1" value=${order.amount} onInput=${(event) => say({ ...order, amount: event.target.value })} /></div>
    <div class="entry"><label for="why">Why</label><input id="why" maxlength="200" value=${order.reason} onInput=${(event) => say({ ...order, reason: event.target.value })} /></div></div>
    <div class="actions"><${Act} kind="strong" onAct=${act} disabled=${!order.amount}>Give<//><button onClick=${() => onClose(false)}>Leave it</button></div><//>`;
}
