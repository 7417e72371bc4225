// The dashboard: who is signed in, the frame around every view, and which view an address shows.
//
// Nothing here decides who may do what: the service does, for every request, by the token behind the
// session. The page only leaves out what would be refused.
import { html, render, useEffect, useState } from "./preact.js";
import { become, go, here, to, useAddress } from "./address.js";
import { ask, forget, get, glance, onSignedOut, post } from "./asking.js";
import { keep, kept, useKept } from "./keeping.js";
import { known, useKeys } from "./keys.js";
import { Dialog, Empty, Fault, inView } from "./parts.js";
import { Mark, SignIn } from "./signing.js";
import { Batches } from "./batches.js";
import { Credits } from "./credits.js";
import { Job } from "./job.js";
import { Jobs } from "./jobs.js";
import { Operations } from "./operations.js";
import { Overview } from "./overview.js";
import { Review } from "./review.js";
import { Schedules } from "./schedules.js";
import { Submit } from "./submit.js";
import { Offer, Tour } from "./tour.js";
import { Waiting } from "./waiting.js";
import { Workflows } from "./workflows.js";

// A page that is not in the navigation has no group.
const PAGES = [
  { name: "overview", title: "Overview", key: "O", view: Overview, group: "Work" },
  { name: "jobs", title: "Jobs", key: "J", view: JobOrJobs, group: "Work" },
  { name: "review", title: "For me", key: "F", view: Review, group: "Work", roles: ["user", "admin"], count: Waiting },
  { name: "new", title: "New job", key: "N", view: Submit, roles: ["user", "admin"] },
  { name: "batches", title: "Batches", key: "B", view: Batches, group: "Work" },
  { name: "tour", title: "Tour", view: Tour, roles: ["user", "admin"] },
  { name: "workflows", title: "Workflows", key: "W", view: Workflows, group: "Work" },
  { name: "credits", title: "Credits", key: "C", view: Credits, group: "Work", roles: ["user", "admin", "reader"] },
  { name: "schedules", title: "Schedules", key: "S", view: Schedules, group: "Service", roles: ["admin", "reader"] },
  { name: "operations", title: "Operations", key: "P", view: Operations, group: "Service", roles: ["admin", "reader"] },
];
const THEMES = { auto: "◐", light: "☀", dark: "☾" };
const TIMES = { relative: "relative", local: "local", utc: "UTC" };

function App() {
  const [session, change] = useState(undefined);
  const [fault, fail] = useState(null);
  const [unwelcome, refuse] = useState(null);
  const load = () => welcomed(refuse).then(() => get("session")).then(change, fail);
  const turn = (other) => { forget(); change(other); };
  useEffect(() => {
    onSignedOut(load);
    load();
    // The overview need not wait for an answer that is nearly always the same.
    if (kept("signed") && [undefined, PAGES[0].name].includes(here().path[0])) glance().catch(() => {});
  }, []);
  useEffect(() => { if (session) keep("signed", Boolean(session.name)); }, [session]);
  if (fault) return html`<main class="sign-in"><${Fault} fault=${fault} /></main>`;
  if (session === undefined) return html`<p class="faint loading">One moment…</p>`;
  return session.name ? html`<${Frame} session=${session} onSignedOut=${turn} />` : html`<${SignIn} onSignedIn=${turn} fault=${unwelcome} />`;
}

/** Whoever came by the link of a first start is signed in by its key, which leaves the address first. */
async function welcomed(refuse) {
  const { path, query } = here();
  const link = path[0] === "welcome" && query.get("key");
  if (!link) return;
  become(to([]));
  await post("session", { link }).catch(refuse);
}

