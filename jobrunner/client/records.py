"""The answers of the service, typed. Unknown members are ignored, so a client works with a newer
service; words that may grow are text."""

from datetime import datetime
from typing import Any

from msgspec import Struct


class CreditsOfJob(Struct, frozen=True, kw_only=True):
    cost: int
    state: str


class NextSteps(Struct, frozen=True, kw_only=True):
    """The moves and commands that the caller may ask for next."""

    statuses: list[str]
    commands: list[str]


class StuckRecord(Struct, frozen=True, kw_only=True):
    reason: str
    missing: list[str] = []


class PauseRecord(Struct, frozen=True, kw_only=True):
    by: str
    reason: str | None
    at: datetime


class ScheduleOfJob(Struct, frozen=True, kw_only=True):
    """The schedule that made a job, and the moment that it was made for."""

    name: str
    moment: datetime


class JobRecord(Struct, frozen=True, kw_only=True):
    """A job as it was when the service answered. ``etag`` names that moment, for ``changed``;
    ``said`` is the whole answer, with what a command has to say beside the job."""

    id: str
    workflow: str
    workflow_version: str | None = None
    job_type: str
    user_id: str
    status: str
    kind: str
    version: int
    progress: int
    progress_message: str | None = None
    attempt: int
    retry_count: int
    run_id: str | None = None
    params: Any = None
    result: Any = None
    artifacts: dict[str, Any] = {}
    failure_code: str | None = None
    failure_message: str | None = None
    failed_stage: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    priority: int
    labels: dict[str, str]
    credits: CreditsOfJob
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    scheduled_at: datetime | None = None
    heartbeat_at: datetime | None = None
    next_attempt_at: datetime | None = None
    deadline_at: datetime | None = None
    run_at: datetime | None = None
    result_url: str | None = None
    notify_url: str | None = None
    notify_on: list[str] = []
    stuck: StuckRecord | None = None
    paused: PauseRecord | None = None
    forked_from: str | None = None
    parent: str | None = None
    schedule: ScheduleOfJob | None = None
    batch: str | None = None
    ended_as: str | None = None
    needs_person: bool = False
    allowed: NextSteps
    replayed: bool = False
    etag: str = ""
    said: dict[str, Any] = {}

    @property
    def ended(self) -> bool:
        """Say whether it is at rest, and nothing more happens by itself."""
        return self.ended_as is not None

    @property
    def succeeded(self) -> bool:
        return self.ended_as == "completed"


class HopRecord(Struct, frozen=True, kw_only=True):
    """A transition of a job's history."""

    version: int
    hop: int
    from_status: str | None
    to_status: str
    trigger: str
    actor: str
    reason: str | None
    run_id: str
    event_id: str | None
    at: datetime


class MoveRecord(Struct, frozen=True, kw_only=True):
    """One version of a job, as a stream tells it."""

    job_id: str
    workflow: str
    user_id: str
    version: int
    status: str
    hops: list[HopRecord]


class AttemptRecord(Struct, frozen=True, kw_only=True):
    state: str
    stage: str
    run_id: str
    attempt: int
    status: str
    outcome: str | None
    failure_code: str | None
    failure_message: str | None
    started_at: datetime | None
    ended_at: datetime | None
    log: list[str]
    holder: str | None = None


class FileRecord(Struct, frozen=True, kw_only=True):
    """A file of a job, or one that no job has yet."""

    id: str
    job_id: str | None
    asset_type: str
    url: str
    storage_path: str | None
    file_size: int | None
    sha256: str | None
    created_at: datetime


class BriefRecord(Struct, frozen=True, kw_only=True):
    """Everything that a stage is told that runs elsewhere."""

    stage: str
    state: str
    params: Any
    artifacts: dict[str, Any]
    settings: dict[str, Any]
    kept: dict[str, Any]
    answers: dict[str, Any]
    files: dict[str, str]
    number: int
    seconds: float
    silence_s: float
    base_url: str
    traceparent: str


class ClaimRecord(Struct, frozen=True, kw_only=True):
    """Work that was taken: ``claim`` goes with whatever is said of it."""

    job: JobRecord
    run_id: str
    attempt: int
    claim: int
    lease_until: datetime | None
    brief: BriefRecord | None = None


