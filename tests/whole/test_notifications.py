"""Notifications of a process that is killed: at least once, always under the same id."""

from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

import anyio
import pytest

from tests.receiving import Receiver, receiving, says, silence
from tests.whole.process import PATIENCE_S, Place, place, until

pytestmark = pytest.mark.anyio

LAMP = {"product_id": "lamp-7"}
OUTSIDE = """
[downloads]
allow_private = ["{place}"]
[workflows.cutx.stages]
"*" = "external"
"""


def living(folder: Path, receiver: Receiver) -> AbstractAsyncContextManager[Place]:
    return place(folder, more=OUTSIDE.format(place=receiver.place))


async def ended(home: Place, receiver: Receiver, number: int) -> str:
    """A job that was told to end, and said so before anything was killed."""
    url = receiver.url(f"/hook/{number % 5}")
    job = await home.submit("cutx", job_type="copy", params=LAMP, notify_url=url)
    said = await home.post(f"/jobs/{job['id']}/cancel")
    assert said.status == 200, said
    return str(job["id"])


async def delivered(home: Place, count: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while True:
            found = await home.get("/admin/deliveries?status=due&limit=1")
            if not found["deliveries"]:
                break
            await anyio.sleep(0.02)
    done = (await home.get("/admin/deliveries?status=delivered&limit=100"))["deliveries"]
    assert len(done) == count


async def test_a_kill_between_the_sending_and_the_writing(tmp_path: Path) -> None:
    """R1, R14: the receiver has it, the file does not know: it comes again, with the same id and
    the same body; when the file knows, it comes no more."""
    async with receiving(silence, says("200 OK")) as receiver, living(tmp_path, receiver) as home:
        await home.start()
        job_id = await ended(home, receiver, 1)
        await until(lambda: len(receiver.sent) == 1)
        await home.kill()
        await home.start()
        await delivered(home, 1)
        await home.kill()
        await home.start()
        other = await ended(home, receiver, 2)
        await delivered(home, 2)
        assert home.faults() == ()
        assert await home.stop() == 0
    assert [sent.id for sent in receiver.sent] == [
        f"{job_id}-2-job",
        f"{job_id}-2-job",
        f"{other}-2-job",
    ]
    assert receiver.sent[0].body == receiver.sent[1].body


async def test_many_kills_lose_none(tmp_path: Path) -> None:
    """R1: every job whose end was acknowledged is told of at least once, and no other."""
    random, jobs = Random(7), list[str]()
    async with receiving() as receiver, living(tmp_path, receiver) as home:
        await home.start()
        for _ in range(6):

            async def one() -> None:
                jobs.append(await ended(home, receiver, len(jobs)))

            async with anyio.create_task_group() as group:
                for _ in range(12):
                    group.start_soon(one)
            heard = len(receiver.sent)
            await until(lambda: len(receiver.sent) >= heard + random.randrange(4))  # noqa: B023
            await home.kill()
            await home.start()
        await delivered(home, len(jobs))
        assert home.faults() == ()
        assert await home.stop() == 0
    told = Counter(sent.id for sent in receiver.sent)
    assert set(told) == {f"{job_id}-2-job" for job_id in jobs}
    print(f"\n{len(jobs)} jobs, 6 kills, {sum(told.values())} notifications arrived")
