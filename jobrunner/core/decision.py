"""Decisions as data: a snapshot before and after, rows that only grow, and asserts.

Whoever commits a ``Decision`` compares ``before`` with ``after`` to learn which locks, timers and
columns changed; everything else is appended as it stands. All of it goes into one transaction, or
none. A ``NoOp`` writes nothing and is not an error; a refusal is an ``errors.Refused``, returned.
"""

from typing import Any

from msgspec import Struct

from jobrunner.core.features.bindings import Bind
from jobrunner.core.features.bulk import BulkTurned, MoreItems, NewBulk, Tick, Ticked
from jobrunner.core.features.families.batches import BatchUnit
from jobrunner.core.features.families.parentage import Kin, Parted
from jobrunner.core.features.schedules.schedules import MomentDone, ScheduleUnit
from jobrunner.core.features.sessions import SessionUnit
from jobrunner.core.features.turns.limits import SetLimit
from jobrunner.core.features.turns.rates import RateRow
from jobrunner.core.features.upgrades.upgrades import Repinned, UpgradeUnit
from jobrunner.core.job import Artifact, Asset, Attempt, Failure, Snapshot
from jobrunner.core.keeping.keeping_units import KeepingUnit
from jobrunner.core.units import (
    AuditRecord,
    Cleared,
    EnableEndpoint,
    Forget,
    ForgetWebhooks,
    Grant,
    Halt,
    LogLines,
    NewToken,
    Note,
    Redeliver,
    Remember,
    RevokeToken,
    Shelve,
    StoreWebhook,
    Tried,
    Unhalt,
    Unreadable,
    Unshelve,
    WebhookRow,
)


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


class DeadLetter(Struct, frozen=True):
    """Work that was given up, for a person to look at. ``hidden`` keeps it off the default list."""

    reason: str
    failure: Failure
    hidden: bool = False


class EventRow(Struct, frozen=True):
    event_id: str
    digest: str
    occurred_at: int


class Handed(Struct, frozen=True):
    """A webhook that was kept (``row``) goes to the attempt that came to await its ``name``."""

    row: int
    name: str


class KeyRow(Struct, frozen=True):
    """A key in the scope (user, workflow), known by a digest of its text, or by a short text
    itself. ``parts`` are what a derived one was made of.
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
    | KeepingUnit
    | SessionUnit
    | SetLimit
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
