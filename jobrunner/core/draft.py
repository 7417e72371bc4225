"""A decision while it is being written.

The one place in this room with state: a page that starts as the job's snapshot, is amended line by
line, and is torn out as a frozen ``Decision``. A page that is not torn out leaves no trace, which
is why a refusal half way along a path needs no undoing.
"""

from typing import Any

import msgspec

from jobrunner.core.decision import (
    AuditRecord,
    DeadLetter,
    Decision,
    Effect,
    EventRow,
    Handed,
    Hop,
    KeyRow,
    LedgerEntry,
    LogEvent,
    QuotaAssert,
    WebhookRow,
)
from jobrunner.core.declaration.workflow import Definition, State
from jobrunner.core.features.notifications import notifications
from jobrunner.core.job import Actor, Artifact, Asset, Attempt, Failure, Snapshot, Timer
from jobrunner.core.messages import Facts, Moment, Report


class Draft:
    """``job`` is the snapshot so far. ``opener`` names what a run opened now was opened by;
    ``failure`` is why the job is about to enter a failure state, once that is known;
    ``not_before`` is the end of the backoff of an attempt that is about to be opened;
    ``outcome`` is how the open attempt ends when its state is left; ``unfit`` is what the report
    brought in no form that the workflow knows, by name, and why."""

    def __init__(
        self,
        definition: Definition,
        before: Snapshot | None,
        job: Snapshot,
        actor: Actor,
        facts: Facts,
        moment: Moment,
        message: Any,
        opener: str,
        reason: str | None = None,
    ) -> None:
        self.definition = definition
        self.before = before
        self.job = job
        self.actor = actor
        self.facts = facts
        self.moment = moment
        self.message = message
        self.opener = opener
        self.reason = reason
        self.report = Report()
        self.fields: dict[str, Any] = {}
        self.failure: Failure | None = None
        self.event: EventRow | None = None
        self.diverted = False
        self.not_before = 0
        self.outcome = ""
        self.unfit: dict[str, str] = {}
        self.decided = before is None
        self.hops: list[Hop] = []
        self.ledger: list[LedgerEntry] = []
        self.audits: list[AuditRecord] = []
        self.dead_letters: list[DeadLetter] = []
        self.attempts: dict[int, Attempt] = {}
        self.artifacts: list[Artifact] = []
        self.assets: list[Asset] = []
        self.keys: tuple[KeyRow, ...] = ()
        self.quota: QuotaAssert | None = None
        self.also: tuple[Decision, ...] = ()
        self.effects: list[Effect] = []
        self.logs: list[LogEvent] = []
        self.answer: dict[str, Any] = {}
        self.status = 200
        self.webhook: WebhookRow | None = None
        self.handed: Handed | None = None

    @property
    def now(self) -> int:
        return self.moment.now

    @property
    def state(self) -> State:
        return self.definition.states[self.job.status]

    def set(self, **changes: Any) -> None:
        self.job = msgspec.structs.replace(self.job, **changes)

    def decide(self, **changes: Any) -> None:
        """A change that counts as a new version of the job."""
        self.decided = True
        if changes:
            self.set(**changes)

    def arm(self, purpose: Any, due_at: int) -> None:
        kept = tuple(timer for timer in self.job.timers if timer.purpose != purpose)
        self.set(timers=(*kept, Timer(purpose, due_at)))

    def disarm(self, *purposes: str) -> None:
        kept = tuple(timer for timer in self.job.timers if timer.purpose not in purposes)
        if len(kept) != len(self.job.timers):
            self.set(timers=kept)

    def log(self, event: str, **fields: Any) -> None:
        self.logs.append(LogEvent(event, fields))

    def tear_out(self) -> Decision:
        """The finished decision: versions counted, stamps set."""
        self._count()
        hops = tuple(self.hops)
        return Decision(
            before=self.before,
            after=self.job,
            hops=hops,
            ledger=tuple(self.ledger),
            audits=tuple(self.audits),
            dead_letters=tuple(self.dead_letters),
            attempts=tuple(self.attempts.values()),
            artifacts=tuple(self.artifacts),
            assets=tuple(self.assets),
            event=self.event,
            keys=self.keys,
            quota=self.quota,
            also=self.also,
            effects=tuple(self.effects),
            logs=tuple(self.logs),
            notifications=notifications(self.definition, self.before, self.job, hops),
            answer=self.answer,
            status=self.status,
            webhook=self.webhook,
            handed=self.handed,
        )

    def _count(self) -> None:
        if self.before is None:
            return
        if self.decided:
            self.set(version=self.before.version + 1, beat=0, updated_at=self.now)
        else:
            self.set(beat=self.before.beat + 1, updated_at=self.now)
