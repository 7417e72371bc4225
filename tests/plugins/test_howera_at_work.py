"""howera with its real stages behind real HTTP: ffmpeg, the recogniser and the typesetter in their
own processes, and providers on loopback that fail, stall, lie and lead astray."""

import io
import os
import signal
import subprocess
import zipfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest
from jobrunner_howera import clip, film

from jobrunner import app
from jobrunner.config.settings import (
    Config,
    LimitsSection,
    RetrySettings,
    ServerSection,
    WorkflowSettings,
)
from jobrunner.testing.providers import (
    Cut,
    Fault,
    Hang,
    Nonsense,
    OpenAILike,
    Page,
    Redirected,
    Refusal,
    Status,
    busy,
)
from tests.http.serving import House, Said, opened
from tests.stages.house import processes

pytestmark = pytest.mark.anyio

PATIENCE_S = 120
FILM = {"Content-Type": "video/mp4"}
STEPS = (
    '{"title": "Two sentences", "steps": [{"title": "First", "text": "Say it.", "start_s": 0,'
    ' "end_s": 1.5}, {"title": "Second", "text": "Say it again.", "start_s": 1.5, "end_s": 3}]}'
)
FOUR = ("failure_code", "failure_message", "failed_stage", "correlation_id")


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``speech``: the demo's film. ``short``: three seconds of a tone. ``long``: an hour of noise,
    which ffmpeg needs a while for."""
    folder = tmp_path_factory.mktemp("films")
    clip.make(str(folder / "speech.mp4"))
    picture = ("-f", "lavfi", "-i", "testsrc=size=160x120:rate=5:duration=3")
    tone = ("-f", "lavfi", "-i", "sine=frequency=440:duration=3")
    _ffmpeg(*picture, *tone, "-c:v", "libx264", "-c:a", "aac", str(folder / "short.mp4"))
    noise = ("-f", "lavfi", "-i", "anoisesrc=r=8000:d=3600")
    _ffmpeg(*noise, "-c:a", "pcm_u8", str(folder / "long.wav"))
    return folder


def _ffmpeg(*arguments: str) -> None:
    command = (film.program(), "-nostdin", "-loglevel", "error", *arguments)
    subprocess.run(command, check=True)


@asynccontextmanager
async def house(
    folder: Path,
    *,
    stages: dict[str, str] | None = None,
    limit: dict[str, float] | None = None,
    **settings: Any,
) -> AsyncIterator[House]:
    """As an operator's config file would bind it, but nobody waits long between two tries."""
    soon = RetrySettings(base=0.02, cap=0.05)
    states = ("AUDIO_EXTRACTING", "TRANSCRIBING", "GENERATING", "REGENERATING", "EXPORTING")
    howera = WorkflowSettings(
        stages=stages or {},
        retry=dict.fromkeys(states, soon),
        limit=limit or {},
        settings=settings,
    )
    workflows = {"howera": howera}
    registry = app.load_definitions(Config(workflows=workflows))
    server = ServerSection(port=0, drain_seconds=5)
    limits = LimitsSection(free_disk=0, lag=0)
    async with opened(
        folder, registry=registry, server=server, limits=limits, workflows=workflows
    ) as here:
        yield here


@asynccontextmanager
async def with_provider(folder: Path, **more: Any) -> AsyncIterator[tuple[House, OpenAILike]]:
    async with OpenAILike(reply=reply) as provider:
        named: dict[str, Any] = {
            "transcriber": "openai",
            "writer": "openai",
            "base_url": f"{provider.url}/v1",
        }
        async with house(folder, **named, **more) as here:
            yield here, provider


def reply(asked: dict[str, Any]) -> str:
    return STEPS if asked.get("response_format") else "Written anew."


