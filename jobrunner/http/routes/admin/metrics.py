"""``GET /metrics``: how things stand, gathered in one read and a few looks, and what was counted.

On this machine nobody is asked for a token, as monitoring expects; from elsewhere, and through a
proxy that runs here, an admin's is needed.
"""

from collections.abc import Iterator

from jobrunner.core.features.meter import RateReading, Readings, ScheduleReading
from jobrunner.http.frame.endpoint import ADMINS, Endpoint, HttpCall, HttpDoor, HttpReply

TEXT = "text/plain"


@Endpoint("GET", "/metrics", {200: TEXT}, ADMINS, local=True)
async def get_metrics(call: HttpCall) -> HttpReply:
    """Show the figures for Prometheus; on this machine without a token."""
    text, kind = call.door.exposition(await readings(call.door))
    return HttpReply(200, text, content_type=kind)


async def readings(door: HttpDoor) -> Readings:
    """Ages count from now; what is due later is not overdue."""
    found, census = await door.reader.gauges(), await door.facade.census.latest()
    ready = not await door.health()
    log_fault, log_lost = getattr(door.log, "condition", ("", 0))
    standby = door.standby()
    stats, pressure, now = door.facade.stats(), door.limits.stats(), door.clock.now()
    return Readings(
        file=found,
        oldest_in_line_s=_age_s(found.line_at, now),
        overdue_timers_s=_age_s(found.due_at, now),
        actors=stats["actors"],
        letters=stats["letters"],
        writes_waiting=int(pressure["waiting"]),
        submissions_inside=door.limits.admission.inside,
        submissions_waiting=len(door.limits.admission),
        loop_lag_s=pressure["lag_s"],
        streams=int(pressure["streams"]),
        uploads=door.arrivals.under_way,
        deliveries_under_way=door.facade.deliveries.under_way,
        free_bytes=door.limits.free_bytes,
        objects_away_s=door.facade.file_moves.away_s,
        threads_stray=stats["strays"],
        backup_at_s=(door.backups.last_at or 0) / 1000,
        standby_behind_s=standby.behind_s if standby else 0,
        standby_lease_s=standby.lease_s if standby else 0,
        standby_files=standby.files_behind if standby else 0,
        ready=ready,
        log_faulty=bool(log_fault),
        log_lost=log_lost,
        census=census,
        census_age_s=_age_s(census.at, now),
        pauses=tuple(_pauses(door, now)),
        rates=await _rates(door, now),
        schedules=tuple(_schedules(door, now)),
        limits={**door.settings.told, **_changed(door)},
        seats=door.facade.world.surroundings.elsewhere.seats(),
    )


def _schedules(door: HttpDoor, now: int) -> Iterator[ScheduleReading]:
    for name, one in sorted(door.facade.schedules.standing.items()):
        waits_s = _age_s(one.held_since, now)
        yield ScheduleReading(name, (one.stored.failed_at or 0) / 1000, waits_s)


def _pauses(door: HttpDoor, now: int) -> Iterator[tuple[str, str, float]]:
    pauses = door.facade.world.pauses
    for scope in ("workflow", "stage"):
        for name, paused in sorted(pauses.of(scope).items()):
            yield scope, name, _age_s(paused.at, now)


def _changed(door: HttpDoor) -> dict[str, float]:
    """The limits among these that were changed at run time."""
    told = door.facade.limits.told()
    return {key: value for key, value in told.items() if key in door.settings.told}


async def _rates(door: HttpDoor, now: int) -> tuple[RateReading, ...]:
    """Describe the rates; without any, nobody is asked."""
    world = door.facade.world
    if not (rates := world.rates.now()):
        return ()
    in_line = await door.reader.in_line_by()
    return tuple(
        RateReading(
            rate.name,
            rate.level,
            max((rate.held_until or 0) - now, 0) / 1000,
            sum(in_line.get(place, 0) for place in _places(door, rate.stages)),
        )
        for rate in rates
    )


def _places(door: HttpDoor, stages: tuple[str, ...]) -> set[tuple[str, str]]:
    found = door.facade.world.registry.places(frozenset(stages))
    return {(workflow, status) for workflow, status, _ in found}


def _age_s(since: int | None, now: int) -> float:
    return max(now - since, 0) / 1000 if since is not None else 0.0
