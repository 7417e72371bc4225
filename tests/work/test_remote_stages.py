"""Stages that run elsewhere, in the three ways that stages run: a job comes to the end that it has
when they run in the service, with the same values and the same files."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.stages import Stage
from jobrunner.stages.process import code, host
from tests.http.serving import House
from tests.work.living import AT_HOME, ended, serving, until, working

pytestmark = pytest.mark.anyio
NUMBERS = count()


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with serving(tmp_path_factory.mktemp("service")) as house:
        yield house


@pytest.fixture(scope="module")
async def home(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with serving(tmp_path_factory.mktemp("home"), AT_HOME) as house:
        yield house


def seen(job: Any) -> dict[str, Any]:
    """What a job came to, without what is its own: ids and times."""
    names = ("status", "attempt", "retry_count", "progress", "failure_code", "failure_message")
    return {name: job[name] for name in names} | {"failed_stage": job["failed_stage"]}


async def attempts_of(house: House, job_id: str) -> list[Any]:
    rows = (await house.admin.get(f"/jobs/{job_id}/attempts")).json["attempts"]
    names = ("state", "attempt", "outcome", "failure_code", "log")
    return [{name: row[name] for name in names} for row in rows]


async def history_of(house: House, job_id: str) -> list[Any]:
    rows = (await house.admin.get(f"/jobs/{job_id}/history")).json["history"]
    return [(row["from_status"], row["to_status"], row["trigger"]) for row in rows]


async def files_of(house: House, job_id: str) -> list[Any]:
    rows = (await house.admin.get(f"/jobs/{job_id}/assets")).json["assets"]
    found = []
    for row in rows:
        content = await house.admin.get(f"/assets/{row['id']}/content")
        name = row["storage_path"].rpartition("/")[2]
        found.append((row["asset_type"], name, row["sha256"], content.raw))
    return sorted(found)


@pytest.mark.parametrize("does", ["work", "checkpoint", "never", "no", "crash", "long"])
async def test_a_job_ends_as_it_ends_at_home(
    house: House, home: House, tmp_path: Path, does: str
) -> None:
    there = await home.ada.submit("far", params={"does": does})
    expected = await ended(home, there["id"])
    async with working(house, tmp_path / "work"):
        job = await house.ada.submit("far", params={"does": does})
        found = await ended(house, job["id"])
    assert seen(found) == seen(expected)
    for facts in (attempts_of, history_of, files_of):
        assert await facts(house, job["id"]) == await facts(home, there["id"]), facts.__name__
    assert not list((tmp_path / "work").iterdir()), "nothing is left where it worked"


async def test_a_large_file_goes_in_pieces(house: House, tmp_path: Path) -> None:
    size = 10 * 1024 * 1024
    async with working(house, tmp_path / "work"):
        job = await house.ada.submit("far", params={"size": size})
        found = await ended(house, job["id"])
    assert found["status"] == "done", found
    files = (await house.admin.get(f"/jobs/{job['id']}/assets")).json["assets"]
    assert [one["file_size"] for one in files] == [size, size]


async def test_a_passing_failure_waits_as_it_would_at_home(house: House, tmp_path: Path) -> None:
    async with working(house, tmp_path / "work") as worker:
        job = await house.ada.submit("far", params={"does": "later"})
        await until(lambda: worker.said("stage.ended"))
        found = (await house.admin.get(f"/jobs/{job['id']}")).json
    assert (found["status"], found["attempt"], found["retry_count"]) == ("singing", 2, 1)
    assert found["next_attempt_at"] > found["updated_at"]


async def test_a_cancelled_job_stops_its_stage_at_once(house: House, tmp_path: Path) -> None:
    """Long before a sign of life would be due, and what it still says is not heard."""
    params = {"does": "wait", "gate": str(tmp_path / "never")}
    async with working(house, tmp_path / "work") as worker:
        job = await house.ada.submit("far", params=params)
        await until(lambda: worker.taking.running)
        await house.ada.post(f"/jobs/{job['id']}/cancel")
        await until(lambda: worker.said("stage.ended"))
    assert [line["outcome"] for line in worker.said("stage.ended")] == ["lost"]
    assert (await house.admin.get(f"/jobs/{job['id']}")).json["status"] == "canceled"


async def test_progress_is_seen_while_it_works(house: House, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with working(house, tmp_path / "work"):
        job = await house.ada.submit("far", params={"does": "wait", "gate": str(gate)})
        path = f"/jobs/{job['id']}?wait=60&progress=true"
        found = job
        while found["progress_message"] != "listening":
            etag = f'"{found["version"]}.0"'
            said = await house.admin.get(path, If_None_Match=etag)
            found = said.json
        assert found["progress"] == 10
        gate.touch()
        assert (await ended(house, job["id"]))["status"] == "done"


async def test_what_is_given_back_is_taken_on_with_what_was_kept(
    house: House, tmp_path: Path
) -> None:
    """A worker that is told to stop gives work back after a while: no retry is spent, and the next
    one finds the value of ``once``, and the file that it names."""
    for does in ("once", "keep_file"):
        gate = tmp_path / f"gate-{does}"
        params = {"does": does, "gate": str(gate), "diary": str(tmp_path / does)}
        async with working(house, tmp_path / f"one-{does}", drain_s=0.2) as worker:
            job = await house.ada.submit("far", params=params)
            await until(lambda: worker.taking.running)
            path = f"/jobs/{job['id']}"
            while not await kept_in(house, job["id"]):
                await anyio.sleep(0.01)
            await worker.stopped()
        gate.touch()
        async with working(house, tmp_path / f"two-{does}"):
            found = await ended(house, job["id"])
        assert found["retry_count"] == 0, path
        outcomes = [one["outcome"] for one in await attempts_of(house, job["id"])]
        assert outcomes[:2] == ["interrupted", "done"], outcomes
        files = await files_of(house, job["id"])
        assert [name for _, name, _, _ in files] == ["echo-2.txt", "song.txt"]


async def test_an_end_is_told_to_the_stage_that_ran_elsewhere(house: House, tmp_path: Path) -> None:
    """What it kept comes along, so that it can call off a provider; and who ran it is known."""
    notes = tmp_path / "notes"
    params = {"does": "once", "gate": str(tmp_path / "never"), "diary": str(notes)}
    async with working(house, tmp_path / "work"):
        job = await house.ada.submit("far", params=params)
        while not await kept_in(house, job["id"]):
            await anyio.sleep(0.01)
        explained = (await house.admin.get(f"/jobs/{job['id']}/explain")).json
        assert explained["waits_for"] == "worker to finish far.sing in singing"
        await house.ada.post(f"/jobs/{job['id']}/cancel")
        await until(lambda: "hushed {'order': 7}" in notes.read_text())
    rows = (await house.admin.get(f"/jobs/{job['id']}/attempts")).json["attempts"]
    assert [(row["stage"], row["holder"]) for row in rows] == [("far.sing", "worker")]


async def kept_in(house: House, job_id: str) -> bool:
    job = await house.service.facade.world.reader.job(job_id)
    return job is not None and job.attempt is not None and bool(job.attempt.kept)


async def test_a_stage_whose_code_has_changed_is_taken_no_more(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its work is given back once, and left to others until this worker is restarted."""
    looks: list[str] = []

    def found(stage: Stage) -> str:
        looks.append(stage.name)
        monkeypatch.setitem(code._stale, stage.name, "song.py")
        return "song.py"

    job = await house.ada.submit("far")
    with monkeypatch.context() as patch:
        patch.setattr(host, "changed", found)
        async with working(house, tmp_path / "old", slots=1) as worker:
            (line,) = await until(lambda: worker.said("stage.changed"))
            assert line["stage"] == "far.count"
            await until(lambda: worker.taking.running == 0)
            ready = {one["stage"] for one in worker.taking._ready()}
            assert ready == {"far.sing", "far.show"}
    assert looks == ["far.count"]
    code._stale.clear()
    async with working(house, tmp_path / "new"):
        found_job = await ended(house, job["id"])
    assert (found_job["status"], found_job["retry_count"]) == ("done", 0)


