"""The asset-pattern lifecycle with its real stages, behind real HTTP and a real file: pictures are
uploaded or fetched, made into others, and bundled; and the process is killed in between."""

import io
import json
import tarfile
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from jobrunner_asset_pattern import definition
from jobrunner_asset_pattern.export import export
from jobrunner_asset_pattern.generation import generate
from PIL import Image

from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import RetrySettings, WorkflowSettings
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.stages import Registry
from jobrunner.testing.providers import (
    Cut,
    Endless,
    Fault,
    Hang,
    Made,
    OpenAILike,
    Page,
    Redirected,
    Status,
    busy,
)
from tests.http.serving import Caller, House, opened
from tests.whole.process import Place, place

pytestmark = pytest.mark.anyio

PATIENCE_S = 120
TEXT = b"this is no picture"


def at_work(**settings: Any) -> Registry:
    config = WorkflowSettings(
        settings=settings, retry={"processing": RetrySettings(base=0.05, cap=0.2)}
    )

    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        return laid_over(workflow, config)

    registry = Registry(overlay)
    registry.add(generate)
    registry.add(export)
    registry.add(definition)
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


@asynccontextmanager
async def house(folder: Path, **settings: Any) -> AsyncIterator[House]:
    async with opened(folder, registry=at_work(**settings)) as here:
        yield here


def picture(colour: str = "teal", size: tuple[int, int] = (90, 60), kind: str = "PNG") -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, colour).save(data, kind)
    return data.getvalue()


async def shelved(caller: Caller, data: bytes, name: str = "a.png") -> str:
    """Uploaded before any job; its id."""
    raw = {"Content-Type": "application/octet-stream"}
    said = await caller.ask("POST", f"/assets?name={name}", data=data, headers=raw)
    assert said.status == 201, said.raw
    return str(said.json["id"])


async def done(here: House, job_type: str, *statuses: str, **params: Any) -> Any:
    """A job of ada's, at its end."""
    made = await here.ada.submit("asset-pattern", job_type=job_type, params=params)
    assert (made["status"], made["progress"]) == ("queued", 0)
    return await at(here, made["id"], *statuses)


async def at(here: House, job_id: str, *statuses: str) -> Any:
    tag = ""
    with anyio.fail_after(PATIENCE_S):
        while True:
            said = await here.ada.get(f"/jobs/{job_id}?wait=1", If_None_Match=tag)
            if said.status == 304:
                continue
            if said.json["status"] in statuses:
                return said.json
            assert said.json["kind"] != "final", said.json
            tag = f'"{said.json["version"]}"'


async def assets(here: House, job: Any) -> list[Any]:
    return list((await here.ada.get(f"/jobs/{job['id']}/assets")).json["assets"])


def opened_picture(data: bytes) -> Image.Image:
    found = Image.open(io.BytesIO(data))
    found.load()
    return found


# ---------------------------------------------------------------- generation


async def test_uploads_are_made_into_thumbnails(tmp_path: Path) -> None:
    """P1-P3 P9 P16-P18 P21 P25 P27 P28 P30-P33 P37 P39: one job from the upload to the files."""
    async with house(tmp_path) as here:
        inputs = [await shelved(here.ada, picture(colour)) for colour in ("red", "blue")]
        job = await done(here, "generation", "completed", inputs=inputs, sizes=[30], format="webp")
        assert (job["progress"], job["failure_message"]) == (100, None)
        assert job["result"] == {"asset_count": 2, "failed": []}
        assert job["created_at"] <= job["started_at"] <= job["completed_at"]
        made = await assets(here, job)
        assert [one["asset_type"] for one in made] == ["thumbnail", "thumbnail"]
        assert made[0]["created_at"] >= made[1]["created_at"]
        for one, colour in zip(reversed(made), ((255, 0, 0), (0, 0, 255)), strict=True):
            assert one["storage_path"].startswith(f"ada/{job['id']}/")
            assert job["started_at"] <= one["created_at"] <= job["completed_at"]
            content = (await here.ada.get(one["url"])).raw
            assert len(content) == one["file_size"]
            found = opened_picture(content)
            assert (found.format, found.size) == ("WEBP", (30, 20))
            pixel = found.convert("RGB").getpixel((15, 10))
            assert all(abs(a - b) < 9 for a, b in zip(pixel, colour, strict=True))  # type: ignore[arg-type]
        events = [line["event"] for line in here.logged if line.get("job_id") == job["id"]]
        assert events.index("asset.created") < events.index("job.completed")
        moves = [line for line in here.logged if line["event"] == "job.transition"]
        pairs = [(one["from_status"], one["to_status"]) for one in moves]
        assert pairs[-2:] == [("queued", "processing"), ("processing", "completed")]


