"""Files that outside workers send for the attempt they hold, and whose they become."""

import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from jobrunner.core.declaration.workflow import Upload
from jobrunner.http.routes.files.uploads import sent_limit
from tests.driving import varied
from tests.http.serving import Caller, House, Said, opened
from tests.http.test_claims import WHERE, claimed, worker
from tests.standing import LIFECYCLES

pytestmark = pytest.mark.anyio

DATA = b"RIFF, more or less\n" * 100
NOON = "2026-01-01T12:00:00Z"


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("sent")) as house:
        gift = {"amount": 10_000, "reason": "tests"}
        assert (await house.admin.post("/admin/credits/admin/grant", gift)).status == 200
        yield house


def root(house: House) -> Path:
    return Path(house.service.facade.world.assets)


def lying(house: House, job: Any) -> list[str]:
    """What lies in the folder of this job."""
    return sorted(path.name for path in root(house).glob(f"**/{job['id']}/*"))


async def sent(caller: Caller, job: Any, data: bytes = DATA, **query: Any) -> Said:
    asked = "&".join(f"{name}={value}" for name, value in {"name": "a.wav", **query}.items())
    headers = {"Content-Type": "application/octet-stream"}
    return await caller.ask("POST", f"/jobs/{job['id']}/assets?{asked}", data=data, headers=headers)


async def until(condition: Any) -> None:
    with anyio.fail_after(120):
        while not condition():
            await anyio.sleep(0.01)


def success(workflow: str, state: str) -> tuple[str, dict[str, Any]]:
    """Where a job goes from here when the work is done, and what a report must say for it."""
    definition = LIFECYCLES[workflow].definition
    done = definition.states[state].done
    return done, dict(LIFECYCLES[workflow].reports.get(done, {}))


@pytest.mark.parametrize(("workflow", "state"), WHERE)
@pytest.mark.parametrize("door", ["transitions", "status"])
async def test_a_named_file_becomes_the_jobs(
    house: House, workflow: str, state: str, door: str
) -> None:
    anna = await worker(house, "anna")
    job = await claimed(house, anna, workflow, state)
    before = (await house.admin.get(f"/jobs/{job['id']}/assets")).json["assets"]
    said = await sent(anna, job, asset_type="image", claim=job["claim"])
    assert said.status == 201, said.raw
    asset = said.json
    assert (asset["file_size"], asset["asset_type"]) == (len(DATA), "image")
    assert (await house.admin.get(f"/jobs/{job['id']}/assets")).json["assets"] == before
    assert (await house.admin.get(f"/assets/{asset['id']}")).status == 404
    to, report = success(workflow, state)
    report |= {"assets": [{"id": asset["id"]}], "claim": job["claim"]}
    if door == "transitions":
        moved = await anna.post(f"/jobs/{job['id']}/transitions", {"to": to, **report})
        assert moved.status == 200, moved.raw
    else:
        event = {"status": to, "event_id": "one", "occurred_at": NOON, **report}
        moved = await anna.post(f"/internal/jobs/{job['id']}/status", event)
        assert moved.status == 204, moved.raw
    now = (await house.admin.get(f"/jobs/{job['id']}/assets")).json["assets"]
    (new,) = [one for one in now if one not in before]
    assert (new["id"], new["sha256"]) == (asset["id"], asset["sha256"])
    assert (await house.admin.get(f"/assets/{asset['id']}/content")).raw == DATA
    history = await house.admin.get(f"/jobs/{job['id']}")
    assert history.json["status"] == to


async def test_with_an_artifact_no_naming_is_needed(house: House) -> None:
    """And it is a verified checkpoint: known by size and digest, and re-read before it counts."""
    anna = await worker(house, "anna")
    job = await claimed(house, anna, "howera", "AUDIO_EXTRACTING")
    first = (await sent(anna, job, b"an earlier one", artifact="audio_uri")).json
    last = (await sent(anna, job, artifact="audio_uri")).json
    other = (await sent(anna, job, b"not named by anybody")).json
    moved = await anna.post(f"/jobs/{job['id']}/transitions", {"to": "AUDIO_READY"})
    assert moved.status == 200, moved.raw
    assert moved.json["artifacts"]["audio_uri"] == f"/assets/{last['id']}/content"
    assert (await anna.get(f"/assets/{last['id']}/content")).raw == DATA
    for lost in (first, other):
        assert (await anna.get(f"/assets/{lost['id']}")).status == 404
    await until(lambda: len(lying(house, job)) == 1)


