// A table that comes page by page: what there is, and older ones when they are wanted.
import { html, useEffect, useState } from "./preact.js";
import { get } from "./asking.js";
import { Fault } from "./parts.js";

const PAGE = 50;

export function Paged({ path, query = {}, of, heads, row, none, title }) {
  const [state, change] = useState({ rows: [], next: null, fault: null, busy: true });
  const load = async (cursor) => {
    change((was) => ({ ...was, busy: true }));
    try {
      const told = await get(path, { ...query, limit: PAGE, cursor });
      change((was) => ({ rows: cursor ? [...was.rows, ...told[of]] : told[of], next: told.next_cursor, fault: null, busy: false }));
    } catch (fault) {
      change((was) => ({ ...was, fault, busy: false }));
    }
  };
  useEffect(() => { load(); }, [path]);
  return html`${title && state.rows.length > 0 && html`<h2>${title}</h2>`}<${Fault} fault=${state.fault} />
    ${state.rows.length > 0 && html`<div class="wide" tabindex="0"><table class="paged"><thead><tr>${heads.map((head) => html`<th>${head}</th>`)}</tr></thead>
      <tbody>${state.rows.map((one) => html`<tr>${row(one)}</tr>`)}</tbody></table></div>`}
    ${!state.rows.length && !state.busy && !state.fault && none && html`<p class="faint">${none}</p>`}
    ${state.next && html`<div class="actions"><button disabled=${state.busy} onClick=${() => load(state.next)}>Older ones</button></div>`}`;
}