async def test_files_are_called_as_the_readme_says(tmp_path: Path) -> None:
    """By input and size; from the second on with their number in the job."""
    async with house(tmp_path) as here:
        inputs = [await shelved(here.ada, picture(colour)) for colour in ("red", "blue")]
        job = await done(here, "generation", "completed", inputs=inputs, sizes=[30, 60])
        names = [one["storage_path"].rpartition("/")[2] for one in await assets(here, job)]
        assert names[::-1] == [
            "0001-30px.png", "0001-60px-2.png", "0002-30px-3.png", "0002-60px-4.png",
        ]  # fmt: skip
        job = await done(here, "generation", "completed", inputs=inputs[:1])
        [one] = await assets(here, job)
        assert one["storage_path"].endswith("/0001-full.png")


async def test_partial_names_what_failed(tmp_path: Path) -> None:
    """P4 P12 P23 P39 P40: a text, a foreign file, and one that there is not."""
    async with house(tmp_path) as here:
        fine, text = await shelved(here.ada, picture()), await shelved(here.ada, TEXT, "a.txt")
        foreign = await shelved(here.eve, picture())
        absent = "00000000-0000-7000-8000-000000000000"
        inputs = [fine, text, foreign, absent]
        job = await done(here, "generation", "partial", inputs=inputs)
        assert job["progress"] == 100
        assert job["result"]["asset_count"] == 1
        assert [one["input"] for one in job["result"]["failed"]] == [text, foreign, absent]
        for one in (text, foreign, absent):
            assert one in job["failure_message"]
        assert len(await assets(here, job)) == 1
        assert job["completed_at"] is not None


async def test_nothing_made_is_a_failure(tmp_path: Path) -> None:
    """P5 P22 P38 P40: with a message, the four fields, and no progress that was not made."""
    async with house(tmp_path) as here:
        text = await shelved(here.ada, TEXT, "a.txt")
        job = await done(here, "generation", "failed", inputs=[text])
        assert (job["failure_code"], job["failed_stage"]) == ("NOTHING_MADE", "processing")
        assert text in job["failure_message"]
        assert job["correlation_id"]
        assert job["progress"] < 100
        assert await assets(here, job) == []
        empty = await done(here, "generation", "failed")
        assert empty["failure_code"] == "NO_INPUTS"
        assert empty["params"] == {}


async def test_from_addresses(tmp_path: Path) -> None:
    """P3 P4: one that is good, and one of each kind that is not; each says why."""
    faults: dict[str, Fault | None] = {
        "fine": None,
        "a page": Page("image/png"),
        "gone": Status(404),
        "led inside": Redirected(),
        "cut for good": Cut(after=10),
    }
    async with OpenAILike() as provider, house(tmp_path, origins=[provider.url]) as here:
        urls = {name: provider.keep(name.replace(" ", "-"), Made(picture())) for name in faults}
        for fault in faults.values():
            provider.script("files", fault)
        provider.always("files", Cut(after=10))
        inputs = [*urls.values(), "http://127.0.0.1:1/x", "http://169.254.169.254/", "http://[/"]
        job = await done(here, "generation", "partial", inputs=inputs)
        assert job["result"]["asset_count"] == 1
        assert len(job["result"]["failed"]) == len(inputs) - 1
        errors = {one["input"]: one["error"] for one in job["result"]["failed"]}
        assert "text/html" in errors[urls["a page"]]
        assert "404" in errors[urls["gone"]]
        assert "given up after 3 tries" in errors[urls["cut for good"]]


@pytest.mark.parametrize("fault", [Status(500), busy(0), Cut(after=10)])
async def test_an_address_that_fails_once_costs_no_job(tmp_path: Path, fault: Fault) -> None:
    async with OpenAILike() as provider, house(tmp_path, origins=[provider.url]) as here:
        url = provider.keep("a", Made(picture()))
        provider.script("files", fault)
        job = await done(here, "generation", "completed", inputs=[url])
        assert (job["attempt"], job["result"]["asset_count"]) == (1, 1)


