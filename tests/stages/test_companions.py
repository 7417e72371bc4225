"""Companions: what a plugin keeps open beside its stages while the service runs."""

import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner import Companion, Hosting, Opened, app, companion
from jobrunner.config.settings import Config, ServerSection, StoreSection
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Submit
from jobrunner.log import Log
from jobrunner.ports import SystemClock, SystemIds
from jobrunner.stages import Registry
from jobrunner.stages.companions import Companions
from jobrunner.stages.equipment import Surroundings
from tests.stages import reaching
from tests.stages.speaking import listening

pytestmark = pytest.mark.anyio

ADA = Actor("ada", "user")
OVER = ("done", "failed", "canceled")


class House:
    def __init__(self, service: app.LiveService, text: io.StringIO, log: Log) -> None:
        self.service = service
        self._text = text
        self._log = log

    def lines(self, event: str) -> list[dict[str, Any]]:
        self._log.flush()
        every = [json.loads(line) for line in self._text.getvalue().splitlines()]
        return [line for line in every if line["event"] == event]

    async def submitted(self, workflow: str, does: str, url: str = "") -> str:
        job_id = SystemIds(SystemClock()).fresh()
        params = {"does": does, "url": url, "name": "one"}
        message = Submit(ADA, workflow, "any", params, job_id)
        return (await self.service.facade.submit(message)).job.id

    async def job(self, job_id: str) -> Snapshot:
        found = await self.service.store.reader.job(job_id)
        assert found is not None
        return found

    async def over(self, job_id: str) -> Snapshot:
        with anyio.fail_after(120):
            while (job := await self.job(job_id)).status not in OVER:
                await anyio.sleep(0.02)
        return job

    async def until(self, condition: Callable[[], Any]) -> None:
        with anyio.fail_after(120):
            while not condition():
                await anyio.sleep(0.02)

    async def waits_for(self, job_id: str) -> str:
        told = await self.service.facade.explain(await self.job(job_id))
        return json.dumps(told, default=str)


@asynccontextmanager
async def house(folder: Path, *companions: Companion, **server: Any) -> AsyncIterator[House]:
    registry: Registry = reaching.registry()
    for one in companions:
        registry.add(one)
    config = Config(
        server=ServerSection(port=0, drain_seconds=1, **server),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
    )
    text = io.StringIO()
    log = Log(text)
    async with app.running(config, log, registry=registry) as service:
        yield House(service, text, log)


def provider(workflow: str, opens: anyio.Event | None = None) -> Companion:
    """Answers on loopback as soon as it may."""

    @companion(workflow)
    async def opening(hosting: Hosting) -> AsyncIterator[Opened]:
        if opens is not None:
            await opens.wait()
        async with listening() as server:
            server.says("/hello", b"from the companion")
            hosting.log(f"told where the service is: {hosting.base_url}")
            secrets = {"provider": ["whsec_c2VjcmV0"]}
            yield Opened({"base_url": server.url}, secrets)

    return opening


async def test_a_companion_answers_its_own_workflow_and_no_other(tmp_path: Path) -> None:
    """R11: what it opened is allowed to its workflow alone."""
    async with house(tmp_path, provider("loop")) as here:
        job = await here.over(await here.submitted("loop", "get", "/hello"))
        assert job.result["body"] == "from the companion"
        address = (await here.over(await here.submitted("loop", "setting"))).result
        other = await here.over(await here.submitted("thread", "get", f"{address}/hello"))
        assert other.failure_code == "DOWNLOAD_REFUSED"
        assert (await here.over(await here.submitted("thread", "setting"))).result is None
        facade = here.service.facade
        assert facade.secrets_of("provider") == ("whsec_c2VjcmV0",)
        assert facade.secrets_of("another") == ()
        (said,) = here.lines("companion.said")
        assert said["line"] == f"told where the service is: {here.service.url}"
    assert here.lines("companion.closed")
    assert (tmp_path / "companions" / "loop").is_dir()


async def test_jobs_wait_for_their_companion_and_others_do_not(tmp_path: Path) -> None:
    """Also what was due or had begun when the service stopped: a restart changes nothing."""
    never, opens = anyio.Event(), anyio.Event()
    async with house(tmp_path, provider("loop", never)) as here:
        job_id = await here.submitted("loop", "get", "/hello")
        beside = await here.submitted("thread", "setting")
        assert (await here.over(beside)).status == "done"
        assert (await here.job(job_id)).status == "queued"
        assert "still being opened" in await here.waits_for(job_id)
    async with house(tmp_path, provider("loop", opens)) as here:
        beside = await here.submitted("thread", "setting")
        assert (await here.over(beside)).status == "done"
        assert (await here.job(job_id)).status == "queued"
        opens.set()
        job = await here.over(job_id)
        assert job.result["body"] == "from the companion"


