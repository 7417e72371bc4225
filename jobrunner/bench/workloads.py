"""The workflows that the bench runs: they do nothing, so that what is measured is the service.

They are a distribution like any other to the service under test, which finds its description in a
folder of the run (``install``) and its code here.
"""

import json
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from jobrunner import (
    Birth,
    Context,
    Deadline,
    Definition,
    Done,
    Edge,
    Heard,
    JobType,
    Lock,
    PlainContext,
    Retry,
    Source,
    State,
    Workflow,
    stage,
)
from jobrunner.core.declaration.states import Trigger

PRICE = 1
METADATA = "Metadata-Version: 2.1\nName: jobrunner-workloads\nVersion: 1.0.0\n"
LIMIT_S = 100_000.0
ANY_NUMBER = 1_000_000
SOURCE = "bell"
# The parameters of a submission: some hundred bytes, of a form that must be checked.
ORDER: dict[str, Any] = {
    "order_id": "order-0123456789",
    "customer": {"id": "customer-98765", "email": "somebody@example.invalid", "tier": "gold"},
    "items": [{"sku": "A-1001", "count": 2}, {"sku": "B-2002", "count": 1}],
    "note": "leave it with the neighbours, please",
}


class Item(Struct, frozen=True):
    sku: str
    count: int


class Customer(Struct, frozen=True):
    id: str
    email: str
    tier: str


class Order(Struct, frozen=True):
    """``seconds`` is how long those stages take that take their time."""

    order_id: str
    customer: Customer
    items: tuple[Item, ...]
    note: str = ""
    seconds: float = 0


@stage("steps.nothing", concurrency=ANY_NUMBER)
async def nothing(ctx: Context[Order]) -> Done:
    return Done(result={"ok": True})


@stage("parked.listen", concurrency=ANY_NUMBER)
async def listen(ctx: Context[Order]) -> Done:
    await ctx.await_callback(ctx.params.order_id, LIMIT_S, source=SOURCE)
    return Done(result={"ok": True})


@stage("telling.tell", concurrency=ANY_NUMBER)
async def tell(ctx: Context[Order]) -> Done:
    """Say every second how far it is."""
    for second in range(int(ctx.params.seconds)):
        await ctx.progress(int(100 * second / ctx.params.seconds), f"second {second}")
        await anyio.sleep(1)
    return Done(result={"ok": True})


@stage("burning.burn", concurrency=ANY_NUMBER)
def burn(ctx: PlainContext[Order]) -> Done:
    """Use a core up, in a process of its own."""
    end = time.monotonic() + ctx.params.seconds
    while time.monotonic() < end:
        pass
    return Done(result={"ok": True})


def heard(body: bytes, headers: Mapping[str, str]) -> Heard | None:
    told = msgspec.json.decode(body)
    return Heard(told["id"], told)


bell = Source(SOURCE, heard)


def _declared(name: str, *stages: str) -> Definition:
    """A line of stages, one state each; ``paid`` jobs hold credits that their end captures."""
    places = [f"step_{number}" for number in range(1, len(stages) + 1)]
    active = (
        State(place, "active", stage={"*": bound}, done=then, limit_s=LIMIT_S,
              deadline=Deadline(2 * LIMIT_S), retry=Retry("inside", failed=("failed",)))
        for place, bound, then in zip(places, stages, [*places[1:], "done"], strict=True)
    )  # fmt: skip
    first, last = places[0], places[-1]
    onward = (Edge(a, b, by=("stage", "workflow")) for a, b in pairwise(places))
    fails: tuple[Trigger, ...] = ("stage", "timer", "engine", "workflow")
    workflow = Workflow(
        name=name,
        version="1",
        initial="queued",
        states=(
            State("queued", "queued", onward={"*": first}),
            *active,
            State("done", "final", ends="completed"),
            State("failed", "final", ends="failed", fails=("failure_message",)),
        ),
        edges=(
            Edge("queued", first, by=("engine", "workflow")),
            *onward,
            Edge(last, "done", by=("stage", "workflow"), money="capture"),
            *(Edge(place, "failed", by=fails, money="release") for place in places),
        ),
        job_types=(JobType("free", params="order"), JobType("paid", params="order", price=PRICE)),
        birth=Birth(money="hold"),
        locks=(Lock("job", guarded=tuple(places)),),
    )
    return Definition(workflow, structs={"order": Order})


THREE = ("steps.nothing",) * 3
steps = _declared("steps", *THREE)
others = _declared("others", *THREE)
parked = _declared("parked", "parked.listen")
telling = _declared("telling", "telling.tell")
burning = _declared("burning", "burning.burn")

WORKFLOWS = ("steps", "others", "parked", "telling", "burning")
ENTRIES = {
    "workflows": {name: name for name in WORKFLOWS},
    "stages": {"steps.nothing": "nothing", "parked.listen": "listen",
               "telling.tell": "tell", "burning.burn": "burn"},
    "sources": {SOURCE: "bell"},
}  # fmt: skip


def install(folder: Path) -> None:
    """Describe this module as a distribution that the service finds in ``folder``."""
    info = folder / "jobrunner_workloads-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    lines = []
    for kind, entries in ENTRIES.items():
        lines.append(f"[jobrunner.{kind}]")
        lines += [f"{name} = {__name__}:{bound}" for name, bound in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def body(workflow: str, *, paid: bool = False, **params: Any) -> bytes:
    """A submission. ``order_id`` and ``seconds`` may be given."""
    said = {"workflow": workflow, "job_type": "paid" if paid else "free", "params": ORDER | params}
    return json.dumps(said, separators=(",", ":")).encode()
