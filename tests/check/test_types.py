"""Every field of every part of a declaration, with values that nobody should write there: they are
taken, or told by name. Nothing is raised, whatever a stranger writes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.config import overrides
from jobrunner.config.settings import WorkflowSettings
from jobrunner.core.declaration import workflow as declarations
from jobrunner.core.declaration.offspring import ChildWorkflow
from jobrunner.core.declaration.one_of_a_kind import SingletonBy
from jobrunner.core.declaration.workflow import (
    Audit,
    Birth,
    Call,
    Command,
    Deadline,
    Declared,
    Definition,
    Edge,
    Guard,
    Quota,
    Retry,
    Route,
    State,
    Upload,
    Workflow,
)
from jobrunner.drawing.mermaid import mermaid
from jobrunner.drawing.svg import svg
from jobrunner.http.routes.admin.workflows import published
from jobrunner.http.routes.plugins import endpoints_of
from jobrunner.http.routes.table import TAKEN
from jobrunner.stages import Registry, Stage
from jobrunner.stages.companions import Companion
from jobrunner.stages.sources import Source
from tests.core.declared import FUNCTIONS, SAMPLE, Params, define

Put = Callable[[Any], Any]


class Mute:
    """What cannot even say what it is."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
WRONG: tuple[Any, ...] = (
    None, True, 0, 7, -1, 0.5, 1e300, float("nan"), float("inf"), 2**70,
    "", "x", "x.y", "60s", "wating", "holds", "user", "*", "/", "a b", "\0", "\ud800", "x" * 5000,
    b"x", object(), Mute(), State, len, lambda ask: None,
    (), ("x",), ("user", 5), (None,), ("x", "x"), [], ["user"], [1], set(), {"user"},
    {}, {"x": 1}, {1: 2}, {"*": None}, {"x": ("x",)}, {"\ud800": 1}, CIRCLE,
    Call("x"), Call("allowed", {"limit": Mute()}), Deadline(-1), State("x", "active"), (State,),
    Retry("inside", ("nowhere",)), (Guard(Call("gone")),), (Edge("x", "y", ("user",)),),
)  # fmt: skip

FULL = replace(
    SAMPLE,
    birth=Birth((Guard(Call("allowed", {"limit": 1}), on=("user",)),), money="hold"),
    quota=Quota(5, 5, 5),
    children=(ChildWorkflow("other", "wait"),),
    singleton=SingletonBy(Call("by_user")),
    uploads=(
        Upload(
            "picture",
            walks={"draft": ("queued",)},
            asset_type="picture",
            guards=(Guard(Call("allowed")),),
            action=Call("allowed"),
            types=("image/*",),
        ),
    ),
    edges=tuple(
        replace(edge, audit=Audit("sample.gone", {"why": "x"}), guards=(Guard(Call("allowed")),))
        if (edge.source, edge.target) == ("draft", "canceled")
        else edge
        for edge in SAMPLE.edges
    ),
    settings={"loud": True},
)


def parts(value: Any, put: Put) -> Iterator[tuple[Struct, Put]]:
    """Every struct inside of a declaration, and how the declaration is made with another one."""
    if isinstance(value, Struct):
        yield value, put
        for name in value.__struct_fields__:
            yield from parts(getattr(value, name), partial(_with, value, name, put))
    elif isinstance(value, tuple):
        for at, item in enumerate(value):
            yield from parts(item, partial(_among, value, at, put))


def _with(part: Struct, name: str, put: Put, new: Any) -> Any:
    return put(replace(part, **{name: new}))


def _among(items: tuple[Any, ...], at: int, put: Put, new: Any) -> Any:
    return put((*items[:at], new, *items[at + 1 :]))


def itself(new: Any) -> Any:
    return new


def places() -> Iterator[tuple[str, Put]]:
    """Each field once for each kind of part that has it."""
    seen = set()
    for part, put in parts(FULL, itself):
        for name in part.__struct_fields__:
            kind = getattr(part, "kind", "")
            place = (type(part).__name__, kind if kind in ("", "active") else "other", name)
            if place not in seen:
                seen.add(place)
                yield ".".join(filter(None, place)), partial(_with, part, name, put)


PLACES = dict(places())


def test_nothing_that_can_be_declared_is_left_out() -> None:
    kinds = [kind for kind in vars(declarations).values() if isinstance(kind, type)]
    declared = {kind for kind in kinds if issubclass(kind, Declared)} - {Declared}
    wanted = {(kind.__name__, name) for kind in declared for name in kind.__struct_fields__}
    assert wanted == {(place.split(".")[0], place.split(".")[-1]) for place in PLACES}


def test_the_whole_sample_is_well_formed() -> None:
    assert not [fault for fault in check(define(FULL)) if fault.rule == "value"]


