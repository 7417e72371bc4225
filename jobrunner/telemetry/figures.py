"""The figures, in the text format of Prometheus.

What happens is counted as it is told; how things stand is read when somebody asks, and stands in
the answer as it was then.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from jobrunner.core.features.meter import JobTracer, Meter, RateReading, Readings, Span
from jobrunner.core.features.notifications import DueDelivery
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.keeping.census import Census, RestingJobs
from jobrunner.core.keeping.charts import Counting
from jobrunner.core.messages import Ended
from jobrunner.telemetry.tallies import Spread, Tally, families

SOON = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
LONG = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
REQUESTS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)
UNITS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CLASSES = ("0xx", "1xx", "2xx", "3xx", "4xx", "5xx")

# One line each: name, what it says, and which of the readings it is.
GAUGES = (
    ("attempts_running", "Attempts that somebody works on, in-process or outside", "file.running"),
    ("attempts_in_line", "Jobs in line for a slot", "file.in_line"),
    ("attempts_parked", "Attempts that await a callback", "file.parked"),
    ("questions_open", "Questions of stages that nobody has answered", "file.questions"),
    ("queue_oldest_seconds", "How long the job waits that waits longest", "oldest_in_line_s"),
    ("timer_overdue_seconds", "How long the earliest timer has been due", "overdue_timers_s"),
    ("actors", "Jobs that are told something just now", "actors"),
    ("letters", "Messages in the mailboxes of all actors", "letters"),
    ("writes_waiting", "Units of writing that wait for their turn", "writes_waiting"),
    ("submissions_inside", "Submissions that are worked on", "submissions_inside"),
    ("submissions_waiting", "Submissions that wait for their turn", "submissions_waiting"),
    ("loop_lag_current_seconds", "How late the loop was last", "loop_lag_s"),
    ("streams_open", "Event streams that clients read", "streams"),
    ("uploads_under_way", "Files that are coming in", "uploads"),
    ("deliveries_under_way", "Notifications being sent", "deliveries_under_way"),
    ("deliveries_waiting", "Notifications to be sent, now or later", "file.deliveries"),
    ("endpoints_failing", "Notification endpoints whose last try failed", "file.endpoints_failing"),
    ("endpoints_disabled", "Notification endpoints nothing is sent to", "file.endpoints_disabled"),
    ("store_file_bytes", "Size of the database file", "file.file_bytes"),
    ("store_unused_bytes", "Room in the file that nothing uses", "file.unused_bytes"),
    ("store_wal_bytes", "Size of its write-ahead log", "file.wal_bytes"),
    ("disk_free_bytes", "Room left on the disk of the database", "free_bytes"),
    ("backup_timestamp_seconds", "As of when the last backup is; 0: there is none", "backup_at_s"),
    ("standby_behind_seconds", "Age of the oldest commit that is not copied", "standby_behind_s"),
    ("standby_lease_seconds", "How long this service may go on serving", "standby_lease_s"),
    ("standby_files_waiting", "Files of jobs that are about to be copied", "standby_files"),
    ("objects_unreachable_seconds", "How long the store has not answered", "objects_away_s"),
    ("threads_stray", "Threads that go on though their stage is over", "threads_stray"),
    ("ready", "1 while /readyz says that all is well", "ready"),
    ("log_faulty", "1 while lines of the log do not arrive where they should", "log_faulty"),
    ("census_age_seconds", "How old the figures of jobs that rest are", "census_age_s"),
)


class Figures(Meter):
    def __init__(self, version: str, tracer: JobTracer | None = None) -> None:
        self._counting = Counting()
        super().__init__(tracer, self._counting)
        self._version = version
        self._readings = Readings()
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        at_stage = ("workflow", "stage", "outcome")
        at_route = ("route", "method", "status")
        self._jobs = Tally("submissions", "Jobs that were made", ("workflow",))
        self._ended = Tally("jobs_ended", "Jobs that ended or settled", ("workflow", "outcome"))
        self._stage_s = Spread("stage_seconds", "Attempts, here and outside", LONG, at_stage)
        self._tried_s = Spread("delivery_seconds", "Tries of notifications", REQUESTS, ("outcome",))
        text = "Until an answer was whole"
        self._request_s = Spread("http_request_seconds", text, REQUESTS, at_route)
        self._refusals = Tally("http_refusals", "Refusals by their code", ("code",))
        text = "Submissions of batches that no job was made of"
        self._batch_refusals = Tally("batch_refusals", text, ("code",))
        self._pruned = Tally("pruned", "What was old enough to go", ("what",))
        self._files_moved = Tally("files_moved", "Files that were moved, and where to", ("to",))
        self._webhooks = Tally("webhooks", "Webhooks that came", ("source", "verdict"))
        text = "Moments of schedules, by what came of them"
        self._firings = Tally("schedule_firings", text, ("schedule", "outcome"))
        self._backups_s = Spread("backup_seconds", "Backups, whole or failed", LONG, ("outcome",))
        self._units = Spread("commit_units", "Units in one commit", UNITS)
        self._batch_s = Spread("commit_seconds", "A whole batch, on its thread", SOON)
        text = "COMMIT alone, which waits for the disk"
        self._commit_s = Spread("commit_fsync_seconds", text, SOON)
        self._timer_s = Spread("timer_lag_seconds", "From due to done", SOON)
        self._lag_s = Spread("loop_lag_seconds", "How late a sleeper is woken", SOON)
        self._registry.register(self)

    def exposition(self, readings: Readings) -> tuple[bytes, str]:
        """The text, and its media type."""
        self._readings = readings
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[Metric]:
        """Collect figures as the registry asks for them."""
        yield InfoMetricFamily("jobrunner_build", "What runs here", {"version": self._version})
        yield from _standing(self._readings)
        yield from _resting(self._readings)
        yield from _rates(self._readings.rates)
        counted = [one for one in vars(self).values() if isinstance(one, Tally | Spread)]
        yield from families(counted)

    def committed(self, units: int, batch_s: float, commit_s: float) -> None:
        self._units.add(units)
        self._batch_s.add(batch_s)
        self._commit_s.add(commit_s)

    def submitted(self, job: Snapshot, span: Span) -> None:
        self._jobs.add(job.workflow)
        self._counting.submitted(job.workflow)

    def ended(self, job: Snapshot, outcome: str) -> None:
        self._ended.add(job.workflow, outcome)
        self._counting.ended(job.workflow, outcome, job.updated_at - job.created_at)

    def attempted(self, job: Snapshot, attempt: Attempt, ended: Ended, span: Span) -> None:
        self._stage_s.add(span.seconds, job.workflow, attempt.stage, ended.outcome)

    def delivered(self, delivery: DueDelivery, number: int, outcome: str, span: Span) -> None:
        self._tried_s.add(span.seconds, outcome)

    def fired(self, late_s: float) -> None:
        self._timer_s.add(max(late_s, 0.0))

    def lagged(self, seconds: float) -> None:
        self._lag_s.add(seconds)

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        self._request_s.add(seconds, route, method, CLASSES[status // 100])

    def refused(self, code: str) -> None:
        self._refusals.add(code)

    def pruned(self, what: str, count: int) -> None:
        self._pruned.add(what, times=count)

    def refused_in_batch(self, code: str) -> None:
        self._batch_refusals.add(code)

    def files_moved(self, target: str, count: int) -> None:
        if count:
            self._files_moved.add(target, times=count)

    def heard(self, source: str, verdict: str) -> None:
        self._webhooks.add(source, verdict)

    def scheduled(self, schedule: str, outcome: str, count: int) -> None:
        self._firings.add(schedule, outcome, times=count)

    def backed_up(self, outcome: str, seconds: float) -> None:
        self._backups_s.add(seconds, outcome)


def _standing(readings: Readings) -> Iterator[Metric]:
    """How things stand, as families of gauges."""
    jobs = (((workflow, status), count) for workflow, status, count in readings.file.by_status)
    yield _family("jobs", "Jobs in the store", ("workflow", "status"), jobs)
    for name, text, field in GAUGES:
        yield GaugeMetricFamily(f"jobrunner_{name}", text, value=attrgetter(field)(readings))


def _resting(readings: Readings) -> Iterator[Metric]:
    """Show the census: by workflow, and the age of the oldest where it says since when."""
    found = readings.census
    yield _by_workflow("jobs_stuck", "Jobs held until somebody releases them", found.stuck)
    yield _by_workflow("jobs_paused", "Jobs paused one by one", found.paused)
    yield _by_workflow("jobs_unclaimed", "Jobs that an outside worker may take", found.unclaimed)
    yield _by_workflow("jobs_waiting", "Jobs that rest in a waiting state", found.waiting)
    for name, resting in (("unclaimed", found.unclaimed), ("waiting", found.waiting)):
        text = f"How long the job has been {name} that has been longest"
        yield _oldest(f"{name}_oldest_seconds", text, resting, found.at)
    text = "For how long a workflow or a stage has been paused"
    pauses = (((scope, name), seconds) for scope, name, seconds in readings.pauses)
    yield _family("pause_seconds", text, ("scope", "name"), pauses)
    yield from _scheduled(readings)
    yield from _related(found)
    yield _gauge("dead_letters", "Work that was given up, on the list", found.dead_letters)
    last_s = (found.dead_letter_at or 0) / 1000
    yield _gauge("dead_letter_timestamp_seconds", "When the last came; 0: there is none", last_s)
    yield _gauge("retention_due", "Jobs old enough to go that are still here", found.retained)
    yield _by_name("limit", "Settings, by their keys", "key", readings.limits.items())
    text = "Workers of the cluster, by how they stand"
    yield _by_name("cluster_workers", text, "state", readings.seats.items())
    text = "Lines of the log that nobody took"
    yield CounterMetricFamily("jobrunner_log_lost_lines", text, value=readings.log_lost)


def _rates(rates: Sequence[RateReading]) -> Iterator[Metric]:
    """Show how much room each rate has, and who waits for it."""
    levels = [(one.name, one.level) for one in rates if one.level is not None]
    yield _by_name("rate_level", "How many starts a rate has room for now", "rate", levels)
    text = "For how long its provider still holds a rate back"
    yield _by_name("rate_held_seconds", text, "rate", [(one.name, one.held_s) for one in rates])
    text = "Jobs in line for a stage that takes from a rate"
    yield _by_name("rate_waiting", text, "rate", [(one.name, one.waiting) for one in rates])


def _scheduled(readings: Readings) -> Iterator[Metric]:
    text = "When a moment last made no job though it should have; 0: never"
    failed = [(one.name, one.failed_at_s) for one in readings.schedules]
    yield _by_name("schedule_failure_timestamp_seconds", text, "schedule", failed)
    text = "How long a moment that is due has been waiting"
    waits = [(one.name, one.waits_s) for one in readings.schedules]
    yield _by_name("schedule_waits_seconds", text, "schedule", waits)


def _related(found: Census) -> Iterator[Metric]:
    """Show families and batches, as far as they go on."""
    text = "Attempts that wait for children of their job"
    yield _gauge("parents_waiting", text, found.parents)
    text = "Children that go on, by the kind of state they are in"
    children = (((one.workflow, one.kind), one.jobs) for one in found.children)
    yield _family("children_open", text, ("workflow", "kind"), children)
    batches = [("open", found.batches.open), ("running", found.batches.running)]
    yield _by_name("batches", "Batches that go on", "status", batches)
    yield _gauge("batch_jobs_open", "Jobs of batches that go on", found.batches.jobs)


def _family(
    name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    family = GaugeMetricFamily(f"jobrunner_{name}", text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _by_name(name: str, text: str, label: str, rows: Iterable[tuple[str, float]]) -> Metric:
    return _family(name, text, (label,), (((one,), value) for one, value in rows))


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"jobrunner_{name}", text, value=value)


def _by_workflow(name: str, text: str, resting: Iterable[RestingJobs]) -> Metric:
    return _by_name(name, text, "workflow", ((one.workflow, one.jobs) for one in resting))


def _oldest(name: str, text: str, resting: Iterable[RestingJobs], now: int) -> Metric:
    since = ((one.workflow, now if one.since is None else one.since) for one in resting)
    ages = ((workflow, max(now - at, 0) / 1000) for workflow, at in since)
    return _by_name(name, text, "workflow", ages)
