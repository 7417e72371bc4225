"""What ``/readyz`` says of the file: why it cannot be used, for as long as that is so."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.errors import StorageFull
from jobrunner.store.store import Store
from tests.http.serving import House, Said, opened

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is looked at all the time."""
    monkeypatch.setattr("jobrunner.actors.keeping.health.LOOK_EVERY_S", 0.02)
    monkeypatch.setattr("jobrunner.actors.keeping.health.SEEN_EVERY_S", 0.02)


async def ready(house: House, wanted: Callable[[Said], bool]) -> Said:
    with anyio.fail_after(120):
        while not wanted(said := await house.nobody.get("/readyz")):
            await anyio.sleep(0.02)
    return said


def spoil(path: Path, table: str) -> bytes:
    """Writes over the first page of a table; what stood there."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        where = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        page = connection.execute(where, (table,)).fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    return written(path, (page - 1) * size, b"\x11" * size)


def written(path: Path, place: int, data: bytes) -> bytes:
    with path.open("r+b") as file:
        file.seek(place)
        before = file.read(len(data))
        file.seek(place)
        file.write(data)
    return before


async def test_damage_in_the_file_fails_readiness_and_nothing_else(tmp_path: Path) -> None:
    """R18: it is told where, and the rest is served."""
    async with opened(tmp_path) as house:
        await ready(house, lambda said: said.status == 200)
        spoil(tmp_path / "jobs.db", "tombstones")
        said = await ready(house, lambda said: said.status == 503)
        assert "tombstones" in said.json["checks"]["store"]
        assert (await house.nobody.get("/healthz")).status == 200
        assert not house.service.facade.loss.failed.is_set()
        told = [line for line in house.logged if line["event"] == "storage.looked_at"]
        assert [(line["level"], "tombstones" in line["detail"]) for line in told] == [
            ("error", True)
        ]


async def test_who_cannot_write_is_not_ready_until_he_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17: the writer proves it now and then, also when nobody wants anything written."""

    async def full(store: Any) -> None:
        raise StorageFull("no room for a sign of life")

    async with opened(tmp_path) as house:
        await ready(house, lambda said: said.status == 200)
        with monkeypatch.context() as while_full:
            while_full.setattr(Store, "mark_alive", full)
            said = await ready(house, lambda said: said.status == 503)
            assert "no room" in said.json["checks"]["store"]
        await ready(house, lambda said: said.status == 200)
