// The keyboard. A view says which keys it takes while it is shown; who types is left alone.
import { useLayoutEffect } from "./preact.js";

const tables = [];

export function useKeys(keys, when = []) {
  // Before the next key can come, so that two pressed at once mean what they mean one by one.
  useLayoutEffect(() => {
    tables.push(keys);
    return () => tables.splice(tables.indexOf(keys), 1);
  }, when);
}

/** Every key that means something now, with its words. */
export function known() {
  const found = new Map();
  for (const keys of tables) for (const [key, [words]] of Object.entries(keys)) found.set(key, words);
  return [...found];
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]") || (event.key === "Enter" && event.target.closest("a, button, summary"))) return;
  for (const keys of [...tables].reverse()) {
    const found = keys[event.key];
    if (found) {
      event.preventDefault();
      found[1]();
      return;
    }
  }
});

function isTyping(target) {
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && target.type !== "checkbox";
}
