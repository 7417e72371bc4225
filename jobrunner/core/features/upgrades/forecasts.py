"""The future of jobs under way, seen from the declarations of today.

A job stays under the declaration that it was born under. Whether it can go on there depends on what
the plugin of today still brings; that is asked here of places, each with the number of jobs in it,
and of no job by itself.
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from jobrunner.core.declaration.missing import Brought, lacking
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.upgrades.upgrades import UnderWay
from jobrunner.core.job import Snapshot

Fate = Literal["today", "older", "stuck"]


class Outlook(Struct, frozen=True):
    """The future of the jobs in a place: they go on under the declaration of ``today`` or under the
    ``older`` one, or are ``stuck`` for want of what they lack there. ``ahead`` are the states that
    they may come to later and what they will lack in each."""

    place: UnderWay
    fate: Fate
    lacks: tuple[str, ...] = ()
    ahead: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def text(self) -> str:
        place = self.place
        jobs = f"{place.jobs} job{'' if place.jobs == 1 else 's'}"
        where = f"{jobs} in {place.status} ({place.job_type}) of {place.declaration}"
        if self.fate == "stuck":
            return f"{where}: stuck for want of {', '.join(self.lacks)}"
        later = [
            f"stuck in {status} for want of {', '.join(lacks)}" for status, lacks in self.ahead
        ]
        head = "go on" if self.fate == "today" else "go on under the old one"
        return f"{where}: {'; later '.join([head, *later])}"


class Forecast(Struct, frozen=True):
    """The outlooks of one workflow's jobs, and how many jobs have each fate."""

    workflow: str
    outlooks: tuple[Outlook, ...] = ()

    def jobs(self, fate: Fate) -> int:
        return sum(one.place.jobs for one in self.outlooks if one.fate == fate)

    @property
    def differs(self) -> bool:
        """Some of these jobs are not under the declaration of today."""
        return any(one.fate != "today" for one in self.outlooks)

    @property
    def lacks(self) -> tuple[str, ...]:
        """List everything that holds up jobs now, or will."""
        found = {name for one in self.outlooks for name in one.lacks}
        found |= {name for one in self.outlooks for _, names in one.ahead for name in names}
        return tuple(sorted(found))

    @property
    def summary(self) -> str:
        today, older, stuck = (self.jobs(fate) for fate in ("today", "older", "stuck"))
        return f"jobs under way: {today} go on, {older} under the old one, {stuck} stuck"


def forecast(
    name: str,
    places: Iterable[UnderWay],
    today: Definition | None,
    pinned: dict[str, Definition],
    brings: Brought,
) -> Forecast:
    """Look ahead for all jobs of one workflow. ``pinned`` are the declarations by their digests."""
    own = (place for place in places if place.workflow == name)
    found = [_outlook(place, today, pinned.get(place.digest), brings) for place in own]
    order = ("stuck", "older", "today")
    return Forecast(name, tuple(sorted(found, key=lambda one: order.index(one.fate))))


def _outlook(
    place: UnderWay, today: Definition | None, pinned: Definition | None, brings: Brought
) -> Outlook:
    if today is None:
        return Outlook(place, "stuck", ("the workflow, which is not loaded",))
    if pinned is None or place.status not in pinned.states:
        return Outlook(place, "stuck", ("its declaration, which is not understood any more",))
    if lacks := lacking(pinned, _in(place, pinned, place.status), brings):
        return Outlook(place, "stuck", lacks)
    ahead = [
        (status, lacks)
        for status in _reached(pinned, place.status)
        if (lacks := lacking(pinned, _in(place, pinned, status), brings))
    ]
    fate: Fate = "today" if place.digest == today.digest else "older"
    return Outlook(place, fate, ahead=tuple(ahead))


def _in(place: UnderWay, definition: Definition, status: str) -> Snapshot:
    """A job that stands for all of the place, or for what will become of them."""
    kind = definition.states[status].kind
    about = (place.workflow, place.digest, place.job_type)
    return Snapshot("", *about, "", status, kind, created_at=0, updated_at=0)


def _reached(definition: Definition, status: str) -> list[str]:
    """List every state that can follow this one, nearest first."""
    found = [status]
    for source in found:
        found += [one for one in definition.table.get(source, {}) if one not in found]
    return found[1:]
