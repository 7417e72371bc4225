"""Where orders are taken, looked after, and their end is told."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
from aiohttp import web

from jobrunner import Hosting, Opened, companion, lent_environment
from jobrunner_cutx.studio.orders import Book, Order, as_told

SOURCE = "replicate"
BODY_MAX = 256 * 1024
BENCHES = 2
WORK_S = 110.0
TELLS = (0.0, 0.5, 2.0, 8.0, 30.0, 120.0, 300.0, 300.0)
SECRET_LENGTH = len("whsec_") + 44
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


@companion("cutx")
async def studio(hosting: Hosting) -> AsyncIterator[Opened]:
    """Opened when no other provider is named in the settings."""
    if hosting.settings.get("provider_url"):
        yield Opened()
        return
    desk = Desk(hosting)
    async with desk.serving() as base:
        settings = {"provider_url": f"{base}/v1", "built_in": True}
        yield Opened(settings=settings, secrets={SOURCE: [desk.secret]})


class Desk:
    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._book = Book(os.path.join(hosting.folder, "orders"))
        self._benches = asyncio.Semaphore(BENCHES)
        self._cancelled: dict[str, asyncio.Event] = {}
        self._start: Callable[..., object] = lambda *_: None
        self.secret = _kept_secret(hosting.folder)
        self.base = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=1)
        await runner.setup()
        listening = _listening(self._hosting.folder)
        await web.SockSite(runner, listening).start()
        self.base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            async with anyio.create_task_group() as group:
                self._start = group.start_soon
                for order in list(self._book):
                    if not order.told:
                        group.start_soon(self._look_after, order.id)
                yield self.base
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=BODY_MAX)
        app.router.add_post("/v1/predictions", self._take)
        app.router.add_post("/v1/models/{owner}/{name}/predictions", self._take)
        app.router.add_get("/v1/predictions/{id}", self._show)
        app.router.add_post("/v1/predictions/{id}/cancel", self._cancel)
        app.router.add_get("/files/{id}/{name}", self._file)
        return app

    async def _take(self, request: web.Request) -> web.Response:
        try:
            body = await request.json()
            given, webhook = dict(body["input"]), str(body.get("webhook") or "")
        except (ValueError, KeyError, TypeError):
            return web.json_response({"detail": "input is missing"}, status=422)
        repeat_key = request.headers.get("Idempotency-Key", "")
        order = self._book.known(repeat_key) if repeat_key else None
        if order is None:
            name = "".join(secrets.choice(LETTERS) for _ in range(26))
            try:
                order = self._book.put(Order(name, given, webhook, repeat_key, time.time()))
            except OSError as fault:
                detail = f"the order cannot be written down: {fault.strerror}"
                return web.json_response({"detail": detail}, status=503)
            self._start(self._look_after, order.id)
        return web.json_response(as_told(order, self.base), status=201)

    async def _show(self, request: web.Request) -> web.Response:
        order = self._book.find(request.match_info["id"])
        if order is None:
            return web.json_response({"detail": "no such prediction"}, status=404)
        return web.json_response(as_told(order, self.base))

    async def _cancel(self, request: web.Request) -> web.Response:
        order = self._book.find(request.match_info["id"])
        if order is None:
            return web.json_response({"detail": "no such prediction"}, status=404)
        if not order.over:
            order = self._changed(order.id, status="canceled")
            if order.id in self._cancelled:
                self._cancelled[order.id].set()
        return web.json_response(as_told(order, self.base))

    async def _file(self, request: web.Request) -> web.StreamResponse:
        order = self._book.find(request.match_info["id"])
        if order is None or not order.output or request.match_info["name"] != order.output:
            return web.Response(status=404)
        return web.FileResponse(self._book.place(order.id, order.output))

    async def _look_after(self, order_id: str) -> None:
        """From its order to its webhook, wherever the last life of this process left it."""
        async with self._benches:
            if not self._book[order_id].over:
                order = self._changed(order_id, status="processing")
                changes = await self._made(order)
                if not self._book[order_id].over:
                    self._changed(order_id, **changes)
        await self._tell(self._book[order_id])

    async def _made(self, order: Order) -> dict[str, str]:
        cancelled = self._cancelled[order.id] = asyncio.Event()
        try:
            with anyio.fail_after(WORK_S):
                return _outcome(*await _worked(self._book.cleared(order.id), order, cancelled))
        except TimeoutError:
            return {"status": "failed", "error": f"it took longer than {WORK_S:.0f} s"}
        except OSError as fault:
            return {"status": "failed", "error": f"nothing could be made: {fault.strerror}"}
        finally:
            del self._cancelled[order.id]

    async def _tell(self, order: Order) -> None:
        """A few times; who does not answer then has to ask."""
        if order.webhook:
            async with aiohttp.ClientSession(trust_env=False) as session:
                for pause_s in TELLS:
                    await anyio.sleep(pause_s)
                    if await self._told(session, order):
                        break
                else:
                    self._hosting.log(f"nobody took the webhook of order {order.id}")
        self._changed(order.id, told=True)

    def _changed(self, order_id: str, **changes: Any) -> Order:
        """Write it down; if that fails it counts until the next start, where it is done again."""
        try:
            return self._book.change(order_id, **changes)
        except OSError as fault:
            self._hosting.log(f"order {order_id} cannot be written down: {fault.strerror}")
            return self._book[order_id]

    async def _told(self, session: aiohttp.ClientSession, order: Order) -> bool:
        body = json.dumps(as_told(order, self.base)).encode()
        waits = aiohttp.ClientTimeout(total=15)
        headers = _signed(self.secret, f"msg_{order.id}", int(time.time()), body)
        url = f"{self._hosting.local_url or self._hosting.base_url}/webhooks/{SOURCE}"
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with session.post(url, data=body, headers=headers, timeout=waits) as answer:
                return answer.status < 300
        return False


async def _worked(place: str, order: Order, cancelled: asyncio.Event) -> tuple[bytes, bytes]:
    """Return what a process group of its own said when it was done. It has its stdin for as long as
    it is wanted, and ends with us."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "jobrunner_cutx.studio.workbench", place,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, start_new_session=True, env=_environment(place),
    )  # fmt: skip
    said = asyncio.ensure_future(_said(process, json.dumps(order.given).encode()))
    stop = asyncio.ensure_future(cancelled.wait())
    try:
        both: set[asyncio.Future[Any]] = {said, stop}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return said.result() if said.done() else (b"", b"cancelled")
    finally:
        stop.cancel()
        said.cancel()
        with anyio.CancelScope(shield=True):
            await _ended(process)


