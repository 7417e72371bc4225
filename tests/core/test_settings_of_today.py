"""What an operator sets holds for the jobs that are under way: prices from the next charge on, the
lease of a run. And what a clock that stood wrong leaves behind orders nothing."""

from jobrunner_cutx import definition as cutx
from jobrunner_howera import definition as howera
from msgspec.structs import replace

from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import WorkflowSettings
from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.status_moves import AHEAD_MAX_MS
from jobrunner.errors import Refused
from tests.driving import ADMIN, WORKER, World, code, outside

DAY_MS = 86_400_000
STATIC_AD = {"product_id": "lamp-7"}


def under(definition: Definition, settings: WorkflowSettings) -> Definition:
    """The same declaration with these settings over it."""
    fitted, faults = laid_over(definition.workflow, settings)
    assert not faults
    return Definition(fitted, definition.functions, definition.structs, definition.digest)


def failed(world: World) -> str:
    job_id = world.born("static_ad", STATIC_AD)
    assert code(world.claim(job_id)) == "moved"
    why = {"failure_message": "not today"}
    assert code(world.move(job_id, "failed", WORKER, **why)) == "moved"
    return job_id


def test_a_retry_costs_what_it_costs_today() -> None:
    """And what was charged before came back at its own amount."""
    world = World(outside(cutx), balance=10)
    job_id = failed(world)
    world.definition = under(world.definition, WorkflowSettings(prices={"static_ad": 5}))
    assert code(world.do(job_id, "retry", ADMIN)) == "moved"
    assert (world.jobs[job_id].cost, world.balance()) == (5, 5)
    world.definition = under(world.definition, WorkflowSettings(prices={"static_ad": 9}))
    assert code(world.do(job_id, "cancel")) == "moved"
    assert [(entry.kind, entry.amount) for _, entry in world.ledger] == [
        ("charge", 3),
        ("refund", 3),
        ("charge", 5),
        ("refund", 5),
    ]


def test_a_retry_that_costs_too_much_today_changes_nothing() -> None:
    world = World(outside(cutx), balance=10)
    job_id = failed(world)
    world.definition = under(world.definition, WorkflowSettings(prices={"static_ad": 11}))
    said = world.do(job_id, "retry", ADMIN)
    assert isinstance(said, Refused)
    assert (said.code, said.extra["required"]) == ("INSUFFICIENT_CREDITS", 11)
    assert world.jobs[job_id].cost == 3


def test_what_was_free_has_a_price_today_and_the_other_way_round() -> None:
    dear, free = (WorkflowSettings(prices={"static_ad": price}) for price in (4, 0))
    world = World(under(outside(cutx), free), balance=10)
    job_id = failed(world)
    world.definition = under(world.definition, dear)
    assert code(world.do(job_id, "retry", ADMIN)) == "moved"
    assert (world.jobs[job_id].credits, world.balance()) == ("charged", 6)
    assert code(world.claim(job_id)) == "moved"
    assert code(world.move(job_id, "failed", WORKER, failure_message="again")) == "moved"
    world.definition = under(world.definition, free)
    assert code(world.do(job_id, "retry", ADMIN)) == "moved"
    assert (world.jobs[job_id].cost, world.balance()) == (0, 10)
    assert code(world.do(job_id, "cancel")) == "moved"


def resting(world: World) -> str:
    """With its sound, from an orchestrator that is to take it on."""
    job_id = world.born("video")
    world.do(job_id, "confirm-upload", video_uri="s3://videos/one.mp4")
    for number, status in enumerate(("AUDIO_EXTRACTING", "AUDIO_READY")):
        assert code(world.callback(job_id, f"e{number}", status)) == "moved"
    return job_id


def test_the_lease_is_how_long_a_run_may_rest() -> None:
    """Also of a job that was born before it was set; a claim keeps its minute."""
    world = World(outside(howera))
    world.definition = under(world.definition, WorkflowSettings(lease=40))
    job_id = resting(world)
    lapse = world.jobs[job_id].timer("lapse")
    assert lapse is not None
    assert lapse.due_at - world.jobs[job_id].entered_at == 40_000
    world.fire(job_id, "lapse")
    assert not world.jobs[job_id].live
    assert code(world.do(job_id, "run")) == "moved"
    claimed = world.claim(job_id)
    assert isinstance(claimed, Decision)
    assert claimed.answer["lease_until"] - claimed.after.updated_at == 60_000


def test_an_event_from_a_clock_that_stood_ahead_blocks_no_later_one() -> None:
    """Neither with the same day nor for as long as it takes to come."""
    world = World(outside(howera))
    job_id = resting(world)
    ahead = replace(world.jobs[job_id], last_event_at=world.now + DAY_MS)
    world.jobs[job_id] = ahead
    assert code(world.callback(job_id, "later", "TRANSCRIBING")) == "moved"
    latest = world.jobs[job_id].last_event_at
    assert latest is not None
    assert latest < ahead.updated_at + DAY_MS
    assert code(world.callback(job_id, "old", "TRANSCRIPT_READY", at=latest - 1)) == (
        "CALLBACK_OUT_OF_ORDER"
    )


def test_an_event_that_is_a_little_ahead_still_orders_what_comes_after_it() -> None:
    world = World(outside(howera))
    job_id = resting(world)
    when = world.now + AHEAD_MAX_MS - 60_000
    assert code(world.callback(job_id, "ahead", "TRANSCRIBING", at=when)) == "moved"
    said = world.callback(job_id, "now", "TRANSCRIPT_READY", at=world.now)
    assert code(said) == "CALLBACK_OUT_OF_ORDER"
