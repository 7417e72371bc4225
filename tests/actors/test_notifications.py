"""The sender of notifications over a real store, in time that passes by itself."""

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.actors.features.notifications.lanes import ALL_AT_ONCE, AT_ONCE
from jobrunner.actors.features.notifications.sender import Deliveries
from jobrunner.actors.features.notifications.signing import Seals
from jobrunner.actors.shared import World
from jobrunner.core.decision import Clash, Notification
from jobrunner.core.features.notifications import (
    JITTER,
    PAUSES_S,
    DeliveryRow,
    Post,
    TryAnswer,
    lane_of,
)
from jobrunner.core.units import EnableEndpoint, Forget
from jobrunner.errors import OutcomeUnknown, StorageFull
from jobrunner.ports import SystemChildren
from jobrunner.stages import Registry
from jobrunner.store.fsck import check_file
from jobrunner.store.store import Store, open_store
from jobrunner.testing.simulation.loop import SimLoop, simulated
from jobrunner.testing.simulation.world import CALM, Fate, SimClock, SimHop, SimIds, empty_database
from tests.store.factory import DECLARED, birth, job

MASTER = "a secret of twenty-four or more characters"
DAYS_S = 4 * 86_400.0
Answers = Callable[[Post], Awaitable[TryAnswer]]


def note(number: int, url: str = "https://a.example/hook", owner: str = "ada") -> Notification:
    told = f'{{"n":{number}}}'
    return Notification(f"n{number}", owner, lane_of(owner, url), url, "job.ended", told)


class Scene:
    """A store, a sender, and the endpoints that it meets: ``answers`` by URL, else 200."""

    def __init__(self, loop: SimLoop, store: Store, clock: SimClock) -> None:
        self.loop, self.store, self.clock = loop, store, clock
        self.answers: dict[str, Answers] = {}
        self.sent: list[tuple[float, Post]] = []
        self.under_way: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.said: list[dict[str, Any]] = []
        self.jobs = 0
        self.sender = self.make()

    def make(self, store: Any = None) -> Deliveries:
        world = World(
            store or self.store,
            Registry(),
            self.clock,
            SimIds(self.clock, 1),
            self.say,
            SystemChildren(),
        )
        self.world = world
        return Deliveries(world, self.send, Seals(lambda: [MASTER]))

    def say(self, event: str, **fields: Any) -> None:
        self.said.append({"event": event, **fields})

    async def send(self, post: Post) -> TryAnswer:
        self.sent.append((self.loop.time(), post))
        for name in (post.url, "all"):
            self.under_way[name] = self.under_way.get(name, 0) + 1
            self.most[name] = max(self.most.get(name, 0), self.under_way[name])
        try:
            return await self.answers.get(post.url, well)(post)
        finally:
            for name in (post.url, "all"):
                self.under_way[name] -= 1

    async def tell(self, *notes: Notification, now: int | None = None) -> Any:
        self.jobs += 1
        at = self.clock.now() if now is None else now
        born = birth(job(self.jobs, status="done", updated_at=at), notifications=notes)
        outcome = await self.store.commit(born)
        self.sender.note()
        return outcome

    async def run_for(self, seconds: float, sender: Deliveries | None = None) -> None:
        async with anyio.create_task_group() as group:
            with anyio.move_on_after(seconds):
                await (sender or self.sender).run(group)
            group.cancel_scope.cancel()

    async def row(self, number: int) -> DeliveryRow:
        found = await self.store.reader.delivery(f"n{number}")
        assert found is not None
        return found

    def times(self, url: str = "https://a.example/hook") -> list[float]:
        return [at for at, post in self.sent if post.url == url]


async def well(post: Post) -> TryAnswer:
    return TryAnswer(204)


def always(status: int | None, **more: Any) -> Answers:
    async def answer(post: Post) -> TryAnswer:
        return TryAnswer(status, f"answered {status}", **more)

    return answer


def in_turn(*statuses: int) -> Answers:
    left = list(statuses)

    async def answer(post: Post) -> TryAnswer:
        return TryAnswer(left.pop(0) if left else 200, "so it goes")

    return answer


def slow(clock: SimClock, seconds: float, heard: TryAnswer) -> Answers:
    async def answer(post: Post) -> TryAnswer:
        await clock.sleep(seconds)
        return heard

    return answer


