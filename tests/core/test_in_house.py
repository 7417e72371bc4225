"""Attempts of stages in the house: slots, retries, crashes, parking, late results, clocks.

Shown on lifecycles that are nobody's but this room's (``workshop``), so that nothing here follows
from a wish of one of the shipped five.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.attempts import backoff_s
from jobrunner.core.decision import Decision, StartStage, StopStage
from jobrunner.core.declaration.workflow import EXTERNAL, Retry
from jobrunner.core.job import STAGE, Failure
from jobrunner.core.messages import (
    Answered,
    Beat,
    Ended,
    Fired,
    Keep,
    Recovered,
    Stop,
)
from tests.core.workshop import (
    AT,
    BROKEN,
    FOR_GOOD,
    HOUR_S,
    LIMIT_S,
    PIECES,
    RELAY,
    SILENCE_S,
    WORKSHOP,
    cutting,
    effects,
    fail_on,
    gluing,
    painting,
    queued,
    rebound,
)
from tests.driving import ADMIN, WORKER, World, code, varied


@pytest.fixture
def shop() -> World:
    return World(WORKSHOP)


def test_both_lifecycles_are_sound() -> None:
    assert check(WORKSHOP) == ()
    assert check(RELAY) == ()


# ---------------------------------------------------------------- pick-up


def test_pick_up_leaves_the_line_in_the_commit_that_starts(shop: World) -> None:
    """I3 I20 I22 C3 C6 P2 P28: status, attempt, lock and the order to start are one decision."""
    job_id = queued(shop)
    waiting = shop.jobs[job_id]
    assert (waiting.line_at, waiting.attempt, waiting.locks) == (waiting.updated_at, None, ())
    said = shop.start(job_id)
    job = shop.jobs[job_id]
    assert isinstance(said, Decision)
    assert (job.status, job.version) == ("cutting", waiting.version + 1)
    assert job.attempt is not None
    assert (job.attempt.status, job.attempt.holder, job.attempt.number) == ("running", "stage", 1)
    assert said.effects == (StartStage(job.attempt),)
    assert (job.line_at, job.started_at, job.heartbeat_at) == (None, job.updated_at, job.updated_at)
    assert [lock.run_id for lock in job.locks] == [job.run_id]


def test_second_slot_for_the_same_job_is_declined(shop: World) -> None:
    """I12 S27 S36: whoever comes second finds nobody in line."""
    job_id = cutting(shop)
    before = shop.jobs[job_id]
    assert code(shop.start(job_id)) == "not_in_line"
    assert code(shop.claim(job_id)) == "JOB_ALREADY_RUNNING"
    assert shop.jobs[job_id] is before


def test_guard_is_asked_again_at_pick_up(shop: World) -> None:
    """I4: what was listed meanwhile is walked around at once, and nothing is started."""
    job_id = queued(shop, wood="teak")
    shop.definition = varied(WORKSHOP, settings={"banned": ["teak"]})
    assert code(shop.start(job_id)) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.line_at, job.attempt) == ("refused", None, None)
    assert (job.failure_code, shop.money(job_id)) == ("WOOD_BANNED", ["hold", "capture"])
    assert not shop.effects
    assert [record.event for record in shop.audited(job_id)] == ["WOOD_BLOCKED"]


def test_line_that_nobody_serves_ends(shop: World) -> None:
    """C7: a deadline of the line leads out of it, and the hold comes back."""
    job_id = queued(shop)
    timer = shop.jobs[job_id].timer("deadline")
    assert timer is not None
    assert timer.due_at == shop.jobs[job_id].entered_at + HOUR_S * 1000
    assert code(shop.fire(job_id, "deadline")) == "moved"
    assert (shop.jobs[job_id].status, shop.held()) == ("failed", 0)
    assert shop.jobs[job_id].line_at is None


# ---------------------------------------------------------------- the three places of retries


@pytest.mark.parametrize(
    ("state", "attempts", "path"),
    [
        ("cutting", 3, ["resting", "queued", "cutting", "resting", "queued", "cutting", "resting"]),
        ("gluing", 3, ["gluing", "gluing"]),
        ("painting", 4, []),
    ],
)
def test_budget_is_exact(shop: World, state: str, attempts: int, path: list[str]) -> None:
    """I29-I33 S31 H24 H25 C30 C31: `max` attempts in all, in each of the three places, then the
    end of the path in the commit of the last failure."""
    job_id = AT[state](shop)
    come = len(shop.path(job_id))
    for number in range(1, attempts):
        fail_on(shop, job_id)
        job = shop.jobs[job_id]
        assert job.kind != "settled", f"given up after {number} of {attempts}"
        assert job.retry_count == number
    fail_on(shop, job_id)
    job = shop.jobs[job_id]
    assert (job.status, job.retry_count) == ("failed", attempts)
    assert shop.path(job_id)[come:] == [*path, "failed"]
    tried = [one for one in shop.tried(job_id) if one.state == state]
    assert [one.number for one in tried] == list(range(1, attempts + 1))
    assert {(one.status, one.outcome) for one in tried} == {("ended", "failed")}
    assert (job.failure_code, job.failed_stage) == (BROKEN.code, state)
    assert [(letter.reason, one) for one, letter in shop.dead_letters] == [("exhausted", job_id)]
    assert (shop.held(), shop.balance()) == (0, 25)


@pytest.mark.parametrize("state", AT)
def test_permanent_failure_spends_no_budget(shop: World, state: str) -> None:
    """I9 I33 S31 C32: what cannot succeed is not repeated."""
    job_id = AT[state](shop)
    assert code(shop.ended(job_id, "failed", FOR_GOOD)) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.failure_code) == ("failed", FOR_GOOD.code)
    assert [letter.reason for _, letter in shop.dead_letters] == ["permanent"]


@pytest.mark.parametrize(
    ("state", "jitter", "waits"),
    [
        ("cutting", 0.5, [2, 5]),
        ("cutting", 0.0, [1, 2.5]),
        ("cutting", 1.0, [3, 7.5]),
        ("gluing", 0.5, [1, 2]),
        ("gluing", 0.0, [0.9, 1.8]),
        ("painting", 0.9, [1, 2, 3]),
    ],
)
def test_waits_between_attempts(shop: World, state: str, jitter: float, waits: list[float]) -> None:
    """I30 S31 P29 H25: min(cap, base × factor^(n−1)) ± jitter, told in `next_attempt_at`."""
    shop.jitter = jitter
    job_id = AT[state](shop)
    for seconds in waits:
        fail_on(shop, job_id)
        job = shop.jobs[job_id]
        due = [timer.due_at for timer in job.timers if timer.purpose in ("retry", "backoff")]
        assert due == [job.updated_at + int(seconds * 1000)]
        assert job.next_attempt_at == due[0]
        assert job.line_at is None, "not in line before its time"
    delays = [line["delay_s"] for line in shop.logged(job_id, "job.retry_scheduled")]
    assert delays == waits


@pytest.mark.parametrize(("asked_s", "waits_s"), [(90, [90, 90, 90]), (0.1, [2, 1, 1])])
def test_provider_may_ask_for_more_time(asked_s: float, waits_s: list[float]) -> None:
    """C31: Retry-After raises the wait, and never lowers it."""
    for arrange, seconds in zip(AT.values(), waits_s, strict=True):
        world = World(WORKSHOP)
        job_id = arrange(world)
        world.ended(job_id, "failed", replace(BROKEN, retry_after_s=asked_s))
        job = world.jobs[job_id]
        assert job.next_attempt_at == job.updated_at + seconds * 1000


retries = st.builds(
    Retry,
    mode=st.just("inside"),
    failed=st.just(("failed",)),
    base_s=st.floats(0, 100),
    factor=st.floats(1, 10),
    cap_s=st.floats(0, 1000),
    jitter=st.floats(0, 1),
)


@given(retries, st.integers(1, 10_000), st.floats(0, 1, exclude_max=True), st.floats(0, 5000))
def test_backoff_stays_within_its_bounds(
    retry: Retry, failures: int, jitter: float, asked_s: float
) -> None:
    delay_s = backoff_s(retry, failures, jitter, asked_s)
    assert asked_s <= delay_s <= max(retry.cap_s * (1 + retry.jitter), asked_s)
    plain_s = backoff_s(retry, failures, 0.5)
    assert plain_s <= backoff_s(retry, failures + 1, 0.5)
    assert (
        abs(backoff_s(retry, failures, jitter) - plain_s) <= plain_s * retry.jitter * 1.0001 + 1e-9
    )


def test_explicit_retry_has_a_fresh_budget(shop: World) -> None:
    """S8 S32 C13 C39: a new run, counted from one; the attempts before it stay on record."""
    job_id = gluing(shop)
    for _ in range(3):
        fail_on(shop, job_id)
    first = shop.jobs[job_id]
    assert code(shop.do(job_id, "retry")) == "moved"
    job = shop.jobs[job_id]
    assert job.run_id != first.run_id
    assert (job.attempts, job.retry_count, job.failure_code) == (0, 0, None)
    shop.start(job_id)
    assert shop.tried(job_id)[-1].serial == len(shop.tried(job_id)) == 5
    assert [one.number for one in shop.tried(job_id)] == [1, 1, 2, 3, 1]
    assert shop.money(job_id) == ["hold", "release", "hold"]


def test_round_trip_needs_no_words(shop: World) -> None:
    """A worker may report a failure by moving the job, and say nothing about it."""
    job_id = shop.born("kit")
    shop.do(job_id, "go")
    assert code(shop.claim(job_id)) == "moved"
    assert code(shop.callback(job_id, "e1", "resting")) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.retry_count) == ("resting", 1)
    assert job.timer("retry") is not None


def test_last_failure_by_callback_is_one_commit(shop: World) -> None:
    """H24 H25 H48: the self edge and the way out share a version, and no attempt is opened that
    could never run."""
    shop.definition = rebound(WORKSHOP, gluing=EXTERNAL)
    job_id = cutting(shop)
    shop.ended(job_id, "done", **PIECES)
    assert shop.jobs[job_id].status == "cut", "the next stage is not ours"
    why: dict[str, Any] = {"failure_code": "GLUE_DRY", "failure_message": "the glue is dry"}
    shop.callback(job_id, "e0", "gluing")
    for number in (1, 2):
        assert code(shop.callback(job_id, f"e{number}", "gluing", **why)) == "moved"
    last = shop.jobs[job_id].version
    assert code(shop.callback(job_id, "e3", "gluing", **why)) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.version, job.failure_code) == ("failed", last + 1, "GLUE_DRY")
    assert shop.path(job_id)[-2:] == ["gluing", "failed"]
    assert [one.number for one in shop.tried(job_id) if one.state == "gluing"] == [1, 2, 3]


# ---------------------------------------------------------------- crashes and drains


@pytest.mark.parametrize("state", AT)
@pytest.mark.parametrize("how", ["crash", "drain"])
def test_interruption_spends_no_retry(shop: World, state: str, how: str) -> None:
    """S31 H24 P28: the job goes on in place with the next attempt; no edge, no budget."""
    job_id = AT[state](shop)
    come = shop.path(job_id)
    for _ in range(10):
        if how == "crash":
            assert code(shop.tell(job_id, Recovered())) == "noted"
        else:
            assert code(shop.ended(job_id, "interrupted")) == "noted"
        job = shop.jobs[job_id]
        assert (job.status, job.retry_count) == (state, 0)
        assert (job.line_at, job.next_attempt_at) == (job.updated_at, None)
        assert code(shop.start(job_id)) == "noted"
    assert shop.path(job_id) == come
    tried = [one for one in shop.tried(job_id) if one.state == state]
    assert [one.outcome for one in tried] == ["interrupted"] * 10 + [""]
    assert [one.number for one in tried] == list(range(1, 12))


@pytest.mark.parametrize("state", AT)
def test_third_lonely_death_is_the_stage_s(shop: World, state: str) -> None:
    """A stage that takes the service down with it is stopped, whatever its budget."""
    job_id = AT[state](shop)
    for _ in range(2):
        shop.tell(job_id, Recovered(alone=True))
        assert shop.jobs[job_id].status == state
        shop.start(job_id)
    shop.tell(job_id, Recovered(alone=False))
    shop.start(job_id)
    assert shop.jobs[job_id].status == state, "in company nobody is to blame"
    assert code(shop.tell(job_id, Recovered(alone=True))) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.failure_code) == ("failed", "STAGE_KILLED_SERVICE")
    assert job.attempt is None
    assert shop.held() == 0


def test_attempt_that_ends_clears_the_deaths_before_it(shop: World) -> None:
    """Two deaths under one stage and a third under another are not three under one."""
    job_id = cutting(shop)
    for _ in range(2):
        shop.tell(job_id, Recovered(alone=True))
        shop.start(job_id)
    gluing(shop, job_id)
    shop.tell(job_id, Recovered(alone=True))
    assert (shop.jobs[job_id].status, shop.jobs[job_id].deaths) == ("gluing", 1)


@pytest.mark.parametrize("arrange", ["in line", "backing off", "parked", "outside", "ended"])
def test_what_did_not_run_did_not_die(shop: World, arrange: str) -> None:
    """Only attempts that ran here died with the process."""
    job_id = shop.born("kit") if arrange == "outside" else painting(shop)
    match arrange:
        case "in line":
            shop.ended(job_id, "interrupted")
        case "backing off":
            shop.ended(job_id, "failed", BROKEN)
        case "parked":
            shop.ended(job_id, "parked", awaits="call-1")
        case "outside":
            shop.do(job_id, "go")
            shop.claim(job_id)
        case "ended":
            shop.ended(job_id, "done")
    before = shop.jobs[job_id]
    assert code(shop.tell(job_id, Recovered(alone=True))) == "nothing_to_recover"
    assert shop.jobs[job_id] is before


# ---------------------------------------------------------------- parking


def test_parked_attempt_needs_nobody(shop: World) -> None:
    """C27: no clock of running work, no second attempt; only a deadline is left."""
    job_id = cutting(shop)
    assert code(shop.ended(job_id, "parked", awaits="call-1", await_s=45)) == "noted"
    job = shop.jobs[job_id]
    assert job.status == "cutting"
    assert job.attempt is not None
    assert (job.attempt.status, job.attempt.awaits) == ("parked", "call-1")
    assert {timer.purpose: timer.due_at for timer in job.timers} == {
        "deadline": job.updated_at + 45_000
    }
    assert job.deadline_at == job.updated_at + 45_000
    assert job.line_at is None


def test_parked_attempt_without_a_time_waits_as_long_as_its_state(shop: World) -> None:
    """C27 C28"""
    job_id = cutting(shop)
    shop.ended(job_id, "parked", awaits="call-1")
    job = shop.jobs[job_id]
    assert job.deadline_at == job.updated_at + int(2 * LIMIT_S * 1000)


def test_nobody_parks_for_ever() -> None:
    """A stage that gives no time, in a state without a deadline, has its own time limit."""
    states = tuple(replace(state, deadline=None) for state in WORKSHOP.workflow.states)
    shop = World(varied(WORKSHOP, states=states))
    job_id = cutting(shop)
    shop.ended(job_id, "parked", awaits="call-1")
    job = shop.jobs[job_id]
    assert job.deadline_at == job.updated_at + int(LIMIT_S * 1000)


def test_callback_that_never_comes(shop: World) -> None:
    """C11 C12 C28: along the deadline's path where there is one, else the attempt has failed."""
    for state, ends, outcome in (("painting", "expired", "failed"), ("gluing", "gluing", "failed")):
        world = World(WORKSHOP)
        job_id = AT[state](world)
        world.ended(job_id, "parked", awaits="call-1", await_s=5)
        assert code(world.fire(job_id, "deadline")) == "moved"
        job = world.jobs[job_id]
        assert job.status == ends
        parked = [one for one in world.tried(job_id) if one.awaits]
        assert [(one.outcome, one.failure.code) for one in parked if one.failure] == [
            (outcome, "STAGE_TIMEOUT")
        ]
    assert shop.writes == 0


