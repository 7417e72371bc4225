// How work went over an hour, a day or a week. uPlot draws; each chart says the same in words and as a
// table, and is read with the arrow keys as with a mouse.
import { html, useEffect, useMemo, useRef, useState } from "./preact.js";
import { get, now, useAsked } from "./asking.js";
import { useKept } from "./keeping.js";
import { Fault } from "./parts.js";
import { count, duration, exactly, many } from "./words.js";

const SPANS = { hour: ["the last hour", 10_000], day: ["the last day", 60_000], week: ["the last week", 300_000] };
const FAILED = new Set(["failed", "expired"]);
const COLOURS = { completed: "--good", partial: "--wait", failed: "--bad", expired: "--bad", rejected: "--wait", canceled: "--edge", ended: "--edge", made: "--busy" };
const TURN = ["--strong", "--good", "--wait", "--busy", "--bad", "--edge"];
const DASH = [5, 4];
const LADDER_MS = [10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000];
const WORKFLOWS_MAX = TURN.length, ROWS_MAX = 24, HEIGHT = 170, SIDE = 58, LETTER = 7.2, MINUTE_S = 60;

export function Charts({ session }) {
  const [span, turn] = useKept("charts.span", "hour");
  const [by, divide] = useKept("charts.by", "outcome");
  const [of, choose] = useState("");
  const here = SPANS[span] ? span : "hour";
  const { told, fault, again } = useAsked(() => get("overview/charts", { span: here }), [here]);
  useEffect(() => {
    const tick = setInterval(() => { if (!document.hidden) again(); }, SPANS[here][1]);
    return () => clearInterval(tick);
  }, [here]);
  const views = useMemo(() => told && views_(told, of, by, session.role !== "user"), [told, of, by]);
  return html`<section class="card charts" aria-labelledby="charts-title">
    <div class="title"><h2 id="charts-title">How it went</h2>
      <div class="choice" role="group" aria-label="Over">${Object.keys(SPANS).map((name) => html`<button class="small" aria-pressed=${name === here ? "true" : "false"} onClick=${() => turn(name)}>${name}</button>`)}</div>
      <label class="small-text">of <select aria-label="Charts of" onChange=${(event) => choose(event.target.value)}><option value="">all workflows</option>
        ${(told?.charts || []).slice(1).map((one) => html`<option value=${one.workflow} selected=${one.workflow === of}>${one.workflow}</option>`)}</select></label>
      ${!of && html`<label class="small-text">throughput by <select aria-label="Throughput by" onChange=${(event) => divide(event.target.value)}>${["outcome", "workflow"].map((name) => html`<option value=${name} selected=${name === by}>${name}</option>`)}</select></label>`}</div>
    <${Fault} fault=${fault} />
    ${views && html`<div class="plots">${views.map((view) => html`<${Plot} key=${view.name} view=${view} when=${SPANS[told.span][0]} />`)}</div>`}</section>`;
}

/** What each chart shows: times in seconds, lines of numbers (null: nothing to show), and words. */
function views_(told, of, by, withLine) {
  const chart = told.charts.find((one) => (one.workflow || "") === of) || told.charts[0];
  const begins = Date.parse(told.begins_at) / 1000;
  const times = chart.made.map((_, at) => begins + at * told.step_s);
  const minutes = times.map((at) => lived(at, told.step_s) / MINUTE_S);
  const rate = (numbers) => numbers.map((number, at) => (minutes[at] ? number / minutes[at] : null));
  const ended = sums(Object.values(chart.ended), times.length);
  const failed = sums(Object.entries(chart.ended).filter(([outcome]) => FAILED.has(outcome)).map(([, numbers]) => numbers), times.length);
  const whole = chart.whole, all = total(whole.ended), bad = total(whole.ended, FAILED);
  const lines = by === "workflow" && !of ? byWorkflow(told, rate) : byOutcome(chart, rate);
  const views = [
    { name: "Throughput", unit: "jobs a minute", lines, say: (value) => plain(value), words: `${many(whole.made, "job was", "jobs were")} made, ${count(all)} ended${all ? ": " : ""}${Object.entries(whole.ended).map(([outcome, number]) => `${count(number)} ${outcome}`).join(", ")}` },
    { name: "Latency", unit: "from submission to end", log: true, say: (value) => duration(value), words: whole.p50_ms === null ? "nothing ended" : `half took ${duration(whole.p50_ms)} at the most, 99 of 100 took ${duration(whole.p99_ms)}`,
      lines: [{ name: "half within", colour: "--good", numbers: chart.p50_ms }, { name: "99 of 100 within", colour: "--wait", numbers: chart.p99_ms, dash: DASH }] },
    { name: "Failed", unit: "of those that ended", most: 100, say: (value) => `${plain(value)} %`, words: all ? `${count(bad)} of ${count(all)} (${plain(100 * bad / all)} %) failed or expired` : "nothing ended",
      lines: [{ name: "failed", colour: "--bad", numbers: ended.map((number, at) => (number ? 100 * failed[at] / number : null)) }] },
  ];
  if (!of && withLine) views.push({ name: "The line", unit: "how long the first one waited", few: 1000, say: (value) => duration(value), words: Math.max(...told.in_line) ? `${count(Math.max(...told.in_line))} at the most, and nobody waited longer than ${duration(Math.max(...told.waits_ms))}` : "nobody had to wait",
    lines: [{ name: "waited", colour: "--busy", numbers: told.waits_ms }, { name: "in line", told: told.in_line }] });
  return views.map((view) => ({ ...view, times, step_s: told.step_s }));
}

