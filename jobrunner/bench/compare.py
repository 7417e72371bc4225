"""The price of durability: the service beside itself without storage, and with the least.

Three servers with the same door, one after the other, several rounds, in one run:

    bare     answers a submission with a job that nobody stored
    R        commits one row of the submission in a group commit, and nothing else
    service  everything on: key, credits, history, timers, log

The service is asked once more by ten times as many clients, who come again when they are told to.

What counts is service ÷ R, and that a crowd takes little away. Each server is a process of its
own, so that the client's work is not measured with it.
"""

import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from jobrunner.bench.load import Measured, load
from jobrunner.ports import Clock, SystemClock

CLIENTS = 32
CROWD = 10
CROWDED = 100_000_000
CREDITS = 1_000_000_000
SUBMISSION = {"workflow": "cutx", "job_type": "static_ad"}


class Address(Struct, frozen=True):
    """Read a server's first line."""

    url: str
    token: str
    pid: int = 0


async def bench(seconds: float = 3, rounds: int = 3, clients: int = CLIENTS) -> dict[str, Any]:
    """Medians over the rounds, as one table of figures and ratios."""
    clock = SystemClock()
    kinds = ("bare", "R", "service", "transitions", "crowded")
    rates: dict[str, list[Measured]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in ("bare", "R", "service"):
            async with server(kind) as address:
                rates[kind].append(await submissions(clock, address, clients, seconds))
                if kind == "service":
                    crowded = await submissions(clock, address, CROWD * clients, seconds, CROWDED)
                    rates["crowded"].append(crowded)
                    rates["transitions"].append(
                        await _transitions(clock, address, clients, seconds)
                    )
    return _table(rates, clients)


async def submissions(
    clock: Clock, at: Address, clients: int, seconds: float, first: int = 0
) -> Measured:
    """Jobs, all of them new."""

    def body(number: int) -> bytes:
        params = {"product_id": f"product-{number}"}
        return msgspec.json.encode(
            SUBMISSION | {"params": params, "idempotency_key": f"key-{number}"}
        )

    return await load(clock, at.url, at.token, _jobs, body, clients, seconds, first)


def _jobs(client: int) -> str:
    return "/jobs"


async def _transitions(clock: Clock, at: Address, clients: int, seconds: float) -> Measured:
    """Each client re-enters the stage of a job of its own: a history row and an event id each."""
    jobs = [await running_job(at, number) for number in range(clients)]

    def body(number: int) -> bytes:
        event = {"event_id": f"event-{number}", "status": "TRANSCRIBING"}
        return msgspec.json.encode(event | {"occurred_at": "2026-01-01T00:00:00Z"})

    def path(client: int) -> str:
        return f"/internal/jobs/{jobs[client]}/status"

    return await load(clock, at.url, at.token, path, body, clients, seconds)


async def running_job(at: Address, number: int) -> str:
    import aiohttp

    headers = {"Authorization": f"Bearer {at.token}"}
    async with aiohttp.ClientSession(at.url, headers=headers) as session:
        async with session.post("/jobs", json={"workflow": "howera"}) as made:
            job_id = str((await made.json())["id"])
        for status in ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING"):
            event = {"event_id": f"way-{status}", "status": status}
            event["occurred_at"] = "2026-01-01T00:00:00Z"
            async with session.post(f"/internal/jobs/{job_id}/status", json=event) as moved:
                assert moved.status == 204, await moved.text()
    return job_id


@asynccontextmanager
async def server(kind: str) -> AsyncIterator[Address]:
    with tempfile.TemporaryDirectory(prefix="jobrunner-bench-") as folder:
        command = [sys.executable, "-m", "jobrunner.bench.target", kind, folder]
        with (Path(folder) / "log").open("wb") as log:
            async with await anyio.open_process(command, stderr=log) as process:
                assert process.stdout is not None
                line = await process.stdout.receive()
                try:
                    yield msgspec.json.decode(line, type=Address)
                finally:
                    process.terminate()


def _table(rates: dict[str, list[Measured]], clients: int) -> dict[str, Any]:
    def median(kind: str) -> float:
        return statistics.median(one.per_s for one in rates[kind])

    def delay_ms(kind: str, share: float) -> float:
        return statistics.median(one.delay_ms(share) for one in rates[kind])

    table: dict[str, Any] = {"clients": clients}
    for kind, measured in rates.items():
        statuses: Counter[int] = Counter()
        for one in measured:
            statuses.update(one.answers)
        table[kind] = {
            "per_s": round(median(kind)),
            "p50_ms": round(delay_ms(kind, 0.5), 2),
            "p99_ms": round(delay_ms(kind, 0.99), 2),
            "answers": {str(status): count for status, count in statuses.items()},
        }
    table["submissions / R"] = round(median("service") / median("R"), 3)
    table["submissions / bare"] = round(median("service") / median("bare"), 3)
    table["crowded / submissions"] = round(median("crowded") / median("service"), 3)
    refused = [one.refusal_ms(0.99) for one in rates["crowded"]]
    table["crowded"]["refusals_p99_ms"] = round(statistics.median(refused), 2)
    table["transitions / R"] = round(median("transitions") / median("R"), 3)
    return table


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(anyio.run(bench))).decode() + "\n")
