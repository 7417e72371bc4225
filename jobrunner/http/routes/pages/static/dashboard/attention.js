// What somebody should do something about: each line names the thing, says since when and why, and is
// the way to where it can be changed.
import { html } from "./preact.js";
import { to } from "./address.js";
import { now } from "./asking.js";
import { Time } from "./parts.js";
import { count, many, size } from "./words.js";

const HOUR_MS = 3_600_000, LONG_MS = 600_000;
const NEARLY = .8;
const FEW = 5;
const tab = (name) => to(["operations"], { tab: name });
const jobs = (query) => to(["jobs"], query);

export function Attention({ session, told, counts }) {
  const found = [...ofPeople(told, counts, session.role !== "reader"), ...(told.attention ? [...ofJobs(told.attention), ...ofOthers(told.attention), ...ofObstacles(told.attention.obstacles)] : []),
    ...(told.work ? ofLine(told.work, counts, told.attention?.obstacles.pauses || []) : []), ...(told.system ? ofService(told.system) : [])];
  found.sort((one, other) => Boolean(other.grave) - Boolean(one.grave));
  return html`<section class="card attention"><h2>Needs attention</h2>${found.length
    ? html`<ul>${found.map((one) => html`<li class=${one.grave ? "grave" : ""}>${one.link ? html`<a href=${one.link}>${one.words}</a>` : one.words}
        ${one.since && html` <span class="faint">${one.how || "the oldest"} <${Time} at=${one.since} /></span>`}
        ${one.then && html` <a class="small-text" href=${one.then[1]}>${one.then[0]}</a>`}
        ${one.why && html`<div class="small-text faint clip" title=${one.why}>${one.why}</div>`}</li>`)}</ul>`
    : html`<p class="good-text">Nothing. Everything goes on by itself.</p>`}</section>`;
}

const of = (number, words) => html`<strong>${count(number)}</strong> ${words}`;

function ofPeople({ questions, questions_open }, counts, answers) {
  const waiting = counts.filter((one) => one.person && one.jobs).map((one) => ({
    words: of(one.jobs, html`${one.jobs === 1 ? "waits" : "wait"} for a person in <code>${one.status}</code> of ${one.workflow}`),
    link: jobs({ workflow: one.workflow, status: one.status }) }));
  const asked = questions.slice(0, FEW).map((one) => ({
    words: html`<strong>${one.workflow}</strong> asks <code>${one.name}</code> and waits for an answer`, link: answers ? to(["review", one.job_id, one.name]) : to(["jobs", one.job_id]), since: one.asked_at, how: "since",
    why: one.text || "Whoever should call back can still do so. If they will not: give the answer by hand, or \"stop\" the job and \"rerun\" it." }));
  const others = (questions_open ?? questions.length) - asked.length;
  if (others > 0) asked.push({ words: of(others, others === 1 ? "other question waits for an answer" : "other questions wait for an answer"), link: answers ? to(["review"]) : jobs({ kind: "active" }) });
  return [...waiting, ...asked];
}

function ofJobs({ stuck, paused, unclaimed, failed, retrying, parked }) {
  const rest = (rows, grave, words, query) => rows.filter((one) => one.jobs).map((one) => ({
    grave, words: of(one.jobs, html`${words} in ${one.workflow}`), link: jobs({ workflow: one.workflow, ...query }), since: one.since }));
  const long = parked.filter((one) => now() - Date.parse(one.updated_at) > LONG_MS);
  const lately = failed.filter((one) => now() - Date.parse(one.updated_at) < HOUR_MS);
  return [...rest(stuck, true, "stuck", { stuck: "true" }), ...rest(paused, false, "paused", { paused: "true" }),
    ...rest(unclaimed, false, "up for a worker outside", { kind: ["queued", "active"] }),
    ...long.slice(0, 1).map((one) => ({
      words: of(long.length, html`${long.length === 1 ? "awaits" : "await"} a callback, first of ${one.workflow}`), link: to(["jobs", one.id]), since: one.updated_at, how: "since" })),
    ...grouped(retrying).map(([code, few]) => ({
      words: of(few.length, html`of ${few[0].workflow} failed with <code>${code}</code> and will be tried again`), link: few.length === 1 ? to(["jobs", few[0].id]) : jobs({ workflow: few[0].workflow, status: few[0].status }), since: few[0].next_attempt_at, how: "next", why: few[0].failure_message, then: held(few[0]) })),
    ...grouped(lately).map(([code, few]) => ({
      words: of(few.length, html`of ${few[0].workflow} failed with <code>${code}</code> within an hour`), link: few.length === 1 ? to(["jobs", few[0].id]) : jobs({ workflow: few[0].workflow, status: few[0].status }), since: few[0].updated_at, how: "the last", why: few[0].failure_message, then: held(few[0]) }))];
}

/** Where the work is held back while somebody mends what it needs. */
const held = ({ workflow }) => [`to ${workflow}, to pause it`, to(["workflows", workflow])];

/** By workflow and by what they failed with. */
function grouped(rows) {
  const found = new Map();
  for (const job of rows) {
    const code = job.failure_code || "nothing said", key = `${job.workflow} ${code}`;
    found.set(key, [code, [...(found.get(key)?.[1] || []), job]]);
  }
  return [...found.values()];
}

function ofOthers({ dead_letters, dead_letter_at, endpoints_failing, endpoints_disabled }) {
  return [
    dead_letters && { grave: true, words: of(dead_letters, dead_letters === 1 ? "dead letter" : "dead letters"), link: tab("dead"), since: dead_letter_at, how: "the last" },
    endpoints_failing && { grave: true, words: many(endpoints_failing, "endpoint fails", "endpoints fail"), link: tab("endpoints") },
    endpoints_disabled && { words: many(endpoints_disabled, "endpoint is", "endpoints are") + " disabled", link: tab("endpoints") },
  ].filter(Boolean);
}

