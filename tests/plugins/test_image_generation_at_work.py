"""The image-generation lifecycle with its real stage, behind real HTTP and a real file: the
sketcher in its own process, and providers on loopback that fail, refuse, wait and lie."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from jobrunner_image_generation import definition
from jobrunner_image_generation.stage import generate
from PIL import Image

from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import QuotaSettings, RetrySettings, ServerSection, WorkflowSettings
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.stages import Registry
from jobrunner.testing.providers import (
    Cut,
    Endless,
    Fault,
    Hang,
    Nonsense,
    OpenAILike,
    Page,
    Plan,
    Redirected,
    Refusal,
    ReplicateLike,
    Status,
    busy,
)
from tests.http.serving import House, definitions, opened

pytestmark = pytest.mark.anyio

PATIENCE_S = 120
HILL = {"prompt": "a hill", "size": "320x200"}
BY_URL = HILL | {"options": {"response_format": "url"}}


def at_work(**settings: Any) -> Registry:
    """As an operator's config file would bind it, but nobody waits long between two tries."""
    config = WorkflowSettings(
        settings={"timeout_s": 5, **settings},
        retry={"running": RetrySettings(base=0.05, cap=0.2)},
        quota=QuotaSettings(per_minute=0),
    )

    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        return laid_over(workflow, config)

    registry = Registry(overlay)
    registry.add(generate)
    registry.add(definition)
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


@asynccontextmanager
async def house(folder: Path, **settings: Any) -> AsyncIterator[House]:
    server = ServerSection(port=0, drain_seconds=5)
    async with opened(folder, registry=at_work(**settings), server=server) as here:
        yield here


@asynccontextmanager
async def with_openai(folder: Path, **more: Any) -> AsyncIterator[tuple[House, OpenAILike]]:
    async with OpenAILike() as provider:
        named = {"provider": "openai", "base_url": f"{provider.url}/v1", "model": "fake-1"}
        async with house(folder, **named, **more) as here:
            yield here, provider


@asynccontextmanager
async def with_replicate(folder: Path, **more: Any) -> AsyncIterator[tuple[House, ReplicateLike]]:
    async with ReplicateLike() as provider:
        named = {"provider": "replicate", "base_url": f"{provider.url}/v1", "model": "a/b"}
        async with house(folder, **named, **more) as here:
            yield here, provider


async def submitted(here: House, params: dict[str, Any] = HILL, key: str = "k") -> str:
    job = await here.ada.submit("image-generation", params=params, idempotency_key=key)
    assert job["status"] == "queued"
    return str(job["id"])


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
            tag = f'"{said.json["version"]}"'


async def read(here: House, path: str, field: str) -> list[Any]:
    return list((await here.ada.get(path)).json[field])


async def path_of(here: House, job_id: str) -> list[str]:
    past = await read(here, f"/jobs/{job_id}/history", "history")
    return [hop["to_status"] for hop in past]


async def picture_of(here: House, job: Any) -> Image.Image:
    """The one file of a job, which is its result, fetched as its owner fetches it."""
    (asset,) = await read(here, f"/jobs/{job['id']}/assets", "assets")
    assert asset["asset_type"] == "image"
    assert job["result_url"] == asset["url"]
    content = await here.ada.get(asset["url"])
    assert len(content.raw) == asset["file_size"]
    return Image.open(io.BytesIO(content.raw))


async def money(here: House) -> tuple[int, int]:
    said = (await here.ada.get("/credits")).json
    return said["balance"], said["held"]


async def audited(here: House, job_id: str) -> list[Any]:
    rows = (await here.admin.get("/admin/audit?limit=100")).json["audit"]
    return [row for row in rows if row["job_id"] == job_id]


def stored(folder: Path) -> list[str]:
    """Every file of jobs that there is, whoever knows of it."""
    root = folder / "assets"
    every = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return sorted(path for path in every if not path.startswith("."))


# ---------------------------------------------------------------- the good way


