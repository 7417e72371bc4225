"""Begins the first attempt in the commit that makes its job, for a caller who waits for the end.

A slot is taken before the birth is decided, where one is free and nobody in line has a claim to it.
A birth that does not begin gives the slot back and is decided again without one: what keeps an
attempt from beginning must not keep a job from being made.
"""

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from jobrunner.actors.dispatcher import Dispatcher
from jobrunner.actors.shared import World
from jobrunner.actors.slots import Slots
from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Submit
from jobrunner.core.replies import Verdict
from jobrunner.errors import PluginFault

Judged = Callable[[Submit, Facts], Verdict]


class FirstAttempts:
    def __init__(self, world: World, dispatcher: Dispatcher, slots: Slots) -> None:
        self._world = world
        self._dispatcher = dispatcher
        self._slots = slots

    def begun(
        self, definition: Definition, submit: Submit, facts: Facts, judged: Judged
    ) -> tuple[Verdict, Facts] | None:
        """Let a birth be decided that begins its first attempt, on facts that name the stages it
        may begin. None where it may begin none."""
        if facts.known is not None or facts.derived is not None:
            return None
        lent = self._lent(submit, definition)
        if not lent:
            return None
        known = replace(facts, lent=lent)
        with suppress(PluginFault):
            verdict = judged(submit, known)
            if isinstance(verdict, Decision) and begins(verdict.after):
                return verdict, known
        self._dispatcher.ended(submit.job_id)
        return None

    def committed(self, decision: Decision, job: Snapshot | None) -> None:
        """Give the slot back of a birth that was not written after all."""
        if job is None and begins(decision.after):
            self._dispatcher.ended(decision.after.id)

    def _lent(self, submit: Submit, definition: Definition) -> frozenset[str]:
        """Take a slot for a job that is about to be made, and name the stages that it may begin."""
        if not definition.begins_at_birth or self._is_held_back(submit.workflow):
            return frozenset()
        if self._dispatcher.keeps_waiting:
            return frozenset()
        slots, job_id, user_id = self._slots, submit.job_id, submit.actor.name
        if slots.lack(job_id, user_id, None):
            return frozenset()
        slots.take(job_id, user_id, None)
        lent = slots.lend(job_id, self._world.registry.stages_of(definition))
        if not lent:
            slots.give_back(job_id)
        return lent

    def _is_held_back(self, workflow: str) -> bool:
        """Say whether nothing new may begin, here or in this workflow."""
        world = self._world
        if world.draining or self._dispatcher.on_trial or world.surroundings.is_held(workflow):
            return True
        return bool(world.pauses.stages) or workflow in world.pauses.workflows


def begins(job: Snapshot) -> bool:
    """Say whether a newborn's first attempt runs."""
    return job.attempt is not None and job.attempt.status == "running"