LATE = TryAnswer(error="took too long")


@asynccontextmanager
async def scene_in(loop: SimLoop, folder: Path) -> Any:
    path = str(folder / "jobs.db")
    if not (folder / "jobs.db").exists():
        empty_database(folder / "jobs.db")
    fate, clock = Fate(1, CALM), SimClock(loop)
    hops = [SimHop(loop, path, fate, lambda where: None) for _ in range(2)]
    store = await open_store(path, clock=clock, writer_hop=hops[0], reader_hop=hops[1])
    await store.commit(DECLARED)
    scene = Scene(loop, store, clock)
    yield scene
    await store.close()
    for hop in hops:
        hop.handle.close()
    assert check_file(path) == ()


def played(folder: Path, play: Callable[[Scene], Awaitable[None]]) -> None:
    async def main(loop: SimLoop) -> None:
        async with scene_in(loop, folder) as scene:
            await play(scene)

    simulated(main, 1)


def test_one_that_always_fails_is_given_up_after_the_whole_schedule(tmp_path: Path) -> None:
    """Ten tries over three days, each a little late and never early, all under one id, each
    with a timestamp and a signature of its own."""

    async def play(scene: Scene) -> None:
        scene.answers["https://a.example/hook"] = always(500)
        await scene.tell(note(1))
        await scene.run_for(DAYS_S)
        found = await scene.row(1)
        assert (found.status, found.note, len(found.tries)) == ("failed", "answered 500", 10)
        times = scene.times()
        for wait, (before, after) in zip(PAUSES_S[1:], pairwise(times), strict=True):
            assert wait <= after - before <= wait * (1 + JITTER) + 1
        posts = [post for _, post in scene.sent]
        assert {post.headers["webhook-id"] for post in posts} == {"n1"}
        assert len({post.headers["webhook-timestamp"] for post in posts}) == 10
        assert len({post.headers["webhook-signature"] for post in posts}) == 10
        assert [line["event"] for line in scene.said][-1] == "delivery.given_up"

    played(tmp_path, play)


