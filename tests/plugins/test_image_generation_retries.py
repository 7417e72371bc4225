"""The image-generation lifecycle: retries and idempotency."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.job import Failure
from jobrunner.errors import Refused
from tests.driving import (
    ADMIN,
    EVE,
    NOON,
    World,
    bound,
    code,
    varied,
)
from tests.plugins.image_generation_arranged import (
    AT_REST,
    BAD_REQUEST,
    LIGHTHOUSE,
    TIMEOUT,
    definition,
    failed,
    queued,
    running,
)


@pytest.fixture
def world() -> World:
    return World(definition)


def fail_once(world: World, job_id: str, failure: Failure = TIMEOUT) -> None:
    """One run that ends badly, in the house."""
    world.start(job_id)
    world.ended(job_id, "failed", failure)


def test_round_trip_counts_then_compares() -> None:
    """I6 I8 I29-I33: three runs in all. Two failures come back from `failed` after 2 s and 4 s,
    the third goes on to `dead_letter` in its own commit, and only then is the credit released."""
    world = World(bound(definition))
    job_id = queued(world)
    for retry_count, wait_ms in ((1, 2000), (2, 4000)):
        fail_once(world, job_id)
        job = world.jobs[job_id]
        assert (job.status, job.retry_count) == ("failed", retry_count)
        assert job.next_attempt_at == world.now + wait_ms
        assert (world.balance(), world.held(), job.credits) == (24, 1, "held")
        assert job.failure_message == TIMEOUT.message
        assert code(world.fire(job_id, "retry")) == "moved"
        job = world.jobs[job_id]
        assert (job.status, job.next_attempt_at, job.timers) == ("queued", None, ())
    version = world.jobs[job_id].version
    fail_once(world, job_id)
    job = world.jobs[job_id]
    assert (job.status, job.retry_count, job.version) == ("dead_letter", 3, version + 2)
    assert [hop.to_status for _, at, hop in world.hops if at == job.version] == [
        "failed",
        "dead_letter",
    ]
    assert world.path(job_id).count("running") == 3
    assert world.money(job_id) == ["hold", "release"]
    assert (world.balance(), world.held()) == (25, 0)


def test_last_hop_says_why() -> None:
    """I33 I41: `exhausted` is on the review list."""
    world = World(bound(definition))
    job_id = queued(world)
    for _ in range(2):
        fail_once(world, job_id)
        world.fire(job_id, "retry")
    fail_once(world, job_id)
    assert world.hops[-1][2].reason == "exhausted"
    ((_, letter),) = world.dead_letters
    assert (letter.reason, letter.hidden) == ("exhausted", False)
    assert letter.failure.code == "STAGE_TIMEOUT"


@pytest.mark.parametrize("how", ["stage", "callback"])
def test_permanent_failure_skips_the_remaining_runs(how: str) -> None:
    """I9 I33: two hops in one commit, the credit back."""
    world = World(definition if how == "callback" else bound(definition))
    job_id = queued(world)
    if how == "stage":
        fail_once(world, job_id, BAD_REQUEST)
    else:
        world.claim(job_id)
        world.callback(job_id, "e1", "failed", failure_message="says 400", retryable=False)
    assert world.path(job_id) == ["queued", "running", "failed", "dead_letter"]
    assert world.hops[-1][2].reason == "permanent"
    assert {at for _, at, _ in world.hops[-2:]} == {world.jobs[job_id].version}
    assert (world.balance(), world.held()) == (25, 0)


@pytest.mark.parametrize(
    ("failures", "jitter", "expected_ms"),
    [(1, 0.5, 2000), (1, 0.0, 1800), (2, 0.5, 4000), (7, 0.5, 60_000), (7, 1.0, 66_000)],
)
def test_backoff_doubles_up_to_a_minute(failures: int, jitter: float, expected_ms: int) -> None:
    """I31: min(60 s, 2 s doubled) and a tenth up or down."""
    states = tuple(
        replace(state, stage={"*": "test.stage"}, retry=replace(state.retry, max=99))
        if state.retry
        else state
        for state in definition.workflow.states
    )
    world = World(varied(definition, states=states))
    world.jitter = jitter
    job_id = queued(world)
    for n in range(failures):
        if n:
            world.fire(job_id, "retry")
        fail_once(world, job_id)
    job = world.jobs[job_id]
    assert job.next_attempt_at is not None
    assert job.next_attempt_at - world.now == expected_ms


def test_provider_may_ask_for_more_time() -> None:
    """I31: a Retry-After beats a shorter backoff."""
    world = World(bound(definition))
    job_id = queued(world)
    fail_once(world, job_id, Failure("RATE_LIMITED", "slow down", retry_after_s=90))
    assert world.jobs[job_id].next_attempt_at == world.now + 90_000


def test_stage_has_two_minutes() -> None:
    """I29: a run that takes longer has failed, retryably."""
    world = World(bound(definition))
    job_id = queued(world)
    world.start(job_id)
    began = world.now
    world.fire(job_id, "limit")
    job = world.jobs[job_id]
    assert (job.status, job.retry_count, job.failure_code) == ("failed", 1, "STAGE_TIMEOUT")
    assert world.now - began >= 120_000


@pytest.mark.parametrize("purpose", ["deadline", "lease"])
def test_clocks_of_an_outside_worker_are_failures(world: World, purpose: str) -> None:
    """I29: whoever claimed it and falls silent, or takes too long, has failed retryably."""
    job_id = running(world)
    world.fire(job_id, purpose)
    job = world.jobs[job_id]
    assert (job.status, job.retry_count) == ("failed", 1)
    assert job.failure_code in ("STAGE_TIMEOUT", "HEARTBEAT_LOST")
    assert job.next_attempt_at is not None


def test_failure_reports_need_a_message(world: World) -> None:
    """I6: 400, nothing changed."""
    job_id = running(world)
    said = world.callback(job_id, "e1", "failed")
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)


def test_operator_takes_both_ways_out_of_failed(world: World) -> None:
    """I8 I9: `now` and `give up`, with the timer gone and the money right."""
    now, never = failed(world), failed_other(world)
    assert code(world.move(now, "queued", ADMIN)) == "moved"
    assert world.jobs[now].timers == ()
    assert world.money(now) == ["hold"]
    assert code(world.move(never, "dead_letter", ADMIN)) == "moved"
    assert world.money(never) == ["hold", "release"]
    assert world.jobs[never].failure_message == "the provider says 500"


def failed_other(world: World) -> str:
    job_id = world.born(params={"prompt": "another lighthouse"})
    world.claim(job_id)
    world.callback(job_id, "e1", "failed", failure_message="the provider says 500")
    return job_id


def test_same_minute_is_the_same_job(world: World) -> None:
    """I17 I37 I38 I40: a repeat within the minute, defaults spelled out or not, costs nothing."""
    job_id = queued(world)
    again = world.submit(params={**LIGHTHOUSE, "size": "1024x1024", "seed": None})
    assert isinstance(again, NoOp)
    assert (again.name, again.snapshot.id) == ("replayed", job_id)
    assert again.answer == {"replayed": True}
    assert (world.balance(), len(world.jobs)) == (24, 1)


@pytest.mark.parametrize(
    "other",
    [
        {"params": {"prompt": "a lighthouse at dusk "}},
        {"params": {**LIGHTHOUSE, "seed": 7}},
        {"params": LIGHTHOUSE, "actor": EVE},
        {"params": LIGHTHOUSE, "later": 60_000},
    ],
    ids=["prompt", "params", "user", "minute"],
)
def test_each_part_of_the_key_counts(world: World, other: dict[str, Any]) -> None:
    """I37: user, prompt as sent, params, minute."""
    queued(world)
    world.now += other.pop("later", 0)
    assert code(world.submit(**other)) == "moved"
    assert len(world.jobs) == 2


def test_the_minute_is_floored(world: World) -> None:
    """I37: first and last moment of a minute are one, the next moment is another."""
    world.now = NOON - 10
    first = queued(world)
    world.now = NOON + 59_980
    assert code(world.submit(params=LIGHTHOUSE)) == "replayed"
    world.now = NOON + 59_990
    second = world.born(params=LIGHTHOUSE)
    assert first != second


def test_order_of_params_does_not_count(world: World) -> None:
    """I37: keys are sorted before they are hashed."""
    world.born(params={**LIGHTHOUSE, "options": {"a": 1, "b": 2}})
    again = world.submit(params={"options": {"b": 2, "a": 1}, **LIGHTHOUSE})
    assert code(again) == "replayed"


@pytest.mark.parametrize("status", ["queued", "running", "completed", "rejected", "dead_letter"])
def test_known_key_in_every_status_but_failed(world: World, status: str) -> None:
    """I38"""
    job_id = AT_REST[status](world)
    said = world.submit(params=LIGHTHOUSE)
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job_id


def test_key_comes_before_the_other_guards() -> None:
    """I17 I40: the repeat of the submission that took the last credit gets its job, also under
    drain and when its prompt would no longer be taken."""
    world = World(definition, balance=1)
    job_id = queued(world)
    world.definition = varied(definition, settings={"blocked_words": ["lighthouse"]})
    said = world.submit(params=LIGHTHOUSE, draining=True, overloaded=True)
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job_id
    assert code(world.submit(params={"prompt": "other"}, draining=True)) == "DRAINING"


def test_failed_job_is_superseded() -> None:
    """I39 I40: with one credit in all, the old job's is released before the new one is held; the
    old job ends, its timer is gone, and the key leads to the new job from then on."""
    world = World(definition, balance=1)
    old = failed(world)
    said = world.submit(params=LIGHTHOUSE)
    assert isinstance(said, Decision)
    (ended,) = said.also
    assert (ended.after.id, ended.after.status) == (old, "dead_letter")
    assert ended.hops[0].reason == "superseded"
    assert not ended.after.timers
    assert world.money(old) == ["hold", "release"]
    assert world.money(said.after.id) == ["hold"]
    assert (world.balance(), world.held()) == (0, 1)
    ((_, letter),) = world.dead_letters
    assert (letter.reason, letter.hidden) == ("superseded", True)
    assert [row.takes_from for row in said.keys] == [old]
    again = world.submit(params=LIGHTHOUSE)
    assert isinstance(again, NoOp)
    assert again.snapshot.id == said.after.id


def test_refused_successor_leaves_the_old_job_alone() -> None:
    """I19 I39: when the new submission is refused, nothing of the old one has moved."""
    world = World(definition)
    old = failed(world)
    before = world.jobs[old]
    world.definition = varied(definition, settings={"blocked_words": ["lighthouse"]})
    assert code(world.submit(params=LIGHTHOUSE)) == "PROMPT_BLOCKED"
    assert world.jobs[old] is before
    assert world.money(old) == ["hold"]


def test_client_key_instead_of_the_derived_one(world: World) -> None:
    """I37 I38: with a key of its own a client decides what is the same; another body under it is
    still the old job, and said to be another."""
    first = world.born(params=LIGHTHOUSE, key="k1")
    second = world.born(params=LIGHTHOUSE, key="k2")
    third = world.born(params=LIGHTHOUSE)
    assert len({first, second, third}) == 3
    world.now += 3_600_000
    assert code(world.submit(params=LIGHTHOUSE, key="k1")) == "replayed"
    other = world.submit(params={"prompt": "something else"}, key="k1")
    assert isinstance(other, NoOp)
    assert other.snapshot.id == first
    assert other.answer["idempotency_mismatch"] is True
    assert code(world.submit(params=LIGHTHOUSE, key="k1", actor=EVE)) == "moved"


def test_key_parts_are_stored_readably(world: World) -> None:
    """I37: what the key was made of can be read and compared."""
    said = world.submit(params=LIGHTHOUSE)
    assert isinstance(said, Decision)
    parts = msgspec.json.decode(said.keys[0].parts)
    others: dict[str, Any] = {"model": "default", "options": {}, "seed": None, "size": "1024x1024"}
    assert parts[-5:] == [
        "image-generation/1",
        "ada",
        LIGHTHOUSE["prompt"],
        others,
        NOON // 60_000,
    ]
