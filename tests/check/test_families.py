"""The check of declared children (who pays for them, who may cancel them, who is not there), and of
those jobs of which there is one."""

import pytest
from msgspec.structs import replace

from jobrunner import Call, ChildWorkflow, SingletonBy
from jobrunner.check.checking import check
from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import WorkflowSettings
from jobrunner.core.declaration.offspring import AtEnd
from jobrunner.core.declaration.workflow import Deadline, JobType, Money, Workflow
from jobrunner.stages import Registry
from tests.core.declared import COMMANDS, EDGES, SAMPLE, command, define, faults

CHILD = replace(SAMPLE, name="child", states=(), routes=())
FREE = tuple(replace(one, price=0) for one in SAMPLE.job_types)
UNPAID = tuple(replace(one, money=None) for one in EDGES)


def outside(workflow: Workflow) -> Workflow:
    """The same with all work done elsewhere, so that no stage is needed to load it."""
    far = {"stage": {"*": "external"}, "deadline": Deadline(60)}
    states = [replace(one, **far) if one.stage else one for one in SAMPLE.states]
    return replace(workflow, states=tuple(states), routes=(), failed_stages=())


def parent(at_end: AtEnd = "cancel", child: str = "child") -> Workflow:
    return outside(replace(SAMPLE, name="parent", children=(ChildWorkflow(child, at_end),)))


def without(name: str) -> Workflow:
    return outside(replace(CHILD, commands=tuple(one for one in COMMANDS if one.name != name)))


PLANTED = {
    "a child declared twice": (
        replace(SAMPLE, children=(ChildWorkflow("other"), ChildWorkflow("other", "leave"))),
        "duplicate",
        ("child workflow other", "2 times"),
    ),
    "covered where nothing has a price": (
        replace(SAMPLE, job_types=FREE, children=(ChildWorkflow("other", covered=True),)),
        "children",
        ("sample", "other", "has a price", "leave out covered"),
    ),
    "covered by a price that is never taken": (
        replace(SAMPLE, edges=UNPAID, children=(ChildWorkflow("other", covered=True),)),
        "children",
        ("sample", "other", "never takes its price"),
    ),
}

PLANTED |= {
    "one of a kind, and the older one cannot be cancelled": (
        replace(without("cancel"), singleton=SingletonBy(Call("by_user"), "replace")),
        "singleton",
        ("mode='replace'", "no command cancel", 'mode="first"'),
    ),
    "one of a kind that never begins": (
        replace(SAMPLE, singleton=SingletonBy(Call("by_user"), quiet_s=1e9)),
        "singleton",
        ("quiet_s=1000000000.0", "from 0 to 2592000"),
    ),
    "one of a kind by a key that nobody makes": (
        replace(SAMPLE, singleton=SingletonBy(Call("by_moon"))),
        "unknown-function",
        ("singleton: key", "by_moon", "by_user"),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_cannot_be_right_is_told_with_the_cure(name: str) -> None:
    workflow, rule, words = PLANTED[name]
    found = [one for one in faults(workflow) if one.rule == rule]
    assert len(found) == 1, faults(workflow)
    assert all(word in found[0].text for word in words), found[0].text
    assert found[0].trace


@pytest.mark.parametrize("taken", ["hold", "charge"])
def test_a_covered_child_is_right_where_a_price_is_taken(taken: Money) -> None:
    edges = [replace(one, money=taken if one.source == "draft" else None) for one in EDGES]
    workflow = replace(SAMPLE, edges=tuple(edges), children=(ChildWorkflow("other", covered=True),))
    assert not [one for one in faults(workflow) if one.rule == "children"]


def test_an_operator_may_ask_for_no_price() -> None:
    declared = define(replace(SAMPLE, children=(ChildWorkflow("other", covered=True),)))
    free, said = laid_over(declared.workflow, WorkflowSettings(prices={"near": 0}))
    assert not said
    assert not check(define(free), declared=declared)


UNCANCELABLE = {
    "no such command": (without("cancel"), ("child has no command cancel", "give it one")),
    "not for the user": (
        outside(replace(CHILD, commands=command("cancel", roles=("admin",)).commands)),
        ("is for admin, not for the user", "add user to its roles"),
    ),
}


@pytest.mark.parametrize("first", ["parent", "child"])
@pytest.mark.parametrize("name", UNCANCELABLE)
def test_a_parent_that_cancels_what_cannot_be_cancelled_is_refused(name: str, first: str) -> None:
    """In whichever order they are loaded; the child is without fault and stays."""
    child, words = UNCANCELABLE[name]
    both = [parent(), child]
    registry = Registry()
    for one in both if first == "parent" else reversed(both):
        registry.add(define(one))
    assert registry.names() == ["child"]
    assert [one.workflow.name for one in registry.declared()] == ["child"]
    (reason,) = registry.refused["workflows"]["parent"]
    assert all(word in reason for word in (*words, "parent cancels", 'at_end="leave"')), reason


def test_every_child_that_cannot_be_cancelled_is_told_at_once() -> None:
    children = (ChildWorkflow("child"), ChildWorkflow("second"), ChildWorkflow("parent"))
    registry = Registry()
    registry.add(define(without("cancel")))
    registry.add(define(replace(without("cancel"), name="second")))
    registry.add(define(replace(parent(), children=children)))
    assert len(registry.refused["workflows"]["parent"]) == 2


@pytest.mark.parametrize("at_end", ["leave", "wait"])
def test_whoever_cancels_nothing_needs_no_command(at_end: AtEnd) -> None:
    registry = Registry()
    registry.add(define(without("cancel")))
    registry.add(define(parent(at_end)))
    assert registry.names() == ["child", "parent"]


def test_children_that_are_not_there_are_told_with_both_names() -> None:
    registry = Registry()
    registry.add(define(parent(child="chidl")))
    assert registry.names() == ["parent"], "another plugin may bring it tomorrow"
    (said,) = registry.absent_children("parent")
    assert "parent declares children of chidl" in said
    registry.add(define(outside(CHILD)))
    (said,) = registry.absent_children("parent")
    assert "did you mean 'child'?" in said
    assert registry.absent_children("child") == registry.absent_children("gone") == []


def test_children_that_were_refused_are_told_as_such() -> None:
    registry = Registry()
    registry.add(define(parent()))
    registry.add(define(replace(outside(CHILD), job_types=(JobType("x", "gone"),))))
    (said,) = registry.absent_children("parent")
    assert "it was refused, see `jobrunner workflow check child`" in said
