"""Random walks through the lifecycles that cost money or make files: whatever is asked in whatever
order, only declared edges are taken, every credit is where it belongs, and every job ends.

``World`` itself asserts on every step that finals stay, versions rise by one, and nobody owes.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobrunner_asset_pattern import definition as asset_pattern
from jobrunner_cutx import definition as cutx
from jobrunner_image_generation import definition as image_generation

from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.job import Failure
from jobrunner.core.messages import Beat, Recovered, Stop, Supersede
from jobrunner.errors import Refused
from tests.driving import ADA, ADMIN, WORKER, World, bound, code, outside, picture

LIFECYCLES: dict[str, tuple[Definition, str, dict[str, Any]]] = {
    "image-generation": (image_generation, "image", {"prompt": "a lighthouse"}),
    "cutx at once": (cutx, "copy", {"product_id": "lamp-7"}),
    "cutx in line": (cutx, "static_ad", {"product_id": "lamp-7"}),
    "cutx for nothing": (cutx, "scrape", {"url": "https://example.org"}),
    "asset-pattern": (asset_pattern, "export", {}),
}
REPORT: dict[str, Any] = {"assets": (picture(),), "failure_message": "so it was told"}
OUTCOMES = ("done", "failed", "for good", "rejected", "partial", "parked", "interrupted")
ACTORS = {"user": ADA, "admin": ADMIN, "workflow": WORKER}

moves = st.tuples(st.just("move"), st.integers(0, 6), st.sampled_from(sorted(ACTORS)))
commands = st.tuples(
    st.just("do"),
    st.sampled_from(("cancel", "retry", "refund", "annotate")),
    st.sampled_from(("user", "admin")),
)
inside = st.tuples(
    st.sampled_from(("start", "claim", "fire", "recovered", "beat", "stop", "superseded")),
    st.integers(0, 3),
    st.just(""),
)
endings = st.tuples(st.just("ended"), st.sampled_from(OUTCOMES), st.just(""))
walks = st.lists(st.one_of(moves, commands, inside, endings), max_size=25)


@pytest.mark.parametrize("in_house", [True, False], ids=["house", "outside"])
@pytest.mark.parametrize("name", sorted(LIFECYCLES))
@given(steps=walks)
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_walk(name: str, in_house: bool, steps: list[tuple[str, Any, str]]) -> None:
    """I13 I40 C16 C38 P7 P8 P38: edges, money and ends hold on every walk."""
    definition, job_type, params = LIFECYCLES[name]
    world = World(bound(definition) if in_house else outside(definition), balance=9)
    job_id = world.born(job_type, params)
    for step in steps:
        take(world, job_id, step)
    carry_on(world, job_id)
    edges_are_declared(world)
    money_is_right(world)


def take(world: World, job_id: str, step: tuple[str, Any, str]) -> None:
    """One step, if it can be taken at all; a refusal is as good an answer as any."""
    verb, what, who = step
    job = world.jobs[job_id]
    match verb:
        case "move":
            states = list(world.definition.states)
            world.move(job_id, states[what % len(states)], ACTORS[who], **REPORT)
        case "do":
            world.do(job_id, what, ACTORS[who], note="seen")
        case "ended" if job.attempt is not None:
            finish(world, job_id, what)
        case "fire" if job.timers:
            world.fire(job_id, job.timers[what % len(job.timers)].purpose)
        case "start" | "claim":
            world.start(job_id) if verb == "start" else world.claim(job_id)
        case "beat":
            world.tell(job_id, Beat(WORKER, 10 * what))
        case "recovered":
            world.tell(job_id, Recovered(alone=what > 1))
        case "stop":
            world.tell(job_id, Stop(ADMIN))
        case "superseded" if job.status in world.definition.workflow.recipe.freed:
            world.tell(job_id, Supersede("another"))


def finish(world: World, job_id: str, outcome: str) -> None:
    failure = Failure("TOLD", "so it was told", retryable=outcome != "for good")
    name = "failed" if outcome == "for good" else outcome
    report = {"assets": (picture(),)} if name in ("done", "partial") else {}
    world.ended(job_id, name, None if name == "done" else failure, **report)


def carry_on(world: World, job_id: str) -> None:
    """From now on every attempt fails and every clock runs out: that must come to an end."""
    for _ in range(40):
        job = world.jobs[job_id]
        if job.kind in ("settled", "final"):
            return
        assert job.stuck is None, job.stuck
        if job.line_at is not None:
            world.start(job_id)
        elif job.timers:
            world.fire(job_id, min(job.timers, key=lambda timer: timer.due_at).purpose)
        else:
            assert not isinstance(world.claim(job_id), Refused), f"nothing moves in {job.status}"
    raise AssertionError(f"no end in sight: {world.path(job_id)}")


def edges_are_declared(world: World) -> None:
    for _, _, hop in world.hops:
        if hop.from_status is not None:
            assert hop.to_status in world.definition.table[hop.from_status]


def money_is_right(world: World) -> None:
    """Of each run: nothing moved, or all came back, or exactly the price is gone."""
    (job,) = world.jobs.values()
    spent = world.initial - world.balance()
    assert world.held() == 0, "an ended job holds nothing"
    assert spent in (0, job.cost)
    delivered = job.status in ("completed", "rejected") and job.credits != "refunded"
    assert spent == (job.cost if delivered else 0)


def test_walks_reach_every_end() -> None:
    """A walk that never gets anywhere would prove nothing."""
    world = World(bound(cutx))
    job_id = world.born("copy", {"product_id": "lamp-7"})
    for step in [("start", 0, ""), ("ended", "parked", ""), ("fire", 0, "")]:
        take(world, job_id, step)
    assert world.path(job_id) == ["pending", "processing", "expired"]
    assert code(world.do(job_id, "retry", ADMIN)) == "moved"
