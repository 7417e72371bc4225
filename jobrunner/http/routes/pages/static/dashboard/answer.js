// The form of one question, for a person who has its address and no account. No session is sent, and
// no address is told to anybody: the address is the right to answer.
import { html, render, useState } from "./preact.js";
import { Refusal } from "./asking.js";
import { AsJson, Form, tidy } from "./form.js";
import { Act, Json, Time } from "./parts.js";
import { Problem } from "./submit.js";

const OVER = {
  ANSWER_GIVEN: "Somebody has given another answer before. Yours was not taken.",
  ANSWER_OVER: "Nobody waits for an answer any more. Yours was not taken.",
};

async function asked(method, value) {
  const said = await fetch(location.pathname, {
    method, credentials: "omit", referrerPolicy: "no-referrer",
    headers: { Accept: "application/json", ...(method === "POST" ? { "Content-Type": "application/json" } : {}) },
    body: method === "POST" ? JSON.stringify(value) : undefined,
  });
  const told = await said.json().catch(() => ({}));
  if (!said.ok) throw new Refusal(said.status, told);
  return told;
}

function Question({ told }) {
  const [value, change] = useState(told.asks ? {} : undefined);
  const [fault, fail] = useState(null);
  const [done, end] = useState("");
  const give = async () => {
    try {
      const taken = await asked("POST", value === undefined ? null : tidy(value));
      end(taken.replayed ? "This answer had been given before." : "Thank you. Your answer was taken.");
    } catch (refused) {
      if (refused.code in OVER) end(OVER[refused.code]);
      else fail(refused);
    }
  };
  if (done) return html`<p class="notice" role="status">${done}</p>`;
  return html`<${When} one=${told} />
    ${told.asks ? html`<${Form} schema=${told.asks} value=${value} onChange=${change} />` : html`<label for="value">Answer</label><${AsJson} id="value" onChange=${change} placeholder="JSON" />`}
    <${Problem} fault=${fault} />
    <div class="actions"><${Act} kind="strong" onAct=${give}>Give this answer<//></div>
    <p class="faint">It can be given once.</p>`;
}

/** Until when it is open, and what counts when nobody has answered by then. */
function When({ one }) {
  if (!one.expires_at) return null;
  return html`<p class="faint">Open until <${Time} at=${one.expires_at} />.</p>
    ${one.default != null && html`<details><summary>What counts when nobody answers</summary><${Json} value=${one.default} /></details>`}`;
}

const at = document.getElementById("answer");
if (at) {
  asked("GET").then((told) => render(html`<${Question} told=${told} />`, at),
    (refused) => render(html`<${Problem} fault=${refused} />`, at));
}
