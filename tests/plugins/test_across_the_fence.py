"""Chains of stages of which some are in the house and some an outside worker's, in every mixture in
which one hands over to the other: whoever comes next has the file that came before."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jobrunner import app
from jobrunner.config.settings import Config, LimitsSection, WorkflowSettings
from tests.http.serving import Caller, House, opened
from tests.plugins import test_ss_at_work as ss
from tests.plugins.test_howera_at_work import _ffmpeg, assets, at, tell, uploaded, with_provider

pytestmark = pytest.mark.anyio

CHAIN = ("AUDIO_EXTRACTING", "TRANSCRIBING", "GENERATING", "EXPORTING")
READS = {"AUDIO_EXTRACTING": "video_uri", "TRANSCRIBING": "audio_uri"}
READS |= {"GENERATING": "transcript_uri", "EXPORTING": "draft_uri"}
MAKES = {"AUDIO_EXTRACTING": ("audio_uri", "audio.flac", "AUDIO_READY")}
MAKES["TRANSCRIBING"] = ("transcript_uri", "transcript.json", "TRANSCRIPT_READY")
MAKES["GENERATING"] = ("draft_uri", "draft.json", "DRAFT_READY")
MAKES["EXPORTING"] = ("export_uri", "guide.zip", "DONE")
READY = {"TRANSCRIBING": "AUDIO_READY", "GENERATING": "TRANSCRIPT_READY"}
OUTSIDE = [{one} for one in CHAIN] + [set(CHAIN) - {one} for one in CHAIN]
OUTSIDE += [{"AUDIO_EXTRACTING", "GENERATING"}, {"TRANSCRIBING", "EXPORTING"}]
Made = dict[str, bytes]


@dataclass
class Outsider:
    """An outside worker that makes what a stage in the house made of the same film."""

    caller: Caller
    made: Made
    draft: Any
    read: dict[str, bytes] = field(default_factory=dict)

    async def work(self, here: House, job_id: str, status: str) -> Any:
        """Take what waits there, read, send, report."""
        job, marks = await self._taken(here, job_id, status)
        self.read[status] = await self._input(job, READS[status])
        artifact, name, to = MAKES[status]
        query = "".join(f"&{mark}={value}" for mark, value in marks.items())
        path = f"/jobs/{job_id}/assets?name={name}&artifact={artifact}{query}"
        sent = await self.caller.ask(
            "POST", path, data=self.made[artifact], headers={"Content-Type": "text/plain"}
        )
        assert sent.status == 201, sent.raw
        report: dict[str, Any] = {"to": to, **marks}
        if status == "GENERATING":
            report["artifact_updates"] = {"draft": self.draft}
        said = await self.caller.post(f"/jobs/{job_id}/transitions", report)
        assert said.status == 200, said.raw
        assert said.json["artifacts"][artifact] == sent.json["url"]
        return said.json

    async def _taken(self, here: House, job_id: str, status: str) -> tuple[Any, dict[str, int]]:
        """Claimed, or entered by the worker's own word where the state before it waits for that."""
        if status in READY:
            await at(here, job_id, READY[status])
            moved = await self.caller.post(f"/jobs/{job_id}/transitions", {"to": status})
            assert moved.status == 200, moved.raw
            return moved.json, {}
        await at(here, job_id, status)
        claimed = await self.caller.post(f"/jobs/{job_id}/claim")
        assert claimed.status == 200, claimed.raw
        return claimed.json, {"claim": claimed.json["claim"]}

    async def _input(self, job: Any, artifact: str) -> bytes:
        said = await self.caller.get(f"{job['artifacts'][artifact]}")
        assert said.status == 200, said.raw
        return said.raw


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds of a tone."""
    path = tmp_path_factory.mktemp("film") / "short.mp4"
    picture = ("-f", "lavfi", "-i", "testsrc=size=160x120:rate=5:duration=3")
    tone = ("-f", "lavfi", "-i", "sine=frequency=440:duration=3")
    _ffmpeg(*picture, *tone, "-c:v", "libx264", "-c:a", "aac", str(path))
    return path


@pytest.fixture(scope="module")
async def example(
    tmp_path_factory: pytest.TempPathFactory, short: Path, anyio_backend: str
) -> tuple[Made, Any]:
    """What the stages in the house make of the film: the files by artifact, and the draft."""
    async with with_provider(tmp_path_factory.mktemp("example")) as (here, _):
        job_id = await uploaded(here, short)
        await tell(here, job_id, "run")
        job = await finished(here, job_id)
        made = {
            name: (await here.ada.get(job["artifacts"][name])).raw
            for name in ("audio_uri", "transcript_uri", "export_uri")
        }
        draft = job["artifacts"]["draft"]
        if "ref" in draft:
            draft = (await here.ada.get(draft["ref"])).json["value"]
        drafts = [one for one in await assets(here, job_id) if one["asset_type"] == "draft"]
        made["draft_uri"] = (await here.ada.get(drafts[-1]["url"])).raw
        return made, draft


async def finished(here: House, job_id: str) -> Any:
    await at(here, job_id, "DRAFT_READY")
    await tell(here, job_id, "edit")
    await tell(here, job_id, "export", format="MD_ZIP")
    return await at(here, job_id, "DONE")


@pytest.mark.parametrize("outside", OUTSIDE, ids=lambda them: "+".join(sorted(them)))
async def test_whoever_comes_next_has_the_file(
    tmp_path: Path, short: Path, example: tuple[Made, Any], outside: set[str]
) -> None:
    made, draft = example
    stages = dict.fromkeys(outside, "external")
    async with with_provider(tmp_path, stages=stages) as (here, provider):
        worker = Outsider(here.worker, made, draft)
        job_id = await uploaded(here, short)
        await tell(here, job_id, "run")
        for status in CHAIN[:3]:
            if status in outside:
                await worker.work(here, job_id, status)
        await at(here, job_id, "DRAFT_READY")
        await tell(here, job_id, "edit")
        await tell(here, job_id, "export", format="MD_ZIP")
        if "EXPORTING" in outside:
            await worker.work(here, job_id, "EXPORTING")
        job = await at(here, job_id, "DONE")
        assert set(worker.read) == outside
        assert all(worker.read.values())
        for name in ("audio_uri", "transcript_uri", "export_uri"):
            content = await here.ada.get(job["artifacts"][name])
            assert content.status == 200, name
            assert hashlib.sha256(content.raw).hexdigest() == content.headers["ETag"].strip('"')
        asked = len(provider.calls.of("transcriptions"))
        assert asked == (0 if "TRANSCRIBING" in outside else 1)
        verified = await here.service.facade.world.reader.job(job_id)
        assert verified is not None
        assert all(verified.artifacts[name].asset for name in ("audio_uri", "export_uri"))


async def test_a_new_run_begins_behind_what_a_worker_sent(
    tmp_path: Path, short: Path, example: tuple[Made, Any]
) -> None:
    """A file that a worker sent is a checkpoint as good as one that was made here; where only an
    address was handed over, there is none."""
    made, draft = example
    async with with_provider(tmp_path, stages={"AUDIO_EXTRACTING": "external"}) as (here, _):
        worker = Outsider(here.worker, made, draft)
        job_id = await uploaded(here, short)
        await tell(here, job_id, "run")
        await worker.work(here, job_id, "AUDIO_EXTRACTING")
        await at(here, job_id, "DRAFT_READY")
        assert (await here.admin.post(f"/jobs/{job_id}/cancel")).status == 200
        again = await here.ada.post(f"/jobs/{job_id}/rerun", {})
        assert again.status == 201, again.raw
        assert "audio_uri" in again.json["carried"]


# ---------------------------------------------------------------- ss: a draft, then a run


@asynccontextmanager
async def tables(folder: Path, **stages: str) -> AsyncIterator[House]:
    workflows = {"ss": WorkflowSettings(stages=stages)}
    registry = app.load_definitions(Config(workflows=workflows))
    limits = LimitsSection(free_disk=0, lag=0)
    async with opened(folder, registry=registry, limits=limits, workflows=workflows) as here:
        yield here


@pytest.mark.parametrize("outside", ["created", "running"])
async def test_a_table_is_worked_on_by_both(tmp_path: Path, outside: str) -> None:
    """A draft from elsewhere is run here, and one from here is run elsewhere."""
    async with tables(tmp_path / "both", **{outside: "external"}) as here:
        job_id = await ss.submitted(here)
        assert (await ss.sent(here, job_id)).status in (200, 201)
        assert (await here.ada.post(f"/jobs/{job_id}/draft")).status == 202
        if outside == "created":
            claim = await claimed_table(here, job_id)
            draft = {"text": "Count the rows.", "questions": []}
            said = await here.worker.post(
                f"/jobs/{job_id}/transitions",
                {"to": "draft_ready", "artifact_updates": {"draft": draft}, "claim": claim},
            )
            assert said.status == 200, said.raw
        await ss.at(here, job_id, "draft_ready")
        await ss.tell(here, job_id, "confirm", confirmed=True)
        if outside == "running":
            claim = await claimed_table(here, job_id)
            path = f"/jobs/{job_id}/assets?name=report.md&artifact=report&claim={claim}"
            text = {"Content-Type": "text/markdown"}
            sent = await here.worker.ask("POST", path, data=b"# So many rows", headers=text)
            assert sent.status == 201, sent.raw
            done = {"to": "succeeded", "result": {"rows": 240}, "claim": claim}
            said = await here.worker.post(f"/jobs/{job_id}/transitions", done)
            assert said.status == 200, said.raw
        job = await ss.at(here, job_id, "succeeded")
        report = await here.ada.get(job["artifacts"]["report"])
        assert report.raw.startswith(b"#")
        await ss.tidy(here, job_id)


async def claimed_table(here: House, job_id: str) -> int:
    """The number of the claim, with the table read."""
    claimed = await here.worker.post(f"/jobs/{job_id}/claim")
    assert claimed.status == 200, claimed.raw
    table = await here.worker.get(claimed.json["artifacts"]["input"])
    assert table.raw == ss.SALES
    return int(claimed.json["claim"])
