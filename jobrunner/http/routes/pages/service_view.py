"""The service itself, as the overview shows it: what is wrong with it, its file, its room."""

from collections.abc import Mapping

from jobrunner.actors.features.plugins import PartKind, PluginTrouble
from jobrunner.core.instants import text_or_none
from jobrunner.core.questions import Gauges
from jobrunner.http.frame.endpoint import HttpCall, View
from jobrunner.http.frame.views import view_of


class PluginTroubleView(View, frozen=True, kw_only=True):
    """A part of a plugin that failed within the last hour, and how it did last. A ``function`` is
    named in a declaration; a ``panel`` did not start in a browser. ``job_id`` is where it was."""

    kind: PartKind
    name: str
    workflow: str | None
    error: str
    at: str
    job_id: str | None


class SystemView(View, frozen=True, kw_only=True):
    """How the service is. ``checks`` and ``warnings`` are those of ``/readyz``; ``refused`` are
    plugins' parts that were not taken in, by name; ``troubles`` are those that fail as they run,
    the newest first. Below ``free_min_bytes`` no new jobs are taken; a log beyond ``wal_max_bytes``
    is one that somebody keeps from being cut."""

    version: str
    draining: bool
    checks: dict[str, str]
    warnings: dict[str, str]
    refused: dict[str, list[str]]
    troubles: list[PluginTroubleView]
    file_bytes: int
    wal_bytes: int
    wal_max_bytes: int
    unused_bytes: int
    free_bytes: int
    free_min_bytes: int
    lag_ms: float
    writes_waiting: int
    streams: int
    backup_at: str | None


def system_view(call: HttpCall, gauges: Gauges, checks: Mapping[str, str]) -> SystemView:
    door = call.door
    pressure = door.limits.stats()
    refused = door.facade.definitions.refused
    return view_of(
        SystemView,
        gauges,
        version=door.version,
        draining=door.facade.draining,
        checks={name: fault for name, fault in checks.items() if fault},
        warnings=door.warnings(),
        refused={
            f"{kind} {name}": [str(fault) for fault in faults]
            for kind, named in sorted(refused.items())
            for name, faults in sorted(named.items())
        },
        troubles=[_trouble(one) for one in door.troubles.latest()],
        wal_max_bytes=int(limit_now(call, "store.wal_max")),
        free_bytes=door.limits.free_bytes,
        free_min_bytes=int(limit_now(call, "limits.free_disk")),
        lag_ms=round(pressure["lag_s"] * 1000, 1),
        writes_waiting=int(pressure["waiting"]),
        streams=int(pressure["streams"]),
        backup_at=text_or_none(door.backups.last_at),
    )


def _trouble(one: PluginTrouble) -> PluginTroubleView:
    part = one.part
    workflow = part.workflow or None
    return view_of(PluginTroubleView, one, kind=part.kind, name=part.name, workflow=workflow)


def limit_now(call: HttpCall, key: str) -> float:
    """Return a limit as it was changed at run time, else as the settings say."""
    said = call.door.settings.told.get(key, 0)
    return call.door.facade.limits.told().get(key, said)
