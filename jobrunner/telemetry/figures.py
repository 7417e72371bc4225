"""The figures, in the text format of Prometheus.

What happens is counted as it is told; how things stand is read when somebody asks, and stands in
the answer as it was then. Children of a metric are looked up once and kept: telling costs a
dictionary and an addition.
"""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import Ended
from jobrunner.core.meter import Meter, Readings, Span
from jobrunner.core.outbox import DueDelivery

SOON = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
LONG = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
REQUESTS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
UNITS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)

# One line each: name, what it says, and which of the readings it is.
GAUGES = (
    ("attempts_running", "Attempts that somebody works on, in the house or outside", "running"),
    ("attempts_in_line", "Jobs in line for a slot", "in_line"),
    ("attempts_parked", "Attempts that await a callback", "parked"),
    ("queue_oldest_seconds", "How long the job waits that waits longest", "oldest_in_line_s"),
    ("timer_overdue_seconds", "How long the earliest timer has been due", "overdue_timers_s"),
    ("actors", "Jobs that have an actor in memory", "actors"),
    ("letters", "Messages in the mailboxes of all actors", "letters"),
    ("writes_waiting", "Units of writing that wait for their turn", "writes_waiting"),
    ("loop_lag_current_seconds", "How late the loop was last", "loop_lag_s"),
    ("streams_open", "Event streams that clients read", "streams"),
    ("uploads_under_way", "Files that are coming in", "uploads"),
    ("deliveries_under_way", "Notifications being sent", "deliveries_under_way"),
    ("deliveries_waiting", "Notifications to be sent, now or later", "deliveries_waiting"),
    ("endpoints_failing", "Notification endpoints whose last try failed", "endpoints_failing"),
    ("endpoints_disabled", "Notification endpoints nothing is sent to", "endpoints_disabled"),
    ("store_file_bytes", "Size of the database file", "file_bytes"),
    ("store_wal_bytes", "Size of its write-ahead log", "wal_bytes"),
    ("disk_free_bytes", "Room left on the disk of the database", "free_bytes"),
    ("threads_stray", "Threads that go on though their stage is over", "threads_stray"),
)


class Figures(Meter):
    def __init__(self, version: str) -> None:
        # A series more for each metric would say since when it counts; nobody asks that.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._readings = Readings()
        self._children: dict[tuple[Any, ...], Any] = {}
        ProcessCollector(registry=self._registry)
        Info("jobrunner_build", "What runs here", registry=self._registry).info(
            {"version": version}
        )
        self._registry.register(_Standing(lambda: self._readings))
        self._open_metrics()

    def _open_metrics(self) -> None:
        at_stage = ("workflow", "stage", "outcome")
        at_route = ("route", "method", "status")
        self._jobs = self._counter("submissions", "Jobs that were made", "workflow")
        self._stages = self._histogram(
            "stage_seconds", "How long attempts in the house took", LONG, *at_stage
        )
        self._sent = self._histogram(
            "delivery_seconds", "How long a notification's try took", REQUESTS, "outcome"
        )
        self._requests = self._histogram(
            "http_request_seconds", "Until an answer was whole", REQUESTS, *at_route
        )
        self._refusals = self._counter("http_refusals", "Refusals by their code", "code")
        self._webhooks = self._counter("webhooks", "Webhooks that came", "source", "verdict")
        self._batch_units = self._histogram("commit_units", "Units in one commit", UNITS)
        self._batch_s = self._histogram("commit_seconds", "A whole batch, on its thread", SOON)
        self._commit_s = self._histogram(
            "commit_fsync_seconds", "COMMIT alone, which waits for the disk", SOON
        )
        self._timer_s = self._histogram("timer_lag_seconds", "From due to done", SOON)
        self._lag_s = self._histogram("loop_lag_seconds", "How late a sleeper is woken", SOON)

    def exposition(self, readings: Readings) -> tuple[bytes, str]:
        """The text, and its media type."""
        self._readings = readings
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def committed(self, units: int, batch_s: float, commit_s: float) -> None:
        self._batch_units.observe(units)
        self._batch_s.observe(batch_s)
        self._commit_s.observe(commit_s)

    def submitted(self, job: Snapshot, span: Span) -> None:
        self._child(self._jobs, job.workflow).inc()

    def attempted(self, job: Snapshot, attempt: Attempt, ended: Ended, span: Span) -> None:
        self._child(self._stages, job.workflow, attempt.stage, ended.outcome).observe(span.seconds)

    def delivered(self, delivery: DueDelivery, number: int, outcome: str, span: Span) -> None:
        self._child(self._sent, outcome).observe(span.seconds)

    def fired(self, late_s: float) -> None:
        self._timer_s.observe(max(late_s, 0.0))

    def lagged(self, seconds: float) -> None:
        self._lag_s.observe(seconds)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        self._child(self._requests, route, method, f"{status // 100}xx").observe(seconds)

    def refused(self, code: str) -> None:
        self._child(self._refusals, code).inc()

    def heard(self, source: str, verdict: str) -> None:
        self._child(self._webhooks, source, verdict).inc()

    def _child(self, metric: Any, *labels: str) -> Any:
        key = (metric, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"jobrunner_{name}", text, labels, registry=self._registry)

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        full = f"jobrunner_{name}"
        return Histogram(full, text, labels, buckets=buckets, registry=self._registry)


class _Standing:
    """How things stand, as families of gauges."""

    def __init__(self, readings: Callable[[], Readings]) -> None:
        self._readings = readings

    def describe(self) -> list[Metric]:
        """Named without being read, when the registry looks for names that are there twice."""
        return list(self.collect())

    def collect(self) -> Iterator[Metric]:
        readings = self._readings()
        jobs = GaugeMetricFamily(
            "jobrunner_jobs", "Jobs in the store", labels=("workflow", "status")
        )
        for workflow, status, count in readings.jobs:
            jobs.add_metric((workflow, status), count)
        yield jobs
        for name, text, field in GAUGES:
            yield GaugeMetricFamily(f"jobrunner_{name}", text, value=getattr(readings, field))
