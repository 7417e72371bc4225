"""What files that come in leave to others: so much of the disk, and a place."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.http.serving import opened
from tests.http.uploading import VIDEO, arrivals_of, head, line, parts, root, send, takers, until

pytestmark = pytest.mark.anyio
BLOCK = 256 * 1024


class Small:
    """A disk of a mebibyte for what comes in."""

    def __init__(self, folder: Path, system: Any) -> None:
        self._folder = folder
        self._system = system

    def free(self, _: str) -> int:
        return 2**20 - sum(path.stat().st_size for path in self._folder.iterdir())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)


async def film(blocks: int) -> AsyncIterator[bytes]:
    for _ in range(blocks):
        yield bytes(BLOCK)


async def test_of_a_file_whose_length_nobody_said(tmp_path: Path) -> None:
    """And of many that come in beside each other: each block asks again."""
    async with opened(tmp_path, registry=takers()) as house:
        arrivals, job = arrivals_of(house), await house.ada.submit("howera")
        arrivals._min_free = 1000
        arrivals._files = Small(root(house) / ".incoming", arrivals._files)
        path = f"/jobs/{job['id']}/upload"
        said = await send(house.ada, path, film(8), VIDEO)
        assert (said.status, said.code) == (503, "STORAGE_FULL"), said.raw
        assert parts(house) == []
        assert (await send(house.ada, path, film(1), VIDEO)).status == 200


async def test_who_sends_slowly_keeps_nobody_else_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobrunner.files.incoming.SHARE_MAX", 3)
    async with opened(tmp_path, registry=takers()) as house, AsyncExitStack() as stack:
        arrivals = arrivals_of(house)
        for _ in range(3):
            _, writer = await stack.enter_async_context(line(house))
            writer.write(head(house, "POST", "/assets", Content_Length="9"))
        await until(lambda: arrivals.under_way == 3)
        said = await send(house.ada, "/assets", b"more", method="POST")
        assert (said.status, said.code) == (503, "OVERLOADED")
        assert "3 files of ada" in said.json["detail"]
        for other in (house.eve, house.admin):
            assert (await send(other, "/assets", b"one", method="POST")).status == 201
        writer.write(b"123456789")
        await until(lambda: arrivals.under_way == 2)
        assert (await send(house.ada, "/assets", b"more", method="POST")).status == 201
    assert not arrivals._shares
