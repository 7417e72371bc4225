"""The one subscriber: what happened, as one JSON object a line, on one stream.

The rooms announce events with fields and do not know who listens. Lines are kept for a moment and
written together, since several belong to each submission: at the next tick of the loop's timer, at
64 KiB, at an error, and on ``flush``. Where no loop runs, each line is written at once.

What a client sent (parameters, prompts) and what opens a door (tokens, signatures) has no place in
a log; a field of such a name is withheld whoever announces it. A stream that cannot be written to
never stops the service.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from jobrunner.ports import Clock, SystemClock

FLUSH_AFTER_S = 0.1
FLUSH_AT_BYTES = 64 * 1024

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


class Log:
    """Call it with an event and its fields. The buffer is a deque: other threads may append.
    What takes secrets out of others' words is known as soon as the settings are read."""

    def __init__(self, stream: TextIO | None = None, clock: Clock | None = None) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock or SystemClock()
        self._encode = msgspec.json.Encoder(enc_hook=str).encode
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._armed: asyncio.TimerHandle | None = None
        self._second = (-1, "")
        self._clean: Callable[[str], str] = str

    def __call__(self, event: str, level: str = "info", **fields: Any) -> None:
        line = self._line(event, level, fields)
        self._lines.append(line)
        self._size += len(line)
        if level == "error" or self._size >= FLUSH_AT_BYTES:
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
        lines = []
        while self._lines:
            lines.append(self._lines.popleft())
        if lines:
            self._write(b"\n".join(lines).decode() + "\n")

    def close(self) -> None:
        self.flush()

    def last(self, event: str, **fields: Any) -> bytes:
        """Return what was not written yet and one line more, for somebody who can wait for nothing
        and writes it without us."""
        self._lines.append(self._line(event, "error", fields))
        waiting = [self._lines.popleft() for _ in range(len(self._lines))]
        return b"\n".join([*waiting, b""])

    def _line(self, event: str, level: str, fields: dict[str, Any]) -> bytes:
        for name in SAID.intersection(fields):
            if isinstance(fields[name], str):
                fields[name] = self._clean(fields[name])
        if not WITHHELD.isdisjoint(fields):
            fields |= dict.fromkeys(WITHHELD.intersection(fields), "withheld")
        return self._encode({"ts": self._stamp(), "level": level, "event": event, **fields})

    def _arm(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
        else:
            self._armed = loop.call_later(FLUSH_AFTER_S, self.flush)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads any more; the work goes on

    def _stamp(self) -> str:
        second, millis = divmod(self._clock.now(), 1000)
        if second != self._second[0]:
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = (second, text)
        return f"{self._second[1]}.{millis:03d}Z"


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
