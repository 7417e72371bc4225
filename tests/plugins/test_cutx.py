"""The cutx lifecycle, shown in the pure core: no clock, no store, no HTTP."""

from typing import Any

import msgspec
import pytest
from jobrunner_cutx import definition as shipped
from jobrunner_cutx.params import STRUCTS
from jobrunner_cutx.routes import BODIES, delivered, ordered, read_order
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.declaration.workflow import Deadline
from jobrunner.core.job import Failure
from jobrunner.errors import Refused
from tests.driving import (
    ADA,
    ADMIN,
    EVE,
    WORKER,
    Arrange,
    World,
    bound,
    code,
    outside,
    picture,
    varied,
)

definition = outside(shipped)

STATUSES = ("pending", "queued", "processing", "completed", "failed", "canceled", "expired")
FINAL = ("completed", "canceled")
MOVES = {
    ("pending", "queued"),
    ("pending", "processing"),
    ("pending", "failed"),
    ("pending", "canceled"),
    ("queued", "processing"),
    ("queued", "failed"),
    ("queued", "canceled"),
    ("processing", "completed"),
    ("processing", "failed"),
    ("processing", "canceled"),
    ("processing", "expired"),
    ("failed", "pending"),
    ("expired", "pending"),
}
PRICES = {"copy": 1, "static_ad": 3, "tts": 2, "ugc_video": 40, "scrape": 0}
AT_ONCE = ("copy", "scrape")
IN_LINE = ("static_ad", "tts", "ugc_video")
ABOUT = {"product_id": "lamp-7"}
PARAMS: dict[str, dict[str, Any]] = {
    "copy": ABOUT,
    "static_ad": ABOUT,
    "ugc_video": ABOUT,
    "tts": {"text": "a lamp"},
    "scrape": {"url": "https://example.org/lamp"},
}
NETWORK = Failure("NETWORK", "connection reset")
BAD_INPUT = Failure("BAD_INPUT", "no such product", retryable=False)


def pending(world: World) -> str:
    return world.born("copy", ABOUT)


def queued(world: World) -> str:
    return world.born("static_ad", ABOUT)


def processing(world: World) -> str:
    job_id = pending(world)
    assert code(world.claim(job_id)) == "moved"
    return job_id


def completed(world: World) -> str:
    job_id = processing(world)
    world.callback(job_id, "e1", "completed", result={"variants": ["a", "b", "c", "d", "e"]})
    return job_id


def failed(world: World) -> str:
    job_id = processing(world)
    world.callback(job_id, "e1", "failed", failure_message="the provider says no")
    return job_id


def canceled(world: World) -> str:
    job_id = pending(world)
    world.do(job_id, "cancel")
    return job_id


def expired(world: World) -> str:
    job_id = processing(world)
    world.fire(job_id, "deadline")
    return job_id


AT_REST: dict[str, Arrange] = {
    "pending": pending,
    "queued": queued,
    "processing": processing,
    "completed": completed,
    "failed": failed,
    "canceled": canceled,
    "expired": expired,
}
REPORTS: dict[str, dict[str, Any]] = {
    "completed": {"result": {"variants": []}},
    "failed": {"failure_message": "by hand"},
}


@pytest.fixture
def world() -> World:
    return World(definition, balance=100)


@pytest.fixture
def house() -> World:
    """A world with a stage of its own for every type."""
    return World(bound(definition), balance=100)


def test_declaration_is_sound() -> None:
    assert check(definition) == ()
    assert check(bound(definition)) == ()


def test_states_are_the_seven() -> None:
    """C1"""
    assert tuple(definition.states) == STATUSES


