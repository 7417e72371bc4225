"""The spans that belong together in a trace (W3C Trace Context), worked out from ids that are there
anyway.

A job is one trace. Its id is the one that the submission came with, else the job's own id without
its dashes; the ids of spans follow from what they are about. So nothing is stored but what a caller
sent, nothing has to be handed from one attempt to the next, and a service that was started again
goes on in the same trace. Whether anybody records the trace makes no difference here.
"""

import hashlib
import re
from collections.abc import Iterator

from msgspec import Struct

from jobrunner.core.features.meter import Wait
from jobrunner.core.job import Attempt, Snapshot

HEADER = "traceparent"
SHAPE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
LENGTH_MAX = 512
DELAYS = ("run_at", "retry", "backoff")
SAMPLED = 1


class Parent(Struct, frozen=True):
    """A place in a trace."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @property
    def text(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"


def parent_in(text: str | None) -> Parent | None:
    """Read a ``traceparent``; None for what is none. A later version may say more."""
    found = SHAPE.fullmatch(text) if text and len(text) <= LENGTH_MAX else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more):
        return None
    if not (int(trace_id, 16) and int(span_id, 16)):
        return None
    return Parent(trace_id, span_id, bool(int(flags, 16) & SAMPLED))


def submission_of(job_id: str, traceparent: str | None) -> Parent:
    """The first span of a job, under which all others hang."""
    trace_id, sampled = _trace_of(job_id, traceparent)
    return Parent(trace_id, _span_id("submission", job_id), sampled)


def attempt_of(job: Snapshot, attempt: Attempt) -> Parent:
    """Name the span that the calls of an attempt's stage hang under. One that goes on after a
    callback does so as a span of its own: in between nobody worked."""
    trace_id, sampled = _trace_of(job.id, job.traceparent)
    leg = f"{job.id}/{attempt.serial}/{len(attempt.answers)}"
    return Parent(trace_id, _span_id("attempt", leg), sampled)


def wait_of(job: Snapshot, wait: Wait) -> Parent:
    """Name the span of a wait that the commit of this version ended."""
    trace_id, sampled = _trace_of(job.id, job.traceparent)
    which = f"{job.id}/{job.version}/{wait.reason}"
    return Parent(trace_id, _span_id("wait", which), sampled)


def waits_over(before: Snapshot, after: Snapshot) -> Iterator[Wait]:
    """List what a job has waited for up to this commit, by what its snapshots say. A callback is
    waited for since the job's last change; nobody notes when its attempt was parked."""
    attempt, now = before.attempt, after.updated_at
    place = attempt.state if attempt is not None else before.status
    entered_at = before.entered_at or before.created_at
    if before.line_at is not None and after.line_at != before.line_at:
        yield Wait("slot", place, before.line_at, now)
    if attempt is not None and attempt.status == "parked" and not _is_parked(after, attempt):
        yield Wait("callback", place, before.updated_at, now)
    if _is_claimed(after) and not _is_claimed(before):
        since = max(attempt.opened_at, attempt.not_before) if attempt is not None else entered_at
        yield Wait("claim", place, since, now)
    for timer in before.timers:
        if timer.purpose in DELAYS and timer.due_at <= now and not after.timer(timer.purpose):
            since = entered_at
            if timer.purpose == "backoff" and attempt is not None:
                since = attempt.opened_at
            yield Wait(timer.purpose, place, since, now)


def _is_parked(job: Snapshot, attempt: Attempt) -> bool:
    now = job.attempt
    return now is not None and now.serial == attempt.serial and now.status == "parked"


def _is_claimed(job: Snapshot) -> bool:
    attempt = job.attempt
    return attempt is not None and attempt.status == "running" and bool(attempt.claimant)


def delivery_of(first: Parent, delivery_id: str, number: int) -> Parent:
    return Parent(first.trace_id, _span_id("delivery", f"{delivery_id}/{number}"), first.sampled)


def _trace_of(job_id: str, traceparent: str | None) -> tuple[str, bool]:
    caller = parent_in(traceparent)
    return (job_id.replace("-", ""), True) if caller is None else (caller.trace_id, caller.sampled)


def _span_id(kind: str, name: str) -> str:
    return hashlib.sha256(f"{kind}/{name}".encode()).hexdigest()[:16]
