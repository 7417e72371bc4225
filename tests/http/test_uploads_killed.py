"""Uploads while the service is killed, again and again: an asset is whole or absent, and what was
announced can be gone on with."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import anyio
import pytest

from tests.whole.process import Place, place

pytestmark = pytest.mark.anyio

KILLS = 5
CLIENTS = 6
OUTSIDE = """
[workflows.howera.stages]
"*" = "external"
"""
TUS = {"Tus-Resumable": "1.0.0"}
PIECE = {**TUS, "Content-Type": "application/offset+octet-stream"}
LOST = (aiohttp.ClientError, OSError, TimeoutError)


class Sender:
    """Sends files until it is told to stop, and writes down what was acknowledged."""

    def __init__(self, home: Place, session: aiohttp.ClientSession, number: int) -> None:
        self.home = home
        self.random = Random(number)
        self.session = session
        self.acked: dict[str, str] = {}
        self.resumed = 0

    async def send(
        self, method: str, path: str, data: Any = None, **headers: str
    ) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {self.home.tokens['admin']}"} | headers
        async with self.session.request(
            method, self.home.url + path, data=data, headers=sent
        ) as answer:
            body = await answer.json() if "json" in answer.content_type else None
            return answer.status, (answer.headers, body)

    async def work(self, left: Any) -> None:
        while left():
            try:
                await (self.whole() if self.random.random() < 0.5 else self.in_pieces(left))
            except LOST:
                await anyio.sleep(0.02)

    async def whole(self) -> None:
        data = self.random.randbytes(self.random.randrange(1, 2_000_000))
        job = await self.home.submit("howera")
        status, (_, body) = await self.send("PUT", f"/jobs/{job['id']}/upload", chunks(data))
        if status == 200:
            self.acked[body["asset"]["id"]] = hashlib.sha256(data).hexdigest()

    async def in_pieces(self, left: Any) -> None:
        data = self.random.randbytes(self.random.randrange(1, 10_000_000))
        told = {**TUS, "Upload-Length": str(len(data))}
        status, (headers, _) = await self.send("POST", "/uploads", **told)
        if status != 201:
            return
        where = headers["Location"]
        while left():
            try:
                status, (headers, _) = await self.send("HEAD", where, **TUS)
                if status != 200:
                    await anyio.sleep(0.02)
                    continue
                offset = int(headers["Upload-Offset"])
                self.resumed += 0 < offset < len(data)
                if offset == len(data):
                    asset_id = headers["Content-Location"].rpartition("/")[2]
                    self.acked[asset_id] = hashlib.sha256(data).hexdigest()
                    return
                piece = {**PIECE, "Upload-Offset": str(offset)}
                await self.send("PATCH", where, chunks(data[offset:]), **piece)
            except LOST:
                await anyio.sleep(0.02)


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 50_000):
        yield data[at : at + 50_000]
        await anyio.sleep(0.001)


async def test_killed_in_the_middle_of_everything(tmp_path: Path) -> None:
    """P10: every row has its file, whole; every acknowledged file is there with its digest; what
    was left half done is gone or can be gone on with."""
    random = Random(4)
    async with place(tmp_path, more=OUTSIDE) as home, aiohttp.ClientSession() as session:
        await home.start()
        senders = [Sender(home, session, number) for number in range(CLIENTS)]
        finished = False
        async with anyio.create_task_group() as group:
            for sender in senders:
                group.start_soon(sender.work, lambda: not finished)
            for _ in range(KILLS):
                before = sum(len(sender.acked) for sender in senders)
                wanted = before + random.randrange(1, 12)
                with anyio.move_on_after(5):
                    while sum(len(sender.acked) for sender in senders) < wanted:
                        await anyio.sleep(0.005)
                await home.kill()
                assert home.faults() == ()
                await home.start()
            finished = True
        acked = {name: seal for sender in senders for name, seal in sender.acked.items()}
        rows: dict[str, Any] = {}
        cursor: str | None = ""
        while cursor is not None:
            more = f"&cursor={cursor}" if cursor else ""
            page = await home.get(f"/assets?limit=100{more}")
            rows |= {entry["id"]: entry for entry in page["assets"]}
            cursor = page["next_cursor"]
        assets = tmp_path / "data" / "assets"
        for entry in rows.values():
            data = (assets / entry["storage_path"]).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (
                entry["file_size"],
                entry["sha256"],
            )
        assert {name: rows[name]["sha256"] for name in acked} == acked
        assert await home.stop() == 0
        resumed = sum(sender.resumed for sender in senders)
        print(f"\nkills {KILLS}, acknowledged {len(acked)}, resumed {resumed}, rows {len(rows)}")
        assert acked
        assert resumed
        await home.start()
        left = {path.name.partition(".")[0] for path in (assets / ".incoming").glob("*.part")}
        orders = {path.name.partition(".")[0] for path in (assets / ".incoming").glob("*.json")}
        assert left <= orders
        assert await home.stop() == 0
