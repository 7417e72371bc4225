"""Spans, each made when it is over. Who belongs under whom follows from ids
(``core.features.tracing``), so no span is held open while a job waits, and none is lost with the
process but those not yet sent."""

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from jobrunner.core.features import tracing
from jobrunner.core.features.meter import Meter, Span, Wait
from jobrunner.core.features.notifications import DueDelivery
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import Ended

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
SCOPE = InstrumentationScope("jobrunner")
Attributes = dict[str, str | int]
FAILED = frozenset({"failed", "rejected", "disabled"})


class Traces(Meter):
    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        super().__init__()
        self._processor = processor
        self._resource = resource

    def close(self) -> None:
        self._processor.shutdown()

    def submitted(self, job: Snapshot, span: Span) -> None:
        own = tracing.submission_of(job.id, job.traceparent)
        self._end(
            "submit", own, tracing.parent_in(job.traceparent), span, _about(job), SpanKind.SERVER
        )

    def waited(self, job: Snapshot, wait: Wait) -> None:
        about = _about(job) | {"jobrunner.state": wait.state}
        own = tracing.wait_of(job, wait)
        parent = tracing.submission_of(job.id, job.traceparent)
        seconds = max(wait.ended_at - wait.began_at, 0) / 1000
        span = Span(wait.began_at, wait.ended_at, seconds)
        self._end(f"wait {wait.reason}", own, parent, span, about)

    def attempted(self, job: Snapshot, attempt: Attempt, ended: Ended, span: Span) -> None:
        about = _about(job) | {
            "jobrunner.state": attempt.state,
            "jobrunner.stage": attempt.stage,
            "jobrunner.run_id": attempt.run_id,
            "jobrunner.attempt": attempt.number,
            "jobrunner.outcome": ended.outcome,
        }
        if ended.failure is not None:
            about["error.type"] = ended.failure.code
        own = tracing.attempt_of(job, attempt)
        parent = tracing.submission_of(job.id, job.traceparent)
        failed = ended.outcome in FAILED
        self._end(f"attempt {attempt.stage}", own, parent, span, about, failed=failed)

    def delivered(self, delivery: DueDelivery, number: int, outcome: str, span: Span) -> None:
        first = tracing.submission_of(delivery.job_id, delivery.traceparent)
        about: Attributes = {
            "jobrunner.job_id": delivery.job_id,
            "jobrunner.workflow": delivery.workflow,
            "jobrunner.delivery_id": delivery.id,
            "jobrunner.try": number,
            "jobrunner.outcome": outcome,
        }
        own = tracing.delivery_of(first, delivery.id, number)
        failed = outcome != "delivered"
        self._end("delivery", own, first, span, about, SpanKind.CLIENT, failed=failed)

    def _end(
        self,
        name: str,
        own: tracing.Parent,
        parent: tracing.Parent | None,
        span: Span,
        attributes: Attributes,
        kind: SpanKind = SpanKind.INTERNAL,
        *,
        failed: bool = False,
    ) -> None:
        """End a span. It begins at a wall time and lasts as the other clock says: the wall may have
        jumped."""
        start = span.began_at * NS_PER_MS
        ended = ReadableSpan(
            name=name,
            context=_context(own, is_remote=False),
            parent=_context(parent, is_remote=name == "submit") if parent else None,
            resource=self._resource,
            attributes=attributes,
            kind=kind,
            status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
            start_time=start,
            end_time=start + max(int(span.seconds * NS_PER_S), 0),
            instrumentation_scope=SCOPE,
        )
        self._processor.on_end(ended)


def _context(of: tracing.Parent, *, is_remote: bool) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if of.sampled else TraceFlags.DEFAULT)
    return SpanContext(int(of.trace_id, 16), int(of.span_id, 16), is_remote, flags)


def _about(job: Snapshot) -> Attributes:
    return {
        "jobrunner.job_id": job.id,
        "jobrunner.workflow": job.workflow,
        "jobrunner.job_type": job.job_type,
    }