def test_one_that_fails_for_a_while_is_delivered(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        scene.answers["https://a.example/hook"] = in_turn(500, 302, 404)
        await scene.tell(note(1))
        await scene.run_for(DAYS_S)
        found = await scene.row(1)
        assert found.status == "delivered"
        assert [one.http_status for one in found.tries] == [500, 302, 404, 200]
        assert await scene.store.reader.endpoints(9, None, troubled=True) == ()

    played(tmp_path, play)


def test_a_receiver_can_verify_each_try(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        await scene.tell(note(1))
        await scene.run_for(1)
        ((_, post),) = scene.sent
        (secret,) = scene.sender.secrets_of("ada")
        key = base64.b64decode(secret.removeprefix("whsec_"))
        said = b"n1." + post.headers["webhook-timestamp"].encode() + b'.{"n":1}'
        mine = base64.b64encode(hmac.new(key, said, hashlib.sha256).digest()).decode()
        assert post.headers["webhook-signature"] == f"v1,{mine}"
        assert scene.sender.secrets_of("eve") != [secret]

    played(tmp_path, play)


@pytest.mark.parametrize(("asked_s", "least_s"), [(7200, 7200), (10**9, 86_400), (1, 5)])
def test_patience_is_granted_when_it_is_asked_for(
    tmp_path: Path, asked_s: float, least_s: float
) -> None:
    async def play(scene: Scene) -> None:
        scene.answers["https://a.example/hook"] = always(429, retry_after_s=asked_s)
        await scene.tell(note(1))
        await scene.run_for(2 * 86_400)
        first, second, *_ = scene.times()
        assert least_s <= second - first <= least_s * (1 + JITTER) + 1

    played(tmp_path, play)


def test_while_a_host_rests_nothing_else_of_that_owner_goes_there(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        scene.answers["https://a.example/hook"] = always(429, retry_after_s=600)
        await scene.tell(note(1))
        await scene.run_for(1)
        await scene.tell(note(2), note(3, "https://a.example/more"), note(4, owner="eve"))
        await scene.run_for(500)
        assert [post.headers["webhook-id"] for _, post in scene.sent] == ["n1", "n4"]
        await scene.run_for(1500)
        assert {"n2", "n3"} <= {post.headers["webhook-id"] for _, post in scene.sent}

    played(tmp_path, play)


def test_gone_ends_it_for_that_endpoint_alone(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        scene.answers["https://a.example/hook"] = in_turn(410)
        await scene.tell(note(1))
        await scene.run_for(1)
        await scene.tell(note(2), note(3, "https://a.example/other"))
        await scene.run_for(DAYS_S)
        assert [(await scene.row(n)).status for n in (1, 2, 3)] == [
            "disabled",
            "disabled",
            "delivered",
        ]
        assert scene.times() == scene.times()[:1]
        await scene.store.commit(EnableEndpoint(1, scene.clock.now(), "root"))
        scene.sender.note()
        await scene.run_for(10)
        assert [(await scene.row(n)).status for n in (1, 2)] == ["delivered"] * 2

    played(tmp_path, play)


def test_a_slow_endpoint_costs_nobody_else_anything(tmp_path: Path) -> None:
    """R11, R12: three hundred wait for an endpoint that hangs; all others are told at once, and
    what is under way is bounded for each and for all."""

    async def play(scene: Scene) -> None:
        hook = "https://slow.example/hook"
        scene.answers[hook] = slow(scene.clock, 15, LATE)
        await scene.tell(*(note(number, hook) for number in range(300)))
        await scene.tell(*(note(1000 + n, f"https://h{n}.example/") for n in range(200)))
        began = scene.loop.time()
        await scene.run_for(14)
        others = [at for at, post in scene.sent if post.url != hook]
        assert len(others) == 200
        assert max(others) - began < 10
        assert scene.most[hook] == AT_ONCE
        assert scene.most["all"] <= ALL_AT_ONCE
        await scene.run_for(61)
        assert len(scene.times(hook)) <= 2 * AT_ONCE + 5

    played(tmp_path, play)


def test_many_slow_ones_leave_a_bound(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        urls = [f"https://h{number}.example/" for number in range(200)]
        scene.answers |= dict.fromkeys(urls, slow(scene.clock, 15, LATE))
        await scene.tell(*(note(number, url) for number, url in enumerate(urls)))
        await scene.run_for(40)
        assert scene.most["all"] == ALL_AT_ONCE

    played(tmp_path, play)


class Filling:
    """The disk of a store: full for so many writes."""

    def __init__(self, store: Store, full: int) -> None:
        self._store, self.full = store, full
        self.reader, self.epoch = store.reader, store.epoch

    async def commit(self, unit: Any, then: Any = None) -> Any:
        if self.full:
            self.full -= 1
            raise StorageFull("nothing was written")
        return await self._store.commit(unit, then)


def test_a_full_disk_makes_nobody_hear_it_twice(tmp_path: Path) -> None:
    """R17"""

    async def play(scene: Scene) -> None:
        scene.sender = scene.make(Filling(scene.store, 5))
        await scene.tell(note(1))
        await scene.run_for(60)
        assert len(scene.sent) == 1
        assert (await scene.row(1)).status == "delivered"

    played(tmp_path, play)


def test_what_was_sent_and_not_written_is_sent_again_under_the_same_id(tmp_path: Path) -> None:
    """R1: at least once, over the end of a process between the answer and the commit."""

    async def play(scene: Scene) -> None:
        await scene.tell(note(1))
        await scene.run_for(30, scene.make(Filling(scene.store, 10**6)))
        assert len(scene.sent) == 1
        assert (await scene.row(1)).tries == ()
        await scene.run_for(30, scene.make())
        first, second = (post for _, post in scene.sent)
        assert first.headers["webhook-id"] == second.headers["webhook-id"] == "n1"
        assert first.body == second.body
        await scene.run_for(DAYS_S, scene.make())
        assert len(scene.sent) == 2

    played(tmp_path, play)


def test_a_drain_lets_what_is_under_way_be_written_and_begins_nothing(tmp_path: Path) -> None:
    """R13"""

    async def play(scene: Scene) -> None:
        scene.answers["https://a.example/hook"] = slow(scene.clock, 3, TryAnswer(200))
        await scene.tell(*(note(number) for number in range(10)))
        async with anyio.create_task_group() as group:
            group.start_soon(scene.sender.run, group)
            await scene.clock.sleep(1)
            await scene.sender.drain()
            group.cancel_scope.cancel()
        assert len(scene.sent) == AT_ONCE
        states = [(await scene.row(number)).status for number in range(10)]
        assert states.count("delivered") == AT_ONCE
        assert states.count("due") == 10 - AT_ONCE

    played(tmp_path, play)


def test_a_job_that_is_deleted_while_it_is_told_of(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        outcome = await scene.tell(note(1))

        async def deleted(post: Post) -> TryAnswer:
            await scene.store.commit(Forget(outcome.snapshot, scene.clock.now(), "ada"))
            return TryAnswer(500, "no")

        scene.answers["https://a.example/hook"] = deleted
        await scene.run_for(DAYS_S)
        assert len(scene.sent) == 1
        assert scene.world.loss.unknown is None

    played(tmp_path, play)


def test_a_sender_that_breaks_is_told_of_and_does_not_try_for_ever(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        async def broken(post: Post) -> TryAnswer:
            raise ZeroDivisionError("a bug")

        scene.answers["https://a.example/hook"] = broken
        await scene.tell(note(1), note(2, "https://b.example/"))
        await scene.run_for(DAYS_S)
        assert (await scene.row(1)).status == "failed"
        assert (await scene.row(2)).status == "delivered"
        assert len(scene.times()) == 10

    played(tmp_path, play)


def test_one_whose_try_cannot_be_written_for_a_bug_waits_for_the_next_start(
    tmp_path: Path,
) -> None:
    async def play(scene: Scene) -> None:
        class Broken(Filling):
            async def commit(self, unit: Any, then: Any = None) -> Any:
                if unit.delivery == 1:
                    raise ZeroDivisionError("a bug")
                return await super().commit(unit)

        await scene.tell(note(1), note(2, "https://b.example/"))
        await scene.run_for(DAYS_S, scene.make(Broken(scene.store, 0)))
        assert len(scene.times()) == 1
        assert (await scene.row(2)).status == "delivered"
        await scene.run_for(10, scene.make())
        assert (await scene.row(1)).status == "delivered"

    played(tmp_path, play)


def test_when_another_process_has_the_file_nothing_more_is_sent(tmp_path: Path) -> None:
    """R2"""

    async def play(scene: Scene) -> None:
        class Taken(Filling):
            async def commit(self, unit: Any, then: Any = None) -> Any:
                return Clash("epoch")

        await scene.tell(note(1), note(2))
        await scene.run_for(DAYS_S, scene.make(Taken(scene.store, 0)))
        assert len(scene.sent) <= 2

    played(tmp_path, play)


def test_when_nobody_knows_what_is_on_disk_nothing_more_is_sent(tmp_path: Path) -> None:
    """R18"""

    async def play(scene: Scene) -> None:
        class Failing(Filling):
            async def commit(self, unit: Any, then: Any = None) -> Any:
                raise OutcomeUnknown("a disk I/O error")

        await scene.tell(note(1))
        await scene.run_for(DAYS_S, scene.make(Failing(scene.store, 0)))
        assert len(scene.sent) == 1
        assert scene.world.loss.unknown is not None

    played(tmp_path, play)


def test_the_log_names_origins_and_no_more_of_a_url(tmp_path: Path) -> None:
    """R22"""

    async def play(scene: Scene) -> None:
        await scene.tell(note(1, "https://a.example/path-secret?key=query-secret"))
        await scene.run_for(1)
        (line,) = scene.said
        assert (line["event"], line["origin"]) == ("delivery.made", "https://a.example")
        assert "secret" not in str(scene.said)

    played(tmp_path, play)


def test_an_outbox_that_is_empty_is_not_asked_again_and_again(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        await scene.tell(note(1))
        asked = 0
        ask = scene.store.reader.due_deliveries

        async def counting(*arguments: Any) -> Any:
            nonlocal asked
            asked += 1
            return await ask(*arguments)

        scene.store.reader.due_deliveries = counting  # type: ignore[method-assign,assignment]
        await scene.run_for(DAYS_S)
        assert len(scene.sent) == 1
        assert asked < 6

    played(tmp_path, play)