async def test_what_no_report_took_goes_with_the_attempt(house: House) -> None:
    """A failure takes what it names, and nothing else; a cancelled job keeps nothing."""
    anna = await worker(house, "anna")
    job = await claimed(house, anna, "howera", "AUDIO_EXTRACTING")
    kept = (await sent(anna, job, b"the log of it", name="log.txt")).json
    await sent(anna, job, artifact="audio_uri")
    assert len(lying(house, job)) == 2
    failed = {"failure_code": "X", "failure_message": "no", "failed_stage": "AUDIO_EXTRACTING"}
    again = {"to": "AUDIO_EXTRACTING", "assets": [{"id": kept["id"], "asset_type": "log"}]}
    said = await anna.post(f"/jobs/{job['id']}/transitions", {**again, **failed})
    assert said.status == 200, said.raw
    assert "audio_uri" not in said.json["artifacts"]
    await until(lambda: lying(house, job) == ["log.txt"])
    (asset,) = (await anna.get(f"/jobs/{job['id']}/assets")).json["assets"]
    assert (asset["id"], asset["asset_type"]) == (kept["id"], "log")
    other = await claimed(house, anna, "cutx", "processing")
    await sent(anna, other)
    assert (await house.admin.post(f"/jobs/{other['id']}/cancel")).status == 200
    await until(lambda: lying(house, other) == [])


@pytest.mark.parametrize(("workflow", "state"), WHERE)
async def test_only_the_claimant_sends(house: House, workflow: str, state: str) -> None:
    anna, bert = await worker(house, "anna"), await worker(house, "bert")
    job = await claimed(house, anna, workflow, state)
    for said in (
        await sent(bert, job),
        await sent(bert, job, claim=job["claim"]),
        await sent(anna, job, claim=job["claim"] + 1),
        await sent(anna, job, run_id="another"),
    ):
        assert (said.status, said.code) == (409, "STALE_RUN"), said.raw
    assert (await sent(house.ada, job)).code == "FORBIDDEN"
    assert lying(house, job) == []
    assert (await sent(house.admin, job, claim=job["claim"])).status == 201


async def test_where_nobody_works_nothing_is_sent(house: House) -> None:
    anna = await worker(house, "anna")
    job = await house.admin.submit("howera")
    said = await sent(anna, job)
    assert (said.status, said.code) == (409, "JOB_LOCKED")
    assert (await house.admin.post(f"/jobs/{job['id']}/cancel")).status == 200
    assert (await sent(anna, job)).code == "TERMINAL_STATE"
    narrow = {"name": "narrow", "role": "workflow", "workflows": ["cutx"]}
    token = (await house.admin.post("/admin/tokens", narrow)).json["token"]
    assert (await sent(house.caller(token), job)).code == "NOT_FOUND"


async def test_a_report_names_what_was_sent_and_nothing_else(house: House) -> None:
    anna = await worker(house, "anna")
    job, other = [await claimed(house, anna, "asset-pattern", "processing") for _ in range(2)]
    elsewhere = (await sent(anna, other)).json
    for assets in (
        [{"id": elsewhere["id"]}],
        [{"id": "nothing"}],
        [{"id": elsewhere["id"], "url": "https://cdn.example/1.png"}],
        [{"url": "https://cdn.example/1.png"}],
        [{"asset_type": "image"}],
        [{"asset_type": "image", "url": "s3://bucket/1.png"}],
        [{"asset_type": "image", "url": "javascript:alert(1)"}],
        [{"asset_type": "image", "url": "//evil.example/1.png"}],
        [{"asset_type": "image", "url": "https://x.example/1", "storage_path": "a//b"}],
        [{"asset_type": "image", "url": "https://x.example/1", "storage_path": "./a"}],
        [{"asset_type": "image", "url": "https://x.example/1", "storage_path": "a b"}],
    ):
        said = await anna.post(
            f"/jobs/{job['id']}/transitions", {"to": "completed", "assets": assets}
        )
        assert (said.status, said.code) == (400, "VALIDATION_ERROR"), assets
    assert (await anna.get(f"/jobs/{job['id']}")).json["status"] == "processing"


async def test_nobody_names_anothers_file_as_its_own(house: House) -> None:
    """A path beyond the job's own folder is made anew, so size and digest of it prove nothing."""
    anna = await worker(house, "anna")
    secret = await claimed(house, anna, "howera", "AUDIO_EXTRACTING")
    known = (await sent(anna, secret, artifact="audio_uri")).json
    await anna.post(f"/jobs/{secret['id']}/transitions", {"to": "AUDIO_READY"})
    thief = await claimed(house, anna, "asset-pattern", "processing")
    path = f"{secret['user_id']}/{secret['id']}/a.wav"
    stolen = {"asset_type": "audio", "url": "https://x.example/a.wav", "storage_path": path,
              "file_size": known["file_size"], "sha256": known["sha256"]}  # fmt: skip
    said = await anna.post(
        f"/jobs/{thief['id']}/transitions", {"to": "completed", "assets": [stolen]}
    )
    assert said.status == 200, said.raw
    (asset,) = (await anna.get(f"/jobs/{thief['id']}/assets")).json["assets"]
    content = await anna.get(f"/assets/{asset['id']}/content")
    assert (content.status, content.code) == (410, "ASSET_GONE")