@pytest.mark.parametrize("place", PLACES)
def test_a_wrong_value_is_refused_by_name_or_can_be_lived_with(place: str) -> None:
    for wrong in WRONG:
        registry = offered(PLACES[place](wrong))
        told = [text for texts in registry.refused["workflows"].values() for text in texts]
        assert registry.names() or (told and all(told)), (place, wrong)
        assert not any("cannot be examined" in text for text in told), (place, told)
        for name in registry.names():
            show(registry.current(name))


def offered(workflow: Any) -> Registry:
    """As the service loads it, an operator's settings laid over it."""

    def overlay(declared: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        return overrides.laid_over(declared, WorkflowSettings(stages={"running": "external"}))

    registry = Registry(overlay, TAKEN)
    registry.add(Definition(workflow, FUNCTIONS, {"params": Params}), "odd")
    assert len(registry.names()) + len(registry.refused["workflows"]) == 1
    told: list[Any] = list(registry.refused["workflows"])
    assert all(isinstance(name, str) for name in told)
    return registry


def show(definition: Definition | None) -> None:
    """What a service does with every declaration that it has taken."""
    assert definition is not None
    assert mermaid(definition.workflow)
    assert svg(definition.workflow)
    msgspec.json.encode(published(definition))
    list(endpoints_of([definition]))
    read: object = msgspec.json.decode(definition.encoded, type=Workflow, strict=False)
    assert isinstance(read, Workflow)


@pytest.mark.parametrize("field", Stage.__struct_fields__)
def test_a_stage_that_is_none_costs_itself(field: str) -> None:
    async def work(ctx: Any) -> None: ...

    for wrong in WRONG:
        registry = Registry(resources={"gpu": 1})
        registry.add(replace(Stage("odd.stage", work), **{field: wrong}), "odd.stage")
        told: dict[Any, tuple[str, ...]] = dict(registry.refused["stages"])
        assert all(isinstance(name, str) for name in told)
        assert all(reasons and all(reasons) for reasons in told.values())
        registry.places(frozenset({"odd.stage"}))


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_sources_and_companions_too(wrong: Any) -> None:
    registry = Registry()
    registry.add(Source(wrong, len), "odd")  # type: ignore[arg-type]
    registry.add(Source("good", wrong), "good")
    registry.add(Companion(wrong, len), "odd")  # type: ignore[arg-type]
    registry.add(Companion("good", wrong), "good")
    told: list[Any] = [*registry.refused["sources"], *registry.refused["companions"]]
    assert all(isinstance(name, str) for name in told)


@pytest.mark.parametrize(
    ("workflow", "said"),
    [
        (replace(FULL, edges=(Edge("draft", "queued", "user"),)), "edge draft -> queued: by is 'user', and must be a tuple; write ('user',)"),  # type: ignore[arg-type]  # noqa: E501
        (replace(FULL, edges=(Edge("draft", "queued", ("usr",)),)), "did you mean 'user'?"),  # type: ignore[arg-type]
        (replace(FULL, states=(State("draft", "wating"),)), "did you mean 'waiting'?"),  # type: ignore[arg-type]
        (replace(FULL, states=(State("work", "active", stage="a.b"),)), "write {\"*\": 'a.b'}"),  # type: ignore[arg-type]
        (replace(FULL, states=(State("work", "active", limit_s="60s"),)), "state work: limit_s is '60s', and must be a number of seconds"),  # type: ignore[arg-type]  # noqa: E501
        (replace(FULL, states=(State("work", "active", deadline=60),)), "write Deadline(60)"),  # type: ignore[arg-type]
        (replace(FULL, states=(State("work", "active", sift="mine"),)), "write Call('mine')"),  # type: ignore[arg-type]
        (replace(FULL, birth=Birth(money="holds")), "did you mean 'hold'?"),  # type: ignore[arg-type]
        (replace(FULL, commands=(Command("go", {"draft": "queued"}),)), "write ('queued',)"),  # type: ignore[dict-item]
        (replace(FULL, failed_stages=["running"]), "write it in round brackets"),
        (replace(FULL, routes=(Route("GET", "/x"),)), "'POST' or 'PUT'"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_the_likely_cure_is_told(workflow: Workflow, said: str) -> None:
    assert said in "\n".join(fault.text for fault in check(define(workflow)))


def test_all_slips_are_told_at_once() -> None:
    states = (State("a", "wating"), State("b", "active", limit_s="1", entry=300))  # type: ignore[arg-type]
    found = check(define(replace(FULL, states=states, lease_s=None)))
    assert len(found) == 4


def test_functions_and_structs_are_what_they_stand_for() -> None:
    odd: Any = {"a": 7, 8: len}
    found = check(Definition(FULL, odd, {"params": dict, "other": Unfillable}))  # type: ignore[dict-item]
    told = "\n".join(fault.text for fault in found)
    assert "functions['a'] is 7, and must be a function" in told
    assert "the name 8 is 8, and must be text" in told
    assert "structs['params'] is <class 'dict'>" in told
    assert "structs['other'] is Unfillable, and must be a struct that JSON can fill" in told


class Unfillable(Struct):
    """No JSON becomes this."""

    what: Mute