function byOutcome(chart, rate) {
  return [{ name: "made", colour: COLOURS.made, numbers: rate(chart.made), dash: DASH },
    ...Object.entries(chart.ended).map(([outcome, numbers]) => ({ name: outcome, colour: COLOURS[outcome] || "--edge", numbers: rate(numbers), dash: outcome === "expired" ? DASH : undefined }))];
}

function byWorkflow(told, rate) {
  const busiest = told.charts.slice(1).sort((one, other) => total(other.whole.ended) - total(one.whole.ended)).slice(0, WORKFLOWS_MAX);
  return busiest.map((one, turn) => ({ name: one.workflow, colour: TURN[turn], numbers: rate(sums(Object.values(one.ended), one.made.length)) }));
}

/** How much of a bucket is over; nothing, while it is too little to tell a rate by. */
function lived(at, step_s) {
  const passed_s = Math.min(step_s, now() / 1000 - at);
  return passed_s < step_s / 3 ? 0 : passed_s;
}

const sums = (lines, length) => Array.from({ length }, (_, at) => lines.reduce((sum, line) => sum + line[at], 0));
const total = (named, only) => Object.entries(named).reduce((sum, [name, number]) => sum + (!only || only.has(name) ? number : 0), 0);
const plain = (value) => (value >= 10 || Number.isInteger(value) ? count(Math.round(value)) : value.toFixed(value >= 1 ? 1 : 2));

function Plot({ view, when }) {
  const [at, look] = useState(null);
  const [reads, read] = useState(false);
  const place = useRef(null), plot = useRef(null);
  const [times] = useKept("times", "relative");
  const isUtc = times === "utc";
  const drawn = view.lines.filter((line) => line.numbers);
  useDrawn(place, plot, view, drawn, isUtc, look);
  const last = view.times.length - 1;
  const move = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last }[event.key];
    if (!step) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(last, (at ?? last + 1) + step));
    look(to);
    plot.current?.setCursor({ left: plot.current.valToPos(view.times[to], "x"), top: 0 });
  };
  const id = `plot-${view.name.replace(/\W/g, "").toLowerCase()}`;
  return html`<figure class="plot">
    <figcaption id=${id}><strong>${view.name}</strong> <span class="faint">${view.unit}</span><div class="small-text">In ${when} ${view.words}.</div></figcaption>
    <div class="canvas" ref=${place} role="img" tabindex="0" aria-labelledby=${id} aria-describedby=${`${id}-at`} onKeyDown=${move} onFocus=${() => read(true)} onBlur=${() => read(false)}></div>
    <div class="small-text at" id=${`${id}-at`} aria-live=${reads ? "polite" : "off"}>${at === null || at > last
      ? drawn.map((line) => html`<${Key} line=${line} />`)
      : html`<span class="faint">${moment(view.times[at], isUtc)}</span> ${view.lines.map((line) => html`<${Key} line=${line} value=${told_(view, line, at)} />`)}`}</div>
    <details class="small-text"><summary>As a table<span class="sr">: ${view.name}</span></summary><${Table} view=${view} isUtc=${isUtc} /></details>
  </figure>`;
}

function Key({ line, value }) {
  return html`<span class="key">${line.numbers && html`<svg class="swatch" viewBox="0 0 14 4" aria-hidden="true"><path class=${line.colour.slice(2)} d="M0 2h14" stroke-dasharray=${line.dash ? "4 3" : null} /></svg>`}${line.name}${value && html` <strong>${value}</strong>`}</span>`;
}

