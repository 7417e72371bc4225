"""A decision under way: what it is about (``Case``), why a step is taken (``Cause``), and the rows
it has collected so far (``Draft``).

Case and cause are frozen and handed on; a step reads nothing else. The draft is the one object of
this room that changes: it begins as the job stands, collects row after row, and ``tear_out`` makes
a frozen ``Decision`` of it. A draft that is dropped leaves no trace, which is why a refusal half
way along a path needs no undoing.
"""

from collections.abc import Collection
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
from jobrunner.core.job import Actor, Artifact, Asset, Attempt, Failure, Purpose, Snapshot, Timer
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


NOTHING = Report()
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
        self.report = NOTHING
        self.unfit: dict[str, str] = {}
        self.event: decision.EventRow | None = None
        self.hops: tuple[decision.EdgeTaken, ...] = ()
        self.ledger: tuple[decision.CreditEntry, ...] = ()
        self.audits: tuple[AuditRecord, ...] = ()
        self.dead_letters: tuple[decision.DeadLetter, ...] = ()
        self.attempts: dict[int, Attempt] = {}
        self.artifacts: tuple[Artifact, ...] = ()
        self.assets: tuple[Asset, ...] = ()
        self.effects: tuple[decision.Effect, ...] = ()
        self.logs: tuple[decision.LogEvent, ...] = ()
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
            self.job = replace(self.job, **changes)

    def arm(self, purpose: Purpose, due_at: int) -> None:
        self.job = replace(self.job, timers=armed(self.job.timers, purpose, due_at))

    def disarm(self, *purposes: str) -> None:
        kept = without(self.job.timers, purposes)
        if kept is not self.job.timers:
            self.job = replace(self.job, timers=kept)

    def log(self, event: str, **fields: Any) -> None:
        self.logs += (decision.LogEvent(event, fields),)

    def tear_out(self, status: int = 200, **more: Any) -> decision.Decision:
        """Finish the decision: count the version, set the stamps, freeze the rows, and those more
        that no step makes."""
        definition, before = self.definition, self.before
        job = self._counted(with_turn(definition, before, self.job, self.now))
        return decision.Decision(
            before, job, self.hops, self.ledger, self.audits, self.dead_letters,
            tuple(self.attempts.values()), self.artifacts, self.assets, self.event,
            effects=self.effects, logs=self.logs, answer=self.answer, status=status,
            notifications=notifications(definition, before, job, self.hops),
            handed=self.handed, kin=kin_of(definition, before, job, self.awaited), **more,
        )  # fmt: skip

    def _counted(self, job: Snapshot) -> Snapshot:
        before = self.before
        if before is None:
            return job
        if self.decided:
            return replace(job, version=before.version + 1, beat=0, updated_at=self.now)
        return replace(job, beat=before.beat + 1, updated_at=self.now)


def armed(timers: tuple[Timer, ...], purpose: Purpose, due_at: int) -> tuple[Timer, ...]:
    return (*without(timers, (purpose,)), Timer(purpose, due_at))


def without(timers: tuple[Timer, ...], purposes: Collection[str]) -> tuple[Timer, ...]:
    """Leave these purposes out; the same tuple where none of them is armed."""
    if not timers:
        return timers
    kept = [timer for timer in timers if timer.purpose not in purposes]
    return timers if len(kept) == len(timers) else tuple(kept)
