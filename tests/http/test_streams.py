"""Streams of events: nothing is missed, strangers hear nothing, and they end when they should."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import msgspec
import pytest

from jobrunner.config.settings import LimitsSection
from jobrunner.http.routes.jobs import streams
from tests.http.serving import Caller, House, definitions, opened

pytestmark = pytest.mark.anyio
PATIENCE_S = 120
STREAM = "text/event-stream"
NAMES = ("cutx", "howera", "image_generation")


@pytest.fixture
async def house(tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    async with opened(tmp_path, registry=definitions(names=NAMES)) as house:
        yield house


class Listener:
    """Reads one stream as a browser would; ``last`` is what it would come again with."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.last: str | None = None

    async def event(self) -> tuple[str, Any]:
        """The next one that says something."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                name, data = await self._block()
                if data:
                    return name, msgspec.json.decode(data)

    async def events(self, count: int) -> list[tuple[str, Any]]:
        return [await self.event() for _ in range(count)]

    async def rest(self) -> bytes:
        with anyio.fail_after(PATIENCE_S):
            return await self._response.content.read()

    async def _block(self) -> tuple[str, str]:
        name = data = ""
        while True:
            line = (await self._response.content.readline()).decode()
            if not line:
                raise EOFError
            field, _, value = line.rstrip("\n").partition(": ")
            match field:
                case "":
                    return name, data
                case "id":
                    self.last = value
                case "event":
                    name = value
                case "data":
                    data = value


@asynccontextmanager
async def listening(
    caller: Caller, path: str, last: str | None = None, **more: str
) -> AsyncIterator[Listener]:
    headers = {"Authorization": f"Bearer {caller.token}", **more}
    if last is not None:
        headers["Last-Event-ID"] = last
    async with caller.session.get(caller.url + path, headers=headers) as response:
        assert response.status == 200, await response.read()
        assert response.content_type == STREAM
        yield Listener(response)


async def move(house: House, job: Any, status: str, number: int, **more: Any) -> None:
    event = {"event_id": f"e{number}", "status": status, **more}
    event["occurred_at"] = f"2026-01-01T00:00:{number:02d}Z"
    said = await house.worker.post(f"/internal/jobs/{job['id']}/status", event)
    assert said.status == 204, said.raw


async def test_one_event_a_version_and_then_the_job_as_it_is(house: House) -> None:
    job = await house.ada.submit("howera")
    async with listening(house.ada, f"/jobs/{job['id']}/events") as stream:
        name, shown = await stream.event()
        assert (name, shown["status"], shown["version"]) == ("progress", "CREATED", 1)
        assert stream.last == "1"
        assert "params" not in shown
        await move(house, job, "UPLOADED", 1)
        name, moved = await stream.event()
        assert (name, moved["version"], moved["status"]) == ("transition", 2, "UPLOADED")
        assert moved["job_id"] == job["id"]
        assert [hop["to_status"] for hop in moved["hops"]] == ["UPLOADED"]
        assert stream.last == "2"
        assert (await stream.event())[1]["version"] == 2


async def test_who_comes_again_is_told_what_it_missed_once(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/events"
    for number, status in enumerate(("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY"), 1):
        await move(house, job, status, number)
    async with listening(house.ada, path, last="2") as stream:
        told = await stream.events(3)
        assert [name for name, _ in told] == ["transition", "transition", "progress"]
        assert [one["version"] for _, one in told] == [3, 4, 4]
    async with listening(house.ada, f"{path}?last_event_id=3") as stream:
        assert [one["version"] for _, one in await stream.events(2)] == [4, 4]
    async with listening(house.ada, path, last="99") as stream:
        assert (await stream.event())[0] == "progress"


async def test_the_end_is_told_and_ends_the_stream(house: House) -> None:
    """The id stands on the last event of a version, so a break between the two loses nothing."""
    job = await house.ada.submit("howera")
    path = f"/jobs/{job['id']}/events"
    async with listening(house.ada, path) as stream:
        await stream.event()
        assert (await house.ada.post(f"/jobs/{job['id']}/cancel")).status in (200, 202)
        name, moved = await stream.event()
        assert (name, moved["status"]) == ("transition", "CANCELLED")
        before = stream.last
        name, ended = await stream.event()
        assert (name, ended["status"], ended["kind"]) == ("settled", "CANCELLED", "final")
        assert (before, stream.last) == ("1", "2")
        assert ended["params"] == {}
        assert await stream.rest() == b""
    said = await house.ada.get(path, Last_Event_ID="2")
    assert said.status == 204


async def test_progress_is_told_as_it_is_now(house: House) -> None:
    job = await house.ada.submit("howera")
    for number, status in enumerate(("UPLOADED", "AUDIO_EXTRACTING"), 1):
        await move(house, job, status, number)
    path = f"/jobs/{job['id']}"
    async with (
        listening(house.ada, path + "/events") as one,
        listening(house.ada, "/events") as every,
    ):
        await one.event()
        for percent in (10, 20, 30):
            said = await house.worker.post(path + "/progress", {"progress": percent})
            assert said.status == 200, said.raw
        for stream in (one, every):
            told, ids = [await stream.event()], [stream.last]
            while told[-1][1]["progress"] != 30:
                told.append(await stream.event())
                ids.append(stream.last)
            assert {name for name, _ in told} == {"progress"}
            assert len(set(ids)) == 1


async def test_all_jobs_in_the_order_of_their_commits(house: House) -> None:
    async with listening(house.ada, "/events") as stream:
        first = await house.ada.submit("howera")
        second = await house.ada.submit("cutx", params={"product_id": "lamp"})
        await house.eve.submit("howera")
        await move(house, first, "UPLOADED", 1)
        told: list[tuple[str, int, str]] = []
        while len(told) < 3:
            name, one = await stream.event()
            assert name == "transition"
            told.append((one["job_id"], one["version"], one["workflow"]))
        assert told[0][::2] == (first["id"], "howera")
        assert told[1][::2] == (second["id"], "cutx")
        assert told[2] == (first["id"], 2, "howera")
        last = stream.last
    await house.ada.post(f"/jobs/{first['id']}/cancel")
    async with listening(house.ada, "/events", last=last) as stream:
        (name, moved), (settled, ended) = await stream.events(2)
        assert (name, moved["job_id"], moved["status"]) == ("transition", first["id"], "CANCELLED")
        assert (settled, ended["id"]) == ("settled", first["id"])
        assert "params" not in ended


async def test_only_what_was_asked_for(house: House) -> None:
    start = "/events?last_event_id=0&workflow=howera&status=UPLOADED&status=CANCELLED"
    job = await house.ada.submit("howera")
    await house.ada.submit("cutx", params={"product_id": "lamp"})
    await move(house, job, "UPLOADED", 1)
    async with listening(house.ada, start) as stream:
        _, one = await stream.event()
        assert (one["workflow"], one["status"]) == ("howera", "UPLOADED")


@pytest.mark.parametrize("path", ["/events?last_event_id=0", "/events?user_id=ada&last_event_id=0"])
async def test_insiders_follow_the_jobs_of_all(house: House, path: str) -> None:
    job = await house.ada.submit("howera")
    for caller in (house.admin, house.worker):
        async with listening(caller, path) as stream:
            assert (await stream.event())[1]["job_id"] == job["id"]


async def test_strangers_hear_nothing(house: House) -> None:
    job = await house.ada.submit("howera", labels={"canary": "canary"})
    said = await house.eve.get(f"/jobs/{job['id']}/events")
    assert (said.status, said.code) == (404, "NOT_FOUND")
    said = await house.eve.get("/events?user_id=ada")
    assert (said.status, said.code) == (403, "FORBIDDEN")
    async with listening(house.eve, "/events?last_event_id=0") as stream:
        own = await house.eve.submit("howera")
        assert (await stream.event())[1]["job_id"] == own["id"]


@pytest.mark.parametrize("given", ["-1", "x", "1.5", "9" * 40, "٣"])
async def test_an_id_that_never_was_one(house: House, given: str) -> None:
    job = await house.ada.submit("howera")
    for path in (f"/jobs/{job['id']}/events", "/events"):
        said = await house.ada.get(path, Last_Event_ID=given)
        assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_who_wants_a_document_is_told_where_it_is(house: House) -> None:
    job = await house.ada.submit("howera")
    for path in (f"/jobs/{job['id']}/events", "/events"):
        said = await house.ada.get(path, Accept="application/json")
        assert (said.status, said.code) == (406, "NOT_ACCEPTABLE")
        said = await house.ada.ask("HEAD", path)
        assert (said.status, said.raw) == (200, b"")
        assert said.headers["Content-Type"].startswith(STREAM)


async def test_a_deleted_job_ends_its_streams(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.05)
    job = await house.ada.submit("cutx", params={"product_id": "lamp"})
    path = f"/jobs/{job['id']}"
    await house.worker.post(path + "/claim")
    for number in range(9):
        event = {"event_id": f"e{number}", "status": "failed", "failure_message": "x"}
        event["occurred_at"] = f"2026-01-01T00:00:{number:02d}Z"
        await house.worker.post(f"/internal/jobs/{job['id']}/status", event)
    async with listening(house.ada, path + "/events") as stream:
        name, shown = await stream.event()
        assert (name, shown["kind"]) == ("settled", "settled")
        assert (await house.ada.delete(path)).status == 204
        await stream.rest()


async def test_a_revoked_token_ends_its_streams(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.05)
    async with listening(house.eve, "/events") as stream:
        assert (await house.admin.delete("/admin/tokens/eve")).status == 204
        await stream.rest()


@pytest.mark.parametrize("path", ["/events", "/jobs/{id}/events"])
async def test_who_has_no_token_any_more_hears_of_nothing_more(house: House, path: str) -> None:
    """Also where much happens, so that there is never a quiet moment to ask in."""
    job = await house.ada.submit("howera")
    made = (await house.admin.post("/admin/tokens", {"name": "guest", "role": "admin"})).json
    async with listening(house.caller(made["token"]), path.format(**job)) as stream:
        await move(house, job, "UPLOADED", 1)
        while (await stream.event())[0] != "transition":
            pass
        assert (await house.admin.delete(f"/admin/tokens/{made['id']}")).status == 204
        await move(house, job, "AUDIO_EXTRACTING", 2)
        assert b'"status":"AUDIO_EXTRACTING"' not in await stream.rest()


async def test_a_long_history_is_caught_up_with_in_pages(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PAGE", 3)
    job = await house.ada.submit("howera")
    way = ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING", "TRANSCRIPT_READY")
    for number, status in enumerate(way, 1):
        await move(house, job, status, number)
    async with listening(house.ada, f"/jobs/{job['id']}/events", last="0") as stream:
        told = await stream.events(len(way) + 2)
        assert [one["version"] for name, one in told if name == "transition"] == [1, 2, 3, 4, 5, 6]
        assert told[-1][0] == "progress"
    async with listening(house.ada, "/events", last="0") as stream:
        told = await stream.events(len(way) + 1)
        assert [one["version"] for _, one in told] == [1, 2, 3, 4, 5, 6]


async def test_nothing_is_missed_between_catching_up_and_going_on(house: House) -> None:
    """Streams that begin while jobs move: each hears every version once, in order."""
    jobs = [await house.ada.submit("howera") for _ in range(4)]
    way = ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING")
    heard: dict[str, list[int]] = {}

    async def walk(job: Any) -> None:
        for number, status in enumerate(way, 1):
            await move(house, job, status, number)

    async def hear(job: Any, which: int) -> None:
        async with listening(house.ada, f"/jobs/{job['id']}/events", last="0") as stream:
            versions = heard.setdefault(f"{job['id']}-{which}", [])
            while not versions or versions[-1] < len(way) + 1:
                name, one = await stream.event()
                if name == "transition":
                    versions.append(one["version"])

    async with anyio.create_task_group() as group:
        for job in jobs:
            for which in range(3):
                group.start_soon(hear, job, which)
            group.start_soon(walk, job)
    assert len(heard) == 12
    assert all(versions == [1, 2, 3, 4, 5] for versions in heard.values())


async def test_at_the_end_of_the_service_streams_say_when_to_come_again(tmp_path: Path) -> None:
    async with opened(tmp_path, registry=definitions(names=NAMES)) as house:
        job = await house.ada.submit("howera")
        async with (
            listening(house.ada, f"/jobs/{job['id']}/events") as one,
            listening(house.ada, "/events") as every,
        ):
            await one.event()
            with anyio.fail_after(PATIENCE_S):
                await house.service.facade.drain()
            assert (await one.rest()).startswith(b"retry: ")
            assert b"\nretry: " in b"\n" + await every.rest()


async def test_so_many_streams_of_one_user_and_no_more(tmp_path: Path) -> None:
    """Those whose reader is gone do not count; other users have their own."""
    limits, registry = LimitsSection(streams_per_user=2), definitions(names=NAMES)
    async with (
        opened(tmp_path, limits=limits, registry=registry) as house,
        listening(house.ada, "/events"),
    ):
        async with listening(house.ada, "/events"):
            said = await house.ada.get("/events")
            assert (said.status, said.code) == (429, "TOO_MANY_STREAMS")
            assert int(said.headers["Retry-After"]) >= 1
            async with listening(house.eve, "/events"):
                pass
        assert await again(house.ada) == 200


async def again(caller: Caller) -> int:
    """Until the service has seen that a reader is gone."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            headers = {"Authorization": f"Bearer {caller.token}"}
            async with caller.session.get(caller.url + "/events", headers=headers) as response:
                if response.status == 200:
                    return 200
            await anyio.sleep(0.01)
    raise AssertionError("unreachable")


