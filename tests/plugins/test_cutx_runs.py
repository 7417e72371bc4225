"""The cutx lifecycle: work and money."""

from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.workflow import Deadline
from jobrunner.errors import Refused
from tests.driving import (
    ADA,
    ADMIN,
    EVE,
    Arrange,
    World,
    bound,
    code,
    picture,
    varied,
)
from tests.plugins.cutx_arranged import (
    ABOUT,
    AT_REST,
    BAD_INPUT,
    FINAL,
    NETWORK,
    STATUSES,
    completed,
    definition,
    failed,
    pending,
    processing,
    queued,
)


@pytest.fixture
def world() -> World:
    return World(definition, balance=100)


@pytest.fixture
def house() -> World:
    """A world with a stage of its own for every type."""
    return World(bound(definition), balance=100)


def test_sync_job_is_picked_up_where_it_was_born(house: World) -> None:
    """C3 C22 C23 C25 C47: pending, processing, completed, with the output in the last decision
    and told of in its log line."""
    job_id = house.born("copy", ABOUT)
    assert house.jobs[job_id].line_at is not None
    house.start(job_id)
    said = house.ended(job_id, "done", result={"variants": ["a"]}, assets=(picture(),))
    assert isinstance(said, Decision)
    job = said.after
    assert house.path(job_id) == ["pending", "processing", "completed"]
    assert (job.progress, job.result, job.credits) == (100, {"variants": ["a"]}, "charged")
    assert house.balance() == 99
    (logged,) = house.logged(job_id, "job.completed")
    assert logged["asset_types"] == {"image": 1}


def test_async_job_waits_inside_processing(house: World) -> None:
    """C6 C24 C26 C27: parked on the provider's id, without changing the status."""
    job_id = house.born("static_ad", ABOUT)
    house.start(job_id)
    house.ended(job_id, "parked", awaits="prediction-1")
    job = house.jobs[job_id]
    assert job.attempt is not None
    assert (job.status, job.attempt.status, job.attempt.awaits) == (
        "processing",
        "parked",
        "prediction-1",
    )
    assert job.deadline_at == house.now + 900_000
    assert house.path(job_id) == ["pending", "queued", "processing"]


def test_completion_needs_an_output(world: World) -> None:
    """C25 C26: a result or an asset, in this report or before."""
    job_id = processing(world)
    before = world.jobs[job_id]
    said = world.callback(job_id, "e1", "completed")
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("RESULT_MISSING", 409)
    assert world.jobs[job_id] is before
    assert code(world.callback(job_id, "e2", "completed", assets=(picture(),))) == "moved"


def test_silence_expires(house: World) -> None:
    """C12 C28: 15 minutes without the callback, refunded, the awaited id forgotten, not retried."""
    job_id = house.born("ugc_video", ABOUT)
    house.start(job_id)
    house.ended(job_id, "parked", awaits="prediction-1")
    house.fire(job_id, "deadline")
    job = house.jobs[job_id]
    assert (job.status, job.attempt, job.timers, job.line_at) == ("expired", None, (), None)
    assert house.money(job_id) == ["charge", "refund"]
    assert house.balance() == 100
    assert job.failure_code == "STAGE_TIMEOUT"


def test_transient_failures_stay_inside(house: World) -> None:
    """C42 C10 C30-C33 C48: three attempts in all, after 1 s and 2 s, and no status shows them; then
    failed, with the message, refunded, on the dead-letter list, logged with the refund."""
    job_id = house.born("copy", ABOUT)
    house.start(job_id)
    for wait_ms in (1000, 2000):
        house.ended(job_id, "failed", NETWORK)
        job = house.jobs[job_id]
        assert job.status == "processing"
        assert job.next_attempt_at == house.now + wait_ms
        house.fire(job_id, "backoff")
        house.start(job_id)
    house.ended(job_id, "failed", NETWORK)
    job = house.jobs[job_id]
    assert house.path(job_id) == ["pending", "processing", "failed"]
    assert (job.attempts, job.failure_code, job.failure_message) == (
        3,
        "NETWORK",
        "connection reset",
    )
    assert house.money(job_id) == ["charge", "refund"]
    assert house.balance() == 100
    ((_, letter),) = house.dead_letters
    assert (letter.reason, letter.failure.message) == ("exhausted", "connection reset")
    (logged,) = house.logged(job_id, "job.failed")
    assert (logged["failure_code"], logged["refund"]) == ("NETWORK", 1)


def test_permanent_failure_ends_at_once(house: World) -> None:
    """C42: bad input is not tried again."""
    job_id = house.born("static_ad", ABOUT)
    house.start(job_id)
    house.ended(job_id, "failed", BAD_INPUT)
    assert house.path(job_id) == ["pending", "queued", "processing", "failed"]
    assert house.balance() == 100


@pytest.mark.parametrize(("jitter", "wait_ms"), [(0.0, 900), (1.0, 1100)])
def test_backoff_varies_by_a_tenth(house: World, jitter: float, wait_ms: int) -> None:
    """C42"""
    house.jitter = jitter
    job_id = house.born("copy", ABOUT)
    house.start(job_id)
    house.ended(job_id, "failed", NETWORK)
    assert house.jobs[job_id].next_attempt_at == house.now + wait_ms


