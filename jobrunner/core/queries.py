"""One frozen struct per question that may be asked of the store, and the Reader that answers.

``http`` and ``actors`` ask in these words only; neither ever sees SQL. Every answer is a value
read in one short transaction that is over before the answer is handed out.
"""

from typing import Any, Protocol

from msgspec import Struct

from jobrunner.core.job import Artifact, Asset, Attempt, Purpose, Snapshot
from jobrunner.core.messages import Known


class Token(Struct, frozen=True):
    """Who a bearer token stands for; ``id`` is public, the token itself is never stored."""

    id: str
    name: str
    role: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None


class Tombstone(Struct, frozen=True):
    """What stays of a deleted job."""

    job_id: str
    user_id: str
    workflow: str
    status: str
    deleted_at: int


class HistoryRow(Struct, frozen=True):
    seq: int
    job_id: str
    version: int
    hop: int
    from_status: str | None
    to_status: str
    trigger: str
    actor: str
    reason: str | None
    run_id: str
    event_id: str | None
    at: int


class LedgerRow(Struct, frozen=True):
    """``amount`` is the effect on the spendable balance."""

    id: int
    user_id: str
    kind: str
    amount: int
    balance_after: int
    held_after: int
    job_id: str | None
    run_id: str | None
    reason: str
    created_at: int


class Credits(Struct, frozen=True):
    user_id: str
    balance: int
    held: int


class AuditRow(Struct, frozen=True):
    id: int
    at: int
    event: str
    actor: str
    job_id: str | None
    fields: dict[str, Any]


class DeadLetterRow(Struct, frozen=True):
    id: int
    at: int
    job_id: str
    workflow: str
    user_id: str
    reason: str
    failure_code: str
    failure_message: str
    failed_stage: str
    hidden: bool


class ArtifactView(Struct, frozen=True):
    """One version of an artifact and the numbers of all its versions."""

    artifact: Artifact
    versions: tuple[tuple[int, int], ...]


class AssetRow(Struct, frozen=True):
    """``row`` is its integer key: where a page of the library goes on."""

    asset: Asset
    job_id: str | None
    user_id: str
    row: int = 0


class JobFilter(Struct, frozen=True):
    """Which jobs a list shows. ``after`` is the internal key of the last one seen (a cursor)."""

    user_id: str | None = None
    workflow: str | None = None
    statuses: tuple[str, ...] = ()
    job_type: str | None = None
    labels: tuple[tuple[str, str], ...] = ()
    limit: int = 20
    offset: int = 0
    after: int | None = None
    oldest_first: bool = False
    stuck: bool = False


class JobPage(Struct, frozen=True):
    """``next_after`` is None at the end; a page may hold fewer than asked for and still go on."""

    jobs: tuple[Snapshot, ...]
    next_after: int | None


class DueTimer(Struct, frozen=True):
    job_id: str
    purpose: Purpose
    due_at: int


class Waiting(Struct, frozen=True):
    """A job in line for a slot in the house."""

    job_id: str
    user_id: str
    workflow: str
    status: str
    job_type: str
    priority: int
    line_at: int


class OpenAttempt(Struct, frozen=True):
    """An attempt that ran in the house when its process died."""

    job_id: str
    serial: int


KnownKey = Known


class DoorFacts(Struct, frozen=True):
    """What a submission's guards may want to know, read in one go."""

    known: KnownKey | None
    derived: KnownKey | None
    balance: int
    open_jobs: int
    last_minute: int
    last_day: int


class DoorQuestion(Struct, frozen=True):
    user_id: str
    workflow: str
    key_digest: str | None
    derived_digest: str | None
    quota: bool
    now: int


class LastLife(Struct, frozen=True):
    """The process before this one: ``ended_at`` is None when it did not say goodbye; ``seen_at`` is
    its last known moment."""

    started_at: int
    seen_at: int
    ended_at: int | None


class Counts(Struct, frozen=True):
    """Jobs by (workflow, status), and what lives."""

    by_status: tuple[tuple[str, str, int], ...]
    in_line: int
    timers: int


class Reader(Protocol):
    """Everything that may be asked."""

    async def job(self, job_id: str) -> Snapshot | None: ...

    async def tombstone(self, job_id: str) -> Tombstone | None: ...

    async def jobs(self, which: JobFilter) -> JobPage: ...

    async def history(self, job_id: str) -> tuple[HistoryRow, ...]: ...

    async def attempts(self, job_id: str) -> tuple[Attempt, ...]: ...

    async def assets(self, job_id: str) -> tuple[AssetRow, ...]: ...

    async def library(
        self, user_id: str, limit: int, after: int | None
    ) -> tuple[AssetRow, ...]: ...

    async def asset(self, asset_id: str) -> AssetRow | None: ...

    async def artifact(
        self, job_id: str, name: str, version: int | None
    ) -> ArtifactView | None: ...

    async def event(self, job_id: str, event_id: str) -> tuple[str, str] | None: ...

    async def door(self, question: DoorQuestion) -> DoorFacts: ...

    async def credits(self, user_id: str) -> Credits: ...

    async def ledger(
        self, user_id: str, limit: int, after: int | None
    ) -> tuple[LedgerRow, ...]: ...

    async def audit(self, limit: int, after: int | None) -> tuple[AuditRow, ...]: ...

    async def dead_letters(
        self, limit: int, after: int | None, hidden: bool
    ) -> tuple[DeadLetterRow, ...]: ...

    async def token(self, digest: bytes) -> Token | None: ...

    async def tokens(self) -> tuple[Token, ...]: ...

    async def due_timers(
        self, now: int, limit: int, workflows: tuple[str, ...]
    ) -> tuple[DueTimer, ...]:
        """Of jobs that are not put aside and whose workflow is one of these."""
        ...

    async def next_timer(self, workflows: tuple[str, ...]) -> int | None: ...

    async def line(
        self,
        limit: int,
        workflows: tuple[str, ...],
        but_not: tuple[str, ...] = (),
        not_at: tuple[tuple[str, str, str], ...] = (),
    ) -> tuple[Waiting, ...]:
        """Who waits for a slot, in order; without the users in ``but_not``, and without the places
        (workflow, status, job type) in ``not_at``."""
        ...

    async def line_users(self) -> tuple[tuple[str, int], ...]:
        """How many jobs of whom wait for a slot."""
        ...

    async def line_length(self) -> int: ...

    async def claimable(
        self, workflow: str, statuses: tuple[str, ...], job_type: str | None, now: int, limit: int
    ) -> tuple[str, ...]: ...

    async def open_attempts(self, epoch: int) -> tuple[OpenAttempt, ...]: ...

    async def last_life(self, epoch: int) -> LastLife | None: ...

    async def declarations(self) -> tuple[tuple[str, str, bytes], ...]: ...

    async def counts(self) -> Counts: ...
