"""Server-sent events, heard without a gap: a stream that breaks is opened again behind the last
event that was told."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from jobrunner.client.records import JobEvent, JobRecord, MoveRecord
from jobrunner.client.refusing import TryLater
from jobrunner.client.talk import ON_THE_WAY, RetryLimits, WireRequest
from jobrunner.client.talks.asking import at, read_of
from jobrunner.errors import JobrunnerError, Unreachable

EVENT_STREAM = "text/event-stream"
SILENCE_S = 45.0
RETRY_S = 2.0


class EventStream:
    """One stream, over as many connections as it takes. ``after`` is the ``id`` of the last event
    that was heard before. One that ``ends`` is ``over`` when its job is in a final state."""

    def __init__(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        after: str = "",
        limits: RetryLimits = ON_THE_WAY,
        *,
        ends: bool = False,
    ) -> None:
        self._path = path
        self._query = query
        self._limits = limits
        self._failures = 0
        self._retry_s = RETRY_S
        self._held = b""
        self._lines: dict[str, str] = {}
        self._ends = ends
        self.last_id = after
        self.over = False

    @property
    def request(self) -> WireRequest:
        headers = {"Accept": EVENT_STREAM}
        headers |= {"Last-Event-ID": self.last_id} if self.last_id else {}
        return read_of(self._path, self._query, headers=headers)

    def take(self, block: bytes) -> Iterator[JobEvent]:
        """Read what came; an event is told once the empty line after it is here."""
        self._failures = 0
        *lines, self._held = (self._held + block).split(b"\n")
        for line in lines:
            name, _, value = line.decode().rstrip("\r").partition(":")
            if not line.strip():
                yield from self._told()
            elif name:
                more = value.removeprefix(" ")
                several = name == "data" and name in self._lines
                self._lines[name] = f"{self._lines[name]}\n{more}" if several else more

    def _told(self) -> Iterator[JobEvent]:
        lines, self._lines = self._lines, {}
        self.last_id = lines.get("id", self.last_id)
        if lines.get("retry", "").isdigit():
            self._retry_s = int(lines["retry"]) / 1000
        if "data" in lines:
            event = _event(lines.get("event", ""), self.last_id, lines["data"].encode())
            self.over = self._ends and event.job is not None and event.job.kind == "final"
            yield event

    def rest_s(self, error: JobrunnerError | None = None) -> float:
        """How long to rest before it is opened again. Raises the error, where it does not pass."""
        self._held, self._lines = b"", {}
        if error is None:
            return self._retry_s
        self._failures += 1
        passes = isinstance(error, Unreachable | TryLater)
        if not passes or self._failures >= self._limits.tries:
            raise error
        return self._limits.rest_s(self._failures - 1, error)


def of_job(job_id: str, *, after: str = "", limits: RetryLimits = ON_THE_WAY) -> EventStream:
    """Hear one job, until it can change no more."""
    return EventStream(at("jobs", job_id, "events"), (), after, limits, ends=True)


def of_jobs(
    *,
    workflow: str | None = None,
    status: Sequence[str] = (),
    user_id: str | None = None,
    after: str = "",
    limits: RetryLimits = ON_THE_WAY,
) -> EventStream:
    """Hear all jobs that the caller lists, for as long as somebody listens."""
    query = [("workflow", workflow), ("user_id", user_id), *(("status", one) for one in status)]
    return EventStream("/events", [(name, said) for name, said in query if said], after, limits)


def _event(kind: str, last_id: str, data: bytes) -> JobEvent:
    said = msgspec.json.decode(data)
    if kind == "transition":
        return JobEvent(kind=kind, id=last_id, moved=msgspec.convert(said, MoveRecord), said=said)
    job = replace(msgspec.convert(said, JobRecord), said=said)
    return JobEvent(kind=kind, id=last_id, job=job, said=said)
