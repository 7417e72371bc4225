// A workflow as a picture, and a job's way through it. dagre says where things stand; what is drawn is
// ours, so that it has our colours and a state can be clicked.
import { html, useEffect, useMemo, useRef } from "./preact.js";
import dagre from "./dagre.js";
import { duration } from "./words.js";

const LETTER = 7.4, HEIGHT = 40, MARGIN = 12;
const CROWD_MIN = 4;

/** `way` is what `walked` made of a job's history; `now` the state it is in. What is drawn for a way
 *  that grows stands where it stands for the `whole` of it. */
export function Diagram({ workflow, way = nowhere, whole = way, now = "", mood = "", counts = {}, onState }) {
  const drawn = useMemo(() => laidOut(workflow, whole.taken), [workflow, [...whole.taken.keys()].join()]);
  const at = useRef(null);
  useEffect(() => {
    const state = drawn.states.find((one) => one.name === now);
    if (state) at.current.scrollTop = state.y * (at.current.firstChild.clientHeight / drawn.height) - at.current.clientHeight / 2;
  }, [drawn, now]);
  const title = now ? `${workflow.name}: the job is in ${now}` : `States and edges of ${workflow.name}`;
  return html`<figure class="diagram" ref=${at} tabindex="0" aria-label="Diagram"><svg viewBox=${`0 0 ${drawn.width} ${drawn.height}`} style=${{ maxWidth: `${drawn.width}px` }} role="img" aria-label=${title}>
      <defs>${["", "taken"].map((kind) => html`<marker id=${`tip${kind}`} class=${kind} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
        <path d="M0 0 8 4 0 8z" /></marker>`)}</defs>
      ${drawn.edges.map((edge) => {
        const taken = way.taken.get(edge.key);
        return html`<g class=${`edge ${taken ? "taken" : ""}`}><title>${edge.words}${taken ? `\n${taken.words}` : ""}</title>
          <path d=${curve(edge.points)} marker-end=${`url(#tip${taken ? "taken" : ""})`} />
          ${taken?.times > 1 && html`<text x=${middle(edge.points).x + 4} y=${middle(edge.points).y}>×${taken.times}</text>`}</g>`;
      })}
      ${drawn.states.map((state) => {
        const spent = way.spent.get(state.name);
        const about = state.name === now ? `now ${mood}` : way.seen.has(state.name) ? "seen" : "";
        return html`<g class=${`state ${state.kind} ${about}`} transform=${`translate(${state.x} ${state.y})`} onClick=${onState && (() => onState(state.name))}>
          <title>${`${state.name}: ${state.kind}${state.stage ? `, ${stages(state.stage)}` : ""}${state.crowd ? ", from nearly everywhere" : ""}`}</title>
          <rect x=${-state.width / 2} y=${-HEIGHT / 2} width=${state.width} height=${HEIGHT} rx=${state.kind === "final" ? 18 : 7} />
          <text y=${spent || counts[state.name] ? -2 : 4}>${state.name}</text>
          ${spent ? html`<text class="more" y="13">${spent}</text>` : counts[state.name] ? html`<text class="more" y="13">${counts[state.name].toLocaleString("en")}</text>` : null}
        </g>`;
      })}
    </svg></figure>`;
}

const nowhere = { taken: new Map(), seen: new Set(), spent: new Map() };
const stages = (stage) => (typeof stage === "string" ? stage : Object.values(stage).join(", "));

/** What a job's history says about its way: which edges it took, and how long it was where. */
export function walked(history, untilMs) {
  const taken = new Map(), seen = new Set(), ms = new Map();
  history.forEach((hop, place) => {
    const at = Date.parse(hop.at), next = history[place + 1] ? Date.parse(history[place + 1].at) : untilMs;
    seen.add(hop.to_status);
    ms.set(hop.to_status, (ms.get(hop.to_status) || 0) + Math.max(0, next - at));
    if (!hop.from_status) return;
    const key = `${hop.from_status} ${hop.to_status}`;
    const times = (taken.get(key)?.times || 0) + 1;
    taken.set(key, { times, words: `taken ${times === 1 ? "once" : `${times} times`}, by ${hop.trigger} (${hop.actor})${hop.reason ? `: ${hop.reason}` : ""}` });
  });
  const spent = new Map([...ms].filter(([, long]) => long >= 1).map(([name, long]) => [name, duration(long)]));
  return { taken, seen, spent };
}

