"""Many clients that do nothing, or do not read, or come all at once: memory stays under a ceiling,
work goes on, and nothing that was acknowledged is lost."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import msgspec
import pytest

from jobrunner.bench.load import MARK, LoadOrder, Measured, at_share, load, request
from tests.whole.process import PATIENCE_S, Place, place, until

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
CEILING = 300 * MIB
IDLE_EACH = 24 * 1024
STREAM_EACH = 320 * 1024
CLIENTS = 32
LIMITS = """[limits]
connections = 12000
streams = 2000
streams_per_user = 2000
"""


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    async with place(tmp_path, credits=1_000_000) as home:
        home.configure(home.config.replace("[limits]\n", LIMITS))
        await home.start()
        await home.user("ada")
        await home.user("eve")
        yield home


def memory(home: Place) -> int:
    for line in Path(f"/proc/{home.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the service has no memory")


@asynccontextmanager
async def connected(home: Place, count: int, said: bytes = b"") -> AsyncIterator[None]:
    """So many connections that each say one thing and never read."""
    at = urlsplit(home.url)
    held: list[socket.socket] = []
    try:
        for number in range(count):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            held.append(one)
            one.connect((at.hostname, at.port))
            one.sendall(said)
            if number % 50 == 0:
                await anyio.sleep(0)
        yield
    finally:
        for one in held:
            one.close()


async def works(home: Place, count: int = 20, who: str = "eve") -> None:
    for number in range(count):
        job = await home.submit("cutx", who, params={"product_id": f"shoe-{number}"})
        assert (await home.get(f"/jobs/{job['id']}", who))["id"] == job["id"]


async def idle(home: Place, count: int) -> None:
    await works(home, 5)
    before = memory(home)
    async with connected(home, count // 2), connected(home, count - count // 2, b"GET /jobs HT"):
        await works(home)
        grown = memory(home) - before
        assert grown < 40 * MIB + count * IDLE_EACH, f"{grown / count:.0f} bytes for each"
        assert memory(home) < CEILING + count * IDLE_EACH
    await works(home)


async def unread(home: Place, count: int, jobs: int) -> None:
    """Each is cut off when it has not read for a while; nobody else waits for it."""
    await works(home, 5)
    before = memory(home)
    asked = f"GET /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {home.tokens['ada']}\r\n\r\n"
    async with connected(home, count, asked.encode()):
        most = 0
        for number in range(jobs):
            labels = {f"label-{n}": "x" * 250 for n in range(16)}
            params = {"product_id": f"lamp-{number}"}
            await home.submit("cutx", "ada", params=params, labels=labels)
            most = max(most, memory(home))
        grown = most - before
        assert grown < 40 * MIB + count * STREAM_EACH, f"{grown / count:.0f} bytes for each"
        await until(lambda: len(home.log("stream.dropped")) == count)
    await works(home)


async def test_connections_that_say_nothing(home: Place) -> None:
    """R12."""
    await idle(home, 500)


@pytest.mark.long
async def test_ten_thousand_connections_that_say_nothing(home: Place) -> None:
    await idle(home, 10_000)


async def test_streams_that_nobody_reads(home: Place) -> None:
    """R12."""
    await unread(home, 40, 60)


@pytest.mark.long
async def test_a_thousand_streams_that_nobody_reads(home: Place) -> None:
    await unread(home, 1_000, 100)


async def submitting(home: Place, clients: int, seconds: float, first: int) -> Measured:
    body = msgspec.json.encode({"workflow": "howera", "idempotency_key": f"key-{MARK.decode()}"})
    asked = request("POST", "/jobs", home.tokens["ada"], body)
    return await load(LoadOrder(home.url, [asked], clients, seconds, first))


async def is_all_there(home: Place, made: list[str]) -> None:
    """What was acknowledged, after a death without warning."""
    assert len(set(made)) == len(made)
    await home.kill()
    await home.start()
    kept, cursor = set[str](), ""
    while True:
        page = await home.get(f"/jobs?limit=100{cursor}", "ada")
        kept |= {f"/jobs/{job['id']}" for job in page["jobs"]}
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert set(made) <= kept
    assert home.faults() == ()


async def test_a_crowd_is_refused_and_nothing_is_lost(home: Place) -> None:
    """R12 R1: every answer is a job or a 503 that says when to come again."""
    crowd = await submitting(home, 150, 1.5, 0)
    assert set(crowd.answers) <= {201, 503}, crowd.answers
    assert crowd.answers[201] == len(crowd.made) > 0
    assert (await home.get("/healthz")) is not None
    await is_all_there(home, crowd.made)


@pytest.mark.long
async def test_at_ten_times_the_capacity(home: Place) -> None:
    """R12: as much work is done as at the peak, nearly, and who is refused hears of it soon.
    Peak and crowd take turns, and the medians of both are compared."""
    home.configure(home.config.replace("lag = 0\n", ""))
    await home.stop()
    await home.start()
    await submitting(home, CLIENTS, 1, 0)
    peaks, crowds = [], []
    made: list[str] = []
    for number in range(1, 6):
        peaks.append(await submitting(home, CLIENTS, 4, number * 10_000_000))
        crowds.append(await submitting(home, 10 * CLIENTS, 4, number * 10_000_000 + 5_000_000))
        made += peaks[-1].made + crowds[-1].made
    peak = sorted(one.per_s for one in peaks)[2]
    goodput = sorted(one.per_s for one in crowds)[2]
    refused_ms = sorted(at_share(one.refusals_ms, 0.99) for one in crowds)[2]
    told = f"peak {peak:.0f}/s, crowd {goodput:.0f}/s, refusals p99 {refused_ms:.0f} ms"
    assert goodput >= 0.9 * peak, told
    assert refused_ms <= 200, told
    await is_all_there(home, made)


assert PATIENCE_S >= 20, "a reader is cut off after 10 s"