class VersionRecord(Struct, frozen=True, kw_only=True):
    version: int
    created_at: datetime


class ArtifactRecord(Struct, frozen=True, kw_only=True):
    name: str
    version: int
    value: Any
    created_at: datetime
    versions: list[VersionRecord]


class CreditsRecord(Struct, frozen=True, kw_only=True):
    """``balance`` is what can be spent."""

    user_id: str
    balance: int
    held: int


class LedgerRecord(Struct, frozen=True, kw_only=True):
    kind: str
    amount: int
    balance_after: int
    held_after: int
    job_id: str | None
    run_id: str | None
    reason: str
    created_at: datetime


class WorkflowRecord(Struct, frozen=True, kw_only=True):
    name: str
    version: str
    initial: str
    job_types: list[str]


class MomentRecord(Struct, frozen=True, kw_only=True):
    """A moment, as text the same by the clock of its zone, and when its job is made."""

    at: datetime
    local: str
    fires_at: datetime


class FiringRecord(Struct, frozen=True, kw_only=True):
    """The result of a moment, or of ``count`` moments that were missed up to ``last``."""

    moment: datetime
    last: datetime | None
    count: int
    how: str
    outcome: str
    job_id: str | None
    error_code: str | None
    detail: str | None
    at: datetime


class ScheduleRecord(Struct, frozen=True, kw_only=True):
    """A schedule. Those whose ``owner`` is the file are changed there. Lists have no firings."""

    name: str
    owner: str
    state: str
    reason: str | None
    workflow: str
    job_type: str | None
    user: str
    params: dict[str, Any]
    labels: dict[str, str]
    priority: int
    notify_url: str | None
    notify_on: list[str]
    cron: str | None
    every: float | None
    zone: str
    overlap: str
    catch_up: float
    catch_up_policy: str
    jitter: float
    next: list[MomentRecord]
    paused: PauseRecord | None
    last_job_id: str | None
    failed_at: datetime | None
    made_by: str
    made_at: datetime
    changed_at: datetime
    firings: list[FiringRecord] = []


class TriggerRecord(Struct, frozen=True, kw_only=True):
    job_id: str
    replayed: bool


class BackfilledRecord(Struct, frozen=True, kw_only=True):
    moment: datetime
    outcome: str | None
    job_id: str | None
    error_code: str | None
    detail: str | None


class BackfillRecord(Struct, frozen=True, kw_only=True):
    """The results of moments, oldest first; ``same`` made a job before."""

    dry_run: bool
    total: int
    fired: int
    same: int
    refused: int
    moments: list[BackfilledRecord]


class JobEvent(Struct, frozen=True, kw_only=True):
    """Something that a stream told. ``transition`` has ``moved``; ``progress`` and ``settled`` have
    the job. ``id`` is where a stream goes on after it, ``said`` the whole of what was told."""

    kind: str
    id: str
    job: JobRecord | None = None
    moved: MoveRecord | None = None
    said: dict[str, Any] = {}


class BatchResultRecord(Struct, frozen=True, kw_only=True):
    """The fate of one submission: its job, or why there is none. ``idempotency_mismatch``: the job
    of its key was made of another submission."""

    key: str
    job_id: str | None = None
    status: str | None = None
    replayed: bool = False
    error_code: str | None = None
    detail: str | None = None
    errors: list[dict[str, Any]] = []
    idempotency_mismatch: bool = False


class BatchEntryRecord(Struct, frozen=True, kw_only=True):
    id: str
    user_id: str
    key: str | None = None
    status: str
    left: int
    rerun_of: str | None = None
    created_at: datetime
    ended_at: datetime | None = None


class BatchRecord(BatchEntryRecord, frozen=True, kw_only=True):
    """A batch as it was when the service answered; ``results`` are those of a call that sent jobs,
    in its order."""

    counts: dict[str, int]
    well: int
    ill: int
    deleted: int = 0
    refused: int
    refusals: list[BatchResultRecord] = []
    notify_url: str | None = None
    results: list[BatchResultRecord] = []
    replayed: bool = False

    @property
    def ended(self) -> bool:
        return self.status == "ended"
