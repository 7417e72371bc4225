"""The events of notifications: the name of each, the words in which it is offered, and when it
happens.

Whatever may be subscribed to is said here and nowhere else: bodies of requests, the settings, the
OpenAPI document and the help of the command line are made from it, and docs/notifications.md is
compared.
"""

from collections.abc import Callable
from typing import Literal, get_args

from msgspec import Struct

from jobrunner.core.declaration.states import State
from jobrunner.core.job import Snapshot

Happening = Literal["ended", "settled", "waiting", "stuck", "transition"]
NAMES: tuple[Happening, ...] = get_args(Happening)
EVERY: Happening = "transition"
UNASKED: tuple[Happening, ...] = ("ended", "settled")


class Change(Struct, frozen=True):
    """One commit, as far as events go. ``moved``: an edge was taken, be it to the same status;
    ``person``: where the job stands now, a person is waited for."""

    before: Snapshot | None
    after: Snapshot
    moved: bool
    state: State
    person: bool

    @property
    def came(self) -> bool:
        """Say whether the job stands somewhere else than before."""
        return self.moved and (self.before is None or self.before.status != self.after.status)


class Occasion(Struct, frozen=True):
    """When an event happens, and in which words that is told."""

    when: str
    is_now: Callable[[Change], bool]


def happened(change: Change) -> Happening | None:
    """Name the most telling event of a commit."""
    return next((name for name, one in OCCASIONS.items() if one.is_now(change)), None)


def _got_stuck(change: Change) -> bool:
    return change.after.stuck is not None and (change.before is None or change.before.stuck is None)


def _waits_for_person(change: Change) -> bool:
    return change.came and change.after.kind == "waiting" and change.person


# The most telling first: one commit tells an endpoint one thing.
OCCASIONS: dict[Happening, Occasion] = {
    "stuck": Occasion("it is stuck", _got_stuck),
    "ended": Occasion(
        "in a final state; heard unasked",
        lambda change: change.came and change.after.kind == "final",
    ),
    "settled": Occasion(
        "nothing happens by itself, a command can revive it; heard unasked",
        lambda change: change.came and change.after.kind == "settled",
    ),
    "waiting": Occasion("it waits for a person", _waits_for_person),
    "transition": Occasion("it moved at all", lambda change: change.moved),
}
