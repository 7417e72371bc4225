// Small parts that all views are made of.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { now } from "./asking.js";
import { useKept } from "./keeping.js";
import { exactly, roughly } from "./words.js";

const tickers = new Set();
setInterval(() => { for (const tick of tickers) tick((turn) => turn + 1); }, 1000);

/** Draws the caller anew each second, for as long as what it shows grows. */
export function useTick(grows) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!grows) return undefined;
    tickers.add(tick);
    return () => tickers.delete(tick);
  }, [grows]);
}

/** Shows a moment: how long ago, or exactly; the other one is its title. */
export function Time({ at }) {
  const [how] = useKept("times", "relative");
  const isRelative = how === "relative";
  useTick(isRelative);
  if (!at) return html`<span class="faint">–</span>`;
  const ms = Date.parse(at);
  const exact = exactly(ms, how === "utc");
  return html`<time dateTime=${at} title=${isRelative ? exact : roughly(now() - ms)}>${isRelative ? roughly(now() - ms) : exact}</time>`;
}

const MARKS = { completed: "good", partial: "good", failed: "bad", rejected: "bad", expired: "bad", canceled: "quiet" };

/** The colour of a state: by how it ended, else by what kind it is. */
export function mood(kind, endedAs, isStuck) {
  if (isStuck) return "bad";
  return (endedAs && (MARKS[endedAs] || "quiet")) || { active: "busy", queued: "line", waiting: "rest" }[kind] || "quiet";
}

export function Badge({ job }) {
  return html`<span class="badge ${mood(job.kind, job.ended_as, job.stuck)}">${job.status}</span>`;
}

/** What went wrong, in the service's words. */
export function Fault({ fault }) {
  if (!fault) return null;
  return html`<div class="notice bad" role="alert">
    <strong>${fault.code || "Something went wrong"}</strong> ${fault.message}
  </div>`;
}

/** Where there is no room for all of a row, the chosen one of it is seen. */
export function inView(row) {
  const at = document.querySelector(row), chosen = at?.querySelector("[aria-current], [aria-selected=true]");
  if (chosen && at.scrollWidth > at.clientWidth) at.scrollLeft += chosen.getBoundingClientRect().left - at.getBoundingClientRect().left - at.clientWidth / 3;
}

export function Empty({ children }) {
  return html`<div class="empty">${children}</div>`;
}

/** A window over the page; Escape closes it, and what had the focus has it again. */
export function Dialog({ title, onClose, wide, children }) {
  const at = useRef(null);
  // At once, so that a key that is pressed as soon as it is there means this window.
  useLayoutEffect(() => {
    const before = document.activeElement;
    at.current.showModal();
    // While it is open nothing else can have the focus, so it must have gone first.
    return () => queueMicrotask(() => before?.focus?.());
  }, []);
  return html`<dialog ref=${at} class=${wide ? "wide" : ""} aria-label=${title}
      onCancel=${(event) => { event.preventDefault(); onClose(); }} onClose=${onClose}
      onClick=${(event) => { if (event.target === at.current) onClose(); }}>
    <header><h2>${title}</h2><button class="plain" aria-label="Close" onClick=${onClose}>✕</button></header>
    <div class="inside">${children}</div>
  </dialog>`;
}

/** A button that is worked on while its promise is open, and then says what went wrong. */
export function Act({ onAct, children, kind = "", disabled, title, type = "button" }) {
  const [state, change] = useState({ busy: false, fault: null });
  const there = useRef(true);
  useEffect(() => () => { there.current = false; }, []);
  const act = async ({ currentTarget: button }) => {
    const unfit = [...button.closest("form, dialog, #answer")?.querySelectorAll("textarea") || []].find((one) => one.validity.customError);
    if (unfit) return void unfit.reportValidity();
    change({ busy: true, fault: null });
    let fault = null;
    try {
      await onAct();
    } catch (error) {
      fault = error;
    }
    if (there.current) change({ busy: false, fault });
  };
  return html`<button type=${type} class=${kind} disabled=${disabled || state.busy} title=${title} onClick=${act}>${children}</button>
    ${state.fault && html`<${Fault} fault=${state.fault} />`}`;
}

/** Puts a text where it can be pasted from. */
export function Copy({ text, what }) {
  const [done, change] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    change(true);
    setTimeout(() => change(false), 1500);
  };
  return html`<button class="plain small" aria-label=${`Copy ${what}`} title=${`Copy ${what}`} onClick=${copy}>${done ? "✓" : html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><rect x="5.5" y="5.5" width="8" height="8" rx="1.5" /><path d="M10.5 3.2V3a1 1 0 0 0-1-1H3a1 1 0 0 0-1 1v6.5a1 1 0 0 0 1 1h.2" /></svg>`}</button>`;
}

/** Any value as JSON that can be read. */
export function Json({ value }) {
  const text = JSON.stringify(value, null, 2);
  return html`<div class="json"><${Copy} text=${text ?? ""} what="JSON" /><pre tabindex="0">${text}</pre></div>`;
}

/** A link, if it leads to the web or to this service; else only its text. */
export function Link({ to, children }) {
  const safe = /^(https?:\/\/|\/(?!\/)|#)/.test(to || "");
  return safe ? html`<a href=${to} rel="noreferrer">${children || to}</a>` : html`<span>${children || to}</span>`;
}
