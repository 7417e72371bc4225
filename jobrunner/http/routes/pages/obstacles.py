"""Obstacles to work beside the jobs themselves: unanswered questions, pauses, schedules, rates,
older declarations. Each names the thing, so that its reader knows where to go."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

from jobrunner.core.features.answers.giving import AnswerFilter
from jobrunner.core.instants import text_of, text_or_none
from jobrunner.http.frame.endpoint import HttpCall, View
from jobrunner.http.frame.views import view_of

FEW = 5
MISSED_MS = 24 * 3_600_000


class OpenQuestion(View, frozen=True, kw_only=True):
    """A question of a stage that nobody has answered: its job asks it by this name."""

    job_id: str
    workflow: str
    name: str
    asked_at: str


class PauseRow(View, frozen=True, kw_only=True):
    scope: Literal["workflow", "stage", "schedule"]
    name: str
    by: str
    at: str
    reason: str | None


class ScheduleTrouble(View, frozen=True, kw_only=True):
    """``missed``: a moment of the last day made no job though it should have; ``waits``: one that
    is due cannot make its job yet; ``faulty``: it can make no job as it is."""

    name: str
    trouble: Literal["missed", "waits", "faulty"]
    since: str | None
    reason: str | None


class RateTrouble(View, frozen=True, kw_only=True):
    """So many jobs are in line for a turn of this rate, which has none now. With ``held_by`` a
    provider holds it back; the next turn is at ``room_at``."""

    name: str
    waiting: int
    room_at: str
    held_by: str | None


class OlderJobs(View, frozen=True, kw_only=True):
    """Jobs under way of a workflow that go on under an older declaration, and those that cannot go
    on for want of what they lack, now or later."""

    workflow: str
    older: int
    stuck: int
    lacks: list[str]


class Obstacles(View, frozen=True, kw_only=True):
    pauses: list[PauseRow]
    schedules: list[ScheduleTrouble]
    rates: list[RateTrouble]
    older: list[OlderJobs]


async def obstacles(call: HttpCall) -> Obstacles:
    return Obstacles(
        pauses=list(_pauses(call)),
        schedules=list(_schedules(call)),
        rates=[one async for one in _rates(call)],
        older=[one async for one in _older(call)],
    )


async def open_questions(call: HttpCall) -> list[OpenQuestion]:
    """The newest of those that this caller may answer, or see."""
    actor = call.actor
    whose = actor.name if actor.role == "user" else None
    which = AnswerFilter(user_id=whose, workflows=actor.workflows, limit=FEW)
    return [
        view_of(OpenQuestion, one, asked_at=text_of(one.posed.asked_at))
        for one in await call.door.reader.pending_answers(which)
    ]


def _pauses(call: HttpCall) -> Iterator[PauseRow]:
    pauses, schedules = call.door.facade.world.pauses, call.door.facade.schedules.standing
    held: list[tuple[Any, str, Any]] = [
        *(("workflow", name, paused) for name, paused in pauses.workflows.items()),
        *(("stage", name, paused) for name, paused in pauses.stages.items()),
        *(("schedule", name, one.stored.paused) for name, one in schedules.items()),
    ]
    for scope, name, paused in held:
        if paused is not None:
            at, reason = text_of(paused.at), paused.reason
            yield PauseRow(scope=scope, name=name, by=paused.by, at=at, reason=reason)


def _schedules(call: HttpCall) -> Iterator[ScheduleTrouble]:
    schedules, now = call.door.facade.schedules, call.door.clock.now()
    for name, one in sorted(schedules.standing.items()):
        failed_at = one.stored.failed_at
        if one.stored.paused is not None:
            continue
        if one.held is not None:
            reason, since = f"{one.held.code}: {one.held.detail}", text_or_none(one.held_since)
            yield ScheduleTrouble(name=name, trouble="waits", since=since, reason=reason)
        elif fault := schedules.misfit(one.schedule):
            yield ScheduleTrouble(name=name, trouble="faulty", since=None, reason=fault)
        elif failed_at is not None and failed_at > now - MISSED_MS:
            since = text_of(failed_at)
            yield ScheduleTrouble(name=name, trouble="missed", since=since, reason=None)


async def _rates(call: HttpCall) -> AsyncIterator[RateTrouble]:
    """List the rates without a turn; where there is no rate, nobody is asked."""
    world, now = call.door.facade.world, call.door.clock.now()
    spent = [rate for rate in world.rates.now() if rate.room_at > now]
    in_line = await call.door.reader.in_line_by() if spent else {}
    for rate in spent:
        places = {place[:2] for place in world.registry.places(frozenset(rate.stages))}
        if waiting := sum(in_line.get(place, 0) for place in places):
            held_by = rate.held_by if rate.held_until else None
            at = text_of(rate.room_at)
            yield RateTrouble(name=rate.name, waiting=waiting, room_at=at, held_by=held_by)


async def _older(call: HttpCall) -> AsyncIterator[OlderJobs]:
    """List the older declarations of jobs; where all are of today, nobody is asked."""
    registry, census = call.door.facade.definitions, call.door.facade.census
    older = not all(registry.is_of_today(one) for one in registry.declared())
    places = await census.under_way() if older else ()
    for name in sorted({place.workflow for place in places}):
        found = registry.forecast(name, places)
        if found.differs or found.lacks:
            yield OlderJobs(
                workflow=name,
                older=found.jobs("older"),
                stuck=found.jobs("stuck"),
                lacks=list(found.lacks),
            )
