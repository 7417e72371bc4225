"""Keys that providers repeat, words that belong to users: where they may be read, and where not.

A provider that answers every request with what it was sent: its key, and the prompt. Afterwards
everything that the service has said or kept is looked through, byte by byte.
"""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from aiohttp import web
from jobrunner_howera import clip

from jobrunner import app
from jobrunner.config.settings import (
    Config,
    DownloadsSection,
    LimitsSection,
    NotifySettings,
    RetrySettings,
    ServerSection,
    WorkflowSettings,
)
from jobrunner.core.messages import Told
from tests.http.serving import House, opened
from tests.receiving import Receiver, receiving

pytestmark = pytest.mark.anyio

WRITER, DRAWER, FILMER, LISTENER = (f"kanarie {number} f3e1" for number in range(4))
SECRETS = {"W_KEY": WRITER, "D_KEY": DRAWER, "F_KEY": FILMER, "L_KEY": LISTENER}
PASSWORD = "pfauenauge"
WORDS = "a hippogriff in Wesenberg"
ONCE = RetrySettings(max=1, base=0.01)
PATIENCE_S = 120


@dataclass
class Parrot:
    """Every answer is the request, in the ``form`` of the moment (none: as a language model would
    write), but for what it does ``well``."""

    form: str = ""
    port: int = 0
    heard: list[str] = field(default_factory=list)
    well: frozenset[str] = frozenset()

    async def answer(self, request: web.Request) -> web.Response:
        said = f"{request.headers.get('Authorization')} {(await request.read())[:2000]!r}"
        said = f"Incorrect API key provided: {said} {request.url}"
        if (work := request.path.rpartition("/")[2]) in self.well:
            return web.json_response(WELL[work])
        self.heard.append(said)
        if not self.form:
            return web.json_response({"choices": [{"message": {"content": said}}]})
        status, about = FORMS[self.form]
        if about is None:
            return web.Response(status=status, text=said)
        return web.json_response(
            {"error": {"message": said, **about}, "detail": said}, status=status
        )


SPOKEN = {"start": 0.0, "end": 2.0, "text": WORDS}
STEP = {"title": "Look", "text": "Look at it.", "start_s": 0, "end_s": 2}
INSTRUCTION = json.dumps({"title": "How to look", "steps": [STEP]})
WELL: dict[str, dict[str, Any]] = {
    "transcriptions": {"text": WORDS, "segments": [SPOKEN]},
    "completions": {"choices": [{"message": {"role": "assistant", "content": INSTRUCTION}}]},
}
FORMS: dict[str, tuple[int, dict[str, Any] | None]] = {
    "the key is wrong": (401, {"code": "invalid_api_key"}),
    "nothing but text": (500, None),
    "too many": (429, {"code": "rate_limit_exceeded"}),
    "unsafe": (400, {"code": "content_policy_violation"}),
    "to be paid": (403, {"code": "insufficient_quota"}),
    "another format": (200, None),
    "a prediction that failed": (201, {"code": "none"}),
}


@asynccontextmanager
async def parrot() -> AsyncIterator[Parrot]:
    found = Parrot()
    place = web.Application(client_max_size=2**26)
    place.router.add_route("*", "/{rest:.*}", found.answer)
    runner = web.AppRunner(place)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.port = runner.addresses[0][1]
    try:
        yield found
    finally:
        await runner.cleanup()


def workflows(bird: Parrot, receiver: Receiver, drawer: str) -> dict[str, WorkflowSettings]:
    url = f"http://127.0.0.1:{bird.port}/v1"
    told = NotifySettings(url=receiver.url())
    return {
        "cutx": WorkflowSettings(
            settings={
                "writer": "openai",
                "writer_url": url,
                "writer_key_env": "W_KEY",
                "provider_url": url,
                "provider_key_env": "F_KEY",
            },
            retry={"processing": ONCE},
            notify=told,
        ),
        "image-generation": WorkflowSettings(
            settings={"provider": drawer, "base_url": url, "model": "m", "key_env": "D_KEY"},
            retry={"running": ONCE},
            notify=told,
        ),
        "howera": WorkflowSettings(
            settings={
                "transcriber": "openai",
                "writer": "openai",
                "base_url": url,
                "key_env": "L_KEY",
            },
            retry=dict.fromkeys(("TRANSCRIBING", "GENERATING", "REGENERATING"), ONCE),
            notify=told,
        ),
    }


