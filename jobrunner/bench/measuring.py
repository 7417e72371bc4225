"""One measurement: a server, its load, and what both of them cost meanwhile."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from jobrunner.bench.clients import Answers, again_and_again
from jobrunner.bench.cost import machine_busy_s
from jobrunner.bench.load import MARK, request
from jobrunner.bench.servers import DEFAULT, LARGE, Server
from jobrunner.bench.workloads import body

WARM_CLIENTS = 8
WARM_S = 1.0
FRESH = 10**9
LIMITS = {"default limits": DEFAULT, "large limits": LARGE}
Values = dict[str, float]


class Wanted(Struct, frozen=True):
    """The wishes of an operator: for how long, and how many of everything.

    ``disk`` is the folder that data is put into. ``plain`` submissions have no key and no price.
    ``batch``, ``parked``, ``waiting``, ``ended`` and ``telling`` are numbers of jobs."""

    disk: Path
    rounds: int = 5
    seconds: float = 4
    clients: tuple[int, ...] = (1, 32, 256)
    plain: bool = False
    batch: int = 4_000
    parked: int = 100_000
    waiting: int = 0
    ended: int = 1_000_000
    telling: int = 10_000


class Sample(Struct, frozen=True):
    """The figures of one round: of which work, by whom, asked by how many clients."""

    work: str
    who: str
    clients: int
    values: Values


Work = Callable[[Wanted], Iterator[Sample]]


def submission(plan: Wanted, token: str, workflow: str = "steps", path: str = "/jobs") -> bytes:
    """A request that makes a job, with a key that is its own and a price unless it is plain."""
    if plan.plain:
        return request("POST", path, token, body(workflow))
    key = f"key-{MARK.decode()}"
    return request("POST", path, token, body(workflow, paid=True), Idempotency_Key=key)


def numbered(template: bytes, number: int) -> bytes:
    return template.replace(MARK, b"%012d" % number)


class Watch:
    """Counts the CPU that a server, and everybody else on the machine, use from now on."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._began = time.perf_counter()
        self._used, self._machine_s = server.used(), machine_busy_s()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def costs(self, units: float, asking_s: float = 0) -> Values:
        """Return the CPU of one unit in ms. ``asking_s`` is the CPU of the clients; ``others`` is
        how many cores somebody else had taken."""
        used, seconds = self._server.used().since(self._used), self.seconds
        others_s = machine_busy_s() - self._machine_s - used.all_s - asking_s
        each = 1000 / max(units, 1)
        return {
            "cpu_ms": used.all_s * each,
            "loop_ms": used.loop_s * each,
            "others": max(others_s, 0) / seconds,
        }


def closed_loop(
    server: Server,
    requests: Sequence[bytes],
    clients: int,
    seconds: float,
    warm_s: float = WARM_S,
) -> Values:
    """Let so many clients ask, each as soon as it was answered, after a short time that does not
    count."""
    again_and_again(server.url, requests, min(WARM_CLIENTS, clients), warm_s)
    watch = Watch(server)
    answered = again_and_again(server.url, requests, clients, seconds, FRESH)
    return told(answered) | watch.costs(answered.good, answered.used_s)


def told(answered: Answers) -> Values:
    return {
        "per_s": answered.per_s,
        "p50_ms": answered.p50_ms,
        "p99_ms": answered.p99_ms,
        "refused": answered.refused,
        "broken": answered.broken,
        "client": answered.busy,
    }
