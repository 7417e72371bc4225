"""Credits are given once under a key, whatever befalls the answer."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from jobrunner import app
from jobrunner.config.settings import Config, ServerSection, StoreSection
from jobrunner.errors import OutcomeUnknown
from jobrunner.stages import Registry
from jobrunner.store.batch import write_batch
from jobrunner.store.hop import open_handle
from tests.http.serving import Caller, Said
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio

GIFT = {"amount": 7, "reason": "goodwill"}


async def give(here: Living, key: str | None, body: dict[str, Any] = GIFT, to: str = "eve") -> Said:
    headers = {"Idempotency_Key": key} if key else {}
    return await here.admin.post(f"/admin/credits/{to}/grant", body, **headers)


async def balance(here: Living) -> int:
    return int((await here.eve.get("/credits")).json["balance"])


async def grants(here: Living) -> int:
    rows = (await here.eve.get("/credits/history?limit=100")).json["history"]
    return sum(row["reason"] == GIFT["reason"] for row in rows)


async def test_a_repeat_under_its_key_gives_nothing_more(tmp_path: Path) -> None:
    """P7: in the header or in the body, twenty at once or later; without a key it is given again,
    and so it is to somebody else."""
    async with living(tmp_path) as here:
        before, said = await balance(here), list[Said]()

        async def once() -> None:
            said.append(await give(here, "gift-1"))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(once)
        assert {one.status for one in said} == {200}
        assert sorted(one.json["replayed"] for one in said) == [False] + [True] * 19
        later = await give(here, None, GIFT | {"idempotency_key": "gift-1"})
        assert later.json == {"user_id": "eve", "balance": before + 7, "held": 0, "replayed": True}
        assert (await give(here, "gift-1", to="ada")).json["replayed"] is False
        for _ in range(2):
            assert (await give(here, None)).json["replayed"] is False
        assert (await balance(here), await grants(here)) == (before + 21, 3)
        audited = (await here.admin.get("/admin/audit?limit=100")).json["audit"]
        assert sum(row["fields"].get("reason") == GIFT["reason"] for row in audited) == 4


@pytest.mark.parametrize("other", [{"amount": 8}, {"reason": "a prize"}])
async def test_a_key_stands_for_what_was_given(tmp_path: Path, other: dict[str, Any]) -> None:
    async with living(tmp_path) as here:
        await give(here, "gift-1")
        said = await give(here, "gift-1", GIFT | other)
        assert (said.status, said.code) == (409, "IDEMPOTENCY_MISMATCH")
        assert "7 credits before, for 'goodwill'" in said.json["detail"]
        assert await grants(here) == 1


@pytest.mark.parametrize(
    ("header", "body"), [("one", "two"), ("", None), ("x" * 256, None), (None, "a key")]
)
async def test_keys_that_are_none(tmp_path: Path, header: str | None, body: str | None) -> None:
    async with living(tmp_path) as here:
        headers = {} if header is None else {"Idempotency_Key": header}
        more = {} if body is None else {"idempotency_key": body}
        said = await here.admin.post("/admin/credits/eve/grant", GIFT | more, **headers)
        assert (said.status, said.code) == (400, "VALIDATION_ERROR")
        assert await grants(here) == 0


class Torn:
    """The way to the writer's handle; once, what was written is not said to be."""

    def __init__(self, handle: Callable[..., Any]) -> None:
        self._handle = handle
        self.tears = False

    async def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        found = await self._handle(function, *arguments)
        if self.tears and write_batch in (function, *arguments[:1]):
            return [OutcomeUnknown("the disk fell silent")] * len(found)
        return found


async def test_an_unknown_outcome_is_asked_again(tmp_path: Path) -> None:
    """R4 R18: 503 OUTCOME_UNKNOWN though it was given; after the new start the repeat says so."""
    (tmp_path / "jobs.db").touch()
    handle = await open_handle(str(tmp_path / "jobs.db"))
    torn = Torn(handle)
    try:
        async with living(tmp_path, writer_hop=torn) as here:
            torn.tears = True
            said = await give(here, "gift-1")
            assert (said.status, said.code) == (503, "OUTCOME_UNKNOWN")
            torn.tears = False
    finally:
        await handle.close()
    async with again(tmp_path) as admin:
        said = await admin.post("/admin/credits/eve/grant", GIFT, Idempotency_Key="gift-1")
        assert said.json["replayed"] is True, said.raw
        rows = (await admin.get("/credits/history?user_id=eve")).json["history"]
        assert sum(row["reason"] == GIFT["reason"] for row in rows) == 1


@asynccontextmanager
async def again(folder: Path) -> AsyncIterator[Caller]:
    """The next life in this folder, and its admin."""
    config = Config(server=ServerSection(port=0), store=StoreSection(path=str(folder / "jobs.db")))
    token = (folder / "admin.token").read_text().strip()
    async with (
        app.running(config, lambda *_, **__: None, registry=Registry()) as service,
        aiohttp.ClientSession() as session,
    ):
        yield Caller(session, service.url, None, token)


async def test_another_process_has_taken_over(tmp_path: Path) -> None:
    """What is about no job is refused as what it is: not as a thing that is not there."""
    async with living(tmp_path) as here:
        other = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
        other.execute("INSERT INTO lives (started_at, seen_at) VALUES (1, 1)")
        other.close()
        said = await give(here, "gift-1")
        assert (said.status, said.code) == (503, "DRAINING"), said.raw
        made = await here.admin.post("/admin/tokens", {"name": "gil", "role": "user"})
        assert (made.status, made.code) == (503, "DRAINING"), made.raw
        job = await here.ada.post("/jobs", {"workflow": "cutx"})
        assert job.status >= 400
        assert await grants(here) == 0
