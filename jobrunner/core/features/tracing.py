"""The spans that belong together in a trace (W3C Trace Context), worked out from ids that are there
anyway.

A job is one trace. Its id is the one that the submission came with, else the job's own id without
its dashes; the ids of spans follow from what they are about. So nothing is stored but what a caller
sent, nothing has to be handed from one attempt to the next, and a service that was started again
goes on in the same trace. Whether anybody records the trace makes no difference here.
"""

import hashlib
import re

from msgspec import Struct

from jobrunner.core.job import Attempt, Snapshot

HEADER = "traceparent"
SHAPE = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
LENGTH_MAX = 512
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


def delivery_of(first: Parent, delivery_id: str, number: int) -> Parent:
    return Parent(first.trace_id, _span_id("delivery", f"{delivery_id}/{number}"), first.sampled)


def _trace_of(job_id: str, traceparent: str | None) -> tuple[str, bool]:
    caller = parent_in(traceparent)
    return (job_id.replace("-", ""), True) if caller is None else (caller.trace_id, caller.sampled)


def _span_id(kind: str, name: str) -> str:
    return hashlib.sha256(f"{kind}/{name}".encode()).hexdigest()[:16]
