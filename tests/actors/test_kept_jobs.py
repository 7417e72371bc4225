"""Jobs that were heard of lately are kept as they were committed, up to so many bytes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from jobrunner.actors.actor import SNAPSHOT_BYTES
from jobrunner.config.settings import LimitsSection
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Beat, Do
from jobrunner.errors import Refused
from tests.actors.test_slots import standing
from tests.http.serving import House, opened
from tests.http.uploading import until

pytestmark = pytest.mark.anyio

ADA, WORKER = Actor("ada", "user"), Actor("worker", "workflow")
ROOM = 12 * SNAPSHOT_BYTES


@asynccontextmanager
async def keeping(folder: Path, size: int) -> AsyncIterator[House]:
    async with opened(folder, limits=LimitsSection(lag=0, kept_jobs=size)) as house:
        yield house


async def submitted(house: House, count: int) -> list[str]:
    return [(await house.ada.submit("howera"))["id"] for _ in range(count)]


def kept_of(house: House, jobs: list[str]) -> list[str]:
    return [job_id for job_id in jobs if house.service.facade.supervisor.kept(job_id)]


async def test_those_that_were_asked_last_stay(tmp_path: Path) -> None:
    async with keeping(tmp_path, ROOM) as house:
        supervisor = house.service.facade.supervisor
        first, *others = await submitted(house, 16)
        for number, job_id in enumerate(others):
            await house.service.facade.ask(job_id, Beat(WORKER))
            if number == 8:
                await house.service.facade.ask(first, Beat(WORKER))
        kept = kept_of(house, [first, *others])
        assert kept[0] == first
        assert kept[1:] == others[-len(kept) + 1 :]
        assert 5 < len(kept) < 12
        assert len(supervisor._actors) == len(kept)
        assert supervisor._weight <= ROOM


async def test_who_waits_for_others_behind_many_is_not_remembered(tmp_path: Path) -> None:
    """Those who came before are taken before, and half of the room is for jobs at work."""
    async with keeping(tmp_path, ROOM) as house:
        first = await submitted(house, 16)
        kept = kept_of(house, first)
        assert kept == first[: len(kept)]
        assert 4 < len(kept) < 8
        for job_id in kept:
            await house.ada.post(f"/jobs/{job_id}/cancel")
        later = await submitted(house, 16)
        assert kept_of(house, [*first, *later]) == later[: len(kept)]


async def test_a_large_job_takes_the_room_of_many(tmp_path: Path) -> None:
    async with keeping(tmp_path, ROOM) as house:
        supervisor = house.service.facade.supervisor
        small = await submitted(house, 8)
        for number in range(5):
            prompt = f"{number}" + "x" * 1500
            large = await house.ada.submit("image-generation", params={"prompt": prompt})
            await house.service.facade.ask(large["id"], Beat(WORKER))
        kept = supervisor.kept(large["id"])
        assert kept is not None
        assert kept.params["prompt"] == prompt
        assert not supervisor.kept(small[0])


async def test_without_room_everything_is_read(tmp_path: Path) -> None:
    async with keeping(tmp_path, 0) as house:
        supervisor = house.service.facade.supervisor
        (job_id,) = await submitted(house, 1)
        assert supervisor.kept(job_id) is None
        said = await house.ada.post(f"/jobs/{job_id}/cancel")
        assert said.json["status"] == "CANCELLED"
        assert (len(supervisor), len(supervisor._actors)) == (0, 0)


async def test_what_is_kept_is_what_the_file_has(tmp_path: Path) -> None:
    async with keeping(tmp_path, ROOM) as house:
        facade, reader = house.service.facade, house.service.store.reader
        (job_id,) = await submitted(house, 1)
        for ask in (Do(ADA, "start-upload", {}), Beat(WORKER), Do(ADA, "cancel", {})):
            assert facade.supervisor.kept(job_id) == await reader.job(job_id)
            await facade.ask(job_id, ask)
        assert facade.supervisor.kept(job_id) is None, "it has ended, and nobody tells it more"
        assert not facade.supervisor._actors


async def test_who_joins_a_long_line_is_not_remembered(tmp_path: Path) -> None:
    """It would be let go before its turn, and so would those who stand before it."""
    async with standing(tmp_path, active_jobs=1, kept_jobs=ROOM) as stand:
        facade = stand.service.facade
        first, *jobs = [await stand.submit("plain", "ada", number) for number in range(20)]
        await until(lambda: first in stand.going)
        kept = [job_id for job_id in jobs if facade.supervisor.kept(job_id)]
        assert kept == jobs[: len(kept)]
        assert 4 < len(kept) < 8
        for job_id in (first, *jobs):
            await until(lambda job_id=job_id: job_id in stand.going)
            await stand.end_stage(job_id)
        assert stand.began == [first, *jobs]


async def test_a_deleted_job_is_not_remembered(tmp_path: Path) -> None:
    async with keeping(tmp_path, ROOM) as house:
        facade = house.service.facade
        (job_id,) = await submitted(house, 1)
        await house.ada.post(f"/jobs/{job_id}/cancel")
        assert (await house.ada.delete(f"/jobs/{job_id}")).status == 204
        assert facade.supervisor.kept(job_id) is None
        with pytest.raises(Refused) as refused:
            await facade.ask(job_id, Do(ADA, "cancel", {}))
        assert refused.value.code == "NOT_FOUND"


async def test_a_commit_whose_caller_is_gone_has_its_consequences(tmp_path: Path) -> None:
    """Whoever waits for the end is told."""
    async with keeping(tmp_path, ROOM) as house, anyio.create_task_group() as group:
        facade, store = house.service.facade, house.service.store
        (job_id,) = await submitted(house, 1)
        job = await store.reader.job(job_id)
        assert job is not None
        ended: list[Any] = []

        async def wait() -> None:
            ended.append(await facade.ended(job, 30))

        async def cancel() -> None:
            with scope:
                await facade.ask(job_id, Do(ADA, "cancel", {}))
                ended.append("never")

        group.start_soon(wait)
        scope = anyio.CancelScope()
        group.start_soon(cancel)
        while not store.waiting():
            await anyio.lowlevel.checkpoint()
        scope.cancel()
        await until(lambda: ended)
    assert [one.status for one in ended] == ["CANCELLED"]


async def test_what_was_read_before_is_older(tmp_path: Path) -> None:
    async with keeping(tmp_path, ROOM) as house:
        supervisor = house.service.facade.supervisor
        (job_id,) = await submitted(house, 1)
        before = supervisor.kept(job_id)
        assert before is not None
        await house.service.facade.ask(job_id, Do(ADA, "start-upload", {}))
        supervisor.keep(before)
        assert supervisor.kept(job_id) == await house.service.store.reader.job(job_id) != before


async def test_what_changed_while_it_was_read_is_read_again(tmp_path: Path) -> None:
    """The job may have ended meanwhile, and nobody remembers that: what was read is older."""
    async with keeping(tmp_path, ROOM) as house, anyio.create_task_group() as group:
        facade, reader = house.service.facade, house.service.store.reader
        (job_id,) = await submitted(house, 1)
        facade.supervisor.reread(job_id)
        read, goes_on, reads = anyio.Event(), anyio.Event(), list[Any]()

        async def slowly(wanted: str) -> Any:
            reads.append(await type(reader).job(reader, wanted))
            read.set()
            await goes_on.wait()
            return reads[-1]

        object.__setattr__(reader, "job", slowly)
        group.start_soon(facade.ask, job_id, Do(ADA, "cancel", {}))
        await read.wait()
        facade.supervisor.keep(replace(reads[0], kind="final", line_at=None))
        goes_on.set()
        await until(lambda: len(reads) == 2)


async def test_an_actor_that_is_gone_takes_no_other_with_it(tmp_path: Path) -> None:
    """One letter ends the job, the next is called off in that moment, and a third has come: it is
    another actor's, and at work."""
    async with keeping(tmp_path, ROOM) as house:
        facade, supervisor = house.service.facade, house.service.facade.supervisor
        (job_id,) = await submitted(house, 1)
        told = facade.world.watchers.committed
        letters = list[asyncio.Task[Any]]()

        def send(command: str) -> None:
            ask = facade.ask(job_id, Do(ADA, command, {}))
            letters.append(asyncio.get_running_loop().create_task(ask))

        def call_off() -> None:
            send("again")
            letters[1].cancel()

        def committed(before: Snapshot | None, job: Snapshot) -> None:
            asyncio.get_running_loop().call_soon(call_off)
            told(before, job)

        facade.world.watchers.committed = committed  # type: ignore[method-assign]
        send("cancel")
        while not house.service.store.waiting():
            await anyio.lowlevel.checkpoint()
        send("too")
        while len(letters) < 3:
            await anyio.lowlevel.checkpoint()
        await asyncio.wait(letters[:2])
        assert (len(supervisor), job_id in supervisor._actors) == (1, True)
        await asyncio.wait(letters)
        assert supervisor._weight == sum(one.weighed for one in supervisor._actors.values())
