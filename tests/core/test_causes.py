"""Why a step is taken is the step's own: nothing of it stays behind for the next one. And each
message names the facts that it may turn on."""

from typing import get_args

import msgspec
import pytest
from msgspec import Struct

from jobrunner.core.decide import DECIDERS, born, decide, needs
from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import (
    Definition,
    Edge,
    JobType,
    Retry,
    State,
    Trigger,
    Workflow,
)
from jobrunner.core.facts import Facts
from jobrunner.core.job import Asset, Failure, Snapshot
from jobrunner.core.messages import (
    Ended,
    Message,
    Moment,
    Report,
    Start,
    Submit,
)
from tests.driving import ADA, NOON

BY: tuple[Trigger, ...] = ("engine", "stage", "timer")
AGAIN = Retry("self_edge", failed=("failed",))
PICTURE = Asset("a1", "image", "/assets/a1/content")


class Params(Struct):
    """A submission says nothing."""


TWO = Definition(
    Workflow(
        name="two",
        version="1",
        initial="line",
        states=(
            State("line", "queued", onward={"*": "draw"}),
            State(
                "draw",
                "active",
                stage={"*": "two.draw"},
                produces="picture",
                done="print",
                retry=AGAIN,
                limit_s=60,
            ),
            State("print", "active", stage={"*": "two.print"}, done="done", limit_s=60),
            State("done", "final", ends="completed"),
            State("failed", "settled", ends="failed"),
        ),
        edges=(
            Edge("line", "draw", by=BY),
            Edge("draw", "draw", by=BY),
            Edge("draw", "print", by=BY),
            Edge("draw", "failed", by=BY),
            Edge("print", "done", by=BY),
        ),
        job_types=(JobType("any", params="params"),),
    ),
    {},
    {"params": Params},
)


def after(said: object) -> Snapshot:
    assert isinstance(said, Decision), said
    return said.after


def test_backoff_is_of_the_stage_that_failed() -> None:
    """Its product is there all the same, so the work goes on with the next stage: at once."""
    submit = Submit(ADA, "two", "any", {}, "job")
    job = after(born(TWO, submit, Facts(), Moment(NOON, "run"), ()))
    job = after(decide(TWO, job, Start(), Facts(), Moment(NOON + 1)))
    made = Report(artifacts={"picture": PICTURE.url}, assets=(PICTURE,))
    ended = Ended(job.serial, "failed", made, Failure("NETWORK", "it broke off"))
    job = after(decide(TWO, job, ended, Facts(verified=frozenset({"a1"})), Moment(NOON + 2)))
    assert job.status == "print"
    assert job.attempt is not None
    assert job.attempt.not_before == 0
    assert (job.line_at, job.next_attempt_at, job.timer("backoff")) == (NOON + 2, None, None)


def test_every_message_has_its_rule() -> None:
    assert set(get_args(Message)) == DECIDERS.keys()


@pytest.mark.parametrize("kind", DECIDERS, ids=lambda kind: kind.__name__)
def test_facts_are_named_for_each_message(kind: type) -> None:
    """A message whose decider walks edges on the engine's behalf reads the balance where an edge
    of the engine's takes credits; a bare sign of life reads nothing at all."""
    signs = {"Beat", "Sending", "Keep", "Answered", "Told", "Pause", "SetAside"}
    signs |= {"Pose", "Give", "JobsEnded"}
    assert (DECIDERS[kind].credits == "") == (kind.__name__ in signs)
    assert not DECIDERS[kind].files or DECIDERS[kind].credits


def test_nothing_is_read_for_a_job_without_price_or_files() -> None:
    submit = Submit(ADA, "two", "any", {}, "job")
    job = after(born(TWO, submit, Facts(), Moment(NOON, "run"), ()))
    assert msgspec.structs.astuple(needs(TWO, job, Start())) == (None, None, False, False)
