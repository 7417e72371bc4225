"""How the service bears more than it can do: ``python -m jobrunner.bench.overload``.

For each number of connections a service of its own: its peak, half of that three times, and many
times of it, by a client that asks at a fixed rate, while somebody reports about jobs beside it; and
in the end one that refuses everything, for the cost of that alone. What counts is how much of the
peak is left, what a refusal costs beside a job, and how long callbacks and refusals take; the last
lines say what of it is as it should be. The machine should have nothing else to do.

The peak is the same for all: what clients on 64 connections get made who ask again as soon as they
are answered, right before a load and right after it, since what a machine can do changes while one
measures. What a service does that nobody asks anything is no refusal's cost and no job's.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import msgspec
from msgspec.structs import replace

from jobrunner.bench.aims import Ran, aims
from jobrunner.bench.cost import used
from jobrunner.bench.crowd import NoCompiler, built, crowd
from jobrunner.bench.load import MARK, LoadOrder, Measured, load, request
from jobrunner.bench.target import WAY, Address, event_of, job_under_way, server

N = TypeVar("N")

CONNECTIONS = (32, 200, 1000)
TIMES = (0.5, 0.5, 0.5, 2.0, 5.0, 10.0)
RATE_MAX = 20_000.0
PEAK_CONNECTIONS = 64
PEAK_RATE = 50_000.0
WARM_UP_S = 3.0
IDLE_S = 5.0
REPORTERS = 4
REST_S = 0.1
BODY = msgspec.json.encode({"workflow": "howera"})
HEAD = (
    "conns   load  asked/s  made/s  % of peak  refused  p99 ms  callbacks  p50 ms  p99 ms  "
    "cpu ms/job  broken"
)


class Row(Ran, frozen=True):
    """``rate`` is how many were asked for in a second; ``cpu_s`` is what the service used."""

    rate: float
    cpu_s: float
    made: int
    callbacks: Measured

    def __str__(self) -> str:
        beside = self.callbacks
        return (
            f"{self.connections:5}  {self.times or 'peak':>5}  {self.rate:7.0f}  "
            f"{self.made_per_s:6.0f}  {100 * self.of_peak:9.0f}  {self.refused:7}  "
            f"{self.refused_p99_ms:6.0f}  {len(beside.delays_ms):9}  {beside.delay_ms(0.5):6.0f}  "
            f"{self.callback_p99_ms:6.0f}  {1000 * self.cpu_s / max(self.made, 1):10.3f}  "
            f"{self.strange:6}"
        )


async def overload(
    seconds: float, connections: tuple[int, ...] = CONNECTIONS, loads: tuple[float, ...] = TIMES
) -> list[Row]:
    """Measure, and print each row when it is known. The peak is the jobs made in a second, and the
    rate ``times`` that. Raises: NoCompiler."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="jobrunner-overload-") as folder:
        program = await built(Path(folder))
        for count in connections:
            async with server("service") as at:
                await _run(program, at, WARM_UP_S, PEAK_CONNECTIONS, 0, PEAK_RATE)
                peak = await _peak(program, at, seconds)
                for times in loads:
                    rate = min(times * peak.made_per_s, RATE_MAX)
                    row = await _run(program, at, seconds, count, times, rate)
                    before, peak = peak, await _peak(program, at, seconds) if times > 1 else peak
                    usual = (before.made_per_s + peak.made_per_s) / 2
                    rows.append(_said(replace(row, of_peak=row.made_per_s / usual)))
    return rows


async def _peak(program: Path, at: Address, seconds: float) -> Row:
    return _said(await _run(program, at, seconds, PEAK_CONNECTIONS, 0, PEAK_RATE))


async def _run(
    program: Path, at: Address, seconds: float, connections: int, times: float, rate: float
) -> Row:
    jobs = [await _running_job(at) for _ in range(REPORTERS)]
    beside: list[Measured] = []

    async def report() -> None:
        beside.append(await _reports(at, jobs, seconds))

    before_s = used(at.pid).all_s
    async with anyio.create_task_group() as group:
        group.start_soon(report)
        many = await crowd(program, at.url, at.token, rate, seconds, connections, BODY)
    used_s = used(at.pid).all_s - before_s
    return Row(
        connections,
        times,
        1.0,
        many.made / seconds,
        many.refused,
        many.refused_p99_ms,
        beside[0].delay_ms(0.99),
        many.other + many.broken + many.unanswered + many.without_retry_after,
        rate,
        used_s,
        many.made,
        beside[0],
    )


async def _running_job(at: Address) -> str:
    """A job in the stage that it is then reported to enter again and again."""
    async with job_under_way(at) as (_, job_id):
        return job_id


async def _reports(at: Address, jobs: list[str], seconds: float) -> Measured:
    """Report on each job again and again, with rests in between."""
    event = msgspec.json.encode(event_of(f"event-{MARK.decode()}", WAY[-1]))
    paths = [f"/internal/jobs/{job_id}/status" for job_id in jobs]
    requests = [request("POST", path, at.token, event) for path in paths]
    return await load(LoadOrder(at.url, requests, len(jobs), seconds, rest_s=REST_S))


def _said(row: Row) -> Row:
    print(row, flush=True)
    return row


async def cost_s(kind: str, seconds: float, connections: int) -> float:
    """Measure the CPU of each answer of such a service, beyond what it uses at rest.

    Raises: NoCompiler."""
    with tempfile.TemporaryDirectory(prefix="jobrunner-overload-") as folder:
        program = await built(Path(folder))
        async with server(kind) as at:
            await crowd(program, at.url, at.token, PEAK_RATE, WARM_UP_S, connections, BODY)
            before_s = used(at.pid).all_s
            await anyio.sleep(IDLE_S)
            idle = (used(at.pid).all_s - before_s) / IDLE_S
            before_s = used(at.pid).all_s
            many = await crowd(program, at.url, at.token, PEAK_RATE, seconds, connections, BODY)
            return (used(at.pid).all_s - before_s - idle * seconds) / (many.made + many.refused)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m jobrunner.bench.overload")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--connections", type=_numbers(int), default=CONNECTIONS)
    parser.add_argument("--loads", type=_numbers(float), default=TIMES)
    given = parser.parse_args()
    print(HEAD, flush=True)
    try:
        rows = anyio.run(overload, given.seconds, given.connections, given.loads)
        refused_s = anyio.run(cost_s, "shut", given.seconds, max(given.connections))
        made_s = anyio.run(cost_s, "service", given.seconds, PEAK_CONNECTIONS)
    except NoCompiler as error:
        print(error, file=sys.stderr)
        return 2
    print(
        f"a refusal costs {1000 * refused_s:.4f} ms of CPU, a job {1000 * made_s:.4f}: "
        f"{100 * refused_s / made_s:.0f} %\n"
    )
    for aim in aims(rows, 100 * refused_s / made_s):
        print(aim)
    return 0


def _numbers(kind: Callable[[str], N]) -> Callable[[str], tuple[N, ...]]:
    return lambda text: tuple(map(kind, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
