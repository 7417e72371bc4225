"""All works in the order of their telling: ``make bench``, ``jobrunner bench``.

    W1      jobs are taken, and nothing is done about them; beside servers that do the least
    W1run   jobs are taken while those that were taken run
    W2      a job of three stages, from its submission to its end, in one request
    W2t     the same by throughput
    W3      a webhook to each of many parked jobs, until all have ended
    W4      very many parked jobs: memory, and how soon the service is back after kill -9
    W4s     as many as you like, out of a file that was made so
    timers  a thousand are due each second
    W5      W1, W2, each list and the start beside many jobs that have ended, and beside none
    flood   how long a job takes beside a flood of somebody else's
    burn    how long an answer takes beside stages that use cores up
    tell    very many stages at a time, each telling every second how far it is

Whoever is compared is measured in turns, round by round.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from jobrunner.bench.fairness import burning, flooding, telling
from jobrunner.bench.growth import growing
from jobrunner.bench.machine import Machine, look_at
from jobrunner.bench.measuring import Sample, Wanted, Work, closed_loop, submission
from jobrunner.bench.parking import punctual, waiting, waiting_for_long
from jobrunner.bench.peer import found, peer
from jobrunner.bench.report import Medians, doubts, lines_of, ratios, table
from jobrunner.bench.running import (
    WAITS,
    ringing,
    running,
    running_many,
    submitting,
    submitting_meanwhile,
)
from jobrunner.bench.servers import LARGE, service
from jobrunner.errors import Misconfigured

WORKS: dict[str, Work] = {
    "W1": submitting,
    "W1run": submitting_meanwhile,
    "W2": running,
    "W2t": running_many,
    "W3": ringing,
    "W4": waiting,
    "W4s": waiting_for_long,
    "timers": punctual,
    "W5": growing,
    "flood": flooding,
    "burn": burning,
    "tell": telling,
}
ONCE = frozenset({"W4", "W4s", "W5", "tell"})  # W5 has rounds of its own
FLAME_CLIENTS = 32
FLAME_RATE = 500


class Result(Struct, frozen=True):
    """Everything, as ``--json`` has it."""

    machine: Machine
    plan: Wanted
    lines: list[Medians]
    ratios: dict[str, float]
    doubts: list[str]
    samples: list[Sample]

    def text(self) -> Iterator[str]:
        yield from self.machine.lines()
        yield f"medians of {self.plan.rounds} rounds (least-most), {self.plan.seconds:g} s each"
        yield "submissions are plain: no key, no price" if self.plan.plain else (
            "submissions have a key and a price")  # fmt: skip
        yield ""
        yield from table(self.lines)
        yield from (f"{ratio:.3f}  {name}" for name, ratio in self.ratios.items())
        yield from (f"doubt: {doubt}" for doubt in self.doubts)


def measure(
    plan: Wanted, works: Iterable[str], *, beside_peer: bool, tell: Callable[[Sample], None]
) -> Result:
    """Measure everything, and tell each sample as soon as it is known. An interrupt ends it before
    its time; a round in which something does not start, when others have told something, ends
    before its time alone.

    Raises: Misconfigured."""
    if beside_peer:
        found()
    machine, samples, broken = look_at(plan.disk), list[Sample](), list[str]()
    with _interruptible():
        for work in works:
            for _ in range(1 if work in ONCE else plan.rounds):
                try:
                    for sample in _round(plan, work, beside_peer):
                        samples.append(sample)
                        tell(sample)
                except Misconfigured as error:
                    if not samples:
                        raise
                    broken.append(f"a round of {work} ended before its time: {error}")
    lines = lines_of(samples)
    return Result(machine, plan, lines, ratios(lines), [*broken, *doubts(lines)], samples)


@contextmanager
def _interruptible() -> Iterator[None]:
    """End at SIGINT and SIGTERM in good order: no service stays, and what is known is told."""
    signals = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(one, signal.default_int_handler) for one in signals]
    try:
        yield
    except KeyboardInterrupt:
        pass  # it is enough
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)


def _round(plan: Wanted, work: str, beside_peer: bool) -> Iterator[Sample]:
    yield from WORKS[work](plan)
    if beside_peer:
        yield from peer(plan, work)


def nearest(folder: Path) -> Path:
    """The folder, or the one above it that is there."""
    folder = folder.absolute()
    return next(one for one in (folder, *folder.parents) if one.is_dir())


def profiler() -> str:
    """Find the profiler: where the shell finds it, or beside the python that runs this. Raises:
    Misconfigured."""
    program = shutil.which("py-spy") or shutil.which("py-spy", path=Path(sys.executable).parent)
    if program is None:
        raise Misconfigured("a flame graph needs py-spy: pip install py-spy")
    return program


def flame(plan: Wanted, into: Path) -> None:
    """Draw where the service's time goes while it runs jobs. Raises: Misconfigured."""
    with service(plan.disk, LARGE) as server:
        asked = submission(plan, server.token_of("ann"), path=WAITS)
        command = [profiler(), "record", "--pid", str(server.pids[0]), "--output", str(into)]
        command += ["--duration", str(round(plan.seconds) + 1), "--rate", str(FLAME_RATE)]
        recorder = subprocess.Popen(
            [*command, "--threads"], stdout=subprocess.DEVNULL, env=os.environ
        )
        closed_loop(server, [asked], FLAME_CLIENTS, plan.seconds)
        if recorder.wait():
            raise Misconfigured(f"py-spy did not work: {' '.join(command)}")