async def uploaded(here: House, path: Path) -> str:
    job = await here.ada.submit("howera")
    assert job["status"] == "CREATED"
    said = await here.ada.ask(
        "PUT", f"/jobs/{job['id']}/upload", data=io.BytesIO(path.read_bytes()), headers=FILM
    )
    assert said.status in (200, 201), said.raw
    assert (await tell(here, job["id"], "confirm-upload"))["status"] == "UPLOADED"
    return str(job["id"])


async def tell(here: House, job_id: str, command: str, **fields: Any) -> Any:
    said = await here.ada.post(f"/jobs/{job_id}/{command}", fields)
    assert said.status in (200, 202), said.raw
    return said.json


async def at(here: House, job_id: str, *statuses: str) -> Any:
    """The job when it stands in one of these; the service does the waiting."""
    tag = ""
    with anyio.fail_after(PATIENCE_S):
        while True:
            said = await here.ada.get(f"/jobs/{job_id}?wait=1", If_None_Match=tag)
            if said.status == 304:
                continue
            if said.json["status"] in statuses:
                return said.json
            kind = (said.json["kind"], said.json["failure_message"])
            assert said.json["kind"] not in ("final", "settled"), kind
            tag = f'"{said.json["version"]}"'


async def drafted(here: House, path: Path) -> str:
    job_id = await uploaded(here, path)
    await tell(here, job_id, "run")
    await at(here, job_id, "DRAFT_READY")
    return job_id


async def editing(here: House, path: Path) -> str:
    job_id = await drafted(here, path)
    assert (await tell(here, job_id, "edit"))["status"] == "EDITING"
    return job_id


async def failed(here: House, job_id: str, stage: str) -> str:
    """H51 H49: the four fields; nothing works on it any more; nothing is left lying about."""
    job = await at(here, job_id, "FAILED")
    assert all(job[name] for name in FOUR), {name: job[name] for name in FOUR}
    assert job["failed_stage"] == stage
    await tidy(here, job_id)
    return str(job["failure_code"])


async def tidy(here: House, job_id: str) -> None:
    """On the disk is what the assets say, and nothing else; the file has no faults."""
    root = Path(here.service.facade.world.assets)
    assets = (await here.ada.get(f"/jobs/{job_id}/assets?limit=100")).json["assets"]
    with anyio.fail_after(PATIENCE_S):
        while list((root / ".scratch").glob("*")):
            await anyio.sleep(0.01)
    found = (path for path in (root / "ada" / job_id).rglob("*") if path.is_file())
    kept = {asset["storage_path"] for asset in assets}
    assert {path.relative_to(root).as_posix() for path in found} == kept
    assert (await here.admin.post("/admin/db/check")).json == {"ok": True, "faults": []}


async def tries(here: House, job_id: str, state: str) -> list[tuple[str, str | None]]:
    """Oldest first: outcome and failure code of each."""
    found = (await here.ada.get(f"/jobs/{job_id}/attempts?limit=100")).json["attempts"]
    mine = [one for one in found if one["state"] == state]
    mine.sort(key=lambda one: (one["started_at"] or "", one["attempt"]))
    return [(one["outcome"], one["failure_code"]) for one in mine]


async def file_of(here: House, address: str) -> bytes:
    said = await here.ada.ask("GET", address)
    assert said.status == 200, said.raw
    return said.raw


# ---------------------------------------------------------------- the whole way


