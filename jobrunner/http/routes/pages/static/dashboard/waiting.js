// What waits for whoever is signed in: answers that this person may give, and jobs that rest until
// somebody does something. Counted for the navigation, listed on a page.
import { html, useEffect, useState } from "./preact.js";
import { get } from "./asking.js";
import { count } from "./words.js";

const AGAIN_MS = 20_000;
const hearers = new Set();
let known = 0;

/** The answers to give, the oldest of the jobs in each place, and how many there are in all. */
export async function gathered(session, rows) {
  const [asked, overview, stuck] = await Promise.all([get("answers", { limit: 100 }), get("overview"),
    session.role === "admin" ? get("jobs", { stuck: true, limit: rows || 1, order: "oldest" }) : { jobs: [] }]);
  const places = overview.counts.filter((one) => one.person && one.jobs);
  const questions = asked.answers.filter((one) => one.may_give);
  const resting = (overview.attention?.stuck || []).reduce((all, one) => all + one.jobs, 0);
  const jobs = rows ? await Promise.all(places.map(({ workflow, status }) => get("jobs", { workflow, status, limit: rows, order: "oldest" }))) : [];
  const all = questions.length + places.reduce((sum, one) => sum + one.jobs, 0) + resting;
  tell(all);
  return { questions, places, all, jobs: [...stuck.jobs, ...jobs.flatMap((one) => one.jobs)] };
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
  return all ? html` <span class="many" aria-label=${`${all} wait`}>${count(all)}</span>` : null;
}