@pytest.fixture
def films(tmp_path: Path) -> bytes:
    clip.make(str(tmp_path / "speech.mp4"))
    return (tmp_path / "speech.mp4").read_bytes()


@pytest.mark.parametrize("drawer", ["openai", "replicate"])
async def test_what_a_provider_repeats_is_nowhere_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, films: bytes, drawer: str
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)

    folder = tmp_path / "data"
    folder.mkdir()
    async with parrot() as bird, receiving() as receiver:
        settings = workflows(bird, receiver, drawer)
        async with opened(
            folder,
            registry=app.load_definitions(Config(workflows=settings)),
            server=ServerSection(port=0, drain_seconds=1),
            limits=LimitsSection(free_disk=0, lag=0),
            workflows=settings,
            downloads=DownloadsSection(allow_private=(receiver.place, f"127.0.0.1:{bird.port}")),
        ) as here:
            said = Said(here)
            for form in FORMS:
                bird.form = form
                await everything(here, said, films, first=form == "the key is wrong")
            if drawer == "openai":  # what draws makes no difference to what writes
                await in_writing(here, bird, said, films)
            early = Told("replicate", "w-1", "nobody's yet", {"error": bird.heard[-1]})
            assert not (await here.service.facade.hear(early)).applied
            await delivered(receiver, said)
            await said.of_the_house()
        heard = "\n".join(bird.heard)
        assert all(key in heard for key in SECRETS.values()), "the test does not reach a provider"
        outside = {
            "notifications": "\n".join(f"{one.headers}{one.body!r}" for one in receiver.sent)
        }
        for place, text in {**said.texts, **outside, "log": dumped(here.logged)}.items():
            assert not secrets_in(text), (place, secrets_in(text))
    assert WORDS not in dumped(here.logged)
    for path in [one for one in folder.rglob("*") if one.is_file()]:
        assert not secrets_in(path.read_bytes().decode("latin-1")), path
    assert not secrets_in(rows(folder / "jobs.db"))


async def everything(here: House, said: "Said", film: bytes, first: bool) -> None:
    """A job through every door that leads to a provider."""
    about = {"product_id": "lamp-7", "product": {"name": "Lamp", "description": WORDS}}
    jobs = [
        await here.ada.submit("cutx", job_type="copy", params=about),
        await here.ada.submit("cutx", job_type="static_ad", params=about),
        await here.ada.submit("cutx", job_type="tts", params={"text": WORDS}),
        await here.ada.submit("image-generation", params={"prompt": f"{WORDS} {len(said.texts)}"}),
    ]
    if first:
        await said.of(await filmed(here, film), "TRANSCRIBING")
    for job in jobs:
        await said.of(job["id"])


async def in_writing(here: House, bird: Parrot, said: "Said", film: bytes) -> None:
    """A draft is written, and a part of it is written anew: by a provider that fails in all forms,
    and at last by one that puts the key into what it writes."""
    bird.well = frozenset(WELL)
    editor = await edited(here, film)
    for form in FORMS:
        bird.form, bird.well = form, frozenset()
        await said.of_the_editor(editor)
        if form in ("the key is wrong", "another format"):
            bird.well = frozenset({"transcriptions"})
            await said.of(await filmed(here, film), "GENERATING")
    bird.form, bird.well = "", frozenset()
    assert "[redacted]" in await said.of_the_edited(editor)
    assert (await here.ada.post(f"/jobs/{editor}/cancel")).status == 200


async def filmed(here: House, film: bytes) -> str:
    """A job that has its film and runs."""
    job_id = str((await here.ada.submit("howera"))["id"])
    path, headers = f"/jobs/{job_id}", {"Content-Type": "video/mp4"}
    await here.ada.ask("PUT", f"{path}/upload", data=film, headers=headers)
    for command in ("confirm-upload", "run"):
        assert (await here.ada.post(f"{path}/{command}", {})).status in (200, 202)
    return job_id