async def test_an_address_that_never_ends(tmp_path: Path) -> None:
    async with OpenAILike() as provider, house(tmp_path, origins=[provider.url]) as here:
        url = provider.keep("a", Made(picture()))
        provider.script("files", Endless())
        job = await done(here, "generation", "failed", inputs=[url])
        assert "larger than" in job["failure_message"]
        scratch = tmp_path / "assets" / ".scratch"
        assert [path for path in scratch.rglob("*") if path.is_file()] == []


# ---------------------------------------------------------------- export


@pytest.mark.parametrize("format_", ["zip", "tar.gz"])
async def test_all_files_in_one(tmp_path: Path, format_: str) -> None:
    """P3 P21 P28 P33: of this owner and no other, with the list."""
    async with house(tmp_path) as here:
        ids = [await shelved(here.ada, picture(c), f"{c}.png") for c in ("red", "blue")]
        await shelved(here.eve, picture("black"), "eve.png")
        job = await done(here, "export", "completed", title="All", format=format_)
        (bundle,) = await assets(here, job)
        assert (bundle["asset_type"], bundle["id"]) == ("bundle", job["result"]["bundle"])
        assert job["result_url"] == bundle["url"]
        files = unpacked((await here.ada.get(bundle["url"])).raw, format_)
        manifest = json.loads(files.pop("manifest.json"))
        assert [one["asset_id"] for one in manifest["files"]] == ids[::-1]
        assert sorted(files.values()) == sorted([picture("red"), picture("blue")])
        again = await done(here, "export", "completed", title="All", format=format_)
        (second,) = await assets(here, again)
        assert second["sha256"] == bundle["sha256"]
        assert (await here.eve.get(bundle["url"])).status in (403, 404)


def unpacked(data: bytes, format_: str) -> dict[str, bytes]:
    if format_ == "zip":
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            return {name: file.read(name) for name in file.namelist()}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]


async def test_files_that_went_are_named(tmp_path: Path) -> None:
    """P4 P23 P39 P40: one was removed behind our back, one was changed, one is not ada's."""
    async with house(tmp_path) as here:
        ids = [await shelved(here.ada, picture(c), f"{c}.png") for c in ("red", "blue", "green")]
        foreign = await shelved(here.eve, picture("black"))
        files = sorted(path for path in (tmp_path / "assets").rglob("*.png"))
        by_content = {path.read_bytes(): path for path in files}
        by_content[picture("red")].unlink()
        by_content[picture("blue")].write_bytes(picture("pink"))
        job = await done(here, "export", "partial", inputs=[*ids, foreign])
        assert job["failure_message"].startswith("3 of 4 files are missing: ")
        assert [one["asset"] for one in job["result"]["failed"]] == [*ids[:2], foreign]
        (bundle,) = await assets(here, job)
        inside = unpacked((await here.ada.get(bundle["url"])).raw, "zip")
        assert picture("green") in inside.values()
        assert picture("black") not in inside.values()


async def test_nothing_to_bundle(tmp_path: Path) -> None:
    """P5 P22 P40"""
    async with house(tmp_path) as here:
        job = await done(here, "export", "failed")
        assert job["failure_code"] == "NOTHING_TO_EXPORT"
        assert "upload" in job["failure_message"]


# ---------------------------------------------------------------- who may see and do what


async def test_a_strangers_job_is_a_strangers(tmp_path: Path) -> None:
    """P11 P12 P24 P27 P36: 403 for what there is, 404 for what there is not; the list shows one's
    own; with the job its files go."""
    async with house(tmp_path) as here:
        inputs = [await shelved(here.ada, picture())]
        job = await done(here, "generation", "completed", inputs=inputs)
        (made,) = await assets(here, job)
        for path in (f"/jobs/{job['id']}", f"/jobs/{job['id']}/assets"):
            said = await here.eve.get(path)
            assert (said.status, said.code) == (403, "FORBIDDEN")
        assert (await here.eve.get("/jobs/00000000-0000-7000-8000-000000000000")).status == 404
        assert (await here.eve.get(made["url"])).status in (403, 404)
        assert (await here.eve.get("/jobs")).json["jobs"] == []
        mine = (await here.ada.get("/jobs?status=completed&job_type=generation")).json["jobs"]
        assert [one["id"] for one in mine] == [job["id"]]
        path = tmp_path / "assets" / made["storage_path"]
        assert path.exists()
        assert (await here.eve.delete(f"/jobs/{job['id']}")).status == 403
        assert (await here.ada.delete(f"/jobs/{job['id']}")).status in (200, 204)
        assert (await here.ada.get(made["url"])).status == 404


