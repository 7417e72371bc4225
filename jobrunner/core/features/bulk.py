"""One act on many jobs, as data.

A bulk is gathered first: the jobs that it is about are listed once, when it is ordered, and no job
joins later. Each of them is an item. What is done to a job and the word that it was done are in
one transaction (``Tick`` in the decision), so that a bulk that goes on after a crash, or twice,
acts on each job at most once.
"""

from typing import Any, Literal

from msgspec import Struct

from jobrunner.core.declaration.states import TokenRole
from jobrunner.core.job import Actor
from jobrunner.core.messages import Do, Message, Pause, Release, Resume, Stop

BUILT_IN = ("pause", "resume", "release", "stop", "delete", "rerun")
Outcome = Literal["done", "satisfied", "failed"]
Status = Literal["gathering", "running", "done", "aborted"]


class Orders(Struct, frozen=True, omit_defaults=True):
    """The orders of a bulk, as it is shown; ``fields`` are the command's, ``which`` how the jobs
    were chosen (None: by their ids), ``address`` is from where it was ordered; ``role`` is in which
    role whoever ordered it acts."""

    command: str
    fields: dict[str, Any] = {}
    reason: str | None = None
    which: dict[str, Any] | None = None
    address: str = ""
    role: TokenRole = "admin"


class Tick(Struct, frozen=True):
    """An item of a bulk is over: its place there, and how it ended."""

    bulk: str
    place: int
    outcome: Outcome = "done"
    code: str = ""
    detail: str = ""


class NewBulk(Struct, frozen=True, tag=True):
    """A bulk that gathers its items; nobody was told of it yet."""

    id: str
    orders: Orders
    actor: str
    at: int


class MoreItems(Struct, frozen=True, tag=True):
    """Jobs of a bulk that gathers, from this place on."""

    bulk: str
    first: int
    job_ids: tuple[str, ...]


class BulkTurned(Struct, frozen=True, tag=True):
    """A bulk that starts, is done, or was aborted; refused with ``missing`` when it is over
    already."""

    bulk: str
    status: Status
    actor: str
    at: int
    total: int = 0
    command: str = ""


class Ticked(Struct, frozen=True, tag=True):
    """An item that is over and changed no job."""

    tick: Tick


class Bulk(Struct, frozen=True):
    """The progress of a bulk. ``total`` is the number of its items."""

    id: str
    orders: Orders
    actor: str
    status: Status
    total: int
    done: int
    satisfied: int
    failed: int
    created_at: int
    ended_at: int | None


class BulkItem(Struct, frozen=True):
    place: int
    job_id: str
    outcome: str | None = None
    code: str = ""
    detail: str = ""


def message_of(orders: Orders, actor: Actor) -> Message | None:
    """Make the message for each job; None for an order that sends none."""
    match orders.command:
        case "pause":
            return Pause(actor, orders.reason)
        case "resume":
            return Resume(actor, orders.reason)
        case "release":
            return Release(actor, orders.reason)
        case "stop":
            return Stop(actor, orders.reason)
        case "delete" | "rerun":
            return None
        case name:
            return Do(actor, name, orders.fields, reason=orders.reason)
