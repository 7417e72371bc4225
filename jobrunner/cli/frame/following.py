"""Streams of events, read to their end; one that breaks off is asked for again where it stood."""

from collections.abc import AsyncGenerator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from jobrunner.cli.frame.service import RunningService
from jobrunner.cli.frame.system import clock
from jobrunner.errors import Unreachable

AGAIN_S = (0.2, 1, 2, 5, 10, 10, 10)


class Happened(NamedTuple):
    """One event: its name, and what it says."""

    name: str
    data: dict[str, Any]


class Reading:
    """Takes bytes, gives events; remembers where to go on."""

    def __init__(self) -> None:
        self.last_id = ""
        self._rest = b""
        self._name = ""
        self._said: list[bytes] = []

    def heard(self, block: bytes) -> list[Happened]:
        *lines, self._rest = (self._rest + block).split(b"\n")
        return [one for line in lines if (one := self._line(line)) is not None]

    def _line(self, line: bytes) -> Happened | None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"id":
            self.last_id = value.decode()
        elif field == b"event":
            self._name = value.decode()
        elif field == b"data":
            self._said.append(value)
        if line or not self._said:
            return None
        event = Happened(self._name, msgspec.json.decode(b"\n".join(self._said)))
        self._name, self._said = "", []
        return event


async def happenings(
    running: RunningService, path: str, query: list[tuple[str, Any]], *, ends: bool
) -> AsyncGenerator[Happened, None]:
    """Follow; with ``ends``, which is for one job, until it has come to its end.

    Raises: Unreachable, when nobody answers any more.
    """
    reading, failures = Reading(), 0
    while True:
        asked = [(name, value) for name, value in query if value is not None]
        asked += [("last_event_id", reading.last_id)] if reading.last_id else []
        reading = _anew(reading)
        try:
            async for block in running.download(f"{path}?{urlencode(asked)}", 0):
                failures = 0
                for one in reading.heard(block):
                    yield one
                    if one.data.get("kind") == "final" and ends:
                        return
        except Unreachable:
            if failures == len(AGAIN_S):
                raise
        if failures == len(AGAIN_S):
            return
        await clock.sleep(AGAIN_S[failures])
        failures += 1


def _anew(before: Reading) -> Reading:
    after = Reading()
    after.last_id = before.last_id
    return after
