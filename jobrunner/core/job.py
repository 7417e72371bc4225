"""The nouns: a job's snapshot and what it is made of. All frozen; times are milliseconds UTC.

A ``Snapshot`` is the whole of a job after a transition. What grows without bound (history,
attempts that ended, old versions of artifacts, assets) is not in it: those rows are written once,
beside it, and read by whoever asks. Thousands are kept, of what no cycle can be made: so the
collector looks at none of them.
"""

import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

from jobrunner.core.declaration.states import ENDED, Kind, TokenRole, Trigger
from jobrunner.core.features.answers.posed import Posed
from jobrunner.core.features.families.batches import BatchLink
from jobrunner.core.features.families.parentage import ParentLink

JOB_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Actor(Struct, frozen=True, gc=False):
    """The one who asks: a token's name with its role, or a part of the engine. ``token`` is the id
    of the token, ``replaced`` are those of the tokens that it took the place of; ``workflows`` are
    the only ones that it is for (none named: all)."""

    name: str
    role: Trigger | TokenRole
    token: str = ""
    replaced: tuple[str, ...] = ()
    workflows: tuple[str, ...] = ()

    def serves(self, workflow: str) -> bool:
        """Jobs of other workflows are strangers' to this actor."""
        return not self.workflows or workflow in self.workflows

    @property
    def badge(self) -> str:
        """The mark of this actor's claims; without a token it is the name."""
        return self.token or self.name

    def stands_for(self, badge: str) -> bool:
        """Say whether this mark is the actor's own, or that of a token that it replaced."""
        return badge == self.badge or badge in self.replaced

    @property
    def oversees(self) -> bool:
        """Say whether everything may be read, whoever owns it."""
        return self.role in ("admin", "reader")

    @property
    def trigger(self) -> Trigger:
        """Name this actor's steps, as the history does."""
        assert self.role != "reader", "a reader takes no step"
        return self.role

    def roles(self, job: "Snapshot") -> frozenset[str]:
        """Return everything as which this actor counts here. An owner is a user whatever the token
        says, but a reader is nothing, and so is a user on a stranger's job."""
        if self.role == "reader":
            return frozenset()
        owner = self.name == job.user_id
        if self.role == "user":
            return frozenset({"user"} if owner else ())
        return frozenset({self.role, "user"} if owner else {self.role})


ENGINE = Actor("engine", "engine")
TIMER = Actor("timer", "timer")
STAGE = Actor("stage", "stage")


class Failure(Struct, frozen=True, gc=False, omit_defaults=True):
    """Why something failed; ``stage`` is the state (or named stage) in which it did."""

    code: str
    message: str
    stage: str = ""
    retryable: bool = True
    retry_after_s: float = 0
    detail: str = ""


class Asset(Struct, frozen=True, gc=False, omit_defaults=True):
    """A file in the job's library."""

    id: str
    asset_type: str
    url: str
    storage_path: str = ""
    file_size: int | None = None
    sha256: str = ""
    created_at: int = 0


class SentFile(Struct, frozen=True, gc=False, omit_defaults=True):
    """A file that an outside worker sent and no report has named yet. With ``artifact`` a report
    need not name it."""

    asset: Asset
    artifact: str = ""


class Attempt(Struct, frozen=True, gc=False, omit_defaults=True):
    """One execution of an active state's stage.

    ``due`` waits for a slot, a claim or its backoff (``not_before``); ``running`` is held by
    ``holder``; ``parked`` awaits a callback; ``ended`` has an outcome. ``number`` counts within the
    job's state and run, ``serial`` over the whole job. ``kept`` are results that its stage need
    not work out twice, ``answers`` the callbacks to it by key, ``log`` the lines that it wrote.
    ``source`` is whose webhook may bring what it ``awaits``; nobody's, where it is empty.
    ``claimant`` is the token that claimed it: reports on it are that one's alone. ``sent`` are the
    files that wait for such a report. ``held_back`` is how often it was put back in line because
    its provider had no room for it. ``runs`` is the stage that the claimant runs for it, with the
    same plugins as ours: it speaks as that stage. ``questions`` are those that its stage has asked,
    by name. ``jobs`` is how many children it waits for while parked.
    """

    serial: int
    state: str
    stage: str
    run_id: str
    number: int
    status: Literal["due", "running", "parked", "ended"]
    opened_at: int
    not_before: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    holder: str = ""
    outcome: str = ""
    failure: Failure | None = None
    awaits: str = ""
    epoch: int = 0
    kept: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    log: tuple[str, ...] = ()
    source: str = ""
    claimant: str = ""
    sent: tuple[SentFile, ...] = ()
    held_back: int = 0
    questions: dict[str, Posed] = {}
    runs: str = ""
    jobs: int = 0


class HeldLock(Struct, frozen=True, gc=False, omit_defaults=True):
    """The right of one run to work on the job in one scope.

    Holder ``stage`` is void when its epoch is; ``external`` survives a restart until its lease."""

    scope: str
    run_id: str
    holder: Literal["stage", "external"]
    epoch: int
    lease_until: int | None = None


Purpose = Literal["run_at", "retry", "backoff", "deadline", "limit", "lease", "heartbeat", "lapse"]