async def test_one_picture_for_one_prompt(tmp_path: Path) -> None:
    """I2 I3 I5 I14-I18 I20-I28 I40: born queued with a hold; picked up later, with the time and a
    sign of life; the original under its folder, the one asset, the address, and then the end."""
    async with house(tmp_path) as here:
        job_id = await submitted(here)
        job = await at(here, job_id, "completed")
        assert await path_of(here, job_id) == ["queued", "running", "completed"]
        picture = await picture_of(here, job)
        assert picture.size == (320, 200)
        assert picture.info["Software"] == "jobrunner built-in sketcher"
        assert job["progress"] == 100
        assert job["created_at"] <= job["started_at"] <= job["heartbeat_at"] <= job["completed_at"]
        assert (job["result"]["provider"], job["result"]["width"]) == ("sketch", 320)
        assert stored(tmp_path) == [f"originals/ada/{job_id}/original.png"]
        (asset,) = await read(here, f"/jobs/{job_id}/assets", "assets")
        assert asset["storage_path"] == f"originals/ada/{job_id}/original.png"
        assert job["created_at"] <= asset["created_at"] <= job["completed_at"]
        assert await money(here) == (24, 0)
        ledger = await read(here, "/credits/history", "history")
        assert [row["kind"] for row in ledger if row["job_id"] == job_id] == ["capture", "hold"]


@pytest.mark.parametrize("params", [HILL, BY_URL], ids=["inside", "by address"])
async def test_openai_draws_it(tmp_path: Path, params: dict[str, Any]) -> None:
    """I23-I28: asked once, while it runs, and what is kept is ours."""
    async with with_openai(tmp_path) as (here, provider):
        job = await at(here, await submitted(here, params), "completed")
        assert (await picture_of(here, job)).size == (16, 16)
        assert len(provider.calls.of("images")) == 1
        provider.never_twice("images")
        assert stored(tmp_path) == [f"originals/ada/{job['id']}/original.png"]
        assert await money(here) == (24, 0)


async def test_replicate_draws_it(tmp_path: Path) -> None:
    """I23-I28"""
    async with with_replicate(tmp_path) as (here, provider):
        provider.usually(Plan(takes_s=0.2))
        job = await at(here, await submitted(here), "completed")
        assert (await picture_of(here, job)).size == (16, 16)
        assert len(provider.predictions) == 1
        assert job["result"]["provider"] == "replicate"


async def test_the_provider_is_not_called_before_the_job_runs(tmp_path: Path) -> None:
    """I20 I23: what the provider hears, it hears of a job that is running by then."""
    async with with_openai(tmp_path, timeout_s=5) as (here, provider):
        provider.always("images", Hang())
        job_id = await submitted(here)
        await provider.called("images")
        job = (await here.ada.get(f"/jobs/{job_id}")).json
        assert (job["status"], job["result_url"], job["completed_at"]) == ("running", None, None)
        assert await money(here) == (24, 1)
        provider.always("images", None)
        await at(here, job_id, "completed")


