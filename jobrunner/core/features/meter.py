"""The seam through which the engine is observed: each room tells a ``Meter`` once what happened
there.

By itself a meter hears nothing, and that is the form everybody starts with; ``app`` puts a real
one in its place. Who counts or traces fills in what he wants to hear, so no room knows what is made
of it. Everything told here is small and was at hand anyway: nothing is worked out for a meter.
Times that last are seconds by the monotonic clock, instants are milliseconds UTC.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from jobrunner.core.features.notifications import DueDelivery
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.keeping.census import Census
from jobrunner.core.keeping.charts import Counting
from jobrunner.core.messages import Ended
from jobrunner.core.questions import Gauges


class Span(Struct, frozen=True):
    """When something began and ended, and how long it took by the clock that never jumps."""

    began_at: int
    ended_at: int
    seconds: float


class Wait(Struct, frozen=True):
    """A job waited: ``reason`` is ``slot``, ``claim``, ``callback``, or the purpose of a timer."""

    reason: str
    state: str
    began_at: int
    ended_at: int


class JobTracer(Protocol):
    """Follows each job on its way; spans are worked out only if there is one."""

    def waited(self, job: Snapshot, wait: Wait) -> None:
        """A wait is over, whatever ended it."""


class Meter:
    """Hears everything and makes nothing of it. ``charts`` counts for them, where somebody does."""

    def __init__(self, tracer: JobTracer | None = None, charts: Counting | None = None) -> None:
        self.tracer = tracer
        self.charts = charts

    def committed(self, units: int, batch_s: float, commit_s: float) -> None:
        """A batch is on the disk; ``commit_s`` is what its last word alone took."""

    def submitted(self, job: Snapshot, span: Span) -> None:
        """A job was made, of facts, a decision and a commit."""

    def ended(self, job: Snapshot, outcome: str) -> None:
        """A job came to its end, or settled. ``outcome`` is what its declaration says of the state:
        ``completed``, ``partial``, ``failed``, ``canceled``, ``rejected``, ``expired``, or
        ``ended`` where it says nothing."""

    def attempted(self, job: Snapshot, attempt: Attempt, ended: Ended, span: Span) -> None:
        """An attempt is over, here or with a worker outside, whatever came of it."""

    def delivered(self, delivery: DueDelivery, number: int, outcome: str, span: Span) -> None:
        """A notification was tried. ``outcome``: ``delivered``, ``due`` (again later), ``failed``,
        ``disabled``."""

    def fired(self, late_s: float) -> None:
        """A timer had its effect, so long after it was due."""

    def lagged(self, seconds: float) -> None:
        """Count how late the loop came back to somebody who slept."""

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered. ``route`` is a template of the table, never a path."""

    def refused(self, code: str) -> None:
        """Count a refusal, by one of the codes that this service or a loaded workflow knows."""

    def heard(self, source: str, verdict: str) -> None:
        """A webhook for a known source; ``verdict`` is one of a few words."""

    def pruned(self, what: str, count: int) -> None:
        """Count what retention removed, by kind: ``jobs``, ``files``, ``keys``, ``audit``,
        ``dead_letters``, ``firings``."""

    def scheduled(self, schedule: str, outcome: str, count: int) -> None:
        """Moments of a schedule have fired, or not: ``fired``, ``same``, ``skipped``, ``refused``
        or ``missed``."""

    def refused_in_batch(self, code: str) -> None:
        """Count a submission of a batch that made no job."""

    def files_moved(self, target: str, count: int) -> None:
        """Count files that lie there from now on: in the store (``s3``) or on the ``disk``."""

    def backed_up(self, outcome: str, seconds: float) -> None:
        """A backup is over: ``done`` or ``failed``."""


class RateReading(Struct, frozen=True):
    """``level`` is None where nothing limits it."""

    name: str
    level: float | None
    held_s: float
    waiting: int


class ScheduleReading(Struct, frozen=True):
    """A schedule: when a moment last made no job though it should have (0: never), and for how long
    one has been waiting to fire."""

    name: str
    failed_at_s: float
    waits_s: float


class Readings(Struct, frozen=True, kw_only=True):
    """The state of things in the moment somebody asks; ``file`` is what the store says of it.
    ``pauses`` are of workflows and stages: scope, name, and for how many seconds. ``limits`` are
    settings by their keys, for who compares."""

    file: Gauges = Gauges()
    oldest_in_line_s: float = 0
    overdue_timers_s: float = 0
    actors: int = 0
    letters: int = 0
    writes_waiting: int = 0
    submissions_inside: int = 0
    submissions_waiting: int = 0
    loop_lag_s: float = 0
    streams: int = 0
    uploads: int = 0
    deliveries_under_way: int = 0
    free_bytes: int = 0
    objects_away_s: float = 0
    threads_stray: int = 0
    backup_at_s: float = 0
    standby_behind_s: float = 0
    standby_lease_s: float = 0
    standby_files: int = 0
    ready: bool = False
    log_faulty: bool = False
    log_lost: int = 0
    census: Census = Census()
    census_age_s: float = 0
    pauses: tuple[tuple[str, str, float], ...] = ()
    rates: tuple[RateReading, ...] = ()
    schedules: tuple[ScheduleReading, ...] = ()
    limits: Mapping[str, float] = {}
    seats: Mapping[str, int] = {}


SILENT = Meter()
