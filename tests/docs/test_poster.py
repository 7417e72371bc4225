"""What PLUGINS.md shows, as a plugin in a real service: drawn by its companion, animated by a
provider that calls back, whatever becomes of the webhooks."""

import shutil
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from yarl import URL

from jobrunner.testing.providers import Delivery, Plan, ReplicateLike
from tests.docs.test_plugins_md import PROJECT, shown
from tests.served import Served, serving

pytestmark = pytest.mark.anyio

CONFIG = """
[workflows.poster.settings]
clips_url = "{url}/v1"

[webhooks.studio]
secrets_env = ["STUDIO_SECRET"]
"""


def install(folder: Path) -> None:
    """As its project says, without an installer."""
    (block,) = (block for block in shown("toml") if PROJECT in block)
    project = tomllib.loads(block)["project"]
    package = folder / "jobrunner_poster"
    info = folder / "jobrunner_poster-1.0.0.dist-info"
    for made in (package, info):
        made.mkdir(parents=True)
    (package / "__init__.py").write_text("\n\n".join(shown("python")))
    (package / "panel").mkdir()
    (package / "panel" / "index.html").write_text("<!doctype html>")
    (package / "panel" / "panel.js").write_text("\n\n".join(shown("js")))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jobrunner-poster\nVersion: 1.0.0")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {where}" for name, where in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


class Client:
    def __init__(self, session: aiohttp.ClientSession, served: Served) -> None:
        self.session = session
        self.url = served.url
        self.process = served.process
        self.headers = {"Authorization": f"Bearer {served.token}"}

    async def post(self, path: str, json: Any = None) -> dict[str, Any]:
        call = self.session.post(self.url + path, json=json, headers=self.headers)
        async with call as answer:
            told = await answer.json(content_type=None)
            assert answer.status < 300, told
            return dict(told)

    async def at(self, job_id: str, *statuses: str) -> dict[str, Any]:
        with anyio.fail_after(120):
            while True:
                url = f"{self.url}/jobs/{job_id}"
                async with self.session.get(url, headers=self.headers) as answer:
                    job = dict(await answer.json())
                if job["status"] in statuses:
                    return job
                assert job["kind"] != "final", job
                await anyio.sleep(0.02)


@asynccontextmanager
async def studio(folder: Path, provider: ReplicateLike, port: int = 0) -> AsyncIterator[Client]:
    shutil.rmtree(folder / "plugins.d", ignore_errors=True)
    (folder / "stderr").unlink(missing_ok=True)  # of a life before this one
    install(folder / "plugins.d")
    (folder / "config.toml").write_text(CONFIG.format(url=provider.url))
    environ = {"STUDIO_SECRET": provider.secret, "JOBRUNNER_SERVER__PORT": str(port)}
    with serving(folder, **environ) as served:
        async with aiohttp.ClientSession() as session:
            yield Client(session, served)
        refused = [line for line in served.log() if line["event"] == "webhook.refused"]
        assert len(refused) <= sum(1 for sent in provider.sent if sent.forged)


async def animating(client: Client, provider: ReplicateLike) -> str:
    """A job whose poster was drawn and approved, and whose clip was ordered."""
    body = {"workflow": "poster", "params": {"text": "a lighthouse"}}
    job_id = str((await client.post("/jobs", body))["id"])
    await client.at(job_id, "review")
    before = len(provider.calls.of("create"))
    await client.post(f"/jobs/{job_id}/approve")
    await provider.called("create", before + 1)
    return job_id


@pytest.mark.parametrize(
    "delivery",
    [
        Delivery(),
        Delivery(times=3),
        Delivery(early=True),
        Delivery(forged="secret"),
        Delivery(forged="body"),
        Delivery(forged="old", times=2),
    ],
    ids=repr,
)
async def test_a_poster_is_animated_once(
    delivery: Delivery, tmp_path: Path, replicate_like: ReplicateLike
) -> None:
    replicate_like.usually(Plan(webhook=delivery, takes_s=0.2))
    async with studio(tmp_path, replicate_like) as client:
        job = await client.at(await animating(client, replicate_like), "done")
        assert set(job["artifacts"]) == {"poster_uri", "clip_uri"}
        assert job["credits"]["state"] == "captured"
        await replicate_like.delivered(delivery.times)
    assert len(replicate_like.predictions) == 1
    replicate_like.never_twice("create")
    for sent in replicate_like.sent:
        assert sent.answered == (401 if sent.forged else 200)


async def test_a_late_webhook_goes_to_the_job_that_waits(
    tmp_path: Path, replicate_like: ReplicateLike
) -> None:
    """Two jobs wait at a time; each gets its own."""
    replicate_like.usually(Plan(webhook=Delivery(held=True)))
    async with studio(tmp_path, replicate_like) as client:
        jobs = [await animating(client, replicate_like) for _ in range(2)]
        replicate_like.release()
        for job_id in jobs:
            await client.at(job_id, "done")
    assert len(replicate_like.predictions) == 2


async def test_a_service_that_is_killed_while_a_clip_is_made(
    tmp_path: Path, replicate_like: ReplicateLike
) -> None:
    """The order was placed once; its webhook finds the job in the next life of the service."""
    replicate_like.usually(Plan("never"))
    async with studio(tmp_path, replicate_like) as client:
        job_id = await animating(client, replicate_like)
        client.process.kill()
        client.process.wait()
        port = URL(client.url).port
    assert port is not None
    async with studio(tmp_path, replicate_like, port) as client:
        (number,) = replicate_like.predictions
        await replicate_like.finish(number)
        await client.at(job_id, "done")
    assert len(replicate_like.predictions) == 1
    replicate_like.never_twice("create")