async def test_history_and_attempts_in_pages(house: House) -> None:
    job = await house.ada.submit("howera")
    for number, status in enumerate(("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY"), 1):
        await move(house, job, status, number)
    for what in ("history", "attempts"):
        path = f"/jobs/{job['id']}/{what}"
        whole = (await house.ada.get(path)).json
        assert whole["next_cursor"] is None
        found, page = [], (await house.ada.get(path + "?limit=1")).json
        while page["next_cursor"] is not None:
            found += page[what]
            cursor = page["next_cursor"]
            page = (await house.ada.get(f"{path}?limit=1&cursor={cursor}")).json
        assert found + page[what] == whole[what]
        assert len(whole[what]) == {"history": 4, "attempts": 1}[what]


async def test_a_fault_breaks_a_stream_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has begun as a stream becomes no other answer in the middle."""

    def broken(*_: object) -> bytes:
        raise LookupError("a bug")

    monkeypatch.setattr(streams, "_told", broken)
    async with opened(tmp_path, registry=definitions(names=NAMES), faults=1) as house:
        job = await house.ada.submit("howera")
        async with listening(house.ada, f"/jobs/{job['id']}/events") as stream:
            with pytest.raises(aiohttp.ClientPayloadError, match="Not enough data"):
                await stream.rest()
        assert (await house.ada.get(f"/jobs/{job['id']}")).status == 200
