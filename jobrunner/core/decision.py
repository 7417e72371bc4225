"""Decisions as data: a snapshot before and after, rows that only grow, and asserts.

Whoever commits a ``Decision`` compares ``before`` with ``after`` to learn which locks, timers and
columns changed; everything else is appended as it stands. All of it goes into one transaction, or
none. A ``NoOp`` writes nothing and is not an error; a refusal is an ``errors.Refused``, returned.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct

from jobrunner.core.features.bindings import Bind
from jobrunner.core.features.bulk import BulkTurned, MoreItems, NewBulk, Tick, Ticked
from jobrunner.core.features.families.batches import BatchUnit
from jobrunner.core.features.families.parentage import Kin, Parted
from jobrunner.core.features.schedules import MomentDone, ScheduleUnit
from jobrunner.core.features.sessions import SessionUnit
from jobrunner.core.features.turns.limits import SetLimit
from jobrunner.core.features.turns.rates import RateRow
from jobrunner.core.features.upgrades import Repinned, UpgradeUnit
from jobrunner.core.job import Artifact, Asset, Attempt, Failure, Paused, Snapshot
from jobrunner.core.keeping.backups import BackupEvent
from jobrunner.core.keeping.retention import RetentionUnit


class EdgeTaken(Struct, frozen=True):
    """One edge taken. The first hop of a job has no ``from_status``."""

    from_status: str | None
    to_status: str
    trigger: str
    actor: str
    reason: str | None = None
    run_id: str = ""
    event_id: str | None = None


class CreditEntry(Struct, frozen=True):
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


class WebhookRow(Struct, frozen=True):
    """A webhook, remembered by its id among those of its source. ``name`` is what it was about;
    ``reason`` says why it was not ``applied``."""

    source: str
    webhook_id: str
    name: str
    at: int
    applied: bool
    reason: str = ""


class Handed(Struct, frozen=True):
    """A webhook that was kept (``row``) goes to the attempt that came to await its ``name``."""

    row: int
    name: str


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
    """The stage that runs this attempt in-process must stop; its result will be discarded."""

    serial: int


Effect = StartStage | StopStage


class Notification(Struct, frozen=True):
    """A message to an endpoint. ``owner`` is whose endpoint it is: a user, or an operator for
    ``workflow:NAME``. Deliveries of one ``lane`` may be held up by each other, and by no others."""

    id: str
    owner: str
    lane: str
    url: str
    type: str
    body: str


class LogEvent(Struct, frozen=True):
    event: str
    fields: dict[str, Any] = {}


class Decision(Struct, frozen=True):
    """See above. ``answer`` is told beside the job itself; ``status`` is the HTTP status of a
    command; ``also`` are decisions about other jobs in the same transaction; ``tick`` is the item
    of a bulk, or the moment of a schedule, that this one carries out; ``rates`` stand so then."""

    before: Snapshot | None
    after: Snapshot
    hops: tuple[EdgeTaken, ...] = ()
    ledger: tuple[CreditEntry, ...] = ()
    audits: tuple[AuditRecord, ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    assets: tuple[Asset, ...] = ()
    event: EventRow | None = None
    keys: tuple[KeyRow, ...] = ()
    quota: QuotaAssert | None = None
    also: tuple["Decision", ...] = ()
    tick: Tick | MomentDone | None = None
    effects: tuple[Effect, ...] = ()
    logs: tuple[LogEvent, ...] = ()
    notifications: tuple[Notification, ...] = ()
    answer: dict[str, Any] = {}
    status: int = 200
    webhook: WebhookRow | None = None
    handed: Handed | None = None
    rates: tuple[RateRow, ...] = ()
    repinned: Repinned | None = None
    kin: Kin | None = None
    record: bytes | None = None


class NoOp(Struct, frozen=True):
    """Nothing to write. ``name`` says why; ``snapshot`` is the job as it stands."""

    name: str
    snapshot: Snapshot
    answer: dict[str, Any] = {}
    logs: tuple[LogEvent, ...] = ()
    status: int = 200


class Grant(Struct, frozen=True, tag=True):
    """Credits given by an operator, or to a new account (then ``once``: only if it has no row).
    Under a ``key`` an account is given something once."""

    user_id: str
    amount: int
    reason: str
    actor: str
    at: int
    once: bool = False
    key: str = ""


class NewToken(Struct, frozen=True, tag=True):
    """A token is stored as the SHA-256 of what was printed. Those that it ``replaces``, by id, end
    at the latest at ``replaced_until``; refused with ``missing`` when one of them is gone. With
    ``workflows`` it is for their jobs only."""

    id: str
    name: str
    role: str
    digest: bytes
    at: int
    actor: str
    expires_at: int | None = None
    replaces: tuple[str, ...] = ()
    replaced_until: int = 0
    workflows: tuple[str, ...] = ()


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
    """Delete a job that ended, at this version; what stays is its tombstone. ``folders`` hold its
    files, which are to follow it."""

    job: Snapshot
    at: int
    actor: str
    folders: tuple[str, ...] = ()
    tick: Tick | None = None


class Shelve(Struct, frozen=True, tag=True):
    """A file that came before its job: it is its owner's, and no job's yet."""

    asset: Asset
    user_id: str


class Unshelve(Struct, frozen=True, tag=True):
    """Forget a file that is no job's, which lies in ``folder``; refused with ``missing`` when there
    is none."""

    asset_id: str
    folder: str
    at: int
    actor: str


class Unreadable(Struct, frozen=True, tag=True):
    """Mark a job stuck whose record cannot be read, and touch nothing else."""

    job_id: str
    why: str


class Cleared(Struct, frozen=True, tag=True):
    """The files of deleted jobs, or of a deleted asset, are off the disk."""

    folders: tuple[str, ...]


class Halt(Struct, frozen=True, tag=True):
    """A workflow or a stage is paused; refused with ``exists`` when it is already."""

    scope: str
    name: str
    paused: Paused


class Unhalt(Struct, frozen=True, tag=True):
    """It goes on; refused with ``missing`` when it was not paused."""

    scope: str
    name: str
    actor: str
    at: int
    reason: str | None = None


class Remember(Struct, frozen=True, tag=True):
    """Store a declaration by its digest (a repeat changes nothing)."""

    digest: str
    name: str
    version: str
    data: bytes
    states: tuple[tuple[str, str], ...]
    at: int


class Tried(Struct, frozen=True, tag=True):
    """One try of a delivery, the ``number``-th, was answered or was not; ``at`` is its start."""

    delivery: int
    number: int
    at: int
    latency_ms: int
    http_status: int | None
    error: str
    outcome: Literal["delivered", "due", "failed", "disabled"]
    due_at: int | None = None


class Redeliver(Struct, frozen=True, tag=True):
    """Try a delivery again from the start, whatever became of it; refused with ``missing`` when
    there is none or its endpoint is disabled."""

    delivery_id: str
    at: int
    actor: str
    job_id: str


class EnableEndpoint(Struct, frozen=True, tag=True):
    """Deliver there again, also what was held back meanwhile; refused with ``missing`` when it is
    not disabled."""

    endpoint: int
    at: int
    actor: str


class StoreWebhook(Struct, frozen=True, tag=True):
    """A webhook that is for no attempt now; with a ``value`` it is kept for one that may come to
    await it. Refused with ``awaited`` when somebody awaits it already, with ``webhook`` when its
    id came before."""

    webhook: WebhookRow
    value: Any = UNSET


class ForgetWebhooks(Struct, frozen=True, tag=True):
    """Old ones, a limited number at a time: those kept since before ``kept_before`` are not handed
    over any more, and those of no job are forgotten when they came before ``before`` (None:
    never)."""

    kept_before: int
    before: int | None


class LogLines(Struct, frozen=True, tag=True):
    """All lines that a stage wrote whose attempt was ended before it."""

    job_id: str
    serial: int
    lines: tuple[str, ...]


class Addressed(Struct, frozen=True, tag=True):
    """A unit that somebody asks for from this address; what it leaves in the audit says so."""

    unit: "Unit"
    address: str


Unit = (
    Addressed
    | LogLines
    | Shelve
    | Unshelve
    | Unreadable
    | Cleared
    | Decision
    | Grant
    | NewToken
    | RevokeToken
    | Note
    | Forget
    | Remember
    | StoreWebhook
    | ForgetWebhooks
    | Tried
    | Redeliver
    | EnableEndpoint
    | Halt
    | Unhalt
    | NewBulk
    | MoreItems
    | BulkTurned
    | Ticked
    | Bind
    | RetentionUnit
    | SessionUnit
    | SetLimit
    | BackupEvent
    | ScheduleUnit
    | UpgradeUnit
    | Parted
    | BatchUnit
)


class Clash(Struct, frozen=True):
    """Why the writer refused one unit of a batch, and it alone: a fact had changed meanwhile.

    ``version`` the job moved on · ``key`` the key is taken · ``balance`` too few credits ·
    ``event`` the event id was accepted before · ``quota`` too many · ``ledger`` money of this kind
    moved before in this run · ``missing`` nothing there to change · ``exists`` it is there already
    · ``epoch`` another process owns the file · ``webhook`` its id came before
    · ``tick`` this item of a bulk or this moment of a schedule is over, or the bulk is
    · ``awaited`` somebody has come to await it, or to bring it, meanwhile
    · ``parent`` the attempt that submits a child is over · ``batch`` it is closed, or has this
    key
    """

    reason: str
    detail: str = ""
