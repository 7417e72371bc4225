"""Limits that an operator changes at run time: in force at once, kept, audited, put back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jobrunner import Stage, app
from jobrunner.config.settings import Config, ServerSection, StoreSection
from jobrunner.stages import Registry
from tests.actors.test_slots import Stand
from tests.driving import ADMIN
from tests.stages.house import until
from tests.stages.unruly import definition_of
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def standing(folder: Path) -> AsyncIterator[tuple[Living, Stand]]:
    stand, registry = Stand(), Registry()
    for name, more in (("plain", {}), ("rated", {"rates": {"there": 1}, "pace": {"there": "1/h"}})):
        stage: Any = Stage(f"s.{name}", stand.work, **more)  # type: ignore[arg-type]
        registry.add(stage)
        registry.add(definition_of(name, f"s.{name}", limit_s=60))
    assert not registry.refused["workflows"], registry.refused["workflows"]
    async with living(folder, registry) as here:
        stand.service = here.service
        yield here, stand


async def changed(here: Living, key: str, value: object) -> Any:
    said = await here.admin.put(f"/admin/limits/{key}", {"value": value, "reason": "a try"})
    assert said.status == 200, said
    return said.json


async def listed(here: Living, key: str) -> Any:
    found = (await here.admin.get("/admin/limits")).json["limits"]
    return next(one for one in found if one["key"] == key)


async def test_a_change_counts_at_once_and_in_lives_to_come(tmp_path: Path) -> None:
    async with standing(tmp_path) as (here, stand):
        told = await changed(here, "limits.active_jobs", 1)
        assert (told["value"], told["configured"], told["origin"]) == (1, 64, "set")
        assert (told["by"], told["reason"]) == ("admin", "a try")
        for number in range(2):
            await stand.submit("plain", "ada", number)
        await until(lambda: len(stand.going) == 1)
        why = await stand.waits_for("plain-ada-1")
        assert why == "a free slot in this service (1 in all)"
        await changed(here, "limits.active_jobs", 2)
        await until(lambda: len(stand.going) == 2)
        figures = (await here.admin.get("/metrics")).raw.decode()
        assert 'jobrunner_limit{key="limits.active_jobs"} 2.0' in figures
    async with again(tmp_path) as service:
        assert value_of(service, "limits.active_jobs") == (2, "set")
        await service.facade.limits.reset("limits.active_jobs", ADMIN, None)
        assert value_of(service, "limits.active_jobs") == (64, "default")
        events = [one.event for one in await service.store.reader.audit(3, None)]
        assert events == ["limit.reset", "limit.set", "limit.set"]
    async with again(tmp_path) as service:
        assert value_of(service, "limits.active_jobs") == (64, "default")


@asynccontextmanager
async def again(folder: Path) -> AsyncIterator[app.LiveService]:
    """Another life on the same file."""
    config = Config(
        server=ServerSection(port=0, drain_seconds=0),
        store=StoreSection(path=str(folder / "jobs.db"), assets=str(folder / "assets")),
    )
    async with app.running(config, lambda *_, **__: None, registry=Registry()) as service:
        yield service


def value_of(service: app.LiveService, key: str) -> tuple[object, str]:
    found = next(one for one in service.facade.limits.now() if one.key == key)
    return found.value, found.origin


async def test_a_rate_a_stage_and_a_quota_are_changed_too(tmp_path: Path) -> None:
    async with standing(tmp_path) as (here, stand):
        for number in range(3):
            await stand.submit("rated", "ada", number)
        await until(lambda: len(stand.going) == 1)
        await changed(here, "rates.there", None)
        await until(lambda: len(stand.going) == 3)
        assert (await listed(here, "rates.there"))["configured"] == "1/h burst 1"
        await changed(here, "stages.s.plain.concurrency", 1)
        for number in range(2):
            await stand.submit("plain", "ada", number)
        await until(lambda: "plain-ada-0" in stand.going)
        why = await stand.waits_for("plain-ada-1")
        assert why == "stage s.plain, of which 1 may run at a time"
        await changed(here, "workflows.plain.quota.open_jobs", 1)
        body = {"workflow": "plain", "params": {}}
        assert (await here.eve.post("/jobs", body)).status == 201
        said = await here.eve.post("/jobs", body)
        assert (said.status, said.json["error_code"]) == (429, "QUOTA_EXCEEDED")


@pytest.mark.parametrize(
    ("key", "value", "status", "words"),
    [
        ("limits.active_job", 1, 404, "did you mean 'limits.active_jobs'?"),
        ("limits.active_jobs", 0, 400, "must be a whole number from 1"),
        ("limits.active_jobs", "many", 400, "must be a whole number from 1"),
        ("limits.active_jobs", None, 400, "must be a whole number from 1"),
        ("rates.there", "often", 400, "must be a rate, like"),
        ("rates.there", 5, 400, "must be a rate, like"),
    ],
)
async def test_what_is_no_limit_is_refused(
    tmp_path: Path, key: str, value: object, status: int, words: str
) -> None:
    async with standing(tmp_path) as (here, _):
        said = await here.admin.put(f"/admin/limits/{key}", {"value": value})
        assert said.status == status
        assert words in said.json["detail"]
        assert (await here.admin.delete(f"/admin/limits/{key}")).status == 404
        assert (await here.ada.put(f"/admin/limits/{key}", {"value": 1})).status == 403