def test_callback_to_a_parked_attempt(shop: World) -> None:
    """C27: a report from outside is taken while the attempt is parked, and not while it runs."""
    job_id = painting(shop)
    assert code(shop.callback(job_id, "e1", "done")) == "JOB_ALREADY_RUNNING"
    shop.ended(job_id, "parked", awaits="call-1")
    assert code(shop.callback(job_id, "e1", "done")) == "moved"
    assert shop.tried(job_id)[-1].outcome == "done"
    assert not [one for one in effects(shop) if isinstance(one, StopStage)]


@pytest.mark.parametrize("early", [False, True])
def test_awaited_answer_brings_the_same_attempt_back(shop: World, early: bool) -> None:
    """C27: in line for a slot again, with what it had kept and was told, and no clock of work; an
    answer that came before the stage parked is not lost."""
    job_id = cutting(shop)
    serial = shop.jobs[job_id].serial
    answer = Answered(WORKER, "call-1", {"url": "https://provider.example/1"})
    assert code(shop.tell(job_id, Keep(serial, "call", "call-1"))) == "noted"
    if early:
        shop.tell(job_id, answer)
        assert code(shop.ended(job_id, "parked", awaits="call-1")) == "noted"
    else:
        shop.ended(job_id, "parked", awaits="call-1")
        assert code(shop.tell(job_id, Answered(WORKER, "call-2"))) == "CALLBACK_UNEXPECTED"
        assert code(shop.tell(job_id, answer)) == "noted"
    assert code(shop.tell(job_id, answer)) == "answered"
    job = shop.jobs[job_id]
    assert job.attempt is not None
    assert (job.attempt.status, job.attempt.serial, job.attempt.number) == ("due", serial, 1)
    assert (job.attempt.kept, job.attempt.answers) == ({"call": "call-1"}, {"call-1": answer.value})
    assert (job.timers, job.line_at) == ((), job.updated_at)
    assert code(shop.start(job_id)) == "noted"
    assert {timer.purpose for timer in shop.jobs[job_id].timers} == {"limit", "heartbeat"}
    assert code(shop.ended(job_id, "done", **PIECES)) == "moved"
    assert shop.tried(job_id)[0].outcome == "done"


