"""Bindings: the stage behind each place of a declaration, today and at the last start. Data.

A place is a status of one declaration with a job type. Bindings are the operator's, so the same
declaration may be bound otherwise at the next start; what then follows for a job is ``rebinding``.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.declaration.states import REMOTE
from jobrunner.core.declaration.workflow import Definition, State

Spot = tuple[str, str, str]


class Binding(Struct, frozen=True):
    """The stage of a place. While it is not ``settled``, jobs are being brought to it. ``was``,
    ``changed_at`` and ``jobs`` (how many it was changed for) tell of the last change."""

    digest: str
    status: str
    job_type: str
    stage: str
    settled: bool = True
    was: str = ""
    changed_at: int | None = None
    jobs: int = 0

    @property
    def spot(self) -> Spot:
        return self.digest, self.status, self.job_type


class Bind(Struct, frozen=True, tag=True):
    """Store what these places are bound to."""

    bindings: tuple[Binding, ...]


class Resting(Struct, frozen=True):
    """A job that may have to be brought to another binding, and where it is."""

    row: int
    job_id: str
    spot: Spot


def differences(
    definitions: Iterable[Definition], known: Iterable[Binding], now: int
) -> tuple[Binding, ...]:
    """List every place that is bound differently than at the last start, or whose last binding is
    unknown: it is new, or a change of it was interrupted."""
    before = {binding.spot: binding for binding in known}
    today = (binding for definition in definitions for binding in bindings(definition))
    return tuple(
        _changed(binding, before.get(binding.spot), now)
        for binding in today
        if not _is_known(binding, before.get(binding.spot))
    )


def bindings(definition: Definition) -> Iterator[Binding]:
    """Name the stage behind each place where there is one, inside or outside."""
    for status in definition.states:
        for job_type in definition.job_types:
            if stage := _named(definition, status, job_type):
                yield Binding(definition.digest, status, job_type, stage)


def stage_behind(definition: Definition, status: str, job_type: str) -> str:
    """The stage of this state, or of the one that the engine takes a job to from here; empty where
    no stage is."""
    place = _worked_in(definition, status, job_type)
    return (place.on_demand or definition.stage_of(place.name, job_type)) if place else ""


def _named(definition: Definition, status: str, job_type: str) -> str:
    """Name a binding as operators do: ``remote`` means external to a job, but changing to or from
    it is a change."""
    place = _worked_in(definition, status, job_type)
    far = place is not None and definition.is_remote(place.name, job_type)
    return REMOTE if far else stage_behind(definition, status, job_type)


def _worked_in(definition: Definition, status: str, job_type: str) -> State | None:
    state = definition.states[status]
    if state.kind == "active" or state.on_demand:
        return state
    target = definition.states.get(definition.onward_of(status, job_type))
    return target if target is not None and target.kind == "active" else None


def _is_known(today: Binding, before: Binding | None) -> bool:
    return before is not None and before.settled and before.stage == today.stage


def _changed(today: Binding, before: Binding | None, now: int) -> Binding:
    if before is None:
        return replace(today, settled=False)
    was = before.was if before.stage == today.stage else before.stage
    return replace(today, settled=False, was=was, changed_at=now)
