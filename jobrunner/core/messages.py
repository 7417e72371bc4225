"""Everything that may arrive in a job's mailbox, and what travels with it.

A message says what somebody wants or what has happened, never what should follow from it. Ids
and jitter that an answer may need come in the ``Moment``, so that deciding stays repeatable.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from jobrunner.core.declaration.one_of_a_kind import SingletonMode
from jobrunner.core.features.answers.giving import Give, Pose
from jobrunner.core.features.families.batches import BatchLink
from jobrunner.core.features.families.parentage import JobsAwaited, ParentLink
from jobrunner.core.job import Actor, Artifact, Asset, Failure, Purpose, Scheduled


class Moment(Struct, frozen=True):
    """The outside's loan to a decision: the time, a fresh id, a number in [0, 1), the epoch."""

    now: int
    id: str = ""
    jitter: float = 0.5
    epoch: int = 1


class Drawing(Moment, frozen=True, dict=True, kw_only=True):
    """A moment whose id is drawn when it is first asked for: few decisions need one."""

    draw: Callable[[], str]

    @property  # type: ignore[misc]
    def id(self) -> str:
        drawn: dict[str, str] = self.__dict__
        return drawn.get("id") or drawn.setdefault("id", self.draw())


class Report(Struct, frozen=True, omit_defaults=True):
    """A report that may accompany a move: results, files, progress, or why it failed."""

    artifacts: dict[str, Any] = {}
    assets: tuple[Asset, ...] = ()
    result: Any = None
    progress: int | None = None
    message: str | None = None
    failure_code: str | None = None
    failure_message: str | None = None
    failed_stage: str | None = None
    retryable: bool = True
    correlation_id: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    claim: int | None = None

    @property
    def reports_failure(self) -> bool:
        return bool(self.failure_code or self.failure_message)


class Event(Struct, frozen=True):
    """The identity of a callback: ``digest`` covers everything it says, as parsed values."""

    id: str
    digest: str
    occurred_at: int


class Origin(Struct, frozen=True):
    """The inheritance of a job that is done again: ``artifacts`` with the files behind them, as
    rows of the new job. ``by`` is who asked for it, ``place`` from where on work is done again."""

    job_id: str
    by: str
    place: str
    reason: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    assets: tuple[Asset, ...] = ()
    new_id: str = ""

    @property
    def verified(self) -> frozenset[str]:
        return frozenset(asset.id for asset in self.assets)


class Singleton(Struct, frozen=True):
    """The wish to be the only one of its ``key``, see ``core.features.turns.singletons``."""

    key: str
    mode: SingletonMode = "first"
    quiet_s: float = 0


class Submit(Struct, frozen=True, tag=True):
    """Make a job. ``params`` is what the client sent, already checked, with defaults filled in, and
    ``omitted`` what was not sent of it."""

    actor: Actor
    workflow: str
    job_type: str
    params: dict[str, Any]
    job_id: str
    key: str | None = None
    body_digest: str = ""
    priority: int = 0
    run_at: int | None = None
    labels: dict[str, str] = {}
    notify_url: str | None = None
    notify_on: tuple[str, ...] = ()
    correlation_id: str = ""
    traceparent: str | None = None
    draining: bool = False
    overloaded: bool = False
    origin: Origin | None = None
    omitted: tuple[str, ...] = ()
    schedule: Scheduled | None = None
    parent: ParentLink | None = None
    batch: BatchLink | None = None
    singleton: Singleton | None = None


class Move(Struct, frozen=True, tag=True):
    """Take the edge to ``to``: by hand (``event`` is None) or by a status callback."""

    actor: Actor
    to: str
    report: Report = Report()
    expected_version: int | None = None
    reason: str | None = None
    event: Event | None = None


class Do(Struct, frozen=True, tag=True):
    """A command by its name, with its decoded fields."""

    actor: Actor
    command: str
    fields: dict[str, Any] = {}
    expected_version: int | None = None
    reason: str | None = None


class Edit(Struct, frozen=True, tag=True):
    """A person's new version of an artifact."""

    actor: Actor
    name: str
    value: Any
    base_version: int | None = None
    expected_version: int | None = None


class Arriving(Struct, frozen=True, tag=True):
    """The first byte of a file that the workflow calls ``upload`` is here."""

    actor: Actor
    upload: str
    expected_version: int | None = None


class Arrived(Struct, frozen=True, tag=True):
    """The whole file is here, at its place and on the disk."""

    actor: Actor
    upload: str
    asset: Asset


class Claim(Struct, frozen=True, tag=True):
    """An outside worker wants to work on this job now. ``runs``: the stages that it would run, by
    state and job type; without any it does the work in its own way."""

    actor: Actor
    runs: tuple[tuple[str, str, str], ...] = ()