async def test_a_key_from_the_environment_reaches_the_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage runs in a process that sees no variable but the one that the settings name."""
    monkeypatch.setenv("PICTURES_KEY", "sk-of-ours")
    async with with_openai(tmp_path, key_env="PICTURES_KEY") as (here, provider):
        provider.token = "sk-of-ours"
        await at(here, await submitted(here), "completed")


# ---------------------------------------------------------------- refused at the door


@pytest.mark.parametrize(
    ("params", "code", "status"),
    [
        ({"prompt": "a nude on a hill"}, "PROMPT_BLOCKED", 422),
        ({"prompt": "a hill", "options": {"style": "n u d e"}}, "PROMPT_BLOCKED", 422),
        ({"prompt": "a hill", "options": {"n": 4}}, "INVALID_PARAMS", 422),
        ({"prompt": "a hill", "options": {"prompt": "nude"}}, "INVALID_PARAMS", 422),
        ({"prompt": " "}, "INVALID_PARAMS", 422),
        ({}, "INVALID_PARAMS", 422),
    ],
)
async def test_what_is_refused_leaves_nothing(
    tmp_path: Path, params: dict[str, Any], code: str, status: int
) -> None:
    """I15 I19: no job, no credits moved."""
    async with house(tmp_path) as here:
        said = await here.ada.post("/jobs", {"workflow": "image-generation", "params": params})
        assert (said.status, said.code) == (status, code)
        assert await read(here, "/jobs", "jobs") == []
        assert await money(here) == (25, 0)


async def test_the_same_minute_is_one_job(tmp_path: Path) -> None:
    """I17 I37 I38 I40: with no key from the client, twice in a minute is once; so one picture."""
    async with with_openai(tmp_path) as (here, provider):
        body = {"workflow": "image-generation", "params": HILL}
        made = [(await here.ada.post("/jobs", body)).json for _ in range(3)]
        if len({job["id"] for job in made}) > 1:  # the minute was over in between
            made = [(await here.ada.post("/jobs", body)).json for _ in range(3)]
        assert len({job["id"] for job in made}) == 1
        assert [job["replayed"] for job in made[1:]] == [True, True]
        await at(here, made[0]["id"], "completed")
        assert len(provider.calls.of("images")) == len(await read(here, "/jobs", "jobs"))


async def test_a_failed_job_gives_its_key_up(tmp_path: Path) -> None:
    """I38 I39: asked for again while it waits for its next try, it is another job: the old one is
    given up, and of the two one is paid."""
    async with with_openai(tmp_path) as (here, provider):
        provider.script("images", busy(30))
        first = await submitted(here)
        await at(here, first, "failed")
        second = await submitted(here)
        assert second != first
        assert (await at(here, first, "dead_letter"))["credits"]["state"] == "released"
        job = await at(here, second, "completed")
        await picture_of(here, job)
        assert len(provider.calls.keys("images")) == 2
        assert await money(here) == (24, 0)
        again = {"workflow": "image-generation", "params": HILL, "idempotency_key": "k"}
        said = await here.ada.post("/jobs", again)
        assert (said.json["id"], said.json["replayed"]) == (second, True)


async def test_a_prompt_is_read_again_at_pick_up(tmp_path: Path) -> None:
    """I4 I11 I20 I23 I35 I36: the list grew while the job stood in line. The provider hears nothing
    of it; the hold is kept, and the audit says in which phase."""
    async with OpenAILike() as provider:
        named: dict[str, Any] = {"provider": "openai", "base_url": f"{provider.url}/v1"}
        held = "/admin/workflows/image-generation"
        async with house(tmp_path, **named) as here:
            assert (await here.admin.post(f"{held}/pause", {})).status == 200
            job_id = await submitted(here)
        async with house(tmp_path, **named, blocked_words=["hill"]) as here:
            assert (await here.admin.post(f"{held}/resume", {})).status == 200
            job = await at(here, job_id, "rejected")
            assert job["credits"] == {"cost": 1, "state": "captured"}
            (row,) = [one for one in await audited(here, job_id) if one["event"] == "SAFE_BLOCK"]
            assert row["fields"] == {"phase": "preflight"}
            assert provider.calls.of("images") == []


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Hang(), "NETWORK_TIMEOUT"),
        (Status(500), "REMOTE_FAILED"),
        (Status(503, done=True), "REMOTE_FAILED"),
        (busy(0), "RATE_LIMITED"),
        (Cut(), "NETWORK_ERROR"),
        (Cut(after=40), "NETWORK_ERROR"),
    ],
    ids=["hangs", "500", "503 done", "429", "cut", "cut late"],
)
async def test_what_may_work_next_time_is_tried_again(
    tmp_path: Path, fault: Fault, code: str
) -> None:
    """I6 I8 I29-I32: through `failed`, for all to see, twice; then it works and is paid once."""
    patience_s = 3.0 if isinstance(fault, Hang) else 30.0
    async with with_openai(tmp_path, timeout_s=patience_s) as (here, provider):
        provider.script("images", fault, fault)
        job = await at(here, await submitted(here), "completed")
        again = ["running", "failed", "queued"]
        assert await path_of(here, job["id"]) == ["queued", *again, *again, "running", "completed"]
        tried = await read(here, f"/jobs/{job['id']}/attempts", "attempts")
        codes = {one["attempt"]: one["failure_code"] for one in tried}
        assert codes == {1: code, 2: code, 3: None}
        await picture_of(here, job)
        assert len(provider.calls.keys("images")) == 1
        provider.never_twice("images")
        assert await money(here) == (24, 0)


@pytest.mark.parametrize(
    "route", ["images", "files"], ids=["when it is asked for", "when it is fetched"]
)
async def test_three_failures_are_enough(tmp_path: Path, route: str) -> None:
    """I9 I12 I30-I33 I41: to the list for a person; the hold is let go; the four fields say why."""
    async with with_openai(tmp_path) as (here, provider):
        provider.always(route, Status(500))
        job = await at(here, await submitted(here, BY_URL), "dead_letter")
        again = ["running", "failed", "queued"]
        ends = ["running", "failed", "dead_letter"]
        assert await path_of(here, job["id"]) == ["queued", *again, *again, *ends]
        assert job["retry_count"] == 3
        assert (job["failure_code"], job["failed_stage"]) == ("REMOTE_FAILED", "running")
        assert "500" in job["failure_message"]
        assert job["correlation_id"]
        assert len(provider.calls.of("images")) == (3 if route == "images" else 1)
        assert await money(here) == (25, 0)
        letters = (await here.admin.get("/admin/dead-letters")).json["dead_letters"]
        assert [one["job_id"] for one in letters] == [job["id"]]
        assert stored(tmp_path) == []


async def test_retry_after_is_waited_for(tmp_path: Path) -> None:
    """I31: the provider's word outlasts a shorter backoff."""
    async with with_openai(tmp_path) as (here, provider):
        provider.script("images", busy(2))
        job_id = await submitted(here)
        failed = await at(here, job_id, "failed")
        assert failed["failure_code"] == "RATE_LIMITED"
        await at(here, job_id, "completed")
        (line,) = [one for one in here.logged if one["event"] == "job.retry_scheduled"]
        assert 2 <= line["delay_s"] < 3