# ---------------------------------------------------------------- late results


@pytest.mark.parametrize("outcome", ["done", "failed", "parked", "interrupted", "rejected"])
@pytest.mark.parametrize("after", ["retry", "interruption", "cancel", "parked", "next state"])
def test_late_result_is_fenced(shop: World, after: str, outcome: str) -> None:
    """C15 H34 H35 P26: what an attempt says after it was left has no effect at all."""
    job_id = painting(shop) if after != "next state" else gluing(shop)
    attempt = shop.jobs[job_id].attempt
    assert attempt is not None
    match after:
        case "retry":
            shop.fire(job_id, "limit")
            shop.fire(job_id, "backoff")
            shop.start(job_id)
        case "interruption":
            shop.tell(job_id, Recovered())
            shop.start(job_id)
        case "cancel":
            shop.do(job_id, "cancel")
        case "parked":
            shop.ended(job_id, "parked", awaits="call-1")
        case "next state":
            shop.ended(job_id, "done")
            shop.start(job_id)
    before, writes = shop.jobs[job_id], shop.writes
    late = Ended(attempt.serial, outcome, failure=BROKEN)
    assert code(shop.tell(job_id, late)) == "late_result"
    assert (shop.jobs[job_id], shop.writes) == (before, writes)


@pytest.mark.parametrize("how", ["cancel", "limit", "stop"])
def test_work_is_told_to_stop(shop: World, how: str) -> None:
    """C11 C29 H34: whoever works here is stopped in the commit that leaves."""
    job_id = painting(shop)
    attempt = shop.jobs[job_id].attempt
    assert attempt is not None
    match how:
        case "cancel":
            shop.do(job_id, "cancel")
        case "limit":
            shop.fire(job_id, "limit")
        case "stop":
            shop.tell(job_id, Stop(ADMIN))
    assert effects(shop)[-1] == StopStage(attempt.serial)


