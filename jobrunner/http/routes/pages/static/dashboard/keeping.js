// What this browser remembers for whoever uses it: light or dark, how times are shown, saved views.
import { useLayoutEffect, useState } from "./preact.js";

const PREFIX = "jobrunner.";
const hearers = new Set();

export function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // A browser that keeps nothing forgets it with the page.
  }
  for (const hear of hearers) hear(name, value);
}

export function useKept(name, otherwise) {
  const [value, change] = useState(() => kept(name, otherwise));
  useLayoutEffect(() => {
    const hear = (which, news) => { if (which === name) change(news); };
    hearers.add(hear);
    return () => hearers.delete(hear);
  }, [name]);
  return [value, (news) => keep(name, news)];
}
