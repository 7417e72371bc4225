"""The howera lifecycle: an export in several formats is one export."""

from typing import Any

import pytest

from tests.driving import World, bound, code
from tests.plugins.howera_arranged import a_file, answer, definition, editing, refused

BOTH = ["PDF", "MD_ZIP"]
STORED = {"PDF": "s3://exports/one.pdf", "MD_ZIP": "s3://exports/one.zip"}


@pytest.fixture
def world() -> World:
    return World(definition)


def ordered(world: World, wanted: Any) -> str:
    job_id = editing(world)
    assert code(world.do(job_id, "export", format=wanted)) == "moved"
    return job_id


def test_the_order_is_kept_for_whoever_works_on_it(world: World) -> None:
    job_id = ordered(world, ["MD_ZIP", "PDF", "MD_ZIP"][:2])
    assert world.jobs[job_id].value("export_request")["format"] == ["MD_ZIP", "PDF"]


@pytest.mark.parametrize(
    ("first", "again"),
    [(BOTH, BOTH), (BOTH, BOTH[::-1]), (["PDF"], "PDF"), ("PDF", ["PDF"]), (["PDF", "PDF"], "PDF")],
)
def test_an_equal_set_is_the_same_export(world: World, first: Any, again: Any) -> None:
    job_id = ordered(world, first)
    job = world.jobs[job_id]
    assert answer(world.do(job_id, "export", format=again)) is not None
    assert code(world.do(job_id, "export", format=again)) == "replayed"
    assert world.jobs[job_id] is job


@pytest.mark.parametrize(("first", "again"), [(BOTH, "PDF"), ("PDF", BOTH), ("PDF", ["MD_ZIP"])])
def test_another_set_waits_its_turn(world: World, first: Any, again: Any) -> None:
    job_id = ordered(world, first)
    said = refused(world.do(job_id, "export", format=again))
    assert (said.code, said.status) == ("JOB_ALREADY_RUNNING", 409)


def test_done_needs_every_export_that_was_ordered(world: World) -> None:
    """H7 H31: one of two is not enough, nor are those of an earlier export."""
    job_id = ordered(world, BOTH)
    world.callback(
        job_id, "e1", "EDITING", artifacts={"exports": STORED, "export_uri": STORED["PDF"]}
    )
    world.do(job_id, "export", format=BOTH)
    uri = {"export_uri": STORED["PDF"]}
    for exports in ({}, {"exports": {"PDF": STORED["PDF"]}}, {"exports": {**STORED, "PDF": ""}}):
        said = refused(world.callback(job_id, "e2", "DONE", artifacts={**uri, **exports}))
        assert (said.code, said.status) == ("EXPORT_NOT_READY", 409)
    done = world.callback(job_id, "e2", "DONE", artifacts={**uri, "exports": STORED})
    assert code(done) == "moved"
    assert world.jobs[job_id].value("exports") == STORED


def test_one_format_asks_for_no_more_than_its_address(world: World) -> None:
    job_id = ordered(world, "PDF")
    said = world.callback(job_id, "e1", "DONE", artifacts={"export_uri": STORED["PDF"]})
    assert code(said) == "moved"


def test_a_stage_that_stores_one_of_two_is_not_done() -> None:
    world = World(definition)
    job_id = editing(world)
    world.definition = bound(definition)
    assert code(world.do(job_id, "export", format=BOTH)) == "moved"
    world.start(job_id)
    world.ended(job_id, "done", **a_file("export"))
    assert world.jobs[job_id].status != "DONE"