async def test_one_that_does_not_open_costs_nobody_else_anything(tmp_path: Path) -> None:
    @companion("loop")
    async def broken(hosting: Hosting) -> AsyncIterator[Opened]:
        if hosting.base_url:
            raise SystemExit("no port is free")
        yield Opened()

    @companion("thread")
    async def odd(hosting: Hosting) -> AsyncIterator[Any]:
        yield {"base_url": "http://127.0.0.1:1"}

    async with house(tmp_path, broken, odd) as here:
        for name in ("loop", "thread", "process"):
            assert (await here.over(await here.submitted(name, "setting"))).result is None
        await here.until(lambda: len(here.lines("companion.failed")) >= 2)
        reasons = {line["workflow"]: line["error"] for line in here.lines("companion.failed")}
        assert reasons["loop"] == "SystemExit: no port is free"
        assert "not an Opened" in reasons["thread"]
        job = await here.over(await here.submitted("loop", "get", "http://127.0.0.1:1/"))
        assert job.failure_code == "DOWNLOAD_REFUSED"


async def test_one_that_dies_is_opened_again(tmp_path: Path) -> None:
    """What it had opened is nobody's meanwhile."""
    dies, opened = anyio.Event(), list[str]()

    @companion("loop")
    async def mortal(hosting: Hosting) -> AsyncIterator[Opened]:
        opened.append(hosting.folder)
        async with anyio.create_task_group() as group:
            if len(opened) == 1:
                group.start_soon(die)
            yield Opened({"base_url": f"life {len(opened)}"}, {"provider": [str(len(opened))]})

    async def die() -> None:
        await dies.wait()
        raise OSError("it fell over")

    async with house(tmp_path, mortal) as here:
        assert (await here.over(await here.submitted("loop", "setting"))).result == "life 1"
        dies.set()
        await here.until(lambda: here.lines("companion.failed"))
        assert "it fell over" in here.lines("companion.failed")[0]["traceback"]
        if len(opened) == 1:
            assert here.service.facade.secrets_of("provider") == ()
        await here.until(lambda: here.service.facade.secrets_of("provider") == ("2",))
        assert (await here.over(await here.submitted("loop", "setting"))).result == "life 2"
    assert len(set(opened)) == 1


async def test_it_is_closed_after_the_last_of_its_stages(tmp_path: Path) -> None:
    """A stage that ends while the service drains still finds it."""
    order: list[str] = []

    @companion("loop")
    async def noting(hosting: Hosting) -> AsyncIterator[Opened]:
        async with listening() as server:

            async def late(asked: Any, writer: Any) -> None:
                await here.until(lambda: here.service.facade.draining)
                order.append("answers")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                await writer.drain()

            server.plays("/late", late)
            yield Opened({"base_url": server.url})
            order.append("closes")

    async with house(tmp_path, noting) as here:
        job_id = await here.submitted("loop", "get", "/late")
        with anyio.fail_after(120):
            while (await here.job(job_id)).status != "working":
                await anyio.sleep(0.02)
    assert order == ["answers", "closes"]
    (line,) = [one for one in here.lines("job.transition") if one["to_status"] == "done"]
    assert line["job_id"] == job_id


async def test_one_that_takes_too_long_is_not_waited_for(tmp_path: Path) -> None:
    """Neither when it opens nor when it closes."""

    @companion("slow")
    async def slow(hosting: Hosting) -> AsyncIterator[Opened]:
        await anyio.Event().wait()
        yield Opened()

    @companion("clinging")
    async def clinging(hosting: Hosting) -> AsyncIterator[Opened]:
        yield Opened()
        await anyio.Event().wait()

    with anyio.fail_after(120):
        await opened_and_closed(tmp_path, clinging, open_s=3600, close_s=0.05)
        await opened_and_closed(tmp_path, slow, open_s=0.05, close_s=3600)


async def opened_and_closed(folder: Path, one: Companion, open_s: float, close_s: float) -> None:
    """As soon as its jobs need not wait any more it is told to close."""
    around, freed = Surroundings(), anyio.Event()
    around.hold([one.workflow])
    around.on_release = freed.set
    companions = Companions(
        {one.workflow: one},
        lambda name: {},
        str(folder),
        around,
        SystemClock(),
        lambda *said, **more: None,
        open_s,
        close_s,
    )
    async with companions.running():
        await freed.wait()
        assert not around.is_held(one.workflow)


async def test_settings_are_laid_over_those_of_the_operator(tmp_path: Path) -> None:
    around = Surroundings()
    declared = {"voice": {"name": "slt", "url": ""}, "retries": 3}
    around.opened("loop", Opened({"voice": {"url": "http://127.0.0.1:7"}, "retries": 4}))
    expected = {"voice": {"name": "slt", "url": "http://127.0.0.1:7"}, "retries": 4}
    assert around.settings_of("loop", declared) == expected
    assert around.settings_of("thread", declared) == declared
    around.closed("loop")
    assert around.settings_of("loop", declared) == declared


async def test_where_the_service_is_reached_can_be_told(tmp_path: Path) -> None:
    async with house(tmp_path, public_url="https://jobs.example.com/runner/") as here:
        job = await here.over(await here.submitted("loop", "where"))
        assert job.result == "https://jobs.example.com/runner/webhooks/provider"


def test_two_for_one_workflow_are_none() -> None:
    registry = Registry()
    for _ in range(3):
        registry.add(provider("loop"))
    assert registry.companions == {}
    assert "twice" in registry.refused["companions"]["loop"][0]