@pytest.mark.parametrize("arrange", [pending, queued, processing])
def test_failing_refunds_from_everywhere(world: World, arrange: Arrange) -> None:
    """C4 C7 C10 C31 C32: told by the workflow at whatever point, with its dead letter."""
    job_id = arrange(world)
    world.callback(job_id, "e1", "failed", failure_message="no stage for this")
    assert (world.jobs[job_id].status, world.balance()) == ("failed", 100)
    assert world.money(job_id) == ["charge", "refund"]
    assert len(world.dead_letters) == 1


@pytest.mark.parametrize("outcome", ["partial", "rejected"])
def test_outcomes_that_cutx_does_not_know(house: World, outcome: str) -> None:
    """C10: they are failures, and permanent."""
    job_id = house.born("copy", ABOUT)
    house.start(job_id)
    house.ended(job_id, outcome, BAD_INPUT)
    assert house.jobs[job_id].status == "failed"


@pytest.mark.parametrize("kind", ["copy", "scrape", "static_ad", "ugc_video", "tts"])
def test_result_that_says_nothing_is_none(world: World, kind: str) -> None:
    """C25 C26: it is not what was paid for, and beside a file it is no result either."""
    about = {"scrape": {"url": "https://example.org"}, "tts": {"text": "Buy this lamp."}}
    job_id = world.born(kind, about.get(kind, ABOUT))
    assert code(world.claim(job_id)) == "moved"
    before = world.jobs[job_id]
    assert code(world.callback(job_id, "e1", "completed", result={})) == "RESULT_MISSING"
    said = world.callback(job_id, "e1", "completed", result={}, assets=(picture(),))
    assert code(said) == "VALIDATION_ERROR"
    assert world.jobs[job_id] is before
    assert code(world.callback(job_id, "e2", "completed", result={"text": "new"})) == "moved"


def test_stage_whose_result_says_nothing_fails(house: World) -> None:
    """C25: and the money goes back."""
    job_id = house.born("copy", ABOUT)
    house.start(job_id)
    house.ended(job_id, "done", result={})
    job = house.jobs[job_id]
    assert (job.status, job.failure_code, house.balance()) == ("failed", "STAGE_CRASHED", 100)


def test_done_without_an_output_fails(house: World) -> None:
    """C25: and the money goes back."""
    job_id = house.born("copy", ABOUT)
    house.start(job_id)
    house.ended(job_id, "done")
    assert (house.jobs[job_id].failure_code, house.balance()) == ("RESULT_MISSING", 100)


def test_stage_has_two_minutes(house: World) -> None:
    """C42: a timeout is transient."""
    job_id = house.born("copy", ABOUT)
    house.start(job_id)
    began = house.now
    house.fire(job_id, "limit")
    assert house.now - began >= 120_000
    assert (house.jobs[job_id].status, house.jobs[job_id].retry_count) == ("processing", 1)


def test_queue_deadline_is_the_operators_to_set() -> None:
    """C7: off unless set; then it leads to `failed`, refunded."""
    assert definition.states["queued"].deadline == Deadline(0, ("failed",))
    states = tuple(
        replace(state, deadline=Deadline(60, ("failed",))) if state.name == "queued" else state
        for state in definition.workflow.states
    )
    world = World(varied(definition, states=states))
    job_id = queued(world)
    world.fire(job_id, "deadline")
    assert (world.jobs[job_id].status, world.balance()) == ("failed", 25)


@pytest.mark.parametrize("status", ["pending", "queued", "processing"])
@pytest.mark.parametrize("actor", [ADA, ADMIN])
def test_cancel_refunds(world: World, status: str, actor: Any) -> None:
    """C5 C8 C11 C29: by owner or admin; a second one is told that it is over."""
    job_id = AT_REST[status](world)
    said = world.do(job_id, "cancel", actor)
    assert isinstance(said, Decision)
    assert (said.after.status, said.status, said.after.attempt) == ("canceled", 200, None)
    assert world.money(job_id) == ["charge", "refund"]
    assert (world.balance(), said.after.timers) == (100, ())
    assert code(world.do(job_id, "cancel", actor)) == "TERMINAL_STATE"
    assert world.balance() == 100


@pytest.mark.parametrize("status", ["completed", "failed", "expired"])
def test_cancel_comes_too_late(world: World, status: str) -> None:
    """C15 C29"""
    job_id = AT_REST[status](world)
    expected = "TERMINAL_STATE" if status == "completed" else "ILLEGAL_TRANSITION"
    assert code(world.do(job_id, "cancel")) == expected


def test_cancel_stops_the_stage(house: World) -> None:
    """C11 C29: whoever works on it is told to stop, and what comes of it later is nothing."""
    job_id = house.born("copy", ABOUT)
    house.start(job_id)
    attempt = house.jobs[job_id].attempt
    assert attempt is not None
    said = house.do(job_id, "cancel")
    assert isinstance(said, Decision)
    assert [type(effect).__name__ for effect in said.effects] == ["StopStage"]


