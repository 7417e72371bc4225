"""The structs of what is asked of the store, and of its answers; all are frozen.

``http`` and ``actors`` ask in these words only; neither ever sees SQL. Every answer is a value
read in one short transaction that is over before the answer is handed out. Which questions there
are, ``store.reader`` says.
"""

from typing import Any

from msgspec import Struct

from jobrunner.core.facts import Known
from jobrunner.core.job import Artifact, Asset, Purpose, Snapshot

PAGE = 1_000


class Token(Struct, frozen=True):
    """The caller that a bearer token stands for; ``id`` is public, the token itself is never
    stored. ``replaced`` are the tokens that it succeeded, directly or not."""

    id: str
    name: str
    role: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    workflows: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()


class Tombstone(Struct, frozen=True):
    """The traces that stay of a deleted job."""

    job_id: str
    user_id: str
    workflow: str
    status: str
    deleted_at: int


class Place(Struct, frozen=True):
    """How many stand before a job in line; ``exact`` is False when nobody counted further."""

    ahead: int
    exact: bool


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
    """One version of an artifact, and the numbers of all its versions. ``unreadable`` says why its
    value cannot be read."""

    artifact: Artifact
    versions: tuple[tuple[int, int], ...]
    unreadable: str = ""


class AssetRow(Struct, frozen=True):
    """``row`` is its integer key: where a page of the library goes on."""

    asset: Asset
    job_id: str | None
    user_id: str
    row: int = 0


class JobFilter(Struct, frozen=True):
    """Which jobs a list shows. ``after`` is the internal key of the last one seen (a cursor);
    ``id_begins`` is the beginning of their ids; ``parent`` is the job that submitted them,
    ``batch`` what they were submitted in; ``workflows`` are the only ones whose jobs the caller may
    see (none named: all). ``created_from`` and ``created_before``: not before the one moment, and
    before the other. ``text`` stands in id, parameters, result, labels or failure; ``param_values``
    are parameters by name."""

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
    paused: bool = False
    workflows: tuple[str, ...] = ()
    id_begins: str = ""
    schedule: str | None = None
    parent: str = ""
    kinds: tuple[str, ...] = ()
    created_from: int | None = None
    created_before: int | None = None
    batch: str = ""
    text: str = ""
    param_values: tuple[tuple[str, str], ...] = ()


class JobPage(Struct, frozen=True):
    """``next_after`` is None at the end; a page may hold fewer than asked for and still go on."""

    jobs: tuple[Snapshot, ...]
    next_after: int | None


class DueTimer(Struct, frozen=True):
    job_id: str
    purpose: Purpose
    due_at: int


class OpenAttempt(Struct, frozen=True):
    """An attempt that ran in-process when that process died, and since when it did."""

    job_id: str
    serial: int
    started_at: int = 0
    stage: str = ""


KnownKey = Known


class DoorFacts(Struct, frozen=True):
    """The facts that a submission's guards may want to know, read in one go."""

    known: KnownKey | None
    derived: KnownKey | None
    balance: int
    open_jobs: int
    last_minute: int
    last_day: int
    singleton: KnownKey | None = None


class DoorQuestion(Struct, frozen=True):
    user_id: str
    workflow: str
    key_digest: str | None
    derived_digest: str | None
    quota: bool
    now: int
    singleton_digest: str | None = None


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


class Gauges(Struct, frozen=True):
    """How things stand in the file, for who watches over it. ``line_at`` is since when the one who
    waits longest has been in line, ``due_at`` when the earliest timer is or was due."""

    by_status: tuple[tuple[str, str, int], ...] = ()
    in_line: int = 0
    line_at: int | None = None
    due_at: int | None = None
    running: int = 0
    parked: int = 0
    deliveries: int = 0
    endpoints_failing: int = 0
    endpoints_disabled: int = 0
    file_bytes: int = 0
    wal_bytes: int = 0
    unused_bytes: int = 0
    questions: int = 0