async def test_a_file_in_pieces(house: House) -> None:
    """Resumable, for an artifact; finished by the last piece, though nobody heard the answer."""
    anna = await worker(house, "anna")
    job = await claimed(house, anna, "howera", "AUDIO_EXTRACTING")
    tus = {"Tus-Resumable": "1.0.0"}
    name = base64.b64encode(b"a.wav").decode()
    announced = {"Upload-Length": str(len(DATA)), "Upload-Metadata": f"filename {name}", **tus}
    path = f"/uploads?job_id={job['id']}&artifact=audio_uri&claim={job['claim']}"
    piece = {"Content-Type": "application/offset+octet-stream", **tus}
    bert = await worker(house, "bert")
    refused = await bert.ask("POST", path, data=b"", headers={**announced, **piece})
    assert (refused.status, refused.code) == (409, "STALE_RUN")
    alone = await anna.ask("POST", "/uploads", data=b"", headers={**announced, **piece})
    assert alone.status == 403
    made = await anna.ask("POST", path, data=b"", headers={**announced, **piece})
    assert made.status == 201, made.raw
    where = "/uploads/" + made.headers["Location"].rpartition("/")[2]
    for start, end in ((0, 500), (500, len(DATA))):
        went = await anna.ask(
            "PATCH", where, data=DATA[start:end], headers={"Upload-Offset": str(start), **piece}
        )
        assert went.status == 204, went.raw
    again = await anna.ask("GET", where, headers=tus)
    assert again.json["offset"] == len(DATA)
    moved = await anna.post(f"/jobs/{job['id']}/transitions", {"to": "AUDIO_READY"})
    assert moved.status == 200, moved.raw
    uri = moved.json["artifacts"]["audio_uri"]
    assert uri == f"/assets/{again.json['asset_id']}/content"
    assert (await anna.get(uri)).raw == DATA


async def test_a_sent_file_survives_a_restart(tmp_path: Path) -> None:
    """It is as durable as the claim that it waits with."""
    async with opened(tmp_path) as first:
        anna = await worker(first, "anna")
        made = await first.admin.submit("asset-pattern", job_type="generation")
        job = (await anna.post(f"/jobs/{made['id']}/claim")).json
        asset = (await sent(anna, job)).json
        token = anna.token
        (file,) = root(first).glob(f"**/{job['id']}/*")
    os.utime(file, (0, 0))  # the start sweeps what is a day old and of no use
    async with opened(tmp_path) as second:
        anna = second.caller(token)
        report = {"to": "completed", "assets": [{"id": asset["id"]}], "claim": job["claim"]}
        assert (await anna.post(f"/jobs/{job['id']}/transitions", report)).status == 200
        assert (await anna.get(f"/assets/{asset['id']}/content")).raw == DATA


async def test_files_that_wait_have_bounds(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """In number for an attempt, and in size as the workflow and the service allow."""
    anna = await worker(house, "anna")
    job = await claimed(house, anna, "asset-pattern", "processing")
    monkeypatch.setattr("jobrunner.core.features.sent_files.SENT_MAX", 2)
    for number in range(2):
        assert (await sent(anna, job, name=f"{number}.txt")).status == 201
    said = await sent(anna, job)
    assert (said.status, said.code, said.json["limit"]) == (429, "QUOTA_EXCEEDED", 2)
    assert len(lying(house, job)) == 2
    assert (await sent(anna, job, b"")).code == "QUOTA_EXCEEDED"


@pytest.mark.parametrize(
    ("sizes", "limit"), [((), 1000), ((0, 5), 1000), ((5, 70), 70), ((5000,), 1000)]
)
def test_how_large_a_sent_file_may_be(sizes: tuple[int, ...], limit: int) -> None:
    """As large as the largest that the workflow takes from people, where it says so."""
    uploads = tuple(
        Upload(f"u{place}", walks={}, asset_type="file", max_bytes=size)
        for place, size in enumerate(sizes)
    )
    call = SimpleNamespace(door=SimpleNamespace(settings=SimpleNamespace(max_upload=1000)))
    definition = varied(LIFECYCLES["cutx"].definition, uploads=uploads)
    assert sent_limit(call, definition) == limit  # type: ignore[arg-type]
