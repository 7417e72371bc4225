"""A job that may keep its slot begins its next attempt in the commit that ends the one before."""

import pytest

from jobrunner.core.decision import Decision, StartStage
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.job import Paused
from jobrunner.core.messages import Ended, Pause, Recovered
from tests.core.workshop import PIECES, WORKSHOP, cutting, effects, fail_on, gluing, rebound
from tests.driving import ADA, World, code

ALL = frozenset({"shop.cut", "shop.glue", "shop.paint"})


@pytest.fixture
def shop() -> World:
    return World(WORKSHOP)


def test_the_next_stage_begins_with_the_end_of_the_one_before(shop: World) -> None:
    job_id = cutting(shop)
    version, shop.lent = shop.jobs[job_id].version, ALL
    assert code(shop.ended(job_id, "done", **PIECES)) == "moved"
    job = shop.jobs[job_id]
    assert (job.status, job.version, job.line_at) == ("gluing", version + 1, None)
    assert job.attempt is not None
    assert (job.attempt.status, job.attempt.holder) == ("running", "stage")
    assert job.started_at is not None
    assert job.heartbeat_at == job.attempt.started_at == job.updated_at
    assert effects(shop)[-1] == StartStage(job.attempt)
    assert [one.status for one in shop.tried(job_id)] == ["ended", "running"]
    assert job.timer("limit") is not None


def test_it_goes_on_as_if_it_had_been_in_line(shop: World) -> None:
    """All that differs are the versions in between."""
    waits, shop_lent = World(WORKSHOP), shop
    first, second = gluing(waits), cutting(shop_lent)
    shop_lent.lent = ALL
    shop_lent.ended(second, "done", **PIECES)
    assert waits.path(first) == shop_lent.path(second)
    shop_lent.lent = frozenset()
    ends = []
    for world, job_id in ((waits, first), (shop_lent, second)):
        assert code(world.ended(job_id, "done")) == "moved"
        world.start(job_id)
        assert code(world.ended(job_id, "done")) == "moved"
        ends.append((world.path(job_id), world.money(job_id), world.held(), world.balance()))
    assert ends[0] == ends[1]
    assert ends[0][0][-1] == "done"


@pytest.mark.parametrize("lent", [frozenset[str](), frozenset({"shop.cut", "shop.paint"})])
def test_a_stage_that_is_not_lent_to_gets_in_line(shop: World, lent: frozenset[str]) -> None:
    job_id = cutting(shop)
    shop.lent = lent
    shop.ended(job_id, "done", **PIECES)
    job = shop.jobs[job_id]
    assert job.line_at == job.updated_at
    assert job.attempt is not None
    assert job.attempt.status == "due"


def test_a_retry_waits_for_its_backoff_and_not_for_a_slot(shop: World) -> None:
    job_id = gluing(shop)
    shop.lent = ALL
    begun = len(effects(shop))
    fail_on(shop, job_id)
    job = shop.jobs[job_id]
    assert job.attempt is not None
    assert (job.attempt.status, job.attempt.not_before > shop.now) == ("due", True)
    assert len(effects(shop)) == begun


def test_nothing_begins_in_a_job_that_is_paused(shop: World) -> None:
    job_id = cutting(shop)
    assert isinstance(shop.tell(job_id, Pause(ADA)), Decision)
    assert isinstance(shop.jobs[job_id].paused, Paused)
    shop.lent = ALL
    shop.ended(job_id, "done", **PIECES)
    job = shop.jobs[job_id]
    assert (job.status, job.attempt) in (("cut", None), ("gluing", job.attempt))
    assert job.attempt is None or job.attempt.status == "due"


def test_what_works_outside_needs_no_slot(shop: World) -> None:
    shop.definition = rebound(WORKSHOP, gluing=EXTERNAL)
    job_id = cutting(shop)
    shop.lent = ALL
    shop.ended(job_id, "done", **PIECES)
    job = shop.jobs[job_id]
    assert (job.status, job.attempt, job.line_at) == ("cut", None, None)


def test_an_interrupted_attempt_goes_on_in_the_slot_it_has(shop: World) -> None:
    job_id = cutting(shop)
    shop.lent = ALL
    assert isinstance(shop.tell(job_id, Ended(shop.jobs[job_id].serial, "interrupted")), Decision)
    job = shop.jobs[job_id]
    assert job.attempt is not None
    assert (job.status, job.attempt.number, job.attempt.status) == ("cutting", 2, "running")


def test_whoever_recovers_has_no_slot(shop: World) -> None:
    job_id = cutting(shop)
    shop.lent = ALL
    shop.tell(job_id, Recovered())
    assert shop.jobs[job_id].line_at is not None
