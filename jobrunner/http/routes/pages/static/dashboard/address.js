// Where one is in this page stands in its address, behind the hash: a path, and what is asked for.
// So every view can be linked to, the browser's own buttons work, and no server need know.
import { useEffect, useState } from "./preact.js";

const CHANGED = "hashchange";

/** Reads the address: `#/jobs/7?tab=history` has the path ["jobs", "7"]. */
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(plain), query: new URLSearchParams(query) };
}

/** Makes a link of a path and what is asked for; empty answers are left out. */
export function to(path, query = {}) {
  const given = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  const asked = new URLSearchParams(given.flatMap(([name, value]) =>
    [value].flat().filter((one) => one !== "" && one != null).map((one) => [name, one])));
  return `#/${path.map(encodeURIComponent).join("/")}${asked.size ? `?${asked}` : ""}`;
}

export function go(link) {
  location.hash = link;
}

/** Takes the place of this address, so that going back does not lead here again. */
export function become(link) {
  history.replaceState(null, "", link);
  dispatchEvent(new HashChangeEvent(CHANGED));
}

export function useAddress() {
  const [address, change] = useState(here);
  useEffect(() => {
    const hear = () => change(here());
    addEventListener(CHANGED, hear);
    hear();  // What changed between the first drawing and this was heard by nobody.
    return () => removeEventListener(CHANGED, hear);
  }, []);
  return address;
}

function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
