// Everything that waits for whoever is signed in, and that this person may act on: questions of stages
// with a form for the answer, and jobs that rest until somebody gives a command. One is open at a time.
import { html, useEffect, useRef, useState } from "./preact.js";
import { become, to } from "./address.js";
import { get, post, useAsked } from "./asking.js";
import { Commands } from "./commands.js";
import { AsJson, Form, tidy } from "./form.js";
import { useKeys } from "./keys.js";
import { useLive } from "./live.js";
import { Panel } from "./panel.js";
import { Act, Badge, Empty, Fault, Json, Time } from "./parts.js";
import { Problem } from "./submit.js";
import { gathered } from "./waiting.js";
import { count, many, shortly } from "./words.js";

const ROWS = 20;
const AGAIN_MS = 2000;

export function Review({ session, address }) {
  const [rows, take] = useState(ROWS);
  const { told, fault, busy, again } = useAsked(() => gathered(session, rows), [rows]);
  const due = useRef(0);
  const soon = () => { due.current ||= setTimeout(() => { due.current = 0; again(); }, AGAIN_MS); };
  useEffect(() => () => clearTimeout(due.current), []);
  const live = useLive("overview/events", { changes: soon, missed: soon }, soon);
  const open = address.path.slice(1).join("/");
  const show = (key) => become(to(["review", ...(key && key !== open ? key.split("/") : [])]));
  const items = told ? listed(told) : [];
  const keys = items.map((one) => one.key);
  if (open && told && !keys.includes(open)) items.unshift({ key: open, apart: true, gone: !told.more });
  const step = (by) => { if (items.length) show(items[Math.min(Math.max(items.findIndex((one) => one.key === open) + by, 0), items.length - 1)].key || open); };
  useKeys({ j: ["The next one", () => step(1)], k: ["The one before", () => step(-1)], r: ["Look again", again] }, [open, keys.join()]);
  return html`<div class="title"><h1>For me</h1><span class=${live ? "live on" : "live"} role="status">${live ? "live" : "not live"}</span></div>
    <${Fault} fault=${fault} />
    ${told && !items.length && html`<${Empty}>Nothing waits for you.<//>`}
    ${told?.all > 0 && html`<p class="faint">${sizes(told)}, the oldest first.</p>`}
    <ol class="review">${items.map((one) => html`<${Item} key=${one.key} one=${one} isOpen=${one.key === open} told=${told} session=${session} onShow=${() => show(one.key)} onDone=${again} />`)}</ol>
    ${told?.more && html`<div class="actions"><button disabled=${busy} onClick=${() => take(rows + ROWS)}>More of them</button><span class="faint">${count(keys.length)} of ${many(told.all, "thing")} are shown.</span></div>`}`;
}

function sizes({ questions, all }) {
  const rest = all - questions.length;
  return [questions.length && many(questions.length, "question"), rest && many(rest, "job that rests", "jobs that rest") + " until somebody acts"].filter(Boolean).join("; ");
}

/** Questions first, the one that expires next before all others; then jobs, the oldest first. */
function listed({ questions, jobs }) {
  const late = (one) => one.expires_at || "9999";
  const asked = [...questions].sort((one, other) => (late(one) < late(other) ? -1 : 1));
  const rests = [...jobs].sort((one, other) => (one.updated_at < other.updated_at ? -1 : 1));
  return [...asked.map((question) => ({ key: `${question.job_id}/${question.name}`, question })), ...rests.map((job) => ({ key: job.id, job }))];
}

function Item({ one, isOpen, told, session, onShow, onDone }) {
  const id = one.key.split("/")[0];
  const at = useRef(null);
  useEffect(() => { if (isOpen) at.current?.scrollIntoView({ block: "nearest" }); }, [isOpen]);
  return html`<li ref=${at} class=${`card ${isOpen ? "open" : ""}`}>
    <button class="plain line" aria-expanded=${String(isOpen)} onClick=${onShow}><${Line} one=${one} id=${id} /></button>
    ${isOpen && html`<${Detail} id=${id} at=${told} question=${one.question} session=${session} onDone=${onDone} />`}</li>`;
}

function Line({ one, id }) {
  if (one.apart) return html`<span class="mono">${shortly(id)}</span> ${one.gone && html`<span class="faint">waits for you no longer</span>`}`;
  if (one.job) {
    return html`<${Badge} job=${one.job} /> <strong>${one.job.workflow}</strong> <span class="mono">${shortly(id)}</span>
      <span class="faint">${one.job.user_id} <${Time} at=${one.job.updated_at} /></span>${one.job.stuck && html` <span class="bad-text">stuck: ${one.job.stuck.reason}</span>`}`;
  }
  const { question } = one;
  return html`<span class="badge rest">asks</span> <strong>${question.text || question.name}</strong> <span class="mono">${shortly(id)}</span>
    <span class="faint">${question.workflow} ${question.text ? question.name : ""} <${Time} at=${question.asked_at} />${question.expires_at && html`, closes <${Time} at=${question.expires_at} />`}</span>`;
}

/** All that it takes to decide: the job and what it was given, its panel, the question, the commands.
 *  `at` is what the list was told last: when that changes, so may have this. */
function Detail({ id, at, question, session, onDone }) {
  const { told, fault, again } = useAsked(async () => {
    const job = await get(`jobs/${id}`);
    return { job, workflow: await get(`workflows/${job.workflow}`).catch(() => null) };
  }, [id, at]);
  const acted = () => { again(); onDone(); };
  if (!told) return html`<${Fault} fault=${fault} />`;
  const { job, workflow } = told;
  return html`<div class="stack">
    <p><a href=${to(["jobs", id])}>The whole job</a> <${Badge} job=${job} />${job.user_id !== session.name && html` <span class="faint">of ${job.user_id}</span>`}</p>
    ${Object.keys(job.params || {}).length > 0 && html`<details open=${!workflow?.panel}><summary>What it was given</summary><${Json} value=${job.params} /></details>`}
    ${question && html`<${Answer} question=${question} onDone=${acted} />`}
    ${workflow?.panel && html`<${Panel} job=${job} workflow=${workflow} session=${session} onActed=${acted} />`}
    <${Commands} session=${session} job=${job} workflow=${workflow} onActed=${acted} /></div>`;
}

function Answer({ question, onDone }) {
  const [value, change] = useState(question.asks ? {} : undefined);
  const [fault, fail] = useState(null);
  const give = () => post(`jobs/${question.job_id}/answers/${encodeURIComponent(question.name)}`, value === undefined ? null : tidy(value)).then(onDone, fail);
  return html`<form class="answer" onSubmit=${(event) => event.preventDefault()}>
    ${question.asks ? html`<${Form} schema=${question.asks} value=${value} onChange=${change} />` : html`<label for="value">Answer</label><${AsJson} id="value" placeholder='JSON: 12, "yes", {"key": "value"}' onChange=${change} />
      <small class="faint">Its stage says nothing about the form of it. Empty is null. If whoever should answer still can, let them: nothing is taken back.</small>`}
    <p class="faint">${question.has_default ? "When nobody answers in time, this counts:" : question.expires_at ? "When nobody answers in time, the attempt fails." : "It is open for as long as the attempt."}</p>
    ${question.has_default && html`<${Json} value=${question.default} />`}
    <${Problem} fault=${fault} />
    <div class="actions"><${Act} kind="strong" type="submit" onAct=${give}>Give this answer<//></div></form>`;
}
