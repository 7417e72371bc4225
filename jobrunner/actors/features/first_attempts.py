"""Begins the first attempt in the commit that makes its job, for a caller who waits for the end.

A slot is taken before the birth is decided, where one is free and nobody in line has a claim to it.
A birth that does not begin gives the slot back and is decided again without one: what keeps an
attempt from beginning must not keep a job from being made.
"""

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from jobrunner.actors.dispatcher import Dispatcher
from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Submit
from jobrunner.core.replies import Verdict
from jobrunner.errors import PluginFault

Judged = Callable[[Submit, Facts], Verdict]


class FirstAttempts:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def begun(
        self, definition: Definition, submit: Submit, facts: Facts, judged: Judged
    ) -> tuple[Verdict, Facts] | None:
        """Let a birth be decided that begins its first attempt, on facts that name the stages it
        may begin. None where it may begin none."""
        if facts.known is not None or facts.derived is not None:
            return None
        lent = self._dispatcher.lend_to_newborn(submit, definition)
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


def begins(job: Snapshot) -> bool:
    """Say whether a newborn's first attempt runs."""
    return job.attempt is not None and job.attempt.status == "running"