async def test_a_film_becomes_an_instruction_and_a_document(tmp_path: Path, films: Path) -> None:
    """H1 H3 H5 H6 H7 H17 H26 H27 H31 H37 H60: offline, with speech that is understood."""
    async with house(tmp_path) as here:
        job_id = await editing(here, films / "speech.mp4")
        job = (await here.ada.get(f"/jobs/{job_id}")).json
        transcript = await file_of(here, job["artifacts"]["transcript_uri"])
        assert clip.accuracy(transcript.decode()) < clip.accuracy(clip.SAID)
        steps = job["artifacts"]["draft"]["steps"]
        assert [step["id"] for step in steps] == [f"step-{n + 1}" for n in range(len(steps))]
        for step in steps:
            assert (await file_of(here, step["image"])).startswith(b"\xff\xd8")
        began = await tell(here, job_id, "export", format="PDF")
        assert (began["status"], bool(began["run_id"])) == ("EXPORTING", True)
        job = await at(here, job_id, "DONE")
        assert (await file_of(here, job["artifacts"]["export_uri"])).startswith(b"%PDF-")
        hops = (await here.ada.get(f"/jobs/{job_id}/history?limit=100")).json["history"]
        assert {hop["to_status"] for hop in hops} == {
            "CREATED", "UPLOADING", "UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING",
            "TRANSCRIPT_READY", "GENERATING", "DRAFT_READY", "EDITING", "EXPORTING", "DONE",
        }  # fmt: skip
        metrics = job["artifacts"]["metrics"]
        assert metrics["video_seconds"] == pytest.approx(44, abs=1)
        assert metrics["words"] > 100
        kinds = Counter(one["asset_type"] for one in (await assets(here, job_id)))
        singles = dict.fromkeys(("video", "audio", "transcript", "draft", "export"), 1)
        shown = sum(1 + len(step["images"]) for step in steps)
        assert shown >= clip.SLIDES
        assert kinds == {**singles, "frame": shown}
        await tidy(here, job_id)


async def assets(here: House, job_id: str) -> list[dict[str, Any]]:
    return list((await here.ada.get(f"/jobs/{job_id}/assets?limit=100")).json["assets"])


async def test_a_draft_is_edited_renewed_and_exported_in_any_version(
    tmp_path: Path, films: Path
) -> None:
    """H27 H28 H30 H31 H43 H44: a save opens the editor; an older version can be exported."""
    async with with_provider(tmp_path) as (here, _):
        job_id = await drafted(here, films / "short.mp4")
        mine = {"title": "Mine", "steps": [{"id": "step-1", "title": "A", "text": "Old *text*."}]}
        assert (await save(here, job_id, mine, 1)).status == 200
        assert (await here.ada.get(f"/jobs/{job_id}")).json["status"] == "EDITING"
        assert (await save(here, job_id, mine, 1)).code == "ARTIFACT_VERSION_CONFLICT"
        wish = {"selection": "step-1", "instruction": "anew", "client_request_id": "r1"}
        task = await tell(here, job_id, "regenerate", **wish)
        assert task["task_id"] == task["run_id"]
        job = await at(here, job_id, "EDITING")
        assert job["artifacts"]["draft"]["steps"][0]["text"] == "Written anew."
        again = await tell(here, job_id, "regenerate", **wish)
        assert (again["replayed"], again["task_id"]) == (True, task["task_id"])
        held = await here.ada.get(f"/jobs/{job_id}/artifacts/draft")
        assert [one["version"] for one in held.json["versions"]][-1:] != []
        await tell(here, job_id, "export", format="MD_ZIP", version=2)
        job = await at(here, job_id, "DONE")
        archive = zipfile.ZipFile(io.BytesIO(await file_of(here, job["artifacts"]["export_uri"])))
        said = archive.read("instruction.md").decode()
        assert "Old \\*text\\*." in said
        assert "Written anew" not in said


async def save(here: House, job_id: str, value: Any, base: int) -> Said:
    body = {"value": value, "base_version": base}
    return await here.ada.put(f"/jobs/{job_id}/artifacts/draft", body)