@pytest.mark.parametrize("status", [s for s in STATUSES if s not in ("failed", "expired")])
def test_retry_is_for_what_has_failed(world: World, status: str) -> None:
    """C41"""
    job_id = AT_REST[status](world)
    before = world.jobs[job_id]
    expected = "TERMINAL_STATE" if status in FINAL else "ILLEGAL_TRANSITION"
    assert code(world.do(job_id, "retry", ADMIN)) == expected
    assert world.jobs[job_id] is before


@pytest.mark.parametrize("status", ["failed", "expired"])
def test_retry_charges_again(world: World, status: str) -> None:
    """C13 C14 C39 C40: pending and queued in one commit, a new run, a second charge; the refusal
    of it gives the second charge back too, each once a run."""
    job_id = AT_REST[status](world)
    run_id = world.jobs[job_id].run_id
    assert code(world.do(job_id, "retry", ADA)) == "FORBIDDEN"
    said = world.do(job_id, "retry", ADMIN)
    assert isinstance(said, Decision)
    job = said.after
    assert [hop.to_status for hop in said.hops] == ["pending", "queued"]
    assert (job.status, job.failure_message, job.completed_at) == ("queued", None, None)
    assert job.run_id not in ("", run_id)
    assert (said.status, said.answer["run_id"]) == (200, job.run_id)
    assert world.money(job_id) == ["charge", "refund", "charge"]
    assert world.balance() == 99
    assert world.audited(job_id)[-1].event == "job.retry"
    world.claim(job_id)
    world.callback(job_id, "again", "failed", failure_message="still no")
    assert world.money(job_id) == ["charge", "refund", "charge", "refund"]
    assert world.balance() == 100


def test_retry_needs_credits() -> None:
    """C40: 402, and the job stays where it is."""
    world = World(definition, balance=1)
    job_id = failed(world)
    world.born("copy", ABOUT)
    before = world.jobs[job_id]
    said = world.do(job_id, "retry", ADMIN)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("INSUFFICIENT_CREDITS", 402)
    assert said.extra == {"balance": 0, "required": 1}
    assert world.jobs[job_id] is before


def test_retry_opens_a_fresh_budget(house: World) -> None:
    """C40 C42: three attempts again."""
    job_id = house.born("copy", ABOUT)
    house.start(job_id)
    house.ended(job_id, "failed", BAD_INPUT)
    house.do(job_id, "retry", ADMIN)
    house.start(job_id)
    house.ended(job_id, "failed", NETWORK)
    assert (house.jobs[job_id].status, house.jobs[job_id].retry_count) == ("processing", 1)


def test_goodwill_refund_is_paid_once(world: World) -> None:
    """C32: all of it, by an admin, after `completed`; asking again changes nothing."""
    job_id = completed(world)
    assert world.balance() == 99
    assert code(world.do(job_id, "refund", ADA)) == "FORBIDDEN"
    said = world.do(job_id, "refund", ADMIN)
    assert isinstance(said, Decision)
    assert (said.after.status, said.hops, said.after.credits) == ("completed", (), "refunded")
    assert world.balance() == 100
    again = world.do(job_id, "refund", ADMIN)
    assert isinstance(again, NoOp)
    assert (again.status, again.answer["replayed"]) == (200, True)
    assert world.money(job_id) == ["charge", "refund"]
    assert world.audited(job_id)[-1].event == "job.refund"


@pytest.mark.parametrize("status", ["pending", "queued", "processing"])
def test_goodwill_is_for_what_was_delivered(world: World, status: str) -> None:
    job_id = AT_REST[status](world)
    assert code(world.do(job_id, "refund", ADMIN)) == "ILLEGAL_TRANSITION"


def test_replayed_event_is_absorbed(world: World) -> None:
    """C26 C38: the same callback again is a replay, in the end state too."""
    job_id = processing(world)
    at = world.now
    world.callback(job_id, "e1", "failed", at, failure_message="no")
    ledger = list(world.ledger)
    assert code(world.callback(job_id, "e1", "failed", at, failure_message="no")) == (
        "event_replayed"
    )
    assert code(world.callback(job_id, "e1", "completed", at)) == "EVENT_ID_PAYLOAD_MISMATCH"
    assert world.ledger == ledger


def test_result_of_an_earlier_run_is_stale(world: World) -> None:
    """C26 C40: what the first run's provider still says does not touch the second."""
    job_id = processing(world)
    run_id = world.jobs[job_id].run_id
    world.callback(job_id, "e1", "failed", failure_message="no")
    world.do(job_id, "retry", ADMIN)
    world.claim(job_id)
    late = world.callback(job_id, "e2", "completed", result={"variants": []}, run_id=run_id)
    assert code(late) == "STALE_RUN"


def test_stranger_finds_nothing(world: World) -> None:
    said = world.do(pending(world), "cancel", EVE)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("NOT_FOUND", 404)