@pytest.mark.parametrize("to", STATUSES)
@pytest.mark.parametrize("status", STATUSES)
def test_pair(world: World, status: str, to: str) -> None:
    """C2-C17 C45: thirteen pairs move, each with its log line; 29 others and the 7 repeats are
    refused, changing nothing."""
    job_id = AT_REST[status](world)
    before = world.jobs[job_id]
    assert before.status == status
    said = world.move(job_id, to, ADMIN, **REPORTS.get(to, {}))
    if (status, to) in MOVES:
        assert code(said) == "moved"
        assert world.path(job_id)[-1] == to
        assert len(world.logged(job_id, "job.transition")) == len(world.path(job_id)) - 1
        return
    assert code(said) == ("TERMINAL_STATE" if status in FINAL else "ILLEGAL_TRANSITION")
    assert world.jobs[job_id] is before
    assert isinstance(said, Refused)
    assert said.extra["allowed_next_statuses"] == sorted(b for a, b in MOVES if a == status)


@pytest.mark.parametrize("pair", sorted(MOVES))
def test_who_may_take_an_edge(world: World, pair: tuple[str, str]) -> None:
    """C29 C39: by hand an owner cancels and does nothing else; retrying is an admin's, expiring a
    timer's."""
    status, to = pair
    job_id = AT_REST[status](world)
    before = world.jobs[job_id]
    by_owner = code(world.move(job_id, to, ADA, **REPORTS.get(to, {})))
    assert by_owner == ("moved" if to == "canceled" else "FORBIDDEN")
    if by_owner == "FORBIDDEN":
        assert world.jobs[job_id] is before
        by_worker = code(world.move(job_id, to, WORKER, **REPORTS.get(to, {})))
        closed = {("pending", "queued"), ("processing", "expired")}
        closed |= {("failed", "pending"), ("expired", "pending")}
        assert by_worker == ("FORBIDDEN" if pair in closed else "moved")


# ---------------------------------------------------------------- creation


@pytest.mark.parametrize("job_type", sorted(PRICES))
def test_birth_charges_and_lines_up(world: World, job_type: str) -> None:
    """C18 C20 C21 C23 C24 C44: row, charge and queue in one decision; types that take long stand
    in `queued`, the two others in `pending`."""
    said = world.submit(job_type, PARAMS[job_type])
    assert isinstance(said, Decision)
    job, price = said.after, PRICES[job_type]
    path = ["pending", "queued"] if job_type in IN_LINE else ["pending"]
    assert ([hop.to_status for hop in said.hops], job.version) == (path, 1)
    assert [entry.kind for entry in said.ledger] == (["charge"] if price else [])
    assert (world.balance(), world.held()) == (100 - price, 0)
    assert job.credits == ("charged" if price else "none")
    assert world.logged(job.id, "job.created") == [{"job_type": job_type, "credits_cost": price}]


def test_default_type_is_copy(world: World) -> None:
    job_id = world.born(params=ABOUT)
    assert world.jobs[job_id].job_type == "copy"


def test_no_credits_no_job() -> None:
    """C18: 402, nothing made, nothing charged."""
    world = World(definition, balance=2)
    said = world.submit("static_ad", ABOUT)
    assert isinstance(said, Refused)
    assert (said.code, said.status) == ("INSUFFICIENT_CREDITS", 402)
    assert said.extra == {"balance": 2, "required": 3}
    assert not world.jobs
    assert not world.ledger


def test_free_work_writes_no_ledger_row(world: World) -> None:
    """C32 C40: a cost of 0 moves nothing at birth, on failure, on retry, on refund."""
    world = World(definition, balance=0)
    job_id = world.born("scrape", PARAMS["scrape"])
    world.claim(job_id)
    world.callback(job_id, "e1", "failed", failure_message="no page")
    assert code(world.do(job_id, "retry", ADMIN)) == "moved"
    world.claim(job_id)
    world.callback(job_id, "e2", "completed", result={"title": "Lamp"})
    assert code(world.do(job_id, "refund", ADMIN)) == "noted"
    assert world.ledger == []
    assert world.jobs[job_id].credits == "none"


