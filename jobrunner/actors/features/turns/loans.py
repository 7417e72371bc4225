"""Lends slots to work that begins in the commit that calls for it: the first attempt of a job whose
end somebody waits for, and a parked attempt that is told what it awaits.

A slot is taken before that is decided, where one is free and nobody in line has a claim to it. What
does not begin after all gives it back. A birth is then decided again without: what keeps an attempt
from beginning must not keep a job from being made.
"""

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from jobrunner.actors.dispatcher import Dispatcher
from jobrunner.actors.shared import World
from jobrunner.actors.slots import Slots
from jobrunner.core.decision import Decision, StartStage
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts
from jobrunner.core.features.turns.loans import may_begin
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import Answered, Ended, Message, Submit, Told
from jobrunner.core.replies import Verdict
from jobrunner.errors import PluginFault
from jobrunner.stages.away import is_away

RESUMES = (Told, Answered)
NONE: frozenset[str] = frozenset()
Judged = Callable[[Submit, Facts], Verdict]


class Loans:
    """``over`` is told of an attempt that ended, and in whose slot nothing follows."""

    def __init__(
        self, world: World, dispatcher: Dispatcher, slots: Slots, over: Callable[[str, int], None]
    ) -> None:
        self._world = world
        self._dispatcher = dispatcher
        self._slots = slots
        self._over = over

    def newborn(
        self, definition: Definition, submit: Submit, facts: Facts, judged: Judged
    ) -> tuple[Verdict, Facts] | None:
        """Let a birth be decided that begins its first attempt, on facts that name the stages it
        may begin. None where it may begin none."""
        if facts.known is not None or facts.derived is not None:
            return None
        lent = self._taken(definition, submit.workflow, submit.job_id, submit.actor.name)
        if not lent:
            return None
        known, verdict = replace(facts, lent=lent), None
        try:
            with suppress(PluginFault):
                verdict = judged(submit, known)
        finally:
            if not _begins(verdict):
                self._dispatcher.ended(submit.job_id)
        return (verdict, known) if verdict is not None and _begins(verdict) else None

    def known_to(
        self, facts: Facts, definition: Definition, job: Snapshot, message: Message
    ) -> Facts:
        """Add to the facts which stages may begin in the commit of what follows from it."""
        lent, attempt = NONE, job.attempt
        if isinstance(message, Ended):
            lent = self._dispatcher.lend(job, definition)
        elif isinstance(message, RESUMES) and attempt is not None and self._is_parked(attempt):
            lent = self._resumed(definition, job, attempt)
        return replace(facts, lent=lent) if lent else facts

    def judged(
        self, facts: Facts, job: Snapshot, message: Message, verdict: Verdict | None
    ) -> None:
        """Take back the slot that was lent, if nothing begins in it; and that of an attempt that
        ended, before that is written: so whoever is next begins in the same round. A suspect keeps
        it until its end is on disk."""
        if _begins(verdict):
            return
        if isinstance(message, Ended) and isinstance(verdict, Decision):
            if not (self._dispatcher.on_trial or self._world.draining):
                self._over(job.id, message.serial)
        elif facts.lent and isinstance(message, RESUMES):
            self._dispatcher.ended(job.id)

    def unwritten(self, decision: Decision) -> None:
        """Take the slot back from what was not written after all."""
        before = decision.before
        attempt = before.attempt if before is not None else None
        lent = before is None or (attempt is not None and attempt.status == "parked")
        if lent and _begins(decision):
            self._dispatcher.ended(decision.after.id)

    def _taken(
        self, definition: Definition, workflow: str, job_id: str, user_id: str
    ) -> frozenset[str]:
        """Take a slot for this job, and name the stages that it may begin in it."""
        slots = self._slots
        if not self._may_begin(definition, workflow) or slots.lack(job_id, user_id, None):
            return NONE
        slots.take(job_id, user_id, None)
        lent = slots.lend(job_id, self._world.registry.stages_of(definition))
        if not lent:
            slots.give_back(job_id)
        return lent

    def _resumed(self, definition: Definition, job: Snapshot, attempt: Attempt) -> frozenset[str]:
        """Take a slot for this attempt, which goes on with its own stage, and name that."""
        if not self._may_begin(definition, job.workflow):
            return NONE
        for stage in self._world.registry.stages_of(definition):
            if stage.name == attempt.stage and not is_away(stage):
                if self._slots.lack(job.id, job.user_id, stage):
                    return NONE
                self._slots.take(job.id, job.user_id, stage)
                return frozenset((stage.name,))
        return NONE

    def _is_parked(self, attempt: Attempt) -> bool:
        """Say whether it waits and began in this life. One of an earlier life goes by the line,
        since what it needs of its plugin may have changed: a start from there looks at that."""
        return attempt.status == "parked" and attempt.epoch == self._world.store.epoch

    def _may_begin(self, definition: Definition, workflow: str) -> bool:
        """Say whether something new may begin now, if there is a slot for it."""
        world, dispatcher = self._world, self._dispatcher
        if not world.registry.is_of_today(definition) or not may_begin(definition):
            return False
        if world.draining or dispatcher.on_trial or world.surroundings.is_held(workflow):
            return False
        is_paused = world.pauses.stages or workflow in world.pauses.workflows
        return not (is_paused or dispatcher.keeps_waiting)


def _begins(verdict: Verdict | None) -> bool:
    return isinstance(verdict, Decision) and StartStage in map(type, verdict.effects)
