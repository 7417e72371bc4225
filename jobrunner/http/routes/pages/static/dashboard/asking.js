// Every question to the service, and every order. They go where this file came from, so a proxy may
// put the service below a path; the browser adds the session by itself, and the header says that it
// is this page that acts.
import { useCallback, useEffect, useRef, useState } from "./preact.js";

export const ROOT = new URL("../../", import.meta.url);
const ACTING = { "X-Jobrunner-Page": "1" };

let signedOut = () => {};
let aheadMs = 0;

/** A refusal in the service's own words. */
export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `the service answered ${status}`);
    this.status = status;
    this.code = problem.error_code || "";
    this.problem = problem;
  }
}

export function onSignedOut(heard) {
  signedOut = heard;
}

/** The service's time of day, as far as its answers tell. */
export function now() {
  return Date.now() + aheadMs;
}

export function place(path) {
  return new URL(path.replace(/^\//, ""), ROOT).href;
}

/** Asks for JSON; undefined where there is none. */
export async function ask(method, path, { body, query, headers = {}, signal } = {}) {
  const url = new URL(place(path));
  for (const [name, value] of Object.entries(query || {})) {
    for (const one of [value].flat()) if (one !== "" && one != null) url.searchParams.append(name, one);
  }
  const said = await heard(url, {
    method, signal, credentials: "same-origin",
    headers: { ...ACTING, ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await said.text();
  const told = text && (said.headers.get("Content-Type") || "").includes("json") ? JSON.parse(text) : text;
  if (said.ok || said.status === 304) return told || undefined;
  if (said.status === 401) signedOut();
  throw new Refusal(said.status, told || {});
}

export const get = (path, query, signal) => ask("GET", path, { query, signal });
export const post = (path, body = {}, more = {}) => ask("POST", path, { body, ...more });

const FRESH_MS = 1000;
let seen = null;

/** How everything stands, asked for once by all who begin with it; before it is known who looks. */
export function glance() {
  seen ||= get("overview");
  const mine = seen;
  mine.then(() => setTimeout(() => forget(mine), FRESH_MS), () => forget(mine));
  return mine;
}

/** Somebody else looks from now on. */
export function forget(which = seen) {
  if (seen === which) seen = null;
}

/** Asks while it is shown: again when `keys` change or when it is told to. */
export function useAsked(question, keys) {
  const [known, change] = useState({ told: undefined, fault: null, busy: true });
  const turn = useRef(0);
  const again = useCallback(async () => {
    const mine = ++turn.current;
    change((was) => ({ ...was, busy: true }));
    try {
      const told = await question();
      if (mine === turn.current) change({ told, fault: null, busy: false });
    } catch (fault) {
      if (mine === turn.current) change((was) => ({ ...was, fault, busy: false }));
    }
  }, keys);
  useEffect(() => {
    again();
    return () => { turn.current += 1; };
  }, [again]);
  return { ...known, again };
}

async function heard(url, how) {
  let said;
  try {
    said = await fetch(url, how);
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw new Refusal(0, { detail: "the service does not answer; is it running?" });
  }
  const date = Date.parse(said.headers.get("Date") || "");
  // A second is all that the header tells; less than two is the network's.
  if (date && Math.abs(date - Date.now()) > 2000) aheadMs = date - Date.now();
  else if (date) aheadMs = 0;
  return said;
}