function Frame({ session, onSignedOut }) {
  const address = useAddress();
  const [helps, help] = useState(false);
  const pages = PAGES.filter((page) => !page.roles || page.roles.includes(session.role));
  const name = address.path[0] || pages[0].name;
  const page = pages.find((one) => one.name === name);
  useKeys({
    "?": ["This list", () => help(true)],
    "/": ["Search", () => document.querySelector("[data-search]")?.focus()],
    ...Object.fromEntries(pages.filter((one) => one.key).map((one) => [one.key, [one.title, () => go(to([one.name]))]])),
  }, [session.role]);
  useEffect(() => inView(".side"), [name]);
  useEffect(() => { document.title = `${page ? page.title : "Nothing here"} · jobrunner`; }, [name]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
    <header class="bar">
      <a class="brand" href=${to([])} aria-label="jobrunner: overview"><${Mark} /> <span>jobrunner</span></a>
      <${Search} />
      <${Me} session=${session} onSignedOut=${onSignedOut} onHelp=${() => help(true)} />
    </header>
    <nav class="side" aria-label="Pages"><div class="stays">${groups(pages).map(([group, some]) => html`
      <h2>${group}</h2>
      <ul>${some.map((one) => html`<li><a href=${to([one.name])} aria-current=${one.name === name ? "page" : null}>${one.title}${one.count && html`<${one.count} session=${session} />`}</a></li>`)}</ul>`)}</div>
    </nav>
    <main id="main" tabindex="-1">${name === "overview" && html`<${Offer} session=${session} />`}${page
      ? html`<${page.view} key=${name} session=${session} address=${address} />`
      : html`<${Empty}>There is nothing at this address. <a href=${to([])}>Begin again</a><//>`}
    </main>
    ${helps && html`<${Keys} onClose=${() => help(false)} />`}`;
}

function JobOrJobs(props) {
  const id = props.address.path[1];
  return id ? html`<${Job} key=${id} ...${props} />` : html`<${Jobs} ...${props} />`;
}

function groups(pages) {
  const found = new Map();
  for (const page of pages) if (page.group) found.set(page.group, [...(found.get(page.group) || []), page]);
  return [...found];
}

/** Finds a job by its id or a part of it, and others by a text in what they were given or made. */
function Search() {
  const [text, change] = useState("");
  const search = (event) => {
    event.preventDefault();
    const wanted = text.trim().replace(/^…/, "");
    if (!wanted) return;
    change("");
    document.activeElement?.blur();
    sought(wanted).then(go);
  };
  return html`<form role="search" onSubmit=${search}>
    <input data-search type="search" minlength="2" maxlength="200" placeholder="Find a job: id or text  ( / )" aria-label="Find a job"
      value=${text} onInput=${(event) => change(event.target.value)}
      onKeyDown=${(event) => { if (event.key === "Escape") event.target.blur(); }} />
  </form>`;
}

/** Where that is to be seen. The index tells at once how an id begins; pages show how it ends. */
async function sought(wanted) {
  const id = wanted.toLowerCase();
  if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/.test(id)) return to(["jobs", id]);
  if (!/^[0-9a-f][0-9a-f-]{7,35}$/.test(id)) return to(["jobs"], { text: wanted });
  const ask_ = (query) => get("jobs", { ...query, limit: 2 }).catch(() => ({ jobs: [] }));
  const [begun, told] = await Promise.all([ask_({ id }), ask_({ text: id })]);
  if (begun.jobs.length > 1) return to(["jobs"], { id });
  const found = new Set([...begun.jobs, ...told.jobs.filter((job) => job.id.endsWith(id))].map((job) => job.id));
  return found.size === 1 ? to(["jobs", ...found]) : to(["jobs"], { text: id });
}

function Me({ session, onSignedOut, onHelp }) {
  const [theme, dress] = useKept("theme", "auto");
  const [times, tell] = useKept("times", "relative");
  useEffect(() => { document.documentElement.dataset.theme = theme; }, [theme]);
  const turn = (table, value) => { const all = Object.keys(table); return all[(all.indexOf(value) + 1) % all.length]; };
  // The first turn is to what the system does not show, so that one sees what the button does.
  const themes = matchMedia("(prefers-color-scheme: dark)").matches ? THEMES : { auto: 1, dark: 1, light: 1 };
  useKeys({
    t: ["Light or dark", () => dress(turn(themes, theme))],
    u: ["Times: relative, local, UTC", () => tell(turn(TIMES, times))],
  }, [theme, times]);
  const signOut = async () => {
    await ask("DELETE", "session");
    become(to([]));
    onSignedOut(await get("session"));
  };
  return html`<div class="me">
    <button class="plain" title="How times are shown" onClick=${() => tell(turn(TIMES, times))}><span class="roomy">times: </span>${TIMES[times]}</button>
    <button class="plain" aria-label=${`Theme: ${theme}`} title=${`Theme: ${theme}`} onClick=${() => dress(turn(themes, theme))}>${THEMES[theme]}</button>
    <button class="plain" aria-label="Keys" title="Keys ( ? )" onClick=${onHelp}>?</button>
    <span class="who" title=${session.role}>${session.name}<small>${session.role === "reader" ? "reads only" : session.role}</small></span>
    ${session.auth === "tokens" && html`<button class="plain" onClick=${signOut}>Sign out</button>`}
  </div>`;
}

function Keys({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}><dl class="keys">${known().map(([key, words]) => html`
    <dt><kbd>${key}</kbd></dt><dd>${words}</dd>`)}</dl>
    <p><a href=${to(["tour"])} onClick=${onClose}>A tour of two minutes</a></p><//>`;
}

render(html`<${App} />`, document.getElementById("page"));
