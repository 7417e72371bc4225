"""The servers that ours is measured beside: ``python -m jobrunner.bench.reference KIND FOLDER``.

    bare  answers a submission with what it read, and stores nothing
    R     stores one row of each submission in a group commit, as safely as we do, and nothing else

Both are aiohttp and msgspec and no more, on uvloop where it is installed. They are the least that a
service in Python could cost, so the distance from R is the price of all that ours does.
"""

import asyncio
import os
import queue
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from itertools import count

import anyio
import msgspec
from aiohttp import web
from msgspec import Struct

from jobrunner.bench.workloads import Order

Row = tuple[str, bytes]
Keep = Callable[[Row], Awaitable[None]]
STATEMENTS = (
    "PRAGMA journal_mode = wal",
    "PRAGMA synchronous = full",
    "CREATE TABLE jobs (id INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE, job BLOB) STRICT",
)
TAKE = "INSERT INTO jobs (uid, job) VALUES (?, ?)"


class Ordered(Struct, frozen=True):
    """A submission, as far as these servers look at it."""

    workflow: str
    params: Order
    job_type: str = ""


class TakenOrder(Struct, frozen=True):
    id: str
    workflow: str
    status: str
    params: Order


class Group:
    """Rows that come while a batch is written are the next batch; each waits until its own is on
    the disk."""

    def __init__(self, path: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Row, asyncio.Future[None]]] = []
        self._writing = False
        self._batches: queue.SimpleQueue[list[tuple[Row, asyncio.Future[None]]]] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._write, args=(path,), daemon=True).start()

    async def keep(self, row: Row) -> None:
        kept = self._loop.create_future()
        self._waiting.append((row, kept))
        if not self._writing:
            self._writing = True
            self._loop.call_soon(self._hand_over)
        await kept

    def _hand_over(self) -> None:
        batch, self._waiting = self._waiting, []
        self._batches.put(batch)

    def _write(self, path: str) -> None:
        db = sqlite3.connect(path, isolation_level=None)
        for statement in STATEMENTS:
            db.execute(statement)
        while True:
            batch = self._batches.get()
            db.execute("BEGIN IMMEDIATE")
            db.executemany(TAKE, [row for row, _ in batch])
            db.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._written, batch)

    def _written(self, batch: list[tuple[Row, asyncio.Future[None]]]) -> None:
        for _, kept in batch:
            if not kept.done():
                kept.set_result(None)
        self._writing = bool(self._waiting)
        if self._writing:
            self._hand_over()


async def _forget(row: Row) -> None:
    """Keep nothing."""


def application(keep: Keep) -> web.Application:
    decoder, numbers = msgspec.json.Decoder(Ordered), count(1)

    async def submit(request: web.Request) -> web.Response:
        given = decoder.decode(await request.read())
        made = TakenOrder(f"job-{next(numbers)}", given.workflow, "queued", given.params)
        text = msgspec.json.encode(made)
        await keep((made.id, text))
        return web.Response(body=text, status=201, content_type="application/json")

    app = web.Application()
    app.router.add_post("/jobs", submit)
    return app


async def serve(kind: str, folder: str) -> None:
    """Say where it listens, and serve until it is ended."""
    keep = Group(os.path.join(folder, "one-row.db")).keep if kind == "R" else _forget
    runner = web.AppRunner(application(keep), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"http://{host}:{port}", flush=True)
    await anyio.sleep_forever()


if __name__ == "__main__":
    uvloop = find_spec("uvloop") is not None
    anyio.run(serve, sys.argv[1], sys.argv[2], backend_options={"use_uvloop": uvloop})