def test_postponed_job_waits_where_it_was_born(world: World) -> None:
    """C18: charged now, lined up when its time has come."""
    job_id = world.born("static_ad", ABOUT, run_at=world.now + 60_000)
    assert (world.jobs[job_id].status, world.balance()) == ("pending", 97)
    world.fire(job_id, "run_at")
    assert world.jobs[job_id].status == "queued"


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize("status", STATUSES)
def test_known_key_in_every_status(world: World, status: str) -> None:
    """C34-C38: the same job, its status of today, no second charge."""
    born_as = "static_ad" if status == "queued" else "copy"
    world_submit = world.submit

    def keyed(*args: Any, **more: Any) -> Any:
        return world_submit(*args, **{"key": "k", **more})

    world.submit = keyed  # type: ignore[method-assign]
    job_id = AT_REST[status](world)
    ledger = list(world.ledger)
    said = world.submit(born_as, ABOUT)
    assert isinstance(said, NoOp)
    assert (said.snapshot.id, said.snapshot.status) == (job_id, status)
    assert said.answer == {"replayed": True}
    assert world.ledger == ledger


def test_key_is_per_user(world: World) -> None:
    """C35"""
    world.born("copy", ABOUT, key="k")
    assert code(world.submit("copy", ABOUT, key="k", actor=EVE)) == "moved"


def test_other_body_under_a_known_key(world: World) -> None:
    """C36: the old job, and a word that the order was another."""
    job_id = world.born("copy", ABOUT, key="k")
    said = world.submit("static_ad", {"product_id": "chair-2"}, key="k")
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job_id
    assert said.answer == {"replayed": True, "idempotency_mismatch": True}


def test_known_key_comes_before_the_balance() -> None:
    """C38: a network retry of the order that took the last credit."""
    world = World(definition, balance=1)
    job_id = world.born("copy", ABOUT, key="k")
    said = world.submit("copy", ABOUT, key="k", draining=True)
    assert isinstance(said, NoOp)
    assert said.snapshot.id == job_id


def test_without_a_key_two_orders_are_two(world: World) -> None:
    """C34"""
    assert world.born("copy", ABOUT) != world.born("copy", ABOUT)
    assert world.balance() == 98


def test_key_is_short() -> None:
    """C34"""
    assert definition.workflow.recipe.max_length == 128


# ---------------------------------------------------------------- work


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


# ---------------------------------------------------------------- money


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


# ---------------------------------------------------------------- doors


def test_routes_are_the_three() -> None:
    """C19 C39"""
    routes = [(route.method, route.path, route.job_type) for route in definition.workflow.routes]
    assert routes == [
        ("POST", "/api/generate/copy", "copy"),
        ("POST", "/api/generate/static-ad", "static_ad"),
        ("POST", "/api/generate/video", "ugc_video"),
    ]
    assert definition.commands["retry"].aliases == ("/api/admin/jobs/{id}/retry",)
    assert [route.wait_s for route in definition.workflow.routes] == [25, 0, 0]


def posted(route: int, text: str) -> tuple[dict[str, Any], str | None]:
    """A body as it comes in, through the struct and the reader of its route."""
    declared = definition.workflow.routes[route]
    struct = definition.structs[declared.body]
    body = msgspec.json.decode(text, type=struct)
    read = definition.functions[declared.read]
    params, key = read(msgspec.to_builtins(body))
    job_type = definition.job_types[declared.job_type]
    msgspec.convert(params, definition.structs[job_type.params])
    return params, key


def test_sample_order_of_old_clients() -> None:
    """C34: a product, a style and a key are enough."""
    text = '{"product_id": "uuid", "style": "lifestyle", "idempotency_key": "user-1-static-v1"}'
    assert posted(1, text) == ({"product_id": "uuid", "style": "lifestyle"}, "user-1-static-v1")


@pytest.mark.parametrize(
    ("route", "text", "params"),
    [
        (0, '{"productId": "p", "customInstructions": "short"}', {"custom_instructions": "short"}),
        (0, '{"product_id": "p", "tone": "luxe", "platform": null}', {"tone": "luxe"}),
        (1, '{"productId": "p", "aspectRatio": "4:5"}', {"aspect_ratio": "4:5"}),
        (1, '{"productId": "p", "aspectRatio": "4:5", "style": null}', {"aspect_ratio": "4:5"}),
        (
            2,
            '{"productId": "p", "projectId": "q", "script": "A"}',
            {"project_id": "q", "script": "A"},
        ),
    ],
)
def test_both_spellings(route: int, text: str, params: dict[str, Any]) -> None:
    """C34: camelCase and snake_case mean the same field."""
    assert posted(route, text) == ({"product_id": "p", **params}, None)