FOR_GOOD: list[tuple[str, str, Fault, str]] = [
    ("400", "images", Status(400), "REMOTE_REFUSED"),
    ("401", "images", Status(401), "REMOTE_REFUSED"),
    ("nonsense", "images", Nonsense(), "BAD_ANSWER"),
    ("a page in it", "images", Page(), "BAD_ANSWER"),
    ("redirects", "images", Redirected(), "REMOTE_REFUSED"),
    ("endless", "images", Endless(), "DOWNLOAD_TOO_LARGE"),
    ("a page", "files", Page("image/png"), "DOWNLOAD_WRONG_TYPE"),
    ("led inside", "files", Redirected(), "DOWNLOAD_REFUSED"),
    ("half", "files", Nonsense("GIF89a"), "BAD_ANSWER"),
    ("endless file", "files", Endless(), "DOWNLOAD_TOO_LARGE"),
]


@pytest.mark.parametrize(
    ("route", "fault", "code"), [row[1:] for row in FOR_GOOD], ids=[row[0] for row in FOR_GOOD]
)
async def test_what_will_not_do_is_given_up_at_once(
    tmp_path: Path, route: str, fault: Fault, code: str
) -> None:
    """I9 I33: one try, both hops in one commit, the hold let go, the four fields, no file left."""
    params = BY_URL if route == "files" else HILL
    async with with_openai(tmp_path) as (here, provider):
        provider.always(route, fault)
        job = await at(here, await submitted(here, params), "dead_letter")
        assert await path_of(here, job["id"]) == ["queued", "running", "failed", "dead_letter"]
        assert (job["failure_code"], job["failed_stage"]) == (code, "running")
        assert job["failure_message"]
        assert job["correlation_id"]
        assert len(provider.calls.of("images")) == 1
        assert await money(here) == (25, 0)
        assert stored(tmp_path) == []


@pytest.mark.parametrize("kind", ["openai", "replicate"])
async def test_what_the_provider_finds_unsafe_is_paid_for(tmp_path: Path, kind: str) -> None:
    """I7 I11 I34-I36: rejected, not tried again, not refunded, SAFE_BLOCK in the audit."""
    with_ = with_openai if kind == "openai" else with_replicate
    async with with_(tmp_path) as (here, provider):
        provider.script("images" if kind == "openai" else "create", Refusal())
        job = await at(here, await submitted(here), "rejected")
        assert await path_of(here, job["id"]) == ["queued", "running", "rejected"]
        assert job["credits"] == {"cost": 1, "state": "captured"}
        assert await money(here) == (24, 0)
        (row,) = [one for one in await audited(here, job["id"]) if one["event"] == "SAFE_BLOCK"]
        assert row["fields"] == {"phase": "provider"}
        assert stored(tmp_path) == []


# ---------------------------------------------------------------- one asset per job


async def test_a_second_picture_is_refused(tmp_path: Path) -> None:
    """I26: from whoever reports it; the job stays as it was, and completes with the one."""
    registry = definitions(names=("image_generation",))
    picture = {"asset_type": "image", "url": "https://cdn.example/1.png"}
    other = {"asset_type": "image", "url": "https://cdn.example/2.png"}
    async with opened(tmp_path, registry=registry) as here:
        job_id = await submitted(here)
        assert (await here.worker.post(f"/jobs/{job_id}/claim")).status == 200
        path = f"/jobs/{job_id}/transitions"
        said = await here.worker.post(path, {"to": "completed", "assets": [picture, other]})
        assert (said.status, said.code) == (409, "TOO_MANY_PICTURES")
        said = await here.worker.post(path, {"to": "completed"})
        assert (said.status, said.code) == (409, "RESULT_MISSING")
        assert await read(here, f"/jobs/{job_id}/assets", "assets") == []
        said = await here.worker.post(path, {"to": "completed", "assets": [picture]})
        assert said.status == 200
        assert len(await read(here, f"/jobs/{job_id}/assets", "assets")) == 1
