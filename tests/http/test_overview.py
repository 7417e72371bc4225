"""How everything stands, and what changes: made into words once for all who look at the same jobs,
and at most twice a second."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from jobrunner.actors.features.overview import EVERY_S, JOBS_MAX, Overview
from jobrunner.actors.watchers import Watchers
from jobrunner.core.job import Snapshot
from jobrunner.http.routes.pages import overview
from jobrunner.ports import Clock
from tests.http.serving import Caller, House, definitions, opened
from tests.store.factory import job as stored_job

pytestmark = pytest.mark.anyio

PATIENCE_S = 120


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("overview")
    registry = definitions(names=("howera", "image_generation"))
    async with opened(folder, registry=registry) as house:
        yield house


@asynccontextmanager
async def listening(caller: Caller) -> AsyncIterator[aiohttp.StreamReader]:
    """From the moment at which the service listens, too."""
    headers = {"Authorization": f"Bearer {caller.token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{caller.url}/overview/events", headers=headers) as stream,
    ):
        assert stream.status == 200
        await stream.content.readuntil(b"\n\n")
        yield stream.content


async def told(stream: aiohttp.StreamReader, wanted: str = "changes") -> Any:
    with anyio.fail_after(PATIENCE_S):
        while True:
            piece = (await stream.readuntil(b"\n\n")).decode()
            name, _, rest = piece.partition("\n")
            if name == f"event: {wanted}":
                return json.loads(rest.partition("data: ")[2])


async def test_an_admin_sees_everything_and_a_user_its_own(house: House) -> None:
    await house.ada.submit("howera")
    whole, own = (await house.admin.get("/overview")).json, (await house.eve.get("/overview")).json
    (row,) = [one for one in whole["counts"] if one["workflow"] == "howera"]
    assert (row["status"], row["kind"], row["person"]) == ("CREATED", "waiting", True)
    assert whole["work"]["slots"] == 64
    assert whole["system"]["checks"] == {}
    assert (own["counts"], own["attention"], own["work"], own["system"]) == ([], None, None, None)


async def test_a_reader_sees_what_an_admin_sees(house: House) -> None:
    made = await house.admin.post("/admin/tokens", {"name": "looker", "role": "reader"})
    seen = (await house.caller(made.json["token"]).get("/overview")).json
    assert seen["counts"] == (await house.admin.get("/overview")).json["counts"]
    assert seen["attention"] is not None


async def test_what_failed_is_named(house: House) -> None:
    job = await house.ada.submit("howera")
    said = await house.admin.post(
        f"/jobs/{job['id']}/transitions",
        {
            "to": "FAILED",
            "failure_code": "LOST",
            "failure_message": "the film is gone",
            "failed_stage": "TRANSCRIBING",
        },
    )
    assert said.status == 200, said.raw
    failed = (await house.admin.get("/overview")).json["attention"]["failed"]
    assert failed[0]["id"] == job["id"]
    assert failed[0]["failure_code"] == "LOST"


async def test_a_change_is_told_to_those_who_may_see_it(house: House) -> None:
    async with listening(house.admin) as all_of_them, listening(house.ada) as own:
        await house.eve.submit("howera")
        mine = await house.ada.submit("howera")
        seen: set[str] = set()
        while mine["id"] not in seen:
            event = await told(all_of_them)
            seen |= {job["id"] for job in event["jobs"]}
            assert event["counts"]
        assert len(seen) == 2
        event = await told(own)
        assert [job["id"] for job in event["jobs"]] == [mine["id"]]
        assert event["counts"] is None


async def test_a_row_has_the_names_of_a_job(house: House) -> None:
    async with listening(house.admin) as stream:
        job = await house.ada.submit("howera", labels={"a": "b"})
        (row,) = (await told(stream))["jobs"]
        whole = (await house.admin.get(f"/jobs/{job['id']}")).json
        assert row == {name: whole[name] for name in row}


async def test_one_telling_is_made_for_all(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    words = overview._words

    async def counted(*given: Any) -> bytes:
        made.append(await words(*given))
        return made[-1]

    monkeypatch.setattr(overview, "_words", counted)
    async with listening(house.admin) as one, listening(house.admin) as other:
        job = await house.ada.submit("howera")
        first, second = await told(one), await told(other)
        assert first == second
        assert [row["id"] for row in first["jobs"]] == [job["id"]]
    assert len(made) == 1


async def test_the_stream_of_a_revoked_token_ends(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "HEARTBEAT_S", 0.05)
    made = (await house.admin.post("/admin/tokens", {"name": "guest", "role": "user"})).json
    async with listening(house.caller(made["token"])) as stream:
        await house.admin.delete(f"/admin/tokens/{made['id']}")
        with anyio.fail_after(PATIENCE_S):
            await stream.read()
        assert stream.at_eof()


async def test_a_revoked_token_is_told_no_change_more(house: House) -> None:
    made = (await house.admin.post("/admin/tokens", {"name": "guest", "role": "admin"})).json
    async with listening(house.caller(made["token"])) as stream:
        await house.admin.delete(f"/admin/tokens/{made['id']}")
        await house.ada.submit("howera")
        with anyio.fail_after(PATIENCE_S):
            assert b"event: changes" not in await stream.read()


class Still(Clock):
    """A clock that only its sleepers move."""

    def __init__(self) -> None:
        self.at_s = 100.0
        self.slept: list[float] = []

    def now(self) -> int:
        return int(self.at_s * 1000)

    def monotonic(self) -> float:
        return self.at_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at_s += seconds


async def words(changes: Any) -> bytes:
    return b",".join(job.id.encode() for job in changes.jobs) + (b"+" if changes.more else b"")


def heard(watchers: Watchers, *jobs: Snapshot) -> None:
    for job in jobs:
        watchers._followers.hear(None, job)


async def test_two_tellings_are_half_a_second_apart() -> None:
    watchers, clock = Watchers(), Still()
    with Overview(watchers, clock).telling(None, ()) as telling:
        for number in range(4):
            heard(watchers, stored_job(number))
            await telling.wait(telling.number, words)
    assert clock.slept == [EVERY_S] * 3


async def test_what_happens_in_between_is_told_together_as_it_is_now() -> None:
    watchers = Watchers()
    with Overview(watchers, Still()).telling(None, ()) as telling:
        for number in range(JOBS_MAX + 5):
            heard(watchers, stored_job(number, id=f"job-{number:03}"))
        heard(watchers, stored_job(50, id="job-050"))
        await telling.wait(0, words)
        ids = telling.said.removesuffix(b"+").split(b",")
        assert telling.said.endswith(b"+"), "there were more than are told"
        assert len(ids) == len(set(ids)) == JOBS_MAX
        assert ids[-1] == b"job-050"


async def test_a_telling_that_failed_says_that_there_was_more() -> None:
    async def broken(_: Any) -> bytes:
        raise OSError("the disk is gone")

    watchers = Watchers()
    with Overview(watchers, Still()).telling(None, ()) as telling:
        heard(watchers, stored_job(1))
        with pytest.raises(OSError, match="gone"):
            await telling.wait(0, broken)
        await telling.wait(0, words)
        assert telling.said == b"+"


async def test_nobody_listens_when_nobody_looks() -> None:
    watchers = Watchers()
    overview_ = Overview(watchers, Still())
    with overview_.telling(None, ()) as one, overview_.telling(None, ()) as same:
        assert one is same
    assert not watchers._followers._of_user
    with overview_.telling("ada", ()) as another:
        assert another is not one


async def test_a_token_for_some_workflows_hears_of_no_other(tmp_path: Path) -> None:
    registry = definitions(names=("howera", "image_generation"))
    async with opened(tmp_path, registry=registry) as house:
        order = {"name": "w2", "role": "workflow", "workflows": ["howera"]}
        bound = house.caller((await house.admin.post("/admin/tokens", order)).json["token"])
        async with listening(bound) as stream:
            await house.ada.submit("image-generation", params={"prompt": "a lighthouse"})
            job = await house.ada.submit("howera")
            event = await told(stream)
            assert [row["id"] for row in event["jobs"]] == [job["id"]]
            assert {one["workflow"] for one in event["counts"]} == {"howera"}


async def test_what_holds_work_back_is_named(house: House) -> None:
    await house.admin.post("/admin/workflows/howera/pause", {"reason": "a repair"})
    body = {"workflow": "howera", "user": "ada", "every": 3600}
    await house.admin.put("/admin/schedules/hourly", body)
    await house.admin.post("/admin/schedules/hourly/pause", {"reason": "holidays"})
    try:
        found = (await house.admin.get("/overview")).json["attention"]["obstacles"]
        named = {(one["scope"], one["name"], one["reason"]) for one in found["pauses"]}
        assert named == {("workflow", "howera", "a repair"), ("schedule", "hourly", "holidays")}
        assert (found["schedules"], found["rates"], found["older"]) == ([], [], [])
    finally:
        await house.admin.post("/admin/workflows/howera/resume")
        await house.admin.delete("/admin/schedules/hourly")


async def test_a_schedule_that_missed_its_moment_is_named(house: House) -> None:
    body = {"workflow": "howera", "user": "ada", "every": 3600}
    await house.admin.put("/admin/schedules/late", body)
    now = house.service.facade.world.clock.now()
    house.service.facade.schedules.standing["late"].go_on(failed_at=now)
    (trouble,) = (await house.admin.get("/overview")).json["attention"]["obstacles"]["schedules"]
    assert (trouble["name"], trouble["trouble"]) == ("late", "missed")
    house.service.facade.schedules.standing["late"].go_on(failed_at=now - 25 * 3_600_000)
    assert (await house.admin.get("/overview")).json["attention"]["obstacles"]["schedules"] == []
    await house.admin.delete("/admin/schedules/late")
