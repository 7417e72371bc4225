"""Plugins with panels, as an installer leaves them in the folder of a service: the one that
``plugin new --panel`` writes, and one whose panel tries what a panel must not be able to do."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tests.served import clean

ROOT = Path(__file__).resolve().parents[2]
GOOD, BAD = "tram", "ghost-train"
PRESS = {
    "jobrunner.workflows": {"press": "jobrunner_press:press"},
    "jobrunner.stages": {"press.ask": "jobrunner_press:ask"},
}
ASKED = '    ctx.log(f"token'
TOLD = '    __import__("pathlib").Path(f"{ctx.job_id}.url").write_text(url)\n'


def install_both(folder: Path) -> None:
    """One is written as for everybody; the other is the same under another name, but hostile."""
    good = _made(folder / "sources")
    bad = good.with_name(BAD)
    shutil.copytree(good, bad)
    (bad / "jobrunner_tram").rename(bad / "jobrunner_ghost_train")
    for path in (bad / "pyproject.toml", bad / "jobrunner_ghost_train" / "__init__.py"):
        text = path.read_text().replace("jobrunner_tram", "jobrunner_ghost_train")
        path.write_text(text.replace('"tram', f'"{BAD}').replace("\ntram =", f"\n{BAD} ="))
    (bad / "pyproject.toml").write_text(
        (bad / "pyproject.toml").read_text().replace("jobrunner-tram", f"jobrunner-{BAD}")
    )
    (bad / "jobrunner_ghost_train" / "panel" / "panel.js").write_text(HOSTILE)
    for source in (good, bad):
        _install(source, folder / "plugins.d")


def install_press(folder: Path) -> None:
    """A stage that asks; the address of its question is written where tests find it."""
    asking = (ROOT / "tests" / "stages" / "asking.py").read_text()
    package = folder / "sources" / "jobrunner_press"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(asking.replace(ASKED, TOLD + ASKED, 1))
    shutil.copytree(package, folder / "plugins.d" / package.name)
    project = {"name": "jobrunner-press", "version": "1", "entry-points": PRESS}
    _describe(project, package.name, folder / "plugins.d")


def _made(into: Path) -> Path:
    into.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "jobrunner", "plugin", "new", GOOD, "--panel"]
    subprocess.run(command, cwd=into, env=clean(), check=True, capture_output=True)
    return into / GOOD


def _install(source: Path, folder: Path) -> None:
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    package = f"jobrunner_{source.name.replace('-', '_')}"
    shutil.copytree(source / package, folder / package)
    _describe(project, package, folder)


def _describe(project: dict[str, Any], package: str, folder: Path) -> None:
    info = folder / f"{package}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines: list[str] = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


# It is told by the job's parameters what to try: TCP and UDP ports of somebody who listens, another
# job, a file of it. Each attempt says what came of it; "got" is what must never be there.
HOSTILE = """
import * as bridge from "./jobrunner.js";

const loads = (made) => new Promise((done) => {
  made.onload = () => done("got");
  made.onerror = () => done("refused");
  document.body.append(made);
});
const hears = (one) => new Promise((done) => {
  one.onopen = () => done("got");
  one.onerror = () => { one.close(); done("refused"); };
});
async function calling(world) {
  const one = new world.RTCPeerConnection({ iceServers: [{ urls: `stun:127.0.0.1:${udp}` }] });
  one.createDataChannel("x");
  await one.setLocalDescription();
  await new Promise((done) => { one.onicecandidateerror = one.onicecandidate = done; });
  return "got";
}
const made = (kind, fields) => Object.assign(document.createElement(kind), fields);

const { job } = await bridge.ready;
const { web, udp, other, file, leaves } = JSON.parse(job.params.name);
const there = `http://127.0.0.1:${web}/`;

const TRIES = {
  cookie: () => `got ${document.cookie}`,
  storage: () => `got ${localStorage.length}`,
  parentPage: () => `got ${parent.document.title}`,
  parentAddress: () => `got ${parent.location.href}`,
  parentLeaves: () => { top.location.href = there; return "silence"; },
  opens: () => (window.open(there) ? "got" : "refused"),
  asksTheService: async () => `got ${(await fetch("/jobs", { credentials: "include" })).status}`,
  asksElsewhere: async () => `got ${(await fetch(there, { mode: "no-cors" })).status}`,
  beacon: () => { navigator.sendBeacon(there, "x"); return "silence"; },
  picture: () => loads(made("img", { src: there })),
  script: () => loads(made("script", { src: there })),
  sheet: () => loads(made("link", { rel: "stylesheet", href: there })),
  frame: () => { document.body.append(made("iframe", { src: there })); return "silence"; },
  module: async () => `got ${await import(there)}`,
  socket: () => hears(new WebSocket(there.replace("http", "ws"))),
  events: () => hears(new EventSource(there)),
  worker: () => { new Worker(URL.createObjectURL(new Blob(["1"]))); return "silence"; },
  calls: async () => calling(window),
  callsFromWithin: async () => {
    const one = made("iframe");
    document.body.append(one);
    return calling(one.contentWindow);
  },
  markup: () => { document.body.innerHTML = "<b>x</b>"; return "got"; },
  evaluates: () => `got ${(0, eval)("1")}`,
  otherFile: () => bridge.file(file).then(() => "got"),
  otherArtifact: () => bridge.artifact(`../../${other}`).then(() => "got"),
  otherCommand: () => bridge.command(`../${other}/cancel`).then(() => "got"),
  actsAlone: () => bridge.command("cancel").then(() => "got"),
  savesAlone: () => bridge.save("notes", "x", 0).then(() => "got"),
  deletes: () => bridge.command("delete").then(() => "got"),
  fileAbove: () => bridge.file("..").then(() => "got"),
};

const found = {};
if (leaves === "by a form") {
  const sent = made("form", { action: there, method: "post" });
  document.body.append(sent);
  sent.submit();
} else if (leaves) location.href = leaves === "elsewhere" ? there : leaves;
else {
  for (const [name, tried] of Object.entries(TRIES)) {
    try {
      found[name] = String(await tried());
    } catch (fault) {
      found[name] = `${fault.code && fault.status ? fault.code : fault.name}`;
    }
  }
  const page = made("pre", { id: "found", textContent: JSON.stringify(found) });
  document.body.append(page);
}
"""
