"""Jobs on a timetable, over HTTP: made, shown, changed, paused, fired by hand and made up for."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.config.settings import CreditsSection, ScheduleSettings
from tests.http.serving import Caller, House, definitions, opened

pytestmark = pytest.mark.anyio
NIGHTLY = {"workflow": "howera", "user": "ada", "cron": "30 2 * * *", "zone": "Europe/Berlin"}
PATH = "/admin/schedules/nightly"
MARCH = {"from": "2026-03-28T00:00:00Z", "to": "2026-03-31T00:00:00Z"}
LOADED = ("cutx", "howera")


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    named = {"stored": ScheduleSettings(workflow="howera", user="ada", cron="@daily")}
    registry = definitions(names=LOADED)
    async with opened(tmp_path, registry=registry, schedules=named) as house:
        yield house


async def made(caller: Caller, **more: Any) -> Any:
    said = await caller.post("/admin/schedules", {"name": "nightly", **NIGHTLY, **more})
    assert said.status == 201, said.raw
    return said.json


async def fired(caller: Caller, name: str) -> list[Any]:
    """Its firings, as soon as there are any."""
    with anyio.fail_after(120):
        while True:
            found = (await caller.get(f"/admin/schedules/{name}/firings")).json["firings"]
            if found:
                return list(found)
            await anyio.sleep(0.02)


async def test_one_is_made_and_shown_with_its_next_times(house: House) -> None:
    told = await made(house.admin, labels={"set": "one"}, jitter=60)
    assert (told["owner"], told["state"], told["reason"]) == ("http", "active", None)
    assert (told["zone"], told["made_by"], told["overlap"]) == ("Europe/Berlin", "admin", "skip")
    assert [one["local"][11:16] for one in told["next"]] == ["02:30"] * 5
    assert all(one["at"] < one["fires_at"] for one in told["next"])
    assert (await house.admin.get(f"{PATH}?next=2")).json["next"] == told["next"][:2]
    listed = (await house.admin.get("/admin/schedules")).json["schedules"]
    assert [(one["name"], one["owner"]) for one in listed] == [
        ("nightly", "http"), ("stored", "file"),
    ]  # fmt: skip


async def test_it_fires_and_its_job_says_so(house: House) -> None:
    await made(house.admin, name="often", cron=None, every=1, labels={"set": "one"})
    (first, *_) = (await fired(house.admin, "often"))[::-1]
    assert (first["outcome"], first["how"], first["error_code"]) == ("fired", "due", None)
    job = (await house.ada.get(f"/jobs/{first['job_id']}")).json
    assert job["schedule"] == {"name": "often", "moment": first["moment"]}
    assert (job["user_id"], job["labels"]) == ("ada", {"set": "one"})
    await house.ada.submit("howera")
    found = (await house.ada.get("/jobs?schedule=often")).json["jobs"]
    assert [one["id"] for one in found][-1] == first["job_id"]
    assert {one["schedule"]["name"] for one in found} == {"often"}
    explained = (await house.ada.get(f"/jobs/{first['job_id']}/explain")).json
    assert explained["schedule"] == job["schedule"]
    assert (await house.ada.get("/jobs?schedule=nobody")).json["jobs"] == []


async def test_one_is_triggered_under_a_key_once(house: House) -> None:
    await made(house.admin)
    path = f"{PATH}/trigger"
    first = await house.admin.post(path, Idempotency_Key="k1")
    assert (first.status, first.json["replayed"]) == (201, False)
    again = await house.admin.post(path, Idempotency_Key="k1")
    assert (again.status, again.json) == (200, {"job_id": first.json["job_id"], "replayed": True})
    refused = await house.admin.post(path)
    assert (refused.status, refused.code) == (409, "JOB_ALREADY_RUNNING")
    other = await house.admin.post(path, {"overlap": "allow"})
    assert other.status == 201
    assert other.json["job_id"] != first.json["job_id"]
    shown = (await house.admin.get(PATH)).json
    assert shown["last_job_id"] == other.json["job_id"]
    assert [one["outcome"] for one in shown["firings"]] == ["fired", "skipped", "fired"]
    audit = (await house.admin.get("/admin/audit")).json["audit"]
    rows = [one for one in audit if one["event"] == "schedule.triggered"]
    jobs = [other.json["job_id"], first.json["job_id"]]
    assert [one["job_id"] for one in rows] == jobs, "once for each job, and not for its repeat"
    assert {(one["actor"], one["fields"]["name"]) for one in rows} == {("admin", "nightly")}


async def test_moments_that_are_over_are_made_up_for_once(house: House) -> None:
    await made(house.admin)
    path = f"{PATH}/backfill"
    dry = (await house.admin.post(path, MARCH | {"dry_run": True})).json
    assert [one["moment"][5:16] for one in dry["moments"]] == [
        "03-28T01:30", "03-29T01:00", "03-30T00:30",
    ]  # fmt: skip
    assert (dry["total"], dry["fired"], {one["outcome"] for one in dry["moments"]}) == (
        3,
        0,
        {None},
    )
    done = (await house.admin.post(path, MARCH)).json
    assert (done["fired"], done["same"]) == (3, 0)
    again = (await house.admin.post(path, MARCH)).json
    assert (again["fired"], again["same"]) == (0, 3)
    jobs = [one["job_id"] for one in done["moments"]]
    assert [one["job_id"] for one in again["moments"]] == jobs
    audit = (await house.admin.get("/admin/audit")).json["audit"]
    row = next(one for one in audit if one["event"] == "schedule.backfilled")
    about = row["fields"]
    assert (row["actor"], about["name"], about["moments"]) == ("admin", "nightly", 3)
    assert len((await house.admin.get("/jobs?schedule=nightly")).json["jobs"]) == 3
    assert (await house.admin.get(PATH)).json["last_job_id"] is None


@pytest.mark.parametrize(
    ("span", "said"),
    [
        ({"from": "2026-03-31T00:00:00Z", "to": "2026-03-28T00:00:00Z"}, "later than from"),
        ({"from": "2026-03-28T00:00:00Z", "to": "2999-03-28T00:00:00Z"}, "not later than now"),
    ],
)
async def test_a_span_that_is_none(house: House, span: dict[str, str], said: str) -> None:
    await made(house.admin)
    refused = await house.admin.post(f"{PATH}/backfill", span)
    assert (refused.status, refused.code) == (400, "VALIDATION_ERROR")
    assert said in refused.json["detail"]


async def test_a_span_with_too_many_moments(house: House) -> None:
    await made(house.admin, cron="* * * * *")
    refused = await house.admin.post(f"{PATH}/backfill", MARCH)
    assert (refused.status, refused.code) == (400, "VALIDATION_ERROR")
    assert "more than 1000 moments" in refused.json["detail"]


async def test_one_is_changed_paused_resumed_and_removed(house: House) -> None:
    said = await house.admin.put(PATH, NIGHTLY)
    assert (said.status, said.headers["Location"]) == (201, PATH)
    said = await house.admin.put(PATH, NIGHTLY | {"cron": "@hourly"})
    assert (said.status, said.json["cron"]) == (200, "@hourly")
    paused = (await house.admin.post(f"{PATH}/pause", {"reason": "tea"})).json
    assert (paused["state"], paused["reason"], paused["paused"]["by"]) == ("paused", "tea", "admin")
    assert (await house.admin.post(f"{PATH}/pause")).json["paused"] == paused["paused"]
    assert (await house.admin.post(f"{PATH}/resume")).json["paused"] is None
    assert (await house.admin.delete(PATH)).status == 204
    assert (await house.admin.get(PATH)).code == "NOT_FOUND"
    audited = (await house.admin.get("/admin/audit")).json["audit"]
    events = [one["event"] for one in audited if one["fields"].get("name") == "nightly"]
    assert events == [
        f"schedule.{what}" for what in ("removed", "resumed", "paused", "changed", "made")
    ]


async def test_a_name_is_taken_once(house: House) -> None:
    await made(house.admin)
    again = await house.admin.post("/admin/schedules", {"name": "nightly", **NIGHTLY})
    assert (again.status, again.code) == (409, "ALREADY_EXISTS")


async def test_those_of_the_file_are_changed_there(house: House) -> None:
    path = "/admin/schedules/stored"
    for said in (await house.admin.put(path, NIGHTLY), await house.admin.delete(path)):
        assert (said.status, said.code) == (409, "SCHEDULE_OF_FILE")
        assert "[schedules.stored]" in said.json["detail"]
    assert (await house.admin.post(f"{path}/pause")).json["state"] == "paused"
    assert (await house.admin.post(f"{path}/trigger")).status == 201


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        ({"cron": "61 * * * *"}, "VALIDATION_ERROR", "cron: bad minute"),
        ({"cron": "0 0 30 2 *"}, "VALIDATION_ERROR", "cron: bad day-of-month"),
        ({"cron": None}, "VALIDATION_ERROR", "either cron or every"),
        ({"every": 60}, "VALIDATION_ERROR", "either cron or every"),
        ({"zone": "Mars/Olympus"}, "VALIDATION_ERROR", "no such time zone"),
        ({"params": {"colour": 1}}, "VALIDATION_ERROR", "params"),
        ({"job_type": "none"}, "UNKNOWN_JOB_TYPE", "no job type"),
        ({"workflow": "none"}, "UNKNOWN_WORKFLOW", "no workflow"),
        ({"workflow": "howera", "overlap": "sometimes"}, "VALIDATION_ERROR", "overlap"),
        ({"notify_on": ["ended"]}, "VALIDATION_ERROR", "notify_on"),
        ({"notify_url": "http://127.0.0.1/x"}, "VALIDATION_ERROR", "notify_url"),
        ({"catch_up": 1}, "VALIDATION_ERROR", "catch_up"),
    ],
)
async def test_whatever_is_wrong_is_named(
    house: House, wrong: dict[str, Any], code: str, said: str
) -> None:
    refused = await house.admin.post("/admin/schedules", {"name": "x", **NIGHTLY, **wrong})
    assert refused.code == code, refused.raw
    assert said in refused.json["detail"]
    assert (await house.admin.get("/admin/schedules/x")).status == 404


async def test_they_are_for_admins(house: House) -> None:
    for path in ("/admin/schedules", "/admin/schedules/stored"):
        assert (await house.ada.get(path)).status == 403
    assert (await house.ada.post("/admin/schedules/stored/trigger")).status == 403


async def test_a_refusal_is_kept_and_shown(tmp_path: Path) -> None:
    """Nobody can pay for it: that is written down, and not tried again."""
    async with opened(
        tmp_path, registry=definitions(names=LOADED), credits=CreditsSection(initial=0)
    ) as house:
        await made(
            house.admin, workflow="cutx", job_type="tts", params={"text": "a"}, cron=None, every=1
        )
        first = (await fired(house.admin, "nightly"))[-1]
        assert (first["outcome"], first["error_code"]) == ("refused", "INSUFFICIENT_CREDITS")
        assert first["job_id"] is None
        shown = (await house.admin.get(PATH)).json
        assert shown["failed_at"] >= first["at"]
        figures = (await house.admin.get("/metrics")).raw.decode()
        of = 'schedule="nightly"'
        assert f'schedule_firings_total{{outcome="refused",{of}}}' in figures
        failed = figures.partition(f"schedule_failure_timestamp_seconds{{{of}}} ")[2]
        assert float(failed.split()[0]) > 1_700_000_000


async def test_they_are_kept_over_a_start(tmp_path: Path) -> None:
    named = {"stored": ScheduleSettings(workflow="howera", user="ada", cron="@daily")}
    async with opened(tmp_path, registry=definitions(names=LOADED), schedules=named) as house:
        told = await made(house.admin)
        await house.admin.post(f"{PATH}/pause", {"reason": "tea"})
        await house.admin.post("/admin/schedules/stored/pause", {"reason": "tea"})
    changed = {"stored": ScheduleSettings(workflow="howera", user="eve", cron="@daily")}
    async with opened(tmp_path, registry=definitions(names=LOADED), schedules=changed) as house:
        shown = (await house.admin.get(PATH)).json
        assert shown["paused"]["reason"] == "tea"
        assert {**shown, "paused": None, "state": "", "reason": ""} == {
            **told, "paused": None, "state": "", "reason": "",
        }  # fmt: skip
        stored = (await house.admin.get("/admin/schedules/stored")).json
        assert (stored["user"], stored["state"]) == ("eve", "paused")
    async with opened(tmp_path, registry=definitions(names=LOADED)) as house:
        listed = (await house.admin.get("/admin/schedules")).json["schedules"]
        assert [one["name"] for one in listed] == ["nightly"]


async def test_one_whose_workflow_is_not_loaded_waits(tmp_path: Path) -> None:
    named = {"lost": ScheduleSettings(workflow="gone", user="ada", cron="@daily")}
    async with opened(tmp_path, registry=definitions(names=LOADED), schedules=named) as house:
        shown = (await house.admin.get("/admin/schedules/lost")).json
        assert shown["state"] == "waits"
        assert "'gone' is not loaded" in shown["reason"]
        refused = await house.admin.post("/admin/schedules/lost/trigger")
        assert (refused.status, refused.code) == (503, "WORKFLOW_UNAVAILABLE")