def test_attempt_that_ended_by_itself_is_not_stopped(shop: World) -> None:
    job_id = painting(shop)
    for outcome in ("failed", "interrupted", "done"):
        shop.ended(job_id, outcome, BROKEN if outcome == "failed" else None)
        if outcome != "done":
            fire_all(shop, job_id)
            shop.start(job_id)
    assert not [one for one in effects(shop) if isinstance(one, StopStage)]


def fire_all(world: World, job_id: str) -> None:
    for timer in world.jobs[job_id].timers:
        world.fire(job_id, timer.purpose)


# ---------------------------------------------------------------- clocks


def test_limit_counts_from_the_start_of_the_attempt(shop: World) -> None:
    """I6 C10: never while it waits for its slot; and signs of life do not stretch it."""
    job_id = queued(shop)
    assert shop.jobs[job_id].timer("limit") is None
    shop.now += 1_000_000
    shop.start(job_id)
    job = shop.jobs[job_id]
    limit = job.timer("limit")
    assert limit is not None
    assert limit.due_at == job.updated_at + int(LIMIT_S * 1000)
    shop.now += 10_000
    shop.tell(job_id, Beat(STAGE, 50))
    assert shop.jobs[job_id].timer("limit") == limit
    assert code(shop.fire(job_id, "limit")) == "moved"
    assert shop.tried(job_id)[0].failure == Failure(
        "STAGE_TIMEOUT", "the stage of cutting took longer than it may", "cutting"
    )


