"""``python -m tests.browser.live_readers --pairs 5``: the CPU of one job while twenty look at
the overview, beside what it costs when nobody does; in turns, so that both have the same machine.

A reader is what the page does: a stream of changes, the overview again a moment after each, and the
charts now and then.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

from jobrunner.bench.measuring import Wanted, closed_loop, submission
from jobrunner.bench.running import WAITS
from jobrunner.bench.servers import DEFAULT, Service, service
from tests.browser.apart import apart

READERS, CLIENTS = 20, 32
AGAIN_S, CHARTS_S = 5.0, 10.0
WORKS = {"W1": ("/jobs", ("steps",)), "W2": (WAITS, ())}


async def read(session: aiohttp.ClientSession, token: str, told: Any) -> None:
    """One page, for as long as it is there."""
    loop = asyncio.get_running_loop()
    again = charts = 0.0
    headers = {"Authorization": f"Bearer {token}"}
    async with session.get("/overview/events", headers=headers) as stream:
        assert stream.status == 200, await stream.text()
        async for line in stream.content:
            if not line.startswith(b"event: changes"):
                continue
            told.value += 1
            if loop.time() >= again:
                again = loop.time() + AGAIN_S
                await (await session.get("/overview", headers=headers)).read()
            if loop.time() >= charts:
                charts = loop.time() + CHARTS_S
                await (await session.get("/overview/charts", headers=headers)).read()


async def look(url: str, tokens: list[str], told: Any) -> None:
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        url, timeout=timeout, connector=connector, read_bufsize=2**20
    ) as session:
        await asyncio.gather(*(read(session, token, told) for token in tokens))


def looks(url: str, tokens: list[str], told: Any) -> None:
    with contextlib.suppress(aiohttp.ClientError, KeyboardInterrupt):
        asyncio.run(look(url, tokens, told))


@contextlib.contextmanager
def readers(server: Service) -> Iterator[None]:
    """Twenty of them, in a process of their own. Each must have been told something."""
    tokens = [token_of(server, f"reader-{number}") for number in range(READERS)]
    told = multiprocessing.Value("q", 0)
    with apart(looks, server.url, tokens, told):
        yield
    assert told.value >= READERS, f"{told.value} tellings"


def token_of(server: Service, name: str) -> str:
    order = json.dumps({"name": name, "role": "reader"}).encode()
    status, said = server.ask("POST", "/admin/tokens", order)
    assert status == 201, said
    return str(json.loads(said)["token"])


def cpu_ms(plan: Wanted, work: str, *, watched: bool) -> dict[str, float]:
    path, outside = WORKS[work]
    with service(plan.disk, DEFAULT, outside) as server:
        asked = submission(plan, server.token_of("ann"), path=path)
        with readers(server) if watched else contextlib.nullcontext():
            return closed_loop(server, [asked], CLIENTS, plan.seconds)


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__)
    said.add_argument("--pairs", type=int, default=5)
    said.add_argument("--seconds", type=float, default=10)
    order = said.parse_args()
    with tempfile.TemporaryDirectory(prefix="jobrunner-readers-") as folder:
        plan = Wanted(Path(folder), seconds=order.seconds)
        for work in WORKS:
            ratios = []
            for _ in range(order.pairs):
                alone, beside = (cpu_ms(plan, work, watched=one) for one in (False, True))
                ratios.append(beside["cpu_ms"] / alone["cpu_ms"])
                told = [f"{one['cpu_ms']:.3f} ms, {one['per_s']:.0f}/s" for one in (alone, beside)]
                print(work, "alone", told[0], "read", told[1], f"x{ratios[-1]:.3f}", flush=True)
            print(work, f"median x{statistics.median(ratios):.3f}", flush=True)


if __name__ == "__main__":
    main()
