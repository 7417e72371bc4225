"""W5: the same beside many jobs that have ended, and beside none, in turns."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import anyio
import msgspec

from jobrunner.bench.clients import once_each
from jobrunner.bench.load import request
from jobrunner.bench.measuring import Sample, Values, Wanted, closed_loop, numbered, submission
from jobrunner.bench.running import ASKING, WAITS
from jobrunner.bench.servers import LARGE, Service, service
from jobrunner.bench.stored import Growth, grow

PATTERNS = 200
TAKEN = "others"  # a workflow whose jobs are taken and not run
CLIENTS = 32
ASKED = 20
OWNER = "user-0000"
LISTS = {
    "all": "/jobs",
    "workflow": "/jobs?workflow=steps",
    "status": "/jobs?status=done",
    "status of none": "/jobs?status=failed",
    "job type": "/jobs?job_type=paid",
    "label of none": "/jobs?label=team:red",
    "paused": "/jobs?paused=true",
    "oldest first": "/jobs?order=oldest",
    "two filters": "/jobs?workflow=steps&status=done&job_type=paid",
    "files": "/assets",
    "credits": "/credits/history",
}


def growing(plan: Wanted) -> Iterator[Sample]:
    """W5. The two files are made once and measured in turns, ``plan.rounds`` times."""
    with ExitStack() as open_files:
        files = {
            "empty file": open_files.enter_context(_ended(plan, 0)),
            f"{plan.ended} ended": open_files.enter_context(_ended(plan, plan.ended)),
        }
        for number in range(plan.rounds):
            for who, server in files.items():
                yield from _measured(plan, who, server, number)


@contextmanager
def _ended(plan: Wanted, jobs: int) -> Iterator[Service]:
    """A service that was stopped, with so many jobs in its file."""
    with service(plan.disk, LARGE, (TAKEN,)) as server:
        template = submission(plan, server.token)
        made = [numbered(template, number) for number in range(PATTERNS)]
        once_each(server.url, made, ASKING)
        server.wait_until("steps", "done", PATTERNS)
        server.stop()
        if jobs:
            anyio.run(grow, str(server.path), Growth(jobs))
        yield server


def _measured(plan: Wanted, who: str, server: Service, number: int) -> Iterator[Sample]:
    ready_s = server.start()
    yield Sample("W5 start", who, 1, {"ready_s": ready_s, "file_mib": server.file_mib()})
    yield from _listed(server, who)
    token = server.token_of(f"ann-{number}")
    for work, workflow, path in (("W5 W1", TAKEN, "/jobs"), ("W5 W2", "steps", WAITS)):
        asked = submission(plan, token, workflow, path)
        yield Sample(work, who, CLIENTS, closed_loop(server, [asked], CLIENTS, plan.seconds))
    server.stop()


def _listed(server: Service, who: str) -> Iterator[Sample]:
    """Ask for each list as an admin does, and as the owner of half of all jobs does."""
    newest = msgspec.json.decode(server.ask("GET", "/jobs?limit=1")[1])["jobs"][0]
    shown = {"history": f"/jobs/{newest['id']}/history", "figures": "/metrics"}
    for name, path in (LISTS | shown).items():
        yield Sample(f"W5 {name}", who, 1, _delays(server, path, server.token))
    owner = server.token_of(OWNER)
    for name, path in LISTS.items():
        yield Sample(f"W5 {name}, own", who, 1, _delays(server, path, owner))


def _delays(server: Service, path: str, token: str) -> Values:
    """Ask for it some times, one after the other."""
    answered = once_each(server.url, [request("GET", path, token)] * ASKED, 1)
    assert answered.good == ASKED, path
    return {"p50_ms": answered.p50_ms, "p99_ms": answered.p99_ms}