async def test_an_end_stays_as_it_was_told(tmp_path: Path) -> None:
    """P6-P8 P13-P15 P19 P20 P34 P35: nothing leads out, and no late word changes anything."""
    async with house(tmp_path) as here:
        job = await done(here, "export", "failed")
        path = f"/jobs/{job['id']}/transitions"
        for to in ("queued", "processing", "completed", "partial"):
            said = await here.admin.post(path, {"to": to})
            assert (said.status, said.code) == (409, "TERMINAL_STATE")
            assert repr(to) in said.json["detail"]
            assert repr("failed") in said.json["detail"]
        assert (await here.admin.post(path, {"to": "done"})).status == 400
        same = await here.admin.post(path, {"to": "failed", "failure_message": "other"})
        assert same.status == 200
        late = await here.worker.post(f"/jobs/{job['id']}/progress", {"progress": 10})
        assert late.status == 200
        wrong = await here.worker.post(f"/jobs/{job['id']}/progress", {"progress": 101})
        assert wrong.status == 400
        assert (await here.ada.get(f"/jobs/{job['id']}")).json == job
        absent = "/jobs/00000000-0000-7000-8000-000000000000/transitions"
        assert (await here.admin.post(absent, {"to": "failed"})).status == 404


# ---------------------------------------------------------------- killed


@asynccontextmanager
async def home(folder: Path, provider: OpenAILike) -> AsyncIterator[Place]:
    more = f'[workflows.asset-pattern.settings]\norigins = ["{provider.url}"]\n'
    async with place(folder, more=more, active=4) as here:
        await here.start()
        yield here


@pytest.mark.parametrize("finished", [0, 1, 3])
async def test_what_is_finished_outlives_a_kill(tmp_path: Path, finished: int) -> None:
    """P28 P38: the next life fetches what is left, and no file is made twice."""
    async with OpenAILike() as provider, home(tmp_path, provider) as here:
        urls = [provider.keep(f"{n}", Made(picture(size=(90, 60 + n)))) for n in range(5)]
        provider.script("files", *[None] * finished, Hang())
        params = {"inputs": urls, "sizes": [30, 60]}
        job = await here.submit("asset-pattern", job_type="generation", params=params)
        await provider.called("files", finished + 1)
        await here.kill()
        assert len(provider.calls.of("files")) == finished + 1
        await here.start()
        end = await here.at(job["id"], "completed")
        assert end["result"] == {"asset_count": 10, "failed": []}
        made = (await here.get(f"/jobs/{job['id']}/assets"))["assets"]
        assert len(made) == len({one["storage_path"] for one in made}) == 10
        asked = [call.path for call in provider.calls.of("files")]
        assert len(asked) == 6
        assert asked.count(asked[finished]) == 2
        on_disk = {path.name for path in (tmp_path / "data/assets/admin" / job["id"]).iterdir()}
        assert on_disk == {one["storage_path"].rpartition("/")[2] for one in made}
        assert here.faults() == ()


async def test_a_bundle_outlives_kills(tmp_path: Path) -> None:
    """P28 P38: whenever it is cut off, there is one in the end."""
    async with OpenAILike() as provider, home(tmp_path, provider) as here:
        inputs = [provider.keep(f"{n}", Made(picture(size=(90, 60 + n)))) for n in range(5)]
        job = await here.submit("asset-pattern", job_type="generation", params={"inputs": inputs})
        await here.at(job["id"], "completed")
        jobs = []
        for _ in range(4):
            made = await here.submit("asset-pattern", job_type="export", params={})
            jobs.append(made["id"])
            await here.at(made["id"], "processing", "completed")
            await here.kill()
            await here.start()
        digests = set()
        for job_id in jobs:
            await here.at(job_id, "completed")
            (bundle,) = (await here.get(f"/jobs/{job_id}/assets"))["assets"]
            digests.add(bundle["sha256"])
        assert len(digests) == 1
        assert here.faults() == ()