class Timer(Struct, frozen=True, gc=False):
    """A message to be delivered at a time. A job has at most one of each purpose."""

    purpose: Purpose
    due_at: int


class Artifact(Struct, frozen=True, gc=False, omit_defaults=True):
    """The current version of a named value. ``asset`` names the file behind it, if it is ours."""

    name: str
    version: int
    value: Any
    created_at: int
    by: str = ""
    run_id: str = ""
    asset: str = ""


class Run(Struct, frozen=True, gc=False, omit_defaults=True):
    """From creation or an explicit command until the job settles, ends or waits for a person.

    ``opened_by``: ``birth``, the name of a command, or ``callback`` for an orchestrator's own; then
    ``opener`` is its token."""

    id: str
    opened_by: str
    started_at: int
    live: bool = True
    opener: str = ""


class Paused(Struct, frozen=True, gc=False, omit_defaults=True):
    """A pause of a job, a workflow or a stage: by whom, since when, and why."""

    by: str
    at: int
    reason: str | None = None


class Scheduled(Struct, frozen=True, gc=False):
    """The schedule and moment that a job was made for. ``mark`` is the identity of that moment, and
    makes one job."""

    name: str
    moment: int
    mark: str


class Snapshot(Struct, frozen=True, gc=False, omit_defaults=True):
    """The whole of a job. ``row`` is its integer key inside the store (0: not stored yet).

    ``version`` counts decided changes, ``beat`` the reports of progress since the last of them.
    ``line_at`` is set while the job waits for a slot of this process, since when.
    ``tries`` counts, by active state and within the run, executions and failures that a retry
    answers to; ``worked`` is the active state that was entered last.
    ``paused`` stands beside the status: no attempt starts while it is set.
    ``params`` has the defaults of what its submission left out, which is ``omitted``.
    ``forked_from`` is the job that this one does again, from a later place on; ``parent`` is the
    one whose stage submitted it, ``batch`` what it was submitted in.
    ``traceparent`` is where in a trace its submission hangs, when that said so.
    ``asset_url`` is where the newest asset is; at a good end it becomes the ``result_url``.
    ``unreadable`` says what of its row could not be read; the rest of it is there.
    ``turn_key`` is what it waits or works under one at a time; with ``has_turn`` it works.
    ``credits`` is how the money of the current run stands.
    """

    id: str
    workflow: str
    digest: str
    job_type: str
    user_id: str
    status: str
    kind: Kind
    created_at: int
    updated_at: int
    row: int = 0
    version: int = 1
    beat: int = 0
    progress: int = 0
    progress_message: str | None = None
    params: Any = msgspec.UNSET
    result: Any = None
    artifacts: dict[str, Artifact] = {}
    asset_types: dict[str, int] = {}
    asset_url: str | None = None
    result_url: str | None = None
    run: Run | None = None
    attempt: Attempt | None = None
    serial: int = 0
    tries: dict[str, tuple[int, int]] = {}
    worked: str = ""
    locks: tuple[HeldLock, ...] = ()
    timers: tuple[Timer, ...] = ()
    line_at: int | None = None
    failure_code: str | None = None
    failure_message: str | None = None
    failed_stage: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    priority: int = 0
    labels: dict[str, str] = {}
    notify_url: str | None = None
    notify_on: tuple[str, ...] = ()
    cost: int = 0
    credits: Literal["none", "held", "captured", "released", "charged", "refunded"] = "none"
    entered_at: int = 0
    started_at: int | None = None
    completed_at: int | None = None
    scheduled_at: int | None = None
    heartbeat_at: int | None = None
    next_attempt_at: int | None = None
    deadline_at: int | None = None
    run_at: int | None = None
    last_event_at: int | None = None
    stuck: str | None = None
    paused: Paused | None = None
    forked_from: str | None = None
    parent: ParentLink | None = None
    batch: BatchLink | None = None
    omitted: tuple[str, ...] = ()
    traceparent: str | None = None
    deaths: int = 0
    turn_key: str = ""
    has_turn: bool = False
    marks: dict[str, Any] = {}
    schedule: Scheduled | None = None
    unreadable: str = ""

    @property
    def run_id(self) -> str:
        return self.run.id if self.run else ""

    @property
    def attempts(self) -> int:
        """Executions, in this run, of the state that was last worked in."""
        return self.tries.get(self.worked, (0, 0))[0]

    @property
    def retry_count(self) -> int:
        """Failures there that a retry answered to, the last one included."""
        return self.tries.get(self.worked, (0, 0))[1]

    @property
    def live(self) -> bool:
        """A run is open: somebody, or the engine itself, is to take this job on."""
        return self.run is not None and self.run.live

    @property
    def ended(self) -> bool:
        """Say whether nothing more happens by itself; a command may revive a job that has
        settled."""
        return self.kind in ENDED

    def lock(self, scope: str) -> HeldLock | None:
        for lock in self.locks:
            if lock.scope == scope:
                return lock
        return None

    def timer(self, purpose: str) -> Timer | None:
        for timer in self.timers:
            if timer.purpose == purpose:
                return timer
        return None

    def value(self, artifact: str) -> Any:
        """An artifact's current value, or None."""
        found = self.artifacts.get(artifact)
        return found.value if found else None
