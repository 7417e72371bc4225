"""The last fault of each part of each plugin, for operators.

Whatever failed is announced to the log in the room where it happened; what is announced as the
fault of a plugin is noted here on its way, so nobody tells it twice. A part is named by what is
installed, so there are no more of them than that. A fault that is an hour old is forgotten, as is
one of a companion that is open again, and one of a function that set a job aside and has let it go
on. Nothing is stored: the next start may have other plugins.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.ports import Clock

Line = Callable[[str, str, dict[str, Any]], None]  # event, level, and fields that are its own now
PartKind = Literal["stage", "hook", "function", "companion", "panel"]
KEPT_MS = 3_600_000
CRASH = "STAGE_CRASHED"
EVENTS: dict[str, tuple[PartKind, str]] = {
    "stage.crashed": ("stage", "stage"),
    "hook.failed": ("hook", "hook"),
    "plugin.fault": ("function", "function"),
    "companion.failed": ("companion", "workflow"),
    "panel.silent": ("panel", "workflow"),
}
WELL_AGAIN = "companion.opened"
SET_ASIDE, MOVED = "job.put_aside", "job.transition"


class PluginPart(NamedTuple):
    """A part of a plugin. A hook belongs to no workflow."""

    kind: PartKind
    name: str
    workflow: str = ""


class PluginTrouble(Struct, frozen=True):
    """The last fault of a part; ``job_id`` is the job in which it happened, if it was in one, and
    ``aside`` whether that has stopped for it."""

    part: PluginPart
    error: str
    at: int
    job_id: str | None = None
    aside: bool = False


def line_of(log: Callable[..., None]) -> Line:
    """Find the way by which a log takes fields as they are; one that has none is called."""
    way: Line | None = getattr(log, "line", None)
    return way or (lambda event, level, fields: log(event, level=level, **fields))


class PluginTroubles:
    """Stands before the log: call it with an event and its fields."""

    def __init__(
        self, log: Callable[..., None], clock: Clock, clean: Callable[[str], str] = str
    ) -> None:
        self._log = log
        self._line = line_of(log)
        self._clock = clock
        self._clean = clean
        self._last: dict[PluginPart, PluginTrouble] = {}

    def __call__(self, event: str, level: str = "info", **fields: Any) -> None:
        self.line(event, level, fields)

    def line(self, event: str, level: str, fields: dict[str, Any]) -> None:
        """The same of fields that somebody has gathered."""
        if self._last or event in EVENTS:
            self._hear(event, fields)
        self._line(event, level, fields)

    @property
    def condition(self) -> tuple[str, int]:
        """That of the log behind, which others ask for it."""
        found: tuple[str, int] = getattr(self._log, "condition", ("", 0))
        return found

    def latest(self) -> list[PluginTrouble]:
        """The newest first."""
        return list(self._fresh())[::-1]

    def _hear(self, event: str, fields: dict[str, Any]) -> None:
        if event in EVENTS and fields.get("code", CRASH) == CRASH:
            self._note(_part(event, fields), fields)
        elif event == WELL_AGAIN:
            self._last.pop(_part("companion.failed", fields), None)
        elif event in (SET_ASIDE, MOVED):
            self._follow(event, str(fields.get("job_id") or ""))

    def _follow(self, event: str, job_id: str) -> None:
        """A job that a function set aside and that moves again has passed that function."""
        for part, one in list(self._last.items()):
            if part.kind != "function" or one.job_id != job_id:
                continue
            if event == SET_ASIDE:
                self._last[part] = replace(one, aside=True)
            elif one.aside:
                del self._last[part]

    def _note(self, part: PluginPart, fields: dict[str, Any]) -> None:
        self._last.pop(part, None)
        error = self._clean(str(fields.get("error") or ""))
        self._last[part] = PluginTrouble(part, error, self._clock.now(), fields.get("job_id"))

    def _fresh(self) -> Iterator[PluginTrouble]:
        since = self._clock.now() - KEPT_MS
        return (one for one in self._last.values() if one.at > since)


def _part(event: str, fields: dict[str, Any]) -> PluginPart:
    kind, named = EVENTS[event]
    workflow = "" if kind == "hook" else str(fields.get("workflow") or "")
    return PluginPart(kind, str(fields.get(named) or ""), workflow)
