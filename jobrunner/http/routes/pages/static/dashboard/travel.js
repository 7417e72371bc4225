// Time travel: the decisions about a job that are on record, one by one, each with the message, the
// facts and what came of it; and the same messages under another declaration, to see where the job
// would have gone. Nothing here changes anything.
import { html, useEffect, useMemo, useState } from "./preact.js";
import { become, to } from "./address.js";
import { get, post, useAsked } from "./asking.js";
import { Diagram, walked } from "./diagram.js";
import { useKeys } from "./keys.js";
import { Act, Fault, Json, Time, mood } from "./parts.js";
import { Problem } from "./submit.js";
import { many } from "./words.js";

const PAGE = 200;
const STEPS_MAX = 1000;

export function Travel({ job, workflow, session, address }) {
  const { told, fault } = useAsked(() => recorded(job.id), [job.id, job.version]);
  const [other, tryOther] = useState(null);
  useEffect(() => tryOther(null), [job.id]);
  if (!told) return html`<${Fault} fault=${fault} />${!fault && html`<p class="faint">One moment…</p>`}`;
  if (!told.steps.length) return html`<p class="faint">No decision about this job is on record. ${""}
    <code>[workflows.${job.workflow}] record = "decisions"</code> in the settings keeps those to come.</p>`;
  return html`<${Steps} job=${job} workflow=${workflow} told=${told} other=${other} address=${address} />
    <${Try} job=${job} session=${session} told=${told} other=${other} onTried=${tryOther} />`;
}

/** What was decided with, and the same decided again by the declarations of its day. */
async function recorded(id) {
  const decisions = [];
  let cursor, declarations = {};
  do {
    const page = await get(`jobs/${id}/decisions`, { limit: PAGE, cursor });
    declarations = { ...declarations, ...page.declarations };
    decisions.push(...page.decisions);
    cursor = page.next_cursor;
  } while (cursor && decisions.length < STEPS_MAX);
  const again = decisions.length ? await post(`jobs/${id}/decisions/replay`) : { steps: [], whole: true };
  return { steps: again.steps, whole: again.whole, decisions: decisions.slice(0, again.steps.length), declarations };
}

function Steps({ job, workflow, told, other, address }) {
  const { steps } = told;
  const most = steps.length - 1;
  const at = Math.min(most, Math.max(0, Number(address.query.get("step") ?? most) || 0));
  const go = (place) => become(to(["jobs", job.id], { tab: "decisions", step: String(Math.min(most, Math.max(0, place))) }));
  useKeys({
    "[": ["One decision back", () => go(at - 1)],
    "]": ["One decision on", () => go(at + 1)],
  }, [at, most, job.id]);
  const step = steps[at], tried = other?.steps[at];
  return html`<div class="travel">
    <div class="steps"><div class="actions">
        <button aria-label="The first decision" disabled=${at === 0} onClick=${() => go(0)}>⇤</button>
        <button aria-label="One decision back" title="[" disabled=${at === 0} onClick=${() => go(at - 1)}>◀</button>
        <input type="range" min="0" max=${most} value=${at} aria-label="Decision" aria-valuetext=${`${at + 1} of ${steps.length}: ${step.message}`} onInput=${(event) => go(Number(event.target.value))} />
        <button aria-label="One decision on" title="]" disabled=${at === most} onClick=${() => go(at + 1)}>▶</button>
        <button aria-label="The last decision" disabled=${at === most} onClick=${() => go(most)}>⇥</button>
        <output>${at + 1} of ${steps.length}</output></div>
      ${!told.whole && html`<p class="faint">These are the first ${many(steps.length, "decision")}; there are more.</p>`}
      ${steps.some((one) => one.differs.length) && html`<p class="notice wait">Some come out otherwise today, under their own declaration: code or settings have changed since.</p>`}
      <ol class="decisions">${steps.map((one, place) => html`<li key=${place}><button class="plain" aria-current=${place === at ? "step" : null} onClick=${() => go(place)}>
        <span>${one.message}</span> <small>${one.then.path.length ? one.then.path.join(" → ") : html`<span class="faint">${one.then.status}</span>`}</small>
        ${(other ? other.steps[place] : one)?.differs.length > 0 && html` <span class="badge bad">otherwise</span>`}</button></li>`)}</ol></div>
    <div class="stack"><${Where} title=${other ? "As it was" : "The job then"} workflow=${workflow} steps=${steps} at=${at} side="then" />
      ${other && html`<${Where} title=${`Under ${other.name}`} workflow=${other.under} steps=${other.steps} at=${at} side="now" />`}</div>
    <div class="stack"><${Came} step=${step} record=${told.decisions[at]} tried=${tried} name=${other?.name} /></div>
  </div>`;
}

/** The diagram with the way until that decision, and the state that the job was in behind it. */
function Where({ title, workflow, steps, at, side }) {
  const whole = useMemo(() => walked(hops(steps, side), 0), [steps, side]);
  const way = useMemo(() => ({ ...walked(hops(steps.slice(0, at + 1), side), 0), spent: new Map() }), [steps, at, side]);
  const now = [...steps.slice(0, at + 1)].reverse().find((one) => one[side])?.[side].status || "";
  const state = workflow?.states.find((one) => one.name === now);
  return html`<div><h2>${title}: <code>${now || "not made"}</code></h2>
    ${workflow && html`<${Diagram} workflow=${workflow} way=${way} whole=${whole} now=${now} mood=${mood(state?.kind, state?.ends)} />`}</div>`;
}

