// What changes, as it happens. One stream a page, closed while nobody looks at it: a browser has few
// connections, and a hidden page needs none.
import { useEffect, useRef, useState } from "./preact.js";
import { place } from "./asking.js";

/** Listens while it is shown. `hear` has a function for each event; `again` is called when something
 *  may have been missed. Returns whether there is a connection. */
export function useLive(path, hear, again) {
  const [open, change] = useState(false);
  const heard = useRef({});
  heard.current = { hear, again };
  useEffect(() => {
    if (!path) return undefined;
    let stream = null, opened = 0;
    const listen = () => {
      stream = new EventSource(place(path));
      stream.onopen = () => {
        change(true);
        if (opened++) heard.current.again?.();
      };
      stream.onerror = () => change(false);
      for (const name of Object.keys(heard.current.hear)) {
        stream.addEventListener(name, (event) => heard.current.hear[name]?.(JSON.parse(event.data)));
      }
    };
    const close = () => {
      stream?.close();
      stream = null;
    };
    const turn = () => {
      if (document.hidden) close();
      else if (!stream) listen();
    };
    document.addEventListener("visibilitychange", turn);
    turn();
    return () => {
      document.removeEventListener("visibilitychange", turn);
      close();
    };
  }, [path]);
  return open;
}

