// What waits for whoever is signed in: answers that this person may give, and jobs that rest until
// somebody does something. Counted for the navigation, listed on a page.
import { html, useEffect, useState } from "./preact.js";
import { get, glance } from "./asking.js";
import { count } from "./words.js";

const AGAIN_MS = 20_000;
const PAGE = 100;
const hearers = new Set();
let known = "";

/** The answers to give, the oldest of the jobs in each place, and how many there are in all: of jobs
 *  so many `rows` of each place, of questions at least a page. `more`: there are others. */
export async function gathered(session, rows) {
  const [asked, overview, stuck] = await Promise.all([upTo("answers", Math.max(rows, PAGE), {}), rows ? get("overview") : glance(),
    rows && session.role === "admin" ? upTo("jobs", rows, { stuck: true, order: "oldest" }) : NONE]);
  const places = overview.counts.filter((one) => one.person && one.jobs);
  const questions = asked.rows.filter((one) => one.may_give);
  const resting = (overview.attention?.stuck || []).reduce((all, one) => all + one.jobs, 0);
  const jobs = rows ? await Promise.all(places.map(({ workflow, status }) => upTo("jobs", rows, { workflow, status, order: "oldest" }))) : [];
  const all = questions.length + places.reduce((sum, one) => sum + one.jobs, 0) + resting;
  tell(all ? `${count(all)}${asked.more ? "+" : ""}` : "");
  return { questions, all, more: [asked, stuck, ...jobs].some((one) => one.more), jobs: [...stuck.rows, ...jobs.flatMap((one) => one.rows)] };
}

const NONE = { rows: [], more: false };

/** The first of a list, over as many pages as it takes. */
async function upTo(path, most, query) {
  const rows = [];
  let cursor;
  do {
    const told = await get(path, { ...query, limit: Math.min(PAGE, most - rows.length), cursor });
    rows.push(...told[path]);
    cursor = told.next_cursor;
  } while (cursor && rows.length < most);
  return { rows, more: Boolean(cursor) };
}

function tell(all) {
  known = all;
  for (const hear of hearers) hear(all);
}

/** How many there are, beside the name of the page. */
export function Waiting({ session }) {
  const [all, change] = useState(known);
  useEffect(() => {
    const look = () => { if (!document.hidden) gathered(session, 0).catch(() => {}); };
    hearers.add(change);
    look();
    const turn = setInterval(look, AGAIN_MS);
    return () => { hearers.delete(change); clearInterval(turn); };
  }, [session.name]);
  return all ? html` <span class="many" aria-label=${`${all} wait`}>${all}</span>` : null;
}