function hops(steps, side) {
  const found = [];
  for (const step of steps) {
    let from = step.before;
    for (const status of step[side]?.path || []) {
      found.push({ at: step.at, from_status: from, to_status: status, trigger: step.message, actor: `version ${step.version}` });
      from = status;
    }
  }
  return found;
}

function Came({ step, record, tried, name }) {
  return html`<h2>${step.message} <small class="faint">version ${step.version}, <${Time} at=${step.at} /></small></h2>
    ${tried && html`<p>${tried.differs.length
      ? html`<span class="badge bad">otherwise</span> under ${name}: ${tried.now ? tried.differs.join(", ") : tried.why}`
      : html`<span class="badge good">the same</span> under ${name}`}</p>`}
    <${Outcomes} before=${step.before} then=${step.then} now=${tried ? tried.now : step.now} both=${tried || step.differs.length > 0} />
    <h3>The message</h3><${Json} value=${record.message} />
    <details><summary>The facts</summary><${Json} value=${record.facts} /></details>
    <details><summary>The moment</summary><${Json} value=${record.moment} /></details>`;
}

function Outcomes({ before, then, now, both }) {
  const rows = [
    ["Came to", (led) => led.status], ["By way of", (led) => led.path.join(" → ")], ["Credits", (led) => led.credits.map(([kind, amount]) => `${kind} ${amount}`).join(", ")],
    ["Attempt", (led) => led.attempt?.join(", ")], ["Timers", (led) => Object.entries(led.timers).map(([purpose, at]) => html`<div>${purpose} <${Time} at=${at} /></div>`)],
    ["Stuck", (led) => led.stuck], ["Failure", (led) => led.failure_code],
  ];
  return html`<div class="wide" tabindex="0"><table><thead><tr><th>${before ? `From ${before}` : "Made"}</th><th>Then</th>${both && html`<th>Now</th>`}</tr></thead><tbody>
    ${rows.filter(([, of]) => filled(of(then)) || (now && filled(of(now)))).map(([words, of]) => html`<tr><td>${words}</td><td>${of(then) || ""}</td>${both && html`<td>${now ? of(now) || "" : html`<span class="faint">not decided</span>`}</td>`}</tr>`)}</tbody></table></div>`;
}

/** The same messages under another declaration: today's, one of its past, or one that is pasted. */
function Try({ job, session, told, other, onTried }) {
  const { told: today } = useAsked(() => get(`workflows/${job.workflow}`).catch(() => null), [job.workflow]);
  const [text, write] = useState("");
  const [fault, fail] = useState(null);
  const known = Object.entries(told.declarations).map(([digest, one]) => [digest, `version ${one.version} of its day`]);
  if (today && !known.some(([digest]) => digest === today.digest)) known.unshift([today.digest, `today's version ${today.version}`]);
  const attempt = async (order, name) => {
    fail(null);
    try {
      onTried({ ...await post(`jobs/${job.id}/decisions/replay`, order), name });
    } catch (refused) {
      fail(refused);
    }
  };
  const pasted = () => {
    let declaration;
    try {
      declaration = JSON.parse(text);
    } catch (wrong) {
      return fail({ message: `This is no JSON: ${wrong.message}` });
    }
    return attempt({ declaration }, "this declaration");
  };
  const off = other ? other.steps.findIndex((one) => one.differs.length) : -1;
  return html`<h3>The same messages under another declaration</h3>
    <div class="actions">${known.map(([digest, words]) => html`<${Act} title=${digest} onAct=${() => attempt({ digest }, words)}>${words}<//>`)}
      ${other && html`<button onClick=${() => onTried(null)}>Only as it was</button>`}</div>
    ${other && html`<p role="status">${off < 0 ? "Every decision comes out the same." : html`The ways part at decision
      <a href=${to(["jobs", job.id], { tab: "decisions", step: String(off) })}>${off + 1}</a>, ${other.steps[off].message}.`}</p>`}
    ${session.role === "admin" && html`<details><summary>One of your own</summary>
      <p class="faint">As <code>jobrunner workflow show ${job.workflow}</code> prints it. It is examined as if it were installed, tried, and kept nowhere.</p>
      <label class="entry"><span>A file</span><input type="file" accept=".json,application/json" onChange=${async (event) => { const [file] = event.target.files; if (file) write(await file.text()); }} /></label>
      <label class="entry"><span>The declaration as JSON</span><textarea rows="8" spellcheck="false" value=${text} onInput=${(event) => write(event.target.value)} /></label>
      <div class="actions"><${Act} disabled=${!text.trim()} onAct=${pasted}>Try it<//>
        ${told.declarations[first(told)] && html`<button onClick=${() => write(JSON.stringify(told.declarations[first(told)], null, 2))}>Begin with that of its day</button>`}</div></details>`}
    <${Problem} fault=${fault} />`;
}

const filled = (value) => Boolean(Array.isArray(value) ? value.length : value);
const first = (told) => Object.keys(told.declarations)[0];
