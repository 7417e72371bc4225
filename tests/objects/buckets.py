"""A store of objects on loopback, and a line to it that breaks when it is told to.

The store is another project's, as it comes. The line stands before it and counts requests by what
they do; a fault is planted for one of them, before the store hears of it or after it has answered.
"""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from typing import Any, Literal

import aiohttp
from aiohttp import web
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
from yarl import URL

from jobrunner.config.settings import ObjectsSection

BUCKET = "files"
KEYS = {"AWS_ACCESS_KEY_ID": "loopback", "AWS_SECRET_ACCESS_KEY": "a-secret-of-the-store"}
When = Literal["before", "after", "refuse", "cut"]
Step = Literal["check", "size", "put", "begin", "part", "whole", "read", "remove", "address"]


class Quiet(WSGIRequestHandler):
    """HTTP as stores speak it: a connection is used again."""

    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        return


@contextmanager
def bucket_server() -> Iterator[str]:
    """A whole store, with the bucket; where it answers."""
    moto_api_backend.reset()
    wsgi = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, wsgi, threaded=True, request_handler=Quiet)
    server.daemon_threads = True  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def step_of(method: str, target: str) -> Step:
    """What a request to the store does."""
    key, _, query = target.partition("?")
    single = key.count("/") > 1
    if method == "GET":
        return "read" if single else "check"
    if method == "HEAD":
        return "size"
    if method == "PUT":
        return "part" if "uploadId=" in query else "put"
    if method == "POST" and "uploads" in query:
        return "begin"
    if method == "POST" and "uploadId=" in query:
        return "whole"
    return "remove"


class Wire:
    """``down``: nobody answers. ``deaf_to`` are headers that do not arrive. ``fault`` is asked of
    each request: when it breaks, if it does."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.url = ""
        self.down = False
        self.deaf_to: tuple[str, ...] = ()
        self.steps: list[Step] = []
        self.fault: Callable[[Step, int], When | None] = lambda step, number: None
        self.on_step: Callable[[Step, int], Awaitable[None]] | None = None
        self._session: aiohttp.ClientSession | None = None

    def break_at(self, step: Step, when: When, times: int = 1) -> None:
        """Let the next so many of these requests fail."""
        left = [times]

        def fault(seen: Step, number: int) -> When | None:
            if seen != step or not left[0]:
                return None
            left[0] -= 1
            return when

        self.fault = fault

    async def handle(self, request: web.Request) -> web.StreamResponse:
        step = step_of(request.method, request.raw_path)
        self.steps.append(step)
        when = self.fault(step, len(self.steps))
        if self.down or when == "before":
            return self._broken(request)
        if when == "refuse":
            return web.Response(status=403, text=DENIED, content_type="application/xml")
        if self.on_step is not None:
            await self.on_step(step, len(self.steps))
        try:
            body = await request.read()
        except ConnectionResetError:
            return web.Response(status=502)
        if request.transport is None or request.transport.is_closing():
            return web.Response(status=502)  # whoever asked was killed
        status, headers, data = await self._passed_on(request, body)
        if when == "after":
            return self._broken(request)
        if when == "cut":
            return await self._cut(request, status, data)
        return web.Response(status=status, headers=headers, body=data)

    async def _passed_on(self, request: web.Request, body: bytes) -> tuple[int, Any, bytes]:
        assert self._session is not None
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
        headers["Host"] = request.headers["Host"]
        headers = {k: v for k, v in headers.items() if k not in self.deaf_to}
        url = URL(self.behind + request.raw_path, encoded=True)
        async with self._session.request(
            request.method, url, data=BytesIO(body), headers=headers, skip_auto_headers=PLAIN
        ) as answer:
            data = await answer.read()
            told = {k: v for k, v in answer.headers.items() if k.lower() not in HOP}
            if request.method == "HEAD":
                told["Content-Length"] = answer.headers.get("Content-Length", "0")
            return answer.status, told, data

    async def _cut(self, request: web.Request, status: int, data: bytes) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        await response.write(data[: len(data) // 2])
        return self._broken(request, response)

    def _broken(
        self, request: web.Request, response: web.StreamResponse | None = None
    ) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return response or web.Response(status=502)


HOP = {"host", "transfer-encoding", "connection", "keep-alive", "content-length"}
SOMEBODY = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=loopback/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
}
PLAIN = ("Content-Type",)
DENIED = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"


@asynccontextmanager
async def wired(behind: str) -> AsyncIterator[Wire]:
    """A line to the store, on a port of its own."""
    wire = Wire(behind)
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{tail:.*}", wire.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        wire._session = session
        host, port = runner.addresses[0][:2]
        wire.url = f"http://{host}:{port}"
        async with session.put(f"{behind}/{BUCKET}", data=b"") as made:
            assert made.status in (200, 409), await made.text()
        try:
            yield wire
        finally:
            await runner.cleanup()


def section(wire: Wire, **more: Any) -> ObjectsSection:
    """Settings that lead there, with an upload of several parts as small as the store takes it."""
    said = {"part": 5 * 1024**2, "timeout": 5.0, "keep_local": 0.0, "keep_deleted": 0.0}
    place = {"bucket": BUCKET, "endpoint": wire.url, "prefix": "jobs/"}
    return ObjectsSection(**{**place, **said, **more})


async def keys_in(wire: Wire) -> dict[str, int]:
    """What lies in the bucket, with its size, asked behind the line."""
    assert wire._session is not None
    async with wire._session.get(f"{wire.behind}/{BUCKET}?list-type=2") as answer:
        text = await answer.text()
    found = re.findall(r"<Key>(.*?)</Key>.*?<Size>(\d+)</Size>", text, re.DOTALL)
    return {key: int(size) for key, size in found}


async def put_there(wire: Wire, key: str, data: bytes) -> None:
    """Put another content under a key, behind the line."""
    assert wire._session is not None
    url = f"{wire.behind}/{BUCKET}/{key}"
    async with wire._session.put(url, data=BytesIO(data), headers=SOMEBODY) as answer:
        assert answer.status == 200, await answer.text()


async def removed(wire: Wire, key: str) -> None:
    """Take an object away, behind the line."""
    assert wire._session is not None
    url = f"{wire.behind}/{BUCKET}/{key}"
    async with wire._session.delete(url, headers=SOMEBODY) as answer:
        assert answer.status == 204, await answer.text()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Poll until it holds."""
    async with asyncio.timeout(120):
        while not await condition():
            await asyncio.sleep(0.01)