def test_silence_ends_an_attempt(shop: World) -> None:
    """I22 I6: each sign of life puts the end of patience off; then the heartbeat is lost."""
    job_id = cutting(shop)
    for _ in range(5):
        shop.now += 15_000
        assert code(shop.tell(job_id, Beat(STAGE))) == "noted"
        silence = shop.jobs[job_id].timer("heartbeat")
        assert silence is not None
        assert silence.due_at == shop.now + int(SILENCE_S * 1000)
        assert shop.jobs[job_id].heartbeat_at == shop.now
    assert code(shop.fire(job_id, "heartbeat")) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.retry_count) == ("resting", 1)
    failure = shop.tried(job_id)[0].failure
    assert failure is not None
    assert (failure.code, failure.retryable) == ("HEARTBEAT_LOST", True)


def test_signs_of_life_are_no_versions(shop: World) -> None:
    """I22: a caller who looked at the job a second ago is not told that it is stale."""
    job_id = painting(shop)
    before = shop.jobs[job_id]
    for beat in range(1, 4):
        shop.tell(job_id, Beat(STAGE, 10 * beat, f"coat {beat}"))
        job = shop.jobs[job_id]
        assert (job.version, job.beat) == (before.version, beat)
        assert (job.progress, job.progress_message) == (10 * beat, f"coat {beat}")
    shop.ended(job_id, "failed", BROKEN)
    assert (shop.jobs[job_id].version, shop.jobs[job_id].beat) == (before.version + 1, 0)


