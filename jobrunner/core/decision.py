"""What was decided, as data: a snapshot before and after, rows that only grow, and asserts.

Whoever commits a ``Decision`` compares ``before`` with ``after`` to learn which locks, timers and
columns changed; everything else is appended as it stands. All of it goes into one transaction, or
none. A ``NoOp`` writes nothing and is not an error; a refusal is an ``errors.Refused``, returned.
"""

from typing import Any

from msgspec import Struct

from jobrunner.core.job import Artifact, Asset, Attempt, Failure, Snapshot


class Hop(Struct, frozen=True):
    """One edge taken. The first hop of a job has no ``from_status``."""

    from_status: str | None
    to_status: str
    trigger: str
    actor: str
    reason: str | None = None
    run_id: str = ""
    event_id: str | None = None


class LedgerEntry(Struct, frozen=True):
    """Credits moved on behalf of a run; unique by (job, run, kind). ``amount`` is positive."""

    kind: str
    amount: int
    user_id: str
    run_id: str
    reason: str = ""


class AuditRecord(Struct, frozen=True):
    event: str
    actor: str
    fields: dict[str, Any] = {}


class DeadLetter(Struct, frozen=True):
    """Work that was given up, for a person to look at. ``hidden`` keeps it off the default list."""

    reason: str
    failure: Failure
    hidden: bool = False


class EventRow(Struct, frozen=True):
    event_id: str
    digest: str
    occurred_at: int


class KeyRow(Struct, frozen=True):
    """A key in the scope (user, workflow). ``parts`` are what a derived one was made of.
    ``takes_from`` is the job it moves away from, when its recipe frees keys."""

    digest: str
    body_digest: str
    parts: str = ""
    takes_from: str = ""


class QuotaAssert(Struct, frozen=True):
    """Inside the transaction, counting this one: at most so many; 0 means no limit."""

    open_jobs: int = 0
    per_minute: int = 0
    per_day: int = 0


class StartStage(Struct, frozen=True, tag=True):
    """Run the stage of this attempt: a slot is taken."""

    attempt: Attempt


class StopStage(Struct, frozen=True, tag=True):
    """Whoever runs this attempt in the house must stop; its result will be discarded."""

    serial: int


Effect = StartStage | StopStage


class LogEvent(Struct, frozen=True):
    event: str
    fields: dict[str, Any] = {}


class Decision(Struct, frozen=True):
    """See above. ``answer`` holds what the caller is told beside the job itself; ``status`` is the
    HTTP status of a command; ``also`` are decisions about other jobs in the same transaction."""

    before: Snapshot | None
    after: Snapshot
    hops: tuple[Hop, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    audits: tuple[AuditRecord, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    assets: tuple[Asset, ...] = ()
    event: EventRow | None = None
    keys: tuple[KeyRow, ...] = ()
    quota: QuotaAssert | None = None
    also: tuple["Decision", ...] = ()
    effects: tuple[Effect, ...] = ()
    logs: tuple[LogEvent, ...] = ()
    answer: dict[str, Any] = {}
    status: int = 200


class NoOp(Struct, frozen=True):
    """Nothing to write. ``name`` says why; ``snapshot`` is the job as it stands."""

    name: str
    snapshot: Snapshot
    answer: dict[str, Any] = {}
    logs: tuple[LogEvent, ...] = ()
    status: int = 200


class Grant(Struct, frozen=True, tag=True):
    """Credits given by an operator, or to a new account (then ``once``: only if it has no row)."""

    user_id: str
    amount: int
    reason: str
    actor: str
    at: int
    once: bool = False


class NewToken(Struct, frozen=True, tag=True):
    """A token is stored as the SHA-256 of what was printed."""

    id: str
    name: str
    role: str
    digest: bytes
    at: int
    actor: str
    expires_at: int | None = None


class RevokeToken(Struct, frozen=True, tag=True):
    """By token id or by NAME; refused with ``missing`` when there is none."""

    which: str
    at: int
    actor: str


class Note(Struct, frozen=True, tag=True):
    """An audit record on its own, about a job or about none."""

    record: AuditRecord
    at: int
    job_id: str | None = None


class Forget(Struct, frozen=True, tag=True):
    """Delete a job that ended, at this version; what stays is its tombstone."""

    job: Snapshot
    at: int
    actor: str


class Remember(Struct, frozen=True, tag=True):
    """Store a declaration by its digest (a repeat changes nothing)."""

    digest: str
    name: str
    version: str
    data: bytes
    states: tuple[tuple[str, str], ...]
    at: int


Unit = Decision | Grant | NewToken | RevokeToken | Note | Forget | Remember


class Clash(Struct, frozen=True):
    """Why the writer refused one unit of a batch, and it alone: a fact had changed meanwhile.

    ``version`` the job moved on · ``key`` the key is taken · ``balance`` too few credits ·
    ``event`` the event id was accepted before · ``quota`` too many · ``ledger`` money of this kind
    moved before in this run · ``missing`` nothing there to change · ``exists`` it is there already
    · ``epoch`` another process owns the file
    """

    reason: str
    detail: str = ""
