"""The one subscriber: it hears every event, and writes each as one line.

Lines are kept for a moment and handed over together, since several belong to each submission: at
the next tick of the loop's timer, at 64 KiB, at an error, and on ``flush``. Where no loop runs,
each line goes at once. Whoever announces an error waits until it is written, for a moment at most.

What a client sent (parameters, prompts) and what opens a door (tokens, signatures) has no place in
a log; a field of such a name is withheld whoever announces it.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

from jobrunner.log.forms import AsJson, Form
from jobrunner.ports import Clock, LineThread, SystemClock

FLUSH_AFTER_S = 0.1
FLUSH_AT_BYTES = 64 * 1024
WRITTEN_WITHIN_S = 0.05
LAST_WITHIN_S = 2.0

WITHHELD = frozenset(
    {
        "authorization",
        "body",
        "cookie",
        "headers",
        "params",
        "parameters",
        "password",
        "prompt",
        "requirement",
        "secret",
        "signature",
        "token",
        "transcript",
    }
)

# Fields in which libraries, plugins and strangers speak.
SAID = frozenset({"detail", "error", "line", "message", "traceback"})
LOOKED_AT = WITHHELD | SAID

LEVELS = {"info": 0, "warning": 1, "error": 2}
ALWAYS = "service."  # how this process began and why it ended is told at every level


class _Stream:
    """A stream that somebody has open, written while he waits. One that is gone stops nothing."""

    descriptors = (2,)
    condition = "", 0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def put(self, data: bytes) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(data.decode())
            self._stream.flush()

    def settle(self, limit_s: float) -> None:
        """Do nothing: it was written when it was put."""

    def left(self) -> bytes:
        return b""

    def news(self) -> tuple[str, int]:
        return "", 0


class Log:
    """Call it with an event and its fields. The buffer is a deque: other threads may append.
    What takes secrets out of others' words is known as soon as the settings are read."""

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Clock | None = None,
        *,
        lines: LineThread | None = None,
        form: Form | None = None,
        level: str = "info",
    ) -> None:
        self._out: LineThread | _Stream = lines or _Stream(stream or sys.stderr)
        self._clock = clock or SystemClock()
        self._form = form or AsJson()
        self._least = LEVELS[level]
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._armed: asyncio.TimerHandle | None = None
        self._clean: Callable[[str], str] = str

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Where last words go."""
        return self._out.descriptors

    @property
    def condition(self) -> tuple[str, int]:
        """Why lines do not arrive where they should, if so, and how many were lost in all."""
        return self._out.condition

    def __call__(self, event: str, level: str = "info", **fields: Any) -> None:
        self.line(event, level, fields)

    def line(self, event: str, level: str, fields: dict[str, Any]) -> None:
        """The same of fields that somebody has gathered for it alone."""
        if LEVELS[level] < self._least and not event.startswith(ALWAYS):
            return
        line = self._line(event, level, fields)
        self._lines.append(line)
        self._size += len(line)
        if level == "error":
            self.flush()
            self._out.settle(WRITTEN_WITHIN_S)
        elif self._size >= FLUSH_AT_BYTES:
            self.flush()
        elif self._armed is None:
            self._arm()

    def clean_with(self, clean: Callable[[str], str]) -> None:
        """Clean the words of libraries, plugins and strangers with this."""
        self._clean = clean

    def flush(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        self._size = 0
        self._tell_of_faults()
        lines = []
        while self._lines:
            lines.append(self._lines.popleft())
        if lines:
            self._out.put(b"\n".join([*lines, b""]))

    def close(self) -> None:
        self.flush()
        self._out.settle(LAST_WITHIN_S)

    def last(self, event: str, **fields: Any) -> bytes:
        """Return what was not written yet and one line more, for somebody who can wait for nothing
        and writes it without us."""
        self._lines.append(self._line(event, "error", fields))
        waiting = [self._lines.popleft() for _ in range(len(self._lines))]
        return self._out.left() + b"\n".join([*waiting, b""])

    def _tell_of_faults(self) -> None:
        fault, lost = self._out.news()
        if fault or lost:
            fields = {"detail": fault or "lines were lost"}
            self._lines.appendleft(self._line("log.fault", "error", {**fields, "lost": lost}))

    def _line(self, event: str, level: str, fields: dict[str, Any]) -> bytes:
        if not LOOKED_AT.isdisjoint(fields):
            for name in SAID.intersection(fields):
                if isinstance(fields[name], str):
                    fields[name] = self._clean(fields[name])
            fields |= dict.fromkeys(WITHHELD.intersection(fields), "withheld")
        return self._form(self._clock.now(), level, event, fields)

    def _arm(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            self._out.settle(WRITTEN_WITHIN_S)
        else:
            self._armed = loop.call_later(FLUSH_AFTER_S, self.flush)


class Bridge(logging.Handler):
    """Writes what the libraries below us warn about as lines of the same log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        fields = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            fields["traceback"] = logging.Formatter().formatException(record.exc_info)
        self._log("library.message", level=level, **fields)


def bridge(log: Log) -> None:
    """Put the bridge in the place of every handler that the standard library's root has."""
    logging.basicConfig(handlers=[Bridge(log)], level=logging.WARNING, force=True)