async def test_what_a_person_saved_meanwhile_wins(tmp_path: Path, films: Path) -> None:
    """H29 H30 H54 H55: the editor stays usable; one regenerate at a time; a machine that worked on
    an older text overwrites nobody."""
    async with with_provider(tmp_path) as (here, provider):
        job_id = await editing(here, films / "short.mp4")
        provider.script("chat", Hang())
        before = len(provider.calls.of("chat"))
        task = await tell(here, job_id, "regenerate", selection="step-1", client_request_id="r1")
        await provider.called("chat", before + 1)
        second = await here.ada.post(f"/jobs/{job_id}/regenerate", {"client_request_id": "r2"})
        assert second.code == "REGENERATE_IN_PROGRESS"
        assert second.json["active_task_id"] == task["task_id"]
        mine = {"title": "Mine", "steps": [{"id": "step-1", "title": "A", "text": "By hand."}]}
        assert (await save(here, job_id, mine, 1)).status == 200
        await provider.restart()
        job = await at(here, job_id, "EDITING")
        assert job["artifacts"]["draft"] == mine
        assert job["artifacts"]["draft_uri"].endswith("version=2")


async def test_a_part_that_is_not_there_leaves_the_draft_as_it_was(
    tmp_path: Path, films: Path
) -> None:
    """H30: back in the editor, with what went wrong in the attempt and not on the job."""
    async with with_provider(tmp_path) as (here, _):
        job_id = await editing(here, films / "short.mp4")
        await tell(here, job_id, "regenerate", selection="step-99")
        job = await at(here, job_id, "EDITING")
        assert job["failure_code"] is None
        assert await tries(here, job_id, "REGENERATING") == [("failed", "SELECTION_UNKNOWN")]


async def test_the_editor_opens_by_itself(tmp_path: Path, films: Path) -> None:
    """H27 H40"""
    async with with_provider(tmp_path, auto_edit=True) as (here, _):
        job_id = await uploaded(here, films / "short.mp4")
        await tell(here, job_id, "run")
        await at(here, job_id, "EDITING")


# ---------------------------------------------------------------- films that are none


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "VIDEO_EMPTY"), (b"words, not pictures\n" * 99, "VIDEO_UNREADABLE")],
)
async def test_what_is_no_film_fails_the_job_at_once(
    tmp_path: Path, content: bytes, code: str
) -> None:
    """H47 H50: one try, and the reason."""
    path = tmp_path / "film.mp4"
    path.write_bytes(content)
    async with house(tmp_path / "service") as here:
        job = await here.ada.submit("howera")
        said = await here.ada.ask("PUT", f"/jobs/{job['id']}/upload", data=content, headers=FILM)
        if said.status >= 400:
            assert not content, said.raw
            return
        await tell(here, job["id"], "confirm-upload")
        await tell(here, job["id"], "run")
        assert await failed(here, job["id"], "AUDIO_EXTRACTING") == code
        assert len(await tries(here, job["id"], "AUDIO_EXTRACTING")) == 1


@pytest.mark.parametrize(
    "address",
    ["s3://videos/7f3a.mp4", "https://127.0.0.1:9/film.mp4", "http://169.254.169.254/film.mp4",
     "file:///etc/passwd", "/assets/no-such-file/content"],
)  # fmt: skip
async def test_an_address_that_is_not_opened(tmp_path: Path, address: str) -> None:
    """H47: refused with a reason, whatever it leads to."""
    async with house(tmp_path) as here:
        job = await here.ada.submit("howera")
        await tell(here, job["id"], "confirm-upload", video_uri=address)
        await tell(here, job["id"], "run")
        code = await failed(here, job["id"], "AUDIO_EXTRACTING")
        assert code in ("VIDEO_UNREACHABLE", "DOWNLOAD_REFUSED", "ASSET_NOT_FOUND")
        assert await tries(here, job["id"], "AUDIO_EXTRACTING") == [("failed", code)]


async def test_silence_fails_where_it_is_noticed(tmp_path: Path, films: Path) -> None:
    async with house(tmp_path) as here:
        job_id = await uploaded(here, films / "short.mp4")
        await tell(here, job_id, "run")
        job = await at(here, job_id, "FAILED", "DRAFT_READY")
        if job["status"] == "FAILED":
            assert await failed(here, job_id, "TRANSCRIBING") == "SPEECH_MISSING"


# ---------------------------------------------------------------- cancelling


