"""The story of a simulation for people: its lines, told about the jobs that matter.

A job is called by a number, in the order in which they came up; of other ids only the end is
shown; of a message only what is said in it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec import UNSET, Struct

from jobrunner.core.job import Actor

TIME = 12  # as wide as the time at the start of a line
Noted = tuple[float, str, dict[str, Any]]
FIRST, LAST = 20, 40
LONG = 180
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
NUMBERED = re.compile(r"\bjob \d+\b")
JOB = ("job", "job_id")
NOISE = (
    "workflow",
    "correlation_id",
    "user_id",
    "traceback",
    "digest",
    "occurred_at",
    "path",
    "sqlite",
    *JOB,
)
SAID_TWICE = (
    "job.transition_denied",
    "job.submission_denied",
    "job.replayed",
)  # callers are told so too
NOTHING: tuple[Any, ...] = ("", None, (), [], {}, UNSET)


class Narrative:
    """``lines`` are all of them, ``faults`` what was wrong, both as people read them."""

    def __init__(self, noted: Iterable[Noted], faults: Iterable[str]) -> None:
        self._numbers: dict[str, int] = {}
        self._noted = [one for one in noted if one[1] not in SAID_TWICE]
        for _, _, fields in self._noted:
            self._met(fields)
        self.lines = tuple(self._line(*one) for one in self._noted)
        self.faults = tuple(map(self._told, faults))

    def about(self) -> tuple[str, Sequence[str]]:
        """Tell of those whom the faults concern, and how it began and ended with them and with the
        service."""
        wanted = set(NUMBERED.findall(" ".join(self.faults)))
        if not wanted:
            return "", _ends(self.lines)
        chosen = [
            line
            for (_, _, fields), line in zip(self._noted, self.lines, strict=True)
            if self._who(fields) in wanted or not fields.keys() & set(JOB)
        ]
        jobs = sorted(wanted, key=lambda job: int(job.split()[1]))
        return f"to {', '.join(jobs)} and to the service", _ends(chosen)

    def _met(self, fields: dict[str, Any]) -> None:
        job_id = next((fields[name] for name in JOB if fields.get(name)), "")
        if job_id and job_id not in self._numbers:
            self._numbers[job_id] = len(self._numbers) + 1

    def _who(self, fields: dict[str, Any]) -> str:
        job_id = next((fields[name] for name in JOB if fields.get(name)), "")
        return f"job {self._numbers[job_id]}" if job_id else ""

    def _line(self, at_s: float, what: str, fields: dict[str, Any]) -> str:
        said = [
            _brief(value) if name == "message" else f"{name}={_brief(value)}"
            for name, value in fields.items()
            if name not in NOISE and value not in NOTHING
        ]
        start = f"{at_s:10.3f} s  {self._who(fields):7} {what}"
        return self._told(f"{start}  {', '.join(said)}".rstrip())[:LONG]

    def _told(self, text: str) -> str:
        return UUID.sub(lambda found: self._name(found[0]), text)

    def _name(self, one: str) -> str:
        number = self._numbers.get(one)
        return f"…{one[-6:]}" if number is None else str(number)


def _ends(lines: Sequence[str]) -> list[str]:
    """Tell repetitions once; of a long story, the begin and the end."""
    told = [
        f"{line}  (and {count - 1} more)" if count > 1 else line
        for line, count in ((same[0], len(same)) for same in _repeats(lines))
    ]
    if len(told) <= FIRST + LAST:
        return told
    return [*told[:FIRST], f"… {len(told) - FIRST - LAST} lines …", *told[-LAST:]]


def _repeats(lines: Sequence[str]) -> Iterator[list[str]]:
    for _, same in groupby(lines, key=lambda line: line[TIME:]):
        yield list(same)


def _brief(value: Any) -> str:
    """A message by what is said in it: whatever was left out is left out here too."""
    if isinstance(value, Actor):
        return value.name
    if isinstance(value, tuple | list):
        return ", ".join(map(_brief, value))
    if not isinstance(value, Struct):
        return str(value)
    fields, defaults = value.__struct_fields__, value.__struct_defaults__
    given = dict(zip(fields[len(fields) - len(defaults) :], defaults, strict=True))
    told = [
        f"{name}={_brief(mine)}"
        for name in fields
        if name not in NOISE
        and (mine := getattr(value, name)) != given.get(name, UNSET)
        and mine not in NOTHING
    ]
    return f"{type(value).__name__}({', '.join(told)})"