def test_timers_fire_once_and_not_early(shop: World) -> None:
    """I32: a timer of a state that was left, a moved one and an early one are no-ops."""
    job_id = painting(shop)
    limit = shop.jobs[job_id].timer("limit")
    assert limit is not None
    before = shop.jobs[job_id]
    assert code(shop.tell(job_id, Fired("limit", limit.due_at))) == "timer_gone"
    assert code(shop.tell(job_id, Fired("lease", limit.due_at))) == "timer_gone"
    assert shop.jobs[job_id] is before
    assert code(shop.fire(job_id, "limit")) == "noted"
    after = shop.jobs[job_id]
    assert code(shop.tell(job_id, Fired("limit", limit.due_at))) == "timer_gone"
    assert shop.jobs[job_id] is after


def test_silent_outside_worker_loses_its_claim(shop: World) -> None:
    """P28 S36: a minute without a word; any progress call is a word."""
    job_id = shop.born("kit")
    shop.do(job_id, "go")
    said = shop.claim(job_id)
    assert isinstance(said, Decision)
    assert said.answer["lease_until"] == said.after.updated_at + 60_000
    shop.now += 50_000
    shop.tell(job_id, Beat(WORKER))
    lease = shop.jobs[job_id].timer("lease")
    assert lease is not None
    assert lease.due_at == shop.now + 60_000
    shop.fire(job_id, "lease")
    failure = shop.tried(job_id)[0].failure
    assert failure is not None
    assert (shop.jobs[job_id].status, failure.code) == ("resting", "HEARTBEAT_LOST")