async def test_cancelling_ends_ffmpeg(tmp_path: Path, films: Path) -> None:
    """H34 H35: a process that will not move by itself, and was ended all the same."""
    async with house(tmp_path) as here:
        job_id = await uploaded(here, films / "long.wav")
        await tell(here, job_id, "run")
        pid = await ffmpeg(tmp_path)
        os.kill(pid, signal.SIGSTOP)
        assert (await tell(here, job_id, "cancel"))["status"] == "CANCELLED"
        with anyio.fail_after(PATIENCE_S):
            while processes(str(tmp_path)):
                await anyio.sleep(0.01)
        assert (await here.ada.post(f"/jobs/{job_id}/cancel")).code == "TERMINAL_STATE"
        assert [one["asset_type"] for one in await assets(here, job_id)] == ["video"]
        await tidy(here, job_id)


async def ffmpeg(folder: Path) -> int:
    """The one that takes the sound."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = path.read_bytes()
                except OSError:
                    continue
                if str(folder).encode() in line and b"audio.flac" in line:
                    return int(path.parent.name)
            await anyio.sleep(0.001)


# ---------------------------------------------------------------- checkpoints


async def test_a_run_resumes_where_the_files_are_whole(tmp_path: Path, films: Path) -> None:
    """H37 H38 H39 H42 H43 H65: what was made in an earlier life is not made again."""
    async with with_provider(tmp_path, stages={"TRANSCRIBING": "external"}) as (here, _):
        job_id = await uploaded(here, films / "short.mp4")
        await tell(here, job_id, "run")
        first = (await at(here, job_id, "AUDIO_READY"))["artifacts"]["audio_uri"]
    async with with_provider(tmp_path) as (here, provider):
        here.callers["ada"] = here.admin  # whose token is known from the life before
        job = await at(here, job_id, "DRAFT_READY")
        assert job["artifacts"]["audio_uri"] == first
        assert len(await tries(here, job_id, "AUDIO_EXTRACTING")) == 1
        assert len(provider.calls.of("transcriptions")) == 1
        await tidy(here, job_id)


@pytest.mark.parametrize("damage", ["delete", "change", "shorten"])
async def test_a_file_that_is_not_as_it_was_is_no_checkpoint(
    tmp_path: Path, films: Path, damage: str
) -> None:
    """H41 H47: noticed before anything is made of it."""
    async with with_provider(tmp_path, stages={"TRANSCRIBING": "external"}) as (here, _):
        job_id = await uploaded(here, films / "short.mp4")
        await tell(here, job_id, "run")
        await at(here, job_id, "AUDIO_READY")
        (audio,) = [one for one in await assets(here, job_id) if one["asset_type"] == "audio"]
        path = Path(here.service.facade.world.assets) / audio["storage_path"]
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.unlink()
    if damage != "delete":
        path.write_bytes(content[: 200 if damage == "shorten" else None])
    async with with_provider(tmp_path) as (here, provider):
        here.callers["ada"] = here.admin  # whose token is known from the life before
        job = await at(here, job_id, "FAILED")
        assert (job["failure_code"], job["failed_stage"]) == ("CORRUPT_INPUT", "TRANSCRIBING")
        assert all(job[name] for name in FOUR)
        assert len(provider.calls) == 0


# ---------------------------------------------------------------- providers


SPEAKS = {"transcriptions": "TRANSCRIBING", "chat": "GENERATING"}


STUMBLES: list[tuple[Fault, str | None]] = [
    (Status(500), "REMOTE_FAILED"), (Status(503), "REMOTE_FAILED"), (busy(0), "RATE_LIMITED"),
    (Cut(), None), (Cut(after=20), None),
]  # fmt: skip
LIES: list[Fault] = [
    Nonsense(), Nonsense("[]"), Page(), Redirected(), Status(401), Status(404), Refusal(),
]  # fmt: skip


def in_turns(*columns: Any) -> list[Any]:
    """Each with each; the short form has every fault, by one route and the other in turns."""
    return [
        pytest.param(*row, marks=[pytest.mark.long] * (place // 2 % 2 != place % 2))
        for place, row in enumerate(product(*columns))
    ]


@pytest.mark.parametrize(("stumble", "route"), in_turns(STUMBLES, SPEAKS))
async def test_a_provider_that_stumbles_is_asked_again(
    tmp_path: Path, films: Path, route: str, stumble: tuple[Fault, str | None]
) -> None:
    """H45 H46 H48: a retry is a hop of its own, under the same key."""
    fault, code = stumble
    async with with_provider(tmp_path) as (here, provider):
        provider.script(route, fault)
        job_id = await drafted(here, films / "short.mp4")
        (first, second) = await tries(here, job_id, SPEAKS[route])
        assert first[1] == code if code else first[1]
        assert second[0] == "done"
        assert len(provider.calls.keys(route)) == 1
        provider.never_twice(route)
        hops = (await here.ada.get(f"/jobs/{job_id}/history?limit=100")).json["history"]
        again = [hop for hop in hops if hop["from_status"] == hop["to_status"] == SPEAKS[route]]
        assert len(again) == 1
        await tidy(here, job_id)


@pytest.mark.parametrize(("fault", "route"), in_turns(LIES, SPEAKS))
async def test_a_provider_that_lies_or_refuses_is_not_asked_again(
    tmp_path: Path, films: Path, route: str, fault: Fault
) -> None:
    """H47 H50: one call, and the four fields."""
    async with with_provider(tmp_path) as (here, provider):
        provider.script(route, fault)
        job_id = await uploaded(here, films / "short.mp4")
        await tell(here, job_id, "run")
        await failed(here, job_id, SPEAKS[route])
        assert len(await tries(here, job_id, SPEAKS[route])) == 1
        assert len(provider.calls.of(route)) == 1


@pytest.mark.parametrize("route", SPEAKS)
async def test_a_provider_that_stays_broken_uses_up_the_budget(
    tmp_path: Path, films: Path, route: str
) -> None:
    """H49"""
    async with with_provider(tmp_path) as (here, provider):
        provider.always(route, Status(500))
        job_id = await uploaded(here, films / "short.mp4")
        await tell(here, job_id, "run")
        assert await failed(here, job_id, SPEAKS[route]) == "REMOTE_FAILED"
        assert len(provider.calls.of(route)) == 3
        assert len(provider.calls.keys(route)) == 1


@pytest.mark.parametrize("route", SPEAKS)
async def test_a_provider_that_never_answers_is_given_up(
    tmp_path: Path, films: Path, route: str
) -> None:
    """H45: the attempt has its limit, and ends with everything that it started."""
    async with with_provider(tmp_path, limit={SPEAKS[route]: 2.0}) as (here, provider):
        provider.always(route, Hang())
        job_id = await uploaded(here, films / "short.mp4")
        await tell(here, job_id, "run")
        assert await failed(here, job_id, SPEAKS[route]) == "STAGE_TIMEOUT"
        assert processes(str(tmp_path)) == []


async def test_a_model_that_does_not_keep_to_the_shape(tmp_path: Path, films: Path) -> None:
    """H47"""
    async with OpenAILike(reply=lambda asked: "Sure! Here are your steps: one, two.") as provider:
        named: dict[str, Any] = {
            "transcriber": "openai",
            "writer": "openai",
            "base_url": f"{provider.url}/v1",
        }
        async with house(tmp_path, **named) as here:
            job_id = await uploaded(here, films / "short.mp4")
            await tell(here, job_id, "run")
            assert await failed(here, job_id, "GENERATING") == "BAD_ANSWER"


async def test_an_export_that_fails_leads_back_to_the_editor(tmp_path: Path, films: Path) -> None:
    """H32: and the next one may succeed."""
    async with with_provider(tmp_path, limit={"EXPORTING": 0.05}) as (here, _):
        job_id = await editing(here, films / "short.mp4")
        await tell(here, job_id, "export", format="PDF")
        job = await at(here, job_id, "EDITING")
        assert job["failure_code"] is None
        assert {code for _, code in await tries(here, job_id, "EXPORTING")} == {"STAGE_TIMEOUT"}
        assert "export_uri" not in job["artifacts"]
        await tidy(here, job_id)


# ---------------------------------------------------------------- callbacks beside real work


async def test_an_orchestrator_and_the_house_share_a_job(tmp_path: Path, films: Path) -> None:
    """H4 H8-H16 H18-H20 H22 H24 H36 H52 H53 H56-H59 H62 H64 H66: while a stage of the house is
    at work nobody else moves its job; callbacks are told apart by their ids, job by job; what is
    absent from the table is refused and changes nothing."""
    async with with_provider(tmp_path) as (here, provider):
        provider.always("transcriptions", Hang())
        job_id = await uploaded(here, films / "short.mp4")
        began = await tell(here, job_id, "run")
        again = await tell(here, job_id, "run")
        assert (again["run_id"], again["replayed"]) == (began["run_id"], True)
        await provider.called("transcriptions")
        assert (await report(here, job_id, "a1", "GENERATING")).code == "ILLEGAL_TRANSITION"
        busy_with_it = await report(here, job_id, "a1", "TRANSCRIBING")
        assert busy_with_it.code == "JOB_ALREADY_RUNNING"
        for status in ("ARCHIVED", "RETRY_FROM_FAILED", "VALIDATING", "NORMALIZING_VIDEO"):
            assert (await report(here, job_id, "a2", status)).code == "VALIDATION_ERROR"
        assert (await report(here, job_id, "a3", "FAILED")).code == "VALIDATION_ERROR"
        assert (await tell(here, job_id, "cancel"))["status"] == "CANCELLED"
        assert (await report(here, job_id, "a4", "TRANSCRIBING")).code == "TERMINAL_STATE"
        other = (await here.ada.submit("howera"))["id"]
        assert (await report(here, other, "a1", "TRANSCRIBING")).code == "ILLEGAL_TRANSITION"
        assert (await report(here, other, "a1", "UPLOADED")).status == 204
        repeat = await report(here, other, "a1", "UPLOADED")
        assert (repeat.status, repeat.json["replayed"]) == (200, True)
        assert (await report(here, other, "a1", "UPLOADING")).code == "EVENT_ID_PAYLOAD_MISMATCH"
        assert len(await tries(here, job_id, "TRANSCRIBING")) == 1


async def report(here: House, job_id: str, event_id: str, status: str) -> Said:
    body = {"event_id": event_id, "status": status, "occurred_at": "2026-01-01T00:00:00Z"}
    return await here.worker.post(f"/internal/jobs/{job_id}/status", body)


@pytest.mark.parametrize("end", ["DONE", "FAILED"])
async def test_nothing_leaves_the_end(tmp_path: Path, films: Path, end: str) -> None:
    """H2 H21 H23 H61 H63: not even for an operator, to any of the fifteen."""
    async with with_provider(tmp_path) as (here, provider):
        if end == "FAILED":
            provider.always("chat", Nonsense())
        job_id = await uploaded(here, films / "short.mp4")
        await tell(here, job_id, "run")
        if end == "DONE":
            await at(here, job_id, "DRAFT_READY")
            await tell(here, job_id, "edit")
            await tell(here, job_id, "export", format="MD_ZIP")
        before = await at(here, job_id, end)
        shown = (await here.ada.get("/workflows/howera")).json
        states = [state["name"] for state in shown["states"]]
        assert len(states) == 15
        for state in states:
            said = await here.admin.post(f"/jobs/{job_id}/transitions", {"to": state})
            assert said.status == 409, (state, said.raw)
        assert (await here.ada.get(f"/jobs/{job_id}")).json["version"] == before["version"]