async def test_only_the_stage_that_was_named_is_run(house: House, tmp_path: Path) -> None:
    async with working(house, tmp_path / "one", only=("far.sing",)):
        job = await house.ada.submit("far")
        path = f"/jobs/{job['id']}"
        while (await house.admin.get(path)).json["status"] != "counting":
            await anyio.sleep(0.01)
    async with working(house, tmp_path / "two", only=("far.count", "far.show")):
        assert (await ended(house, job["id"]))["status"] == "done"


async def test_settings_are_the_services_under_the_workers_own(
    house: House, tmp_path: Path
) -> None:
    for own, voice in (({}, "alto"), ({"voice": "bass"}, "bass")):
        async with working(house, tmp_path / voice, only=("far.sing",), own_settings=own):
            job = await house.ada.submit("far")
            path = f"/jobs/{job['id']}"
            while (found := (await house.admin.get(path)).json)["status"] != "counting":
                await anyio.sleep(0.01)
        assert found["result"]["voice"] == voice
        await house.ada.post(f"{path}/cancel")


async def test_the_files_of_others_are_not_fetched(house: House, tmp_path: Path) -> None:
    theirs = await house.eve.ask("POST", "/assets?name=a.txt", data=b"hers", headers=TEXT)
    job = await house.ada.submit("far")
    path = f"/assets/{theirs.json['id']}?job_id={job['id']}"
    assert (await house.worker.get(path)).status == 404
    own = await house.ada.ask("POST", "/assets?name=a.txt", data=b"mine", headers=TEXT)
    path = f"/assets/{own.json['id']}?job_id={job['id']}"
    assert (await house.worker.get(path)).status == 200
    await house.ada.post(f"/jobs/{job['id']}/cancel")


TEXT = {"Content-Type": "text/plain"}
