"""Money that is held while a person makes up their mind: hold, approve, capture; reject, release.

Each of the three ways of PLUGINS.md is a workflow here, passes the check and is proved; the one
that loses sight of its hold is refused, and told where the ways are.
"""

from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from jobrunner import (
    Birth,
    Command,
    Context,
    Deadline,
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    Rejected,
    Retry,
    State,
    Workflow,
    stage,
)
from jobrunner.check.checking import check
from jobrunner.testing import prove


class Offer(Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""


class Verdict(Struct, frozen=True, forbid_unknown_fields=True):
    approved: bool


@stage("offer.draft")
async def draft(ctx: Context[Offer]) -> Done:
    return Done(result={"draft": ctx.params.text})


@stage("offer.print")
async def printed(ctx: Context[Offer]) -> Done:
    return Done(result={"printed": True})


@stage("offer.ask", asks=[Verdict])
async def ask(ctx: Context[Offer]) -> Done:
    question = await ctx.question("approval", Verdict, timeout_s=300, default=Verdict(False))
    if not (await question.answer()).approved:
        raise Rejected("NOT_APPROVED", "somebody said no")
    return Done(result={"printed": True})


def working(name: str, bound: str, done: str, rejected: str = "refused") -> State:
    return State(
        name,
        "active",
        stage={"*": bound},
        done=done,
        rejected=rejected,
        limit_s=60,
        deadline=Deadline(600),
        retry=Retry("inside", failed=("failed",), max=2, base_s=1),
    )


ENDS = (
    State("done", "final", ends="completed"),
    State("refused", "final", ends="rejected", remarks=True),
    State("failed", "final", ends="failed"),
    State("canceled", "final", ends="canceled"),
)


def leaving(name: str, done: str, money: Any = None) -> tuple[Edge, ...]:
    return (
        Edge(name, done, by=("stage", "workflow"), money=money),
        Edge(name, "refused", by=("stage", "workflow"), money="release"),
        Edge(name, "failed", by=("stage", "timer", "engine", "workflow"), money="release"),
    )


def offer(states: tuple[State, ...], edges: tuple[Edge, ...], approve: str) -> Definition:
    canceled = tuple(state.name for state in states)
    commands = [Command("cancel", walks=dict.fromkeys(canceled, ("canceled",)))]
    if approve:
        commands.append(Command("approve", walks={"review": (approve,)}))
    guarded = tuple(state.name for state in states if state.kind == "active")
    return Definition(
        Workflow(
            name="offer",
            version="1",
            initial="queued",
            states=(*states, *ENDS),
            edges=(
                *edges,
                *(Edge(name, "canceled", by=("user",), money="release") for name in canceled),
            ),
            job_types=(JobType("offer", params="offer", price=5),),
            commands=tuple(commands),
            birth=Birth(money="hold"),
            locks=(Lock("job", guarded=guarded),),
        ),
        structs={"offer": Offer},
    )


QUEUED = State("queued", "queued", onward={"*": "drafting"})
DRAFTED = Edge("queued", "drafting", by=("engine", "workflow"))
REVIEW = State("review", "waiting", deadline=Deadline(3600, ("canceled",)))
EXPIRED = Edge("review", "canceled", by=("user", "timer"), money="release")


def then_over() -> Definition:
    """The approval is the end: the hold stays with its run, which nothing follows."""
    states = (QUEUED, working("drafting", "offer.draft", "review"), REVIEW)
    edges = (DRAFTED, *leaving("drafting", "review"),
             Edge("review", "done", by=("user",), money="capture"))  # fmt: skip
    return by_timer(offer(states, edges, "done"))


def then_work(person: bool = False) -> Definition:
    """Work follows: with ``person=False`` the run is open while somebody is waited for."""
    review = replace(REVIEW, person=person)
    states = (QUEUED, working("drafting", "offer.draft", "review"), review,
              working("printing", "offer.print", "done"))  # fmt: skip
    edges = (
        DRAFTED,
        *leaving("drafting", "review"),
        Edge("review", "printing", by=("user",)),
        *leaving("printing", "done", "capture"),
    )
    return by_timer(offer(states, edges, "printing"))


def by_question() -> Definition:
    """The stage asks: the job is at work all the time, and what is said decides its end."""
    states = (replace(QUEUED, onward={"*": "asking"}), working("asking", "offer.ask", "done"))
    edges = (Edge("queued", "asking", by=("engine", "workflow")),
             *leaving("asking", "done", "capture"))  # fmt: skip
    return offer(states, edges, "")


def by_timer(definition: Definition) -> Definition:
    """Who does not decide in time has said no."""
    pairs = [("review", "canceled")]
    edges = tuple(
        EXPIRED if (edge.source, edge.target) in pairs else edge
        for edge in definition.workflow.edges
    )
    return Definition(replace(definition.workflow, edges=edges), structs=definition.structs)


STAGES = {"then over": [draft], "then work": [draft, printed], "by question": [ask]}
WAYS = {"then over": then_over, "then work": then_work, "by question": by_question}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_settles_the_hold_once_whatever_happens(way: str) -> None:
    definition = WAYS[way]()
    assert [fault.text for fault in check(definition)] == []
    proof = prove(definition, STAGES[way], seeds=range(30))
    assert proof.lives > proof.seeds, "nothing ever crashed"
    assert not proof.aside
    assert proof.jobs["done"] > 0
    assert proof.jobs["canceled"] > 0


def test_a_hold_that_a_new_run_would_forget_is_refused_with_the_ways() -> None:
    (text,) = {fault.text for fault in check(then_work(person=True))}
    assert "review -> printing: a new run begins" in text
    assert "A hold over a person" in text
    assert "person=False" in text