const TROUBLES = { missed: "missed a moment", waits: "cannot make its job yet", faulty: "can make no job" };

function ofObstacles({ pauses, schedules, rates, older }) {
  const paused = { workflow: (name) => to(["workflows", name]), stage: () => to(["workflows"]), schedule: () => to(["schedules"]) };
  return [
    ...pauses.map((one) => ({ words: html`The ${one.scope} <strong>${one.name}</strong> is paused by ${one.by}`, link: paused[one.scope](one.name), since: one.at, how: "since", why: one.reason })),
    ...schedules.map((one) => ({ grave: one.trouble !== "waits", words: html`The schedule <strong>${one.name}</strong> ${TROUBLES[one.trouble]}`, link: to(["schedules"]), since: one.since, how: "since", why: one.reason })),
    ...rates.map((one) => ({ words: html`The rate <strong>${one.name}</strong> holds back ${many(one.waiting, "job")}${one.held_by && html`, as the provider of <code>${one.held_by}</code> asked`}`, link: tab("limits"), since: one.room_at, how: "the next turn" })),
    ...older.map((one) => ({ grave: one.stuck > 0, words: one.stuck ? of(one.stuck, html`of ${one.workflow} cannot go on under an older declaration`) : of(one.older, html`of ${one.workflow} ${one.older === 1 ? "is" : "are"} under an older declaration`),
      link: tab("declarations"), why: one.lacks.length ? `for want of ${one.lacks.join(", ")}` : "" })),
  ];
}

function ofLine({ in_line, line_max, oldest_in_line_at }, counts, pauses) {
  if (!line_max || in_line < NEARLY * line_max) return [];
  const isFull = in_line >= line_max;
  const holds = new Map();
  for (const one of counts) if (one.kind === "queued" && one.jobs) holds.set(one.workflow, (holds.get(one.workflow) || 0) + one.jobs);
  const full = [...holds].sort((one, other) => other[1] - one[1]);
  const paused = new Set(pauses.filter((one) => one.scope === "workflow").map((one) => one.name));
  const held = full.find(([name]) => paused.has(name))?.[0];
  return [{ grave: isFull, words: html`The line is ${isFull ? "full: new jobs are refused" : "nearly full"}, ${count(in_line)} of ${count(line_max)}`, link: jobs({ kind: ["queued", "active"] }), since: oldest_in_line_at, then: held && [`to ${held}, to resume it`, to(["workflows", held])],
    why: full.length ? `It holds ${full.slice(0, FEW).map(([name, number]) => `${count(number)} of ${name}${paused.has(name) ? ", which is paused" : ""}`).join(", ")}. Resume what is paused, raise limits.active_jobs or limits.queued_jobs, or wait.` : "" }];
}

// A part that fails, whom it costs what, and what helps.
const PARTS = {
  stage: ["fails with an error that it does not foresee", "Its attempts say where. When it is mended and the service has been restarted: \"rerun\" what failed."],
  hook: ["fails", "If it may refuse attempts, they are tried again; else nothing waits for it. Its plugin is to be mended, or taken out; then restart."],
  function: ["fails", "What asks it is refused with WORKFLOW_UNAVAILABLE, or stuck. Mend the plugin and restart, then \"release\" what is stuck."],
  companion: ["is not open", "It is tried again by itself, and jobs go on without it. See what it lacks: a port, a key, a program."],
  panel: ["does not start", "The console of that browser says why. The commands of a job do without it."],
};

function ofPlugins(troubles) {
  const found = troubles.slice(0, FEW).map((one) => {
    const [fails, cure] = PARTS[one.kind];
    const whole = one.workflow && !one.name.startsWith(one.workflow) ? ` of ${one.workflow}` : "";
    return { grave: one.kind !== "panel", words: html`The ${one.kind} <strong>${one.name}</strong>${whole} ${fails}`, link: one.job_id ? to(["jobs", one.job_id]) : one.workflow ? to(["workflows", one.workflow]) : to(["workflows"]),
      since: one.at, how: "the last time", why: `${one.error ? `${one.error.replace(/[.;]?$/, ".")} ` : ""}${cure}` };
  });
  const others = troubles.length - found.length;
  if (others > 0) found.push({ words: of(others, others === 1 ? "other part of a plugin fails" : "other parts of plugins fail"), link: to(["workflows"]), why: troubles.slice(FEW).map((one) => `${one.kind} ${one.name}`).join(", ") });
  return found;
}

function ofService(system) {
  const found = [
    ...Object.entries(system.checks).map(([name, words]) => ({ grave: true, words: html`<strong>${name}</strong> ${words}` })),
    ...Object.entries(system.warnings).map(([name, words]) => ({ words: html`<strong>${name}</strong> ${words}`, link: tab("file") })),
    ...Object.entries(system.refused).map(([name, faults]) => ({ grave: true, words: html`<strong>${name}</strong> refused: ${faults[0]}`, link: to(["workflows"]) })),
    ...ofPlugins(system.troubles),
  ];
  if (system.draining) found.push({ words: "the service drains: it takes no new jobs" });
  const { free_bytes, free_min_bytes, wal_bytes, wal_max_bytes } = system;
  if (free_min_bytes && free_bytes < 2 * free_min_bytes) {
    const isFull = free_bytes < free_min_bytes;
    found.push({ grave: isFull, words: html`The disk is ${isFull ? "full: new jobs are refused" : "nearly full"}, ${size(free_bytes)} left`, link: tab("file") });
  }
  if (wal_max_bytes && wal_bytes > wal_max_bytes) found.push({ words: html`The file's log is larger than it should be: somebody reads from it for long`, link: tab("file") });
  return found;
}