def test_product_in_an_order() -> None:
    """C34: what is known of the product travels with the order."""
    params, _ = posted(
        2, '{"productId": "p", "product": {"name": "Lamp", "features": ["dimmable"]}}'
    )
    assert (params["product"]["name"], params["product"]["features"]) == ("Lamp", ["dimmable"])


def test_equal_twins_are_one() -> None:
    assert posted(0, '{"productId": "p", "product_id": "p"}') == ({"product_id": "p"}, None)


@pytest.mark.parametrize(
    ("one", "other"), [("product_id", "productId"), ("idempotency_key", "idempotencyKey")]
)
def test_unequal_twins_are_refused(one: str, other: str) -> None:
    with pytest.raises(Refused) as refused:
        read_order({"product_id": "p", one: "a", other: "b"})
    assert (refused.value.code, refused.value.status) == ("VALIDATION_ERROR", 400)
    assert refused.value.extra["errors"][0]["path"] == f"$.{one}"


@pytest.mark.parametrize("text", ['{"product_id": 7}', '{"product_id": "p", "colour": "red"}'])
def test_bodies_of_another_shape(text: str) -> None:
    for name in BODIES:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=BODIES[name])


@pytest.mark.parametrize(
    ("job_type", "params"),
    [
        ("copy", {}),
        ("copy", {"product_id": ""}),
        ("copy", {"product_id": "p" * 129}),
        ("copy", {"product_id": "p", "platform": "myspace"}),
        ("copy", {"product_id": "p", "custom_instructions": "x" * 501}),
        ("copy", {"product_id": "p", "productId": "p"}),
        ("static_ad", {"product_id": "p", "style": "baroque"}),
        ("static_ad", {"product_id": "p", "prompt": "four"}),
        ("ugc_video", {"product_id": "p", "aspect_ratio": "2:1"}),
        ("scrape", {"url": "ftp://example.org"}),
        ("scrape", {"url": "https://example.org\n"}),
        ("tts", {"text": " "}),
    ],
)
def test_params_that_are_not_taken(job_type: str, params: dict[str, Any]) -> None:
    """C18: an order is checked before anything is charged."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(params, STRUCTS[job_type])


class Answer(Struct):
    replayed: bool = False
    fields: dict[str, Any] = {}


class Purse(Struct):
    balance: int


def test_answer_of_the_doors(world: World) -> None:
    """C19: what an old client reads: id, status, credits used and left."""
    job = world.jobs[queued(world)]
    assert ordered(job, Answer(), Purse(97)) == {
        "job_id": job.id,
        "status": "queued",
        "credits_used": 3,
        "credits_remaining": 97,
        "replayed": False,
    }


def test_no_variants_of_what_was_not_delivered(world: World) -> None:
    """C25: whatever a failure report brings along."""
    job_id = processing(world)
    world.callback(job_id, "e1", "failed", failure_message="no", result={"variants": ["a"]})
    assert delivered(world.jobs[job_id], Answer(), Purse(9))["variants"] == []


@pytest.mark.parametrize("status", STATUSES)
def test_answer_of_copy(world: World, status: str) -> None:
    """C19 C25: variants once they are there; what was given back was not used."""
    job = world.jobs[AT_REST[status](world)]
    answer = delivered(job, Answer(True, {"idempotency_mismatch": True}), Purse(9))
    assert answer["variants"] == (["a", "b", "c", "d", "e"] if status == "completed" else [])
    assert answer["credits_used"] == (job.cost if job.credits == "charged" else 0)
    assert (answer["replayed"], answer["idempotency_mismatch"]) == (True, True)