function told_(view, line, at) {
  if (line.told) return count(line.told[at]);
  return line.numbers[at] === null ? "–" : view.say(line.numbers[at]);
}

/** The newest first; of many buckets those in which something stands out. */
function Table({ view, isUtc }) {
  const heard = view.times.map((_, at) => at).filter((at) => view.lines.some((line) => (line.told || line.numbers)[at])).reverse();
  if (!heard.length) return html`<p class="faint">Nothing happened.</p>`;
  return html`<div class="wide" tabindex="0" role="region" aria-label=${`${view.name} as a table`}><table><thead><tr><th>From</th>${view.lines.map((line) => html`<th>${line.name}</th>`)}</tr></thead>
    <tbody>${heard.slice(0, ROWS_MAX).map((at) => html`<tr><td>${moment(view.times[at], isUtc)}</td>${view.lines.map((line) => html`<td>${told_(view, line, at)}</td>`)}</tr>`)}</tbody></table>
    ${heard.length > ROWS_MAX && html`<p class="faint">and ${count(heard.length - ROWS_MAX)} before.</p>`}</div>`;
}

const moment = (at, isUtc) => exactly(at * 1000, isUtc).replace(/:00(Z?)$/, "$1");

/** Makes the picture, and anew when its lines, its width or the colours are others. */
function useDrawn(place, plot, view, drawn, isUtc, look) {
  const [theme] = useKept("theme", "auto");
  const [dark, turn] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
  const [kind, load] = useState(null);
  useEffect(() => {
    const scheme = matchMedia("(prefers-color-scheme: dark)"), hear = () => turn(scheme.matches);
    scheme.addEventListener("change", hear);
    import("./uplot.js").then((module) => load(() => module.default));
    return () => scheme.removeEventListener("change", hear);
  }, []);
  const lines = drawn.map((line) => line.name).join();
  useEffect(() => {
    if (!kind) return undefined;
    const at = place.current;
    plot.current = new kind(options(at, view, drawn, isUtc, look, kind), data(view, drawn), at);
    const wide = new ResizeObserver(() => plot.current?.setSize({ width: at.clientWidth, height: HEIGHT }));
    wide.observe(at);
    return () => { wide.disconnect(); plot.current.destroy(); plot.current = null; look(null); };
  }, [kind, lines, theme, dark, isUtc, view.step_s]);
  useEffect(() => { plot.current?.setData(data(view, drawn)); }, [view]);
}

const data = (view, drawn) => [view.times, ...drawn.map((line) => (view.log ? line.numbers.map((number) => (number > 0 ? number : null)) : line.numbers))];

function options(at, view, drawn, isUtc, look, kind) {
  const style = getComputedStyle(at), colour = (name) => style.getPropertyValue(name).trim();
  const font = `12px ${style.fontFamily}`, axis = { stroke: colour("--faint"), font, ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 } };
  const clock = (splits, days) => splits.map((one) => (days ? exactly(one * 1000, isUtc).slice(5, 10) : exactly(one * 1000, isUtc).slice(11, 16)));
  return {
    width: at.clientWidth, height: HEIGHT, legend: { show: false }, padding: [8, 20, 0, 0],
    tzDate: isUtc ? (seconds) => kind.tzDate(new Date(seconds * 1000), "Etc/UTC") : undefined,
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "charts" } },
    hooks: { setCursor: [(one) => look(one.cursor.idx ?? null)] },
    scales: { x: { time: true }, y: view.log ? { distr: 3 } : { range: (_, least, most) => [0, view.most || (most > 0 ? most * 1.1 : view.few || 1)] } },
    axes: [{ ...axis, size: 26, grid: { show: false }, values: (_, splits, __, ___, step_s) => clock(splits, step_s >= 86_400) },
      { ...axis, size: (_, said) => Math.max(SIDE, LETTER * Math.max(0, ...(said || []).map((text) => text.length)) + LETTER), ...(view.log ? { splits: (_, __, least, most) => LADDER_MS.filter((step) => step >= least && step <= most), filter: (_, splits) => splits } : {}), values: (_, splits) => splits.map((one) => (one === null ? "" : view.say(one).replace(".0", ""))) }],
    series: [{}, ...drawn.map((line) => ({ label: line.name, stroke: colour(line.colour), width: 1.75, dash: line.dash, spanGaps: false, points: { show: view.log || view.most ? undefined : false, size: 4 } }))],
  };
}
