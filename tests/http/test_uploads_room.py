"""So much of a disk stays free, whatever comes in and however it is announced."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.http.serving import opened
from tests.http.uploading import VIDEO, arrivals_of, parts, root, send, takers

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