async def edited(here: House, film: bytes) -> str:
    """A job that stands in the editor, with what a provider wrote for it."""
    job_id = await filmed(here, film)
    with anyio.fail_after(PATIENCE_S):
        while (await here.ada.get(f"/jobs/{job_id}")).json["status"] != "DRAFT_READY":
            await anyio.sleep(0.02)
    assert (await here.ada.post(f"/jobs/{job_id}/edit")).json["status"] == "EDITING"
    return job_id


class Said:
    """Everything that the service answers, by its address."""

    def __init__(self, here: House) -> None:
        self.here = here
        self.texts: dict[str, str] = {}

    async def of(self, job_id: str, stage: str = "") -> None:
        with anyio.fail_after(PATIENCE_S):
            while True:
                job = (await self.here.ada.get(f"/jobs/{job_id}?wait=10")).json
                if job["kind"] in ("final", "settled"):
                    break
        assert stage in ("", job["failed_stage"])
        assert job["failure_message"], job
        assert WORDS not in job["failure_message"]
        await self.of_the_failure(job_id)

    async def of_the_edited(self, job_id: str) -> str:
        """What became of a provider's own words in the draft."""
        last = await self.written_anew(job_id)
        assert (last["state"], last["outcome"]) == ("REGENERATING", "done")
        for part in ("", "/history", "/attempts"):
            await self.keep(self.here.admin, f"/jobs/{job_id}{part}")
        return await self.keep(self.here.ada, f"/jobs/{job_id}/artifacts/draft")

    async def written_anew(self, job_id: str) -> Any:
        """A part of it, as it is wished for in words of the user's; the attempt that was made."""
        path, wish = f"/jobs/{job_id}", {"instruction": WORDS, "selection": 1}
        assert (await self.here.ada.post(f"{path}/regenerate", wish)).status in (200, 202)
        with anyio.fail_after(PATIENCE_S):
            while (await self.here.ada.get(path)).json["status"] != "EDITING":
                await anyio.sleep(0.02)
        return (await self.here.ada.get(f"{path}/attempts")).json["attempts"][-1]

    async def of_the_editor(self, job_id: str) -> None:
        last = await self.written_anew(job_id)
        assert (last["state"], last["outcome"]) == ("REGENERATING", "failed")
        assert WORDS not in last["failure_message"]
        await self.of_the_failure(job_id)

    async def of_the_failure(self, job_id: str) -> None:
        for part in ("", "/history", "/explain", "/deliveries"):
            await self.keep(self.here.ada, f"/jobs/{job_id}{part}")
        mine = await self.keep(self.here.ada, f"/jobs/{job_id}/attempts")
        whole = await self.keep(self.here.admin, f"/jobs/{job_id}/attempts")
        assert "Incorrect API key" not in mine
        assert "Incorrect API key" in whole

    async def of_the_house(self) -> None:
        for path in ("/jobs", "/admin/dead-letters", "/admin/audit", "/metrics", "/workflows/cutx"):
            await self.keep(self.here.admin, path)

    async def keep(self, caller: Any, path: str) -> str:
        self.texts[f"{path} {len(self.texts)}"] = (await caller.get(path)).raw.decode()
        return list(self.texts.values())[-1]


async def delivered(receiver: Receiver, said: Said) -> None:
    jobs = {name.split("/")[2].split(" ")[0] for name in said.texts if name.startswith("/jobs/")}
    with anyio.fail_after(PATIENCE_S):
        while not all(any(job in str(sent.body) for sent in receiver.sent) for job in jobs):
            await anyio.sleep(0.01)


def secrets_in(text: str) -> list[str]:
    forms: list[Callable[[str], str]] = [str, lambda value: quote(value, safe="")]
    return [value for value in SECRETS.values() if any(form(value) in text for form in forms)]


def dumped(lines: list[dict[str, Any]]) -> str:
    return json.dumps(lines, default=str, ensure_ascii=False)


def rows(path: Path) -> str:
    with sqlite3.connect(path) as base:
        return "\n".join(base.iterdump())