/** Where everything stands. An end that nearly every state leads to has its edges left out, but for
 *  those that were taken: they would hide all others. */
function laidOut(workflow, taken) {
  const states = new Map(workflow.states.map((state) => [state.name, state]));
  for (const key of taken.keys()) for (const name of key.split(" ")) if (!states.has(name)) states.set(name, { name, kind: "final" });
  const into = new Map();
  for (const edge of workflow.edges) if (edge.from !== edge.to) into.set(edge.to, (into.get(edge.to) || 0) + 1);
  const crowded = (name) => (into.get(name) || 0) >= Math.max(CROWD_MIN, states.size * 0.5);
  const shown = new Map(workflow.edges.map((edge) => [`${edge.from} ${edge.to}`, edge]));
  for (const key of taken.keys()) if (!shown.has(key)) shown.set(key, { from: key.split(" ")[0], to: key.split(" ")[1], triggers: [] });
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 34, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  const widths = new Map([...states.keys()].map((name) => [name, Math.max(64, name.length * LETTER + 22)]));
  const apart = [...states.keys()].filter((name) => crowded(name) && ![...taken.keys()].some((key) => key.endsWith(` ${name}`)));
  for (const name of states.keys()) if (!apart.includes(name)) graph.setNode(name, { width: widths.get(name), height: HEIGHT });
  const edges = [...shown].filter(([key, edge]) => edge.from !== edge.to && (taken.has(key) || !crowded(edge.to)) && !apart.includes(edge.from));
  for (const [, edge] of edges) graph.setEdge(edge.from, edge.to);
  dagre.layout(graph);
  const size = { width: Math.ceil(graph.graph().width), height: Math.ceil(graph.graph().height) };
  const row = below(apart, widths, size);
  return {
    ...row.size,
    states: [...states.values()].map((state) => ({ ...state, ...(row.places.get(state.name) || graph.node(state.name)), crowd: crowded(state.name) })),
    edges: edges.map(([key, edge]) => ({ key, points: graph.edge(edge.from, edge.to).points, words: worded(edge) })),
  };
}

/** States that stand apart, in rows under the others. */
function below(names, widths, size) {
  const places = new Map();
  let x = MARGIN, y = size.height + HEIGHT / 2 + MARGIN, width = size.width;
  for (const name of names) {
    if (x > MARGIN && x + widths.get(name) + MARGIN > Math.max(size.width, 420)) {
      x = MARGIN;
      y += HEIGHT + MARGIN;
    }
    places.set(name, { x: x + widths.get(name) / 2, y, width: widths.get(name) });
    x += widths.get(name) + MARGIN;
    width = Math.max(width, x);
  }
  return { places, size: { width, height: names.length ? y + HEIGHT / 2 + MARGIN : size.height } };
}

const worded = (edge) => `${edge.from} → ${edge.to}${edge.triggers.length ? `, by ${edge.triggers.join(", ")}` : ""}${edge.guards?.length ? `, if ${edge.guards.join(", ")}` : ""}${edge.money ? `, ${edge.money}` : ""}`;
const middle = (points) => points[Math.floor(points.length / 2)];

/** Through the middles of the points, so that there are no corners. */
function curve(points) {
  const [first, ...others] = points;
  const last = others.pop();
  const parts = others.map((point, place) => {
    const next = others[place + 1] || last;
    const end = others[place + 1] ? { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 } : last;
    return `Q${point.x} ${point.y} ${end.x} ${end.y}`;
  });
  return `M${first.x} ${first.y}${parts.join("")}${parts.length ? "" : `L${last.x} ${last.y}`}`;
}