# ---------------------------------------------------------------- outcomes that do not fit


def test_done_without_the_goods_is_a_permanent_failure(shop: World) -> None:
    """I5 I24: the stage's word is taken only if the guards agree; nothing is tried again."""
    job_id = cutting(shop)
    assert code(shop.ended(job_id, "done")) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.failure_code) == ("failed", "PIECES_MISSING")
    (attempt,) = shop.tried(job_id)
    assert (attempt.outcome, attempt.failure and attempt.failure.code) == (
        "failed",
        "PIECES_MISSING",
    )


def test_rejected(shop: World) -> None:
    """I7 I34-I36: its own way out where the state has one, else a permanent failure."""
    unsafe = Failure("UNSAFE", "the provider will not have it")
    job_id = cutting(shop)
    shop.ended(job_id, "rejected", unsafe)
    job = shop.jobs[job_id]
    assert (job.status, job.failure_code, job.credits) == ("refused", "UNSAFE", "captured")
    world = World(WORKSHOP)
    job_id = gluing(world)
    world.ended(job_id, "rejected", unsafe)
    assert (world.jobs[job_id].status, world.jobs[job_id].failure_code) == ("failed", "UNSAFE")


def test_partial(shop: World) -> None:
    """P4 P23: an end of its own where the state has one, else a stage that talks nonsense."""
    job_id = painting(shop)
    shop.ended(job_id, "partial", Failure("COLOUR", "two legs are bare"), result={"legs": 2})
    job = shop.jobs[job_id]
    assert (job.status, job.failure_message, job.result) == (
        "partial",
        "two legs are bare",
        {"legs": 2},
    )
    world = World(WORKSHOP)
    job_id = gluing(world)
    world.ended(job_id, "partial")
    assert world.jobs[job_id].failure_code == "STAGE_CRASHED"


def test_money_is_short_when_the_work_is_done() -> None:
    """A refusal for money leaves no half of the edge behind: the attempt failed, and says so."""
    edges = tuple(
        replace(edge, money="charge" if edge.target == "done" else None)
        for edge in WORKSHOP.workflow.edges
    )
    shop = World(varied(WORKSHOP, edges=edges), balance=2)
    job_id = painting(shop)
    assert code(shop.ended(job_id, "done")) == "moved"
    job, attempt = shop.jobs[job_id], shop.tried(job_id)[-1]
    assert (job.status, job.failure_code) == ("failed", "INSUFFICIENT_CREDITS")
    assert attempt.failure is not None
    assert (attempt.outcome, attempt.failure.code) == ("failed", "INSUFFICIENT_CREDITS")
    assert (job.credits, shop.balance()) == ("none", 2)
