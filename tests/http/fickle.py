"""A workflow that asks a function at every place where one may be asked; each does what a test has
told it to, for as long as the test says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from jobrunner import (
    Act,
    Birth,
    Call,
    Command,
    Context,
    Deadline,
    Definition,
    Done,
    Edge,
    Editable,
    Guard,
    JobType,
    Lock,
    Recipe,
    Refused,
    Retry,
    Route,
    State,
    Upload,
    Workflow,
    stage,
)
from jobrunner.core.messages import Report
from jobrunner.stages import Registry

DEEDS: dict[str, Callable[[], Any]] = {}


class Params(Struct, frozen=True):
    name: str = "x"


def doing(name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def function(*given: Any) -> Any:
        return DEEDS[name]() if name in DEEDS else otherwise(*given)

    return function


@contextmanager
def misbehaving(name: str, deed: Callable[[], Any]) -> Iterator[None]:
    DEEDS[name] = deed
    try:
        yield
    finally:
        del DEEDS[name]


@stage("fickle.work")
async def work(ctx: Context[Params]) -> Done:
    return Done(result={"made": ctx.params.name})


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "birth_guard": doing("birth_guard", lambda ask: None),
    "derive": doing("derive", lambda ask: [ask.fresh, ask.message.job_id]),
    "identity": doing("identity", lambda ask: None),
    "command_guard": doing("command_guard", lambda ask: None),
    "action": doing("action", lambda ask: Act()),
    "edge_guard": doing("edge_guard", lambda ask: None),
    "edited": doing("edited", lambda ask: Act()),
    "upload_guard": doing("upload_guard", lambda ask: None),
    "uploaded": doing("uploaded", lambda ask: Act()),
    "sift": doing("sift", lambda ask: ask.report),
    "pick_up": doing("pick_up", lambda ask: None),
    "done_guard": doing("done_guard", lambda ask: None),
    "read": doing("read", lambda body: ({}, None)),
    "answer": doing("answer", lambda job, answer, purse: {"message": "well"}),
}


def guard(name: str, **more: Any) -> tuple[Guard, ...]:
    return (Guard(Call(name), **more),)


DEFINITION = Definition(
    Workflow(
        name="fickle",
        version="1",
        initial="draft",
        states=(
            State("draft", "waiting"),
            State(
                "outside",
                "active",
                stage={"*": "external"},
                done="draft",
                sift=Call("sift"),
                deadline=Deadline(900, ("failed",)),
            ),
            State("queued", "queued", onward={"*": "working"}),
            State(
                "working",
                "active",
                stage={"*": "fickle.work"},
                done="done",
                limit_s=60,
                retry=Retry("inside", failed=("failed",)),
            ),
            State("done", "final", ends="completed"),
            State("failed", "final", ends="failed"),
            State("canceled", "final", ends="canceled"),
        ),
        edges=(
            Edge("draft", "outside", by=("user", "workflow")),
            Edge("outside", "draft", by=("workflow", "stage", "timer", "engine")),
            Edge("outside", "failed", by=("workflow", "stage", "timer", "engine")),
            Edge("draft", "queued", by=("user",), guards=guard("edge_guard")),
            Edge(
                "queued",
                "working",
                by=("engine",),
                guards=guard("pick_up", otherwise=("failed",), code="NO"),
            ),
            Edge("queued", "failed", by=("engine",)),
            Edge("working", "done", by=("stage",), guards=guard("done_guard")),
            Edge("working", "failed", by=("stage", "timer", "engine")),
            *(
                Edge(name, "canceled", by=("user",))
                for name in ("draft", "outside", "queued", "working")
            ),
        ),
        job_types=(JobType("one", params="params"),),
        commands=(
            Command("go", {"draft": ("queued",)}),
            Command(
                "note",
                {"draft": ()},
                identity=Call("identity"),
                guards=guard("command_guard"),
                action=Call("action"),
            ),
            Command("cancel", dict.fromkeys(("draft", "queued", "working"), ("canceled",))),
        ),
        editables=(Editable("text", {"draft": ()}, action=Call("edited")),),
        uploads=(
            Upload(
                "file",
                {"draft": ()},
                asset_type="file",
                guards=guard("upload_guard"),
                action=Call("uploaded"),
            ),
        ),
        birth=Birth(guards=guard("birth_guard")),
        locks=(Lock("job", guarded=("outside", "working")),),
        codes={"NO_FULL_MOON": 409},
        recipe=Recipe(derive=Call("derive"), freed=("canceled",)),
        routes=(
            Route(
                "POST", "/fickle", "one", body="params", read="read", answer="answer", status=201
            ),
        ),
    ),
    FUNCTIONS,
    {"params": Params},
)


def fickle() -> Registry:
    registry = Registry()
    registry.add(work)
    registry.add(DEFINITION)
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


def refusing() -> Refused:
    return Refused("NO_FULL_MOON", "the moon is not full")


def raising() -> Any:
    raise ValueError("a bug of its author")


def quoting(words: str) -> Callable[[], Any]:
    """A bug that repeats what somebody wrote, as exceptions of libraries do."""

    def quotes() -> Any:
        try:
            return dict[str, str]()[words]
        except KeyError as error:
            raise ValueError(f"cannot do {words!r}") from error

    return quotes


def leaving() -> Any:
    raise SystemExit(3)


def waiting() -> Any:
    async def later() -> None: ...

    later().close()
    return later


def odd_report() -> Act:
    return Act(report=Report(progress=700))


def odd_name() -> Act:
    return Act(report=Report(artifacts={"No Name": 1}))


def odd_path() -> Act:
    return Act(path=("nowhere",))


def unsendable() -> Act:
    return Act(answer={"what": object()})