def _environment(place: str) -> dict[str, str]:
    """The bench finds its programs and this package, and nobody's keys."""
    folder = os.path.abspath(os.path.dirname(place))
    packages = os.pathsep.join(filter(None, sys.path))
    return lent_environment() | {"HOME": folder, "TMPDIR": folder, "PYTHONPATH": packages}


async def _said(process: asyncio.subprocess.Process, given: bytes) -> tuple[bytes, bytes]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with contextlib.suppress(OSError):
        process.stdin.write(given + b"\n")
        await process.stdin.drain()
    told, trace = await asyncio.gather(process.stdout.read(), process.stderr.read())
    return told, trace


async def _ended(process: asyncio.subprocess.Process) -> None:
    """With whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    assert process.stdin is not None
    process.stdin.close()


def _outcome(told: bytes, trace: bytes) -> dict[str, str]:
    try:
        said = json.loads(told)
        return {"status": "succeeded", "output": str(said["output"])}
    except (ValueError, KeyError, TypeError):
        lines = trace.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        return {"status": "failed", "error": lines[-1][:500]}


def _signed(secret: str, name: str, at: int, body: bytes) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    text = f"{name}.{at}.".encode() + body
    mark = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return {
        "Content-Type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{mark}",
    }


def _kept_secret(folder: str) -> str:
    """Made once and kept, so that what was signed before a restart still counts after it."""
    path = os.path.join(folder, "webhook.secret")
    with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as file:
        if len(secret := file.read().strip()) == SECRET_LENGTH:
            return secret
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secret)
    return secret


def _listening(folder: str) -> socket.socket:
    """On the port of last time if it is free, so that addresses that were given out still lead
    here; else on another one."""
    path = os.path.join(folder, "port")
    known = 0
    with contextlib.suppress(FileNotFoundError, ValueError), open(path, encoding="ascii") as file:
        known = int(file.read())
    for port in (known, 0):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError, OverflowError):
            listening.bind(("127.0.0.1", port))
            with open(path, "w", encoding="ascii") as file:
                file.write(str(listening.getsockname()[1]))
            return listening
        listening.close()
    raise OSError("no port is free on loopback")
