// The workflows that are loaded, and those that were refused, with the reasons.
import { html } from "./preact.js";
import { get, useAsked } from "./asking.js";
import { Fault } from "./parts.js";

export function Workflows() {
  const { told, fault } = useAsked(() => get("workflows"), []);
  return html`<h1>Workflows</h1><${Fault} fault=${fault} />
    ${told && html`<div class="cards">${told.workflows.map((one) => html`
      <section class="card"><h2>${one.name} <small class="faint">${one.version}</small></h2>
        <p>${one.job_types.join(", ")}</p></section>`)}
      ${told.refused.map((one) => html`<section class="card bad"><h2>${one.name} <small>refused</small></h2>
        <ul>${one.faults.map((text) => html`<li>${text}</li>`)}</ul></section>`)}</div>`}`;
}