class Beat(Struct, frozen=True, tag=True):
    """Progress from whoever works on the job; without a figure it is a heartbeat."""

    actor: Actor
    progress: int | None = None
    message: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    claim: int | None = None


class Sending(Struct, frozen=True, tag=True):
    """A file that an outside worker sent is whole, at its place and on the disk."""

    actor: Actor
    asset: Asset
    artifact: str = ""
    run_id: str | None = None
    attempt: int | None = None
    claim: int | None = None


class Start(Struct, frozen=True, tag=True):
    """The dispatcher has a slot for this job."""


class Ended(Struct, frozen=True, tag=True):
    """An in-process attempt is over. ``outcome`` is ``done``, ``partial``, ``failed`` (see
    ``failure``), ``rejected``, ``parked`` (see ``awaits``, and ``source`` for whose webhook may
    bring it, or ``jobs``) or ``interrupted``. ``log`` are the lines that its stage wrote."""

    serial: int
    outcome: str
    report: Report = Report()
    failure: Failure | None = None
    awaits: str = ""
    await_s: float = 0
    log: tuple[str, ...] = ()
    source: str = ""
    jobs: JobsAwaited | None = None


class Keep(Struct, frozen=True, tag=True):
    """The stage of an in-process attempt worked something out that it need not do again."""

    serial: int
    name: str
    value: Any


class Checkpoint(Struct, frozen=True, tag=True):
    """The results so far of an in-process stage are the job's from now on, whatever
    becomes of the attempt: artifacts and files."""

    serial: int
    report: Report


class Remote(Struct, frozen=True, tag=True):
    """The claimant of an attempt, who runs its stage elsewhere, says of it what our own stage host
    would; ``event`` is the identity of what has one effect, however often it is sent."""

    actor: Actor
    said: Ended | Keep | Checkpoint
    event: Event | None = None
    run_id: str | None = None
    attempt: int | None = None
    claim: int | None = None


class Answered(Struct, frozen=True, tag=True):
    """The answer that an in-process stage awaits under ``key`` has come, or comes early."""

    actor: Actor
    key: str
    value: Any = None


class Told(Struct, frozen=True, tag=True):
    """A verified webhook of a source about the piece of work that the source knows as ``key``."""

    source: str
    webhook_id: str
    key: str
    value: Any = None


class JobsEnded(Struct, frozen=True, tag=True):
    """Enough of the children that the attempt of this serial number waits for have ended."""

    serial: int


class Fired(Struct, frozen=True, tag=True):
    """A timer of this job is due."""

    purpose: Purpose
    due_at: int


class Recovered(Struct, frozen=True, tag=True):
    """The process that ran this job's attempt is gone. ``alone``: it was the only one open then,
    soon after a start."""

    alone: bool = False


class Stop(Struct, frozen=True, tag=True):
    """End the running attempt as a permanent failure."""

    actor: Actor
    reason: str | None = None


class SetAside(Struct, frozen=True, tag=True):
    """The job's actor keeps failing, or its parameters do not decode: the job is stuck until
    released."""

    why: str


class Release(Struct, frozen=True, tag=True):
    """A person looked at a stuck job: it may go on."""

    actor: Actor
    reason: str | None = None


class Pause(Struct, frozen=True, tag=True):
    """Start nothing new in this job until somebody resumes it."""

    actor: Actor
    reason: str | None = None
    expected_version: int | None = None


class Resume(Struct, frozen=True, tag=True):
    """A job that was paused goes on, with whatever came due meanwhile."""

    actor: Actor
    reason: str | None = None
    expected_version: int | None = None


class Advance(Struct, frozen=True, tag=True):
    """Look whether the engine itself should take this job on; nothing else has happened."""


class Rebound(Struct, frozen=True, tag=True):
    """The stage of the place where the job rests may be another one than at the last start."""


class Migrate(Struct, frozen=True, tag=True):
    """Move the job to the declaration of today, on behalf of the order ``upgrade``. ``settles`` are
    the places of that declaration (status, credits, whether a run is open) from which it settles
    all money."""

    actor: Actor
    upgrade: str
    reason: str | None = None
    settles: frozenset[tuple[str, str, bool]] = frozenset()


class Supersede(Struct, frozen=True, tag=True):
    """A newer submission took this job's key; it walks the path its recipe declares."""

    by: str


Message = (
    Move
    | Do
    | Edit
    | Arriving
    | Arrived
    | Claim
    | Beat
    | Sending
    | Start
    | Ended
    | Keep
    | Checkpoint
    | Remote
    | Answered
    | Told
    | Pose
    | Give
    | JobsEnded
    | Fired
    | Recovered
    | Stop
    | SetAside
    | Release
    | Pause
    | Resume
    | Advance
    | Rebound
    | Migrate
    | Supersede
)
