"""One connection without a network: its timers, what it leans on, what it must not hold back."""

import asyncio
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from aiohttp import web

from jobrunner.core.features.meter import SILENT
from jobrunner.http.frame.answering import FIXED
from jobrunner.http.front.admission import Admission
from jobrunner.http.front.waiting import READ_MAX, Desk, Front
from jobrunner.ports import SystemClock, SystemIds

pytestmark = pytest.mark.anyio

WHOLE = b"POST /jobs HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nbody"
OTHER = b"GET /jobs HTTP/1.1\r\nHost: here\r\n\r\n"


class Transport(asyncio.Transport):
    max_size = 256 * 1024

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.said += bytes(data)

    def writelines(self, list_of_data: Any) -> None:
        self.said += b"".join(list_of_data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Served:
    """A front, its transport, and which requests the server underneath got to see."""

    def __init__(self, patience_s: float = 600) -> None:
        self.admission = Admission(SystemClock(), 1, patience_s)
        assert self.admission.enter(), "there is one place, and it is taken"
        door: Any = SimpleNamespace(
            limits=SimpleNamespace(admission=self.admission),
            meter=SILENT,
            clock=SystemClock(),
            log=lambda *event, **fields: None,
            ids=SystemIds(SystemClock()),
            settings=SimpleNamespace(cors=()),
            keyring=SimpleNamespace(remembered=lambda token: ""),
        )
        self.seen: list[str] = []
        self.goes_on = asyncio.Event()
        self.transport = Transport()
        desk = Desk(door, {b"POST /jobs": ("POST", "/jobs")}, FIXED)
        self.front = Front(
            web.Server(self._handle), desk, loop=asyncio.get_running_loop(), access_log=None
        )
        self.front.connection_made(self.transport)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.text()
        self.seen.append(f"{request.method} {body}")
        await self.goes_on.wait()
        return web.Response(text="fine")

    def grow_old(self) -> None:
        """The time for an idle connection is over."""
        self.front._next_keepalive_close_time = 0.0
        self.front._process_keepalive()

    async def has_seen(self, *requests: str) -> None:
        with anyio.fail_after(120):
            while self.seen != list(requests):
                await anyio.sleep(0)


async def test_what_the_front_leans_on() -> None:
    """Names of the server underneath that it does not promise: if one goes, this says which."""
    front = Served().front
    for name in (
        "_waiter",
        "_messages",
        "_next_keepalive_close_time",
        "_keepalive_timeout",
        "_loop",
    ):
        assert hasattr(front, name), name
    for name in ("_process_keepalive", "data_received", "connection_lost", "close"):
        assert callable(getattr(web.RequestHandler, name)), name
    await anyio.wait_all_tasks_blocked()
    front.close()


async def test_whoever_waits_for_its_turn_is_not_idle() -> None:
    served = Served()
    await anyio.wait_all_tasks_blocked()
    served.front.data_received(WHOLE)
    assert len(served.admission) == 1
    served.grow_old()
    assert not served.transport.closed
    served.front.turn_away(0.0)
    assert served.transport.said.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert served.front._next_keepalive_close_time > asyncio.get_running_loop().time()
    served.admission.forget(served.front)
    served.grow_old()
    assert served.transport.closed, "and then it is as idle as any"


async def test_a_body_that_never_comes() -> None:
    """It is not collected for ever: the server underneath gets what there is, and has a clock."""
    served = Served()
    served.goes_on.set()
    await anyio.wait_all_tasks_blocked()
    served.front.data_received(WHOLE[:-2])
    await anyio.wait_all_tasks_blocked()
    assert served.front._request_count == 0
    served.grow_old()
    assert served.front._request_count == 1
    assert not served.transport.closed
    served.front.data_received(WHOLE[-2:])
    await served.has_seen("POST body")


async def test_a_head_that_never_comes() -> None:
    served = Served()
    await anyio.wait_all_tasks_blocked()
    served.front.data_received(WHOLE[:30])
    served.grow_old()
    assert served.transport.closed


async def test_whoever_does_not_read_is_not_told_more() -> None:
    """Answers that nobody takes are not heaped up: the ordinary way waits until they are read."""
    served = Served(patience_s=0)
    await anyio.wait_all_tasks_blocked()
    served.front.pause_writing()
    served.front.data_received(WHOLE)
    assert served.transport.said == b""
    await served.has_seen("POST body")


async def test_behind_a_request_under_way_nothing_is_held_back() -> None:
    served = Served(patience_s=0)
    await anyio.wait_all_tasks_blocked()
    served.front.data_received(OTHER)
    await served.has_seen("GET ")
    served.front.data_received(WHOLE)
    assert served.transport.said == b"", "an answer out of turn would be another request's"
    served.goes_on.set()
    await served.has_seen("GET ", "POST body")


async def test_the_next_one_is_held_back_however_soon_it_comes() -> None:
    """A client on the same machine has sent it before the server underneath, which answers in a
    task of its own, waits for more."""
    served = Served()
    served.goes_on.set()
    await anyio.wait_all_tasks_blocked()
    write, arrived = served.transport.write, anyio.Event()

    def arrive() -> None:
        assert served.front._waiter is None, "the server underneath does not wait for it yet"
        served.front.data_received(WHOLE)
        arrived.set()

    def written(data: bytes) -> None:
        write(data)
        if served.transport.said.endswith(b"fine"):
            asyncio.get_running_loop().call_soon(arrive)

    served.transport.write = written  # type: ignore[method-assign]
    served.front.data_received(OTHER)
    with anyio.fail_after(120):
        await arrived.wait()
    assert len(served.admission) == 1
    served.admission.leave()
    await served.has_seen("GET ", "POST body")


async def test_a_place_goes_with_its_connection() -> None:
    """Promised to a request that nobody gets to see, and nobody stumbles over that."""
    served = Served()
    await anyio.wait_all_tasks_blocked()
    task = served.front._task_handler
    assert task is not None
    served.front.data_received(WHOLE)
    served.admission.leave()
    assert served.admission.inside == 1
    served.front.connection_lost(None)
    assert served.admission.inside == 0
    await asyncio.wait([task])
    assert task.cancelled()
    assert served.seen == []


async def test_a_read_takes_no_more_memory_than_it_may_bring() -> None:
    served = Served()
    assert served.transport.max_size == READ_MAX
