"""The schedules of the settings, and what is wrong with them."""

import re
from collections.abc import Callable, Iterator

from jobrunner.config.settings import Config, nearest
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.schedules.schedules import (
    FaultAt,
    Schedule,
    faults,
    misfits,
    schedule_of,
)

LABEL = r"[^:\x00-\x20]{1,63}"
LABELS_MAX, VALUE_MAX = 16, 255


def schedules_of(config: Config) -> tuple[Schedule, ...]:
    return tuple(schedule_of(name, said) for name, said in config.schedules.items())


def schedule_faults(config: Config) -> Iterator[str]:
    """Say what is wrong whatever is loaded: times, zones, names."""
    for schedule in schedules_of(config):
        for fault in (*faults(schedule), *_of_labels(schedule)):
            yield _told(schedule, fault)


def unfit_schedules(
    config: Config, known: list[str], current: Callable[[str], Definition | None]
) -> list[str]:
    """Say what does not fit the workflows as they are loaded: such a schedule waits, or its moments
    are refused."""
    return [
        _told(schedule, fault)
        for schedule in schedules_of(config)
        for fault in _misfits(schedule, known, current(schedule.workflow))
    ]


def _of_labels(schedule: Schedule) -> Iterator[FaultAt]:
    if len(schedule.labels) > LABELS_MAX:
        yield "labels", f"must be at most {LABELS_MAX}"
    for key, value in schedule.labels.items():
        if not re.fullmatch(LABEL, key) or len(value) > VALUE_MAX:
            yield f"labels.{key}", "must be a short name without colons, with a text up to 255 long"


def _misfits(
    schedule: Schedule, known: list[str], definition: Definition | None
) -> Iterator[FaultAt]:
    if definition is not None:
        yield from misfits(schedule, definition)
    elif schedule.workflow in known:
        yield "workflow", f"{schedule.workflow!r} is refused; it waits until that is loaded"
    else:
        hint = nearest(schedule.workflow, known)
        yield "workflow", f"{schedule.workflow!r} is not installed, and it waits; {hint}"


def _told(schedule: Schedule, fault: FaultAt) -> str:
    path, text = fault
    values = {
        "name": schedule.name, "cron": schedule.cron, "zone": schedule.zone, "user": schedule.user
    }  # fmt: skip
    shown = f" = {values[path]!r}" if path in values else ""
    return f"schedules.{schedule.name}.{path}{shown}: {text}"
