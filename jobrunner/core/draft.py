"""A decision under way: what it is about (``Case``), why a step is taken (``Cause``), and the rows
it has collected so far (``Draft``).

Case and cause are frozen and handed on; a step reads nothing else. The draft is the one object of
this room that changes: it begins as the job stands, collects row after row, and ``tear_out`` makes
a frozen ``Decision`` of it. A draft that is dropped leaves no trace, which is why a refusal half
way along a path needs no undoing.
"""

from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core import decision
from jobrunner.core.declaration.workflow import Definition, State, Trigger
from jobrunner.core.facts import Facts
from jobrunner.core.features.families.kinship import kin_of
from jobrunner.core.features.families.parentage import JobsAwaited
from jobrunner.core.features.notifications import notifications
from jobrunner.core.features.turns.one_at_a_time import with_turn
from jobrunner.core.job import Actor, Artifact, Asset, Attempt, Failure, Snapshot, Timer
from jobrunner.core.messages import Moment, Report
from jobrunner.core.units import AuditRecord

M = TypeVar("M")


class Case(Struct, Generic[M], frozen=True):
    """All that a decision may look at: the job as it stands, the message that came, what the store
    knew, and what the outside lends. At birth the job is the one that is about to be."""

    definition: Definition
    job: Snapshot
    message: M
    facts: Facts
    moment: Moment


class Cause(Struct, frozen=True):
    """Why a step is taken: who takes it, and in whose words. ``failure`` is why the job leaves what
    it did; ``outcome`` is how the open attempt ends with it, where its stage has said so;
    ``not_before`` is the end of the backoff of the attempt that the step opens."""

    trigger: Trigger
    reason: str | None = None
    failure: Failure | None = None
    outcome: str = ""
    not_before: int = 0


BY_ENGINE = Cause("engine")
BY_STAGE = Cause("stage")
BY_TIMER = Cause("timer")


class Draft:
    """The job so far, and the rows so far. ``opener`` names what a run opened now was opened by.
    ``report`` is the part of the message's report that has the right form, and ``unfit`` says what
    had not, by name, and why. ``diverted``: a guard has led the job another way, once is enough.
    ``decided``: it is a new version of the job, and not only a sign of life."""

    __slots__ = (
        "actor", "answer", "artifacts", "assets", "attempts", "audits", "awaited", "before", "case",
        "dead_letters", "decided", "definition", "diverted", "effects", "event", "handed", "hops",
        "job", "ledger", "logs", "now", "opener", "report", "unfit",
    )  # fmt: skip

    def __init__(
        self, case: Case[Any], actor: Actor, opener: str, *, newborn: bool = False
    ) -> None:
        self.case = case
        self.definition = case.definition
        self.now = case.moment.now
        self.actor = actor
        self.opener = opener
        self.before = None if newborn else case.job
        self.job = case.job
        self.decided = newborn
        self.diverted = False
        self.report = Report()
        self.unfit: dict[str, str] = {}
        self.event: decision.EventRow | None = None
        self.hops: list[decision.EdgeTaken] = []
        self.ledger: list[decision.CreditEntry] = []
        self.audits: list[AuditRecord] = []
        self.dead_letters: list[decision.DeadLetter] = []
        self.attempts: dict[int, Attempt] = {}
        self.artifacts: list[Artifact] = []
        self.assets: list[Asset] = []
        self.effects: list[decision.Effect] = []
        self.logs: list[decision.LogEvent] = []
        self.handed: decision.Handed | None = None
        self.awaited: JobsAwaited | None = None
        self.answer: dict[str, Any] = {}

    @property
    def state(self) -> State:
        return self.definition.states[self.job.status]

    def set(self, **changes: Any) -> None:
        self.job = replace(self.job, **changes)

    def decide(self, **changes: Any) -> None:
        """Change what counts as a new version of the job."""
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
        self.logs.append(decision.LogEvent(event, fields))

    def tear_out(self, status: int = 200) -> decision.Decision:
        """Finish the decision: count the version, set the stamps, freeze the rows."""
        self.job = with_turn(self.definition, self.before, self.job, self.now)
        self._count()
        hops = tuple(self.hops)
        return decision.Decision(
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
            effects=tuple(self.effects),
            logs=tuple(self.logs),
            notifications=notifications(self.definition, self.before, self.job, hops),
            answer=self.answer,
            status=status,
            handed=self.handed,
            kin=kin_of(self.definition, self.before, self.job, self.awaited),
        )

    def _count(self) -> None:
        if self.before is None:
            return
        if self.decided:
            self.set(version=self.before.version + 1, beat=0, updated_at=self.now)
        else:
            self.set(beat=self.before.beat + 1, updated_at=self.now)
