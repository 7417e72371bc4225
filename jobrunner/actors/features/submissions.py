"""Makes jobs of submissions. No actor is needed for that: only facts, a decision and a commit."""

from functools import partial

from msgspec.structs import replace

from jobrunner.actors.commits import Answer, ours
from jobrunner.actors.consequences import Consequences
from jobrunner.actors.dispatcher import Dispatcher
from jobrunner.actors.features.guesses import Guesses, as_guessed, facts_of, unasked
from jobrunner.actors.features.turns.loans import Loans
from jobrunner.actors.features.turns.singletons import made_alone
from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.core.births import born, derived_parts, keys_of, needs_facts
from jobrunner.core.decision import Clash, Decision, NoOp
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts
from jobrunner.core.features.asserted import is_asserted
from jobrunner.core.features.bulk import Tick
from jobrunner.core.features.schedules.schedules import MomentDone
from jobrunner.core.features.turns.singletons import by_declaration
from jobrunner.core.messages import Submit
from jobrunner.core.replies import Verdict
from jobrunner.errors import PluginFault, Refused

TRIES = 5


Ticks = Tick | MomentDone | None


class Submissions:
    """``under_way`` is how many are being made just now."""

    def __init__(
        self, world: World, consequences: Consequences, dispatcher: Dispatcher, loans: Loans
    ) -> None:
        self._world = world
        self._consequences = consequences
        self._dispatcher = dispatcher
        self._loans = loans
        self._guesses = Guesses()
        self.under_way = 0

    async def submit(
        self, submission: Submit, tick: Ticks = None, *, at_once: bool = False
    ) -> Answer:
        """Make a durable job, or find the one that this submission made before. Let it begin
        ``at_once``, if it may: somebody waits for its end.

        Raises: Refused, StorageError
        """
        busy, draining = self._dispatcher.overloaded, self._world.draining
        if busy or (draining and submission.parent is None):
            submission = replace(submission, draining=draining, overloaded=busy)
        self.under_way += 1
        try:
            return await self._submitted(submission, tick, at_once)
        finally:
            self.under_way -= 1

    async def _submitted(self, submission: Submit, tick: Ticks, at_once: bool) -> Answer:
        world = self._world
        definition = world.registry.current(submission.workflow)
        if definition is None:
            raise Refused("UNKNOWN_WORKFLOW", f"there is no workflow {submission.workflow!r}")
        began_at, began = world.clock.now(), world.clock.monotonic()
        for _ in range(TRIES):
            verdict = await self._verdict(definition, submission, at_once)
            if isinstance(verdict, NoOp):
                world.say("job.replayed", job_id=verdict.snapshot.id, workflow=submission.workflow)
                return Answer(verdict.snapshot, verdict.answer, 200, replayed=True)
            if answer := await self._committed(verdict, tick):
                span = world.span(began_at, world.clock.monotonic() - began)
                world.meter.submitted(answer.job, span)
                return answer
            self._guesses.learn(submission.actor.name, right=False)
        raise Refused("OVERLOADED", "too much happens around this key or account; try again")

    async def _verdict(
        self, definition: Definition, submission: Submit, at_once: bool
    ) -> Decision | NoOp:
        """Raises: Refused"""
        loans = self._loans if at_once else None
        try:
            verdict = await self._decided(definition, submission, loans)
        except PluginFault as fault:
            asked_by = submission.correlation_id
            raise self._world.faulted(fault, correlation_id=asked_by) from fault
        if isinstance(verdict, Refused):
            raise _denied(self._world, submission, verdict)
        return verdict

    async def _decided(
        self, definition: Definition, submission: Submit, loans: Loans | None
    ) -> Verdict:
        world, moment = self._world, self._world.moment()
        submission = by_declaration(definition, submission, moment.now)
        parts = derived_parts(definition, submission, moment.now)
        keys = keys_of(parts, submission)
        kept = tuple(key for key in keys if key is not None)

        def judged(wanted: Submit, known: Facts) -> Verdict:
            return born(definition, wanted, known, moment, kept)

        def made(wanted: Submit, known: Facts) -> Verdict:
            begun = loans.newborn(definition, wanted, known, judged) if loans else None
            verdict, known = begun or (judged(wanted, known), known)
            return world.recorder.kept(verdict, wanted, known, moment, kept)

        def decided(facts: Facts) -> Verdict:
            return made_alone(world, submission, facts, moment, made)

        if not (submission.singleton or needs_facts(definition, submission, keys)):
            return decided(unasked(submission))
        guesses, owner = self._guesses, submission.actor.name
        new = is_asserted(definition, submission) and guesses.is_new(owner, kept)
        if new and guesses.trust(owner):
            verdict = decided(unasked(submission))
            if isinstance(verdict, Decision):
                return verdict
        verdict = decided(await facts_of(world, definition, submission, keys, moment.now))
        if new:
            guesses.learn(owner, right=as_guessed(verdict))
        return verdict

    async def _committed(self, verdict: Decision, tick: Ticks) -> Answer | None:
        """Commit the birth. None when a fact has changed meanwhile: read and decide again."""
        verdict = self._world.rates.noted(verdict)
        ticked = replace(verdict, tick=tick) if tick else verdict
        follow = partial(self._consequences.committed, verdict)
        outcome = ours(await self._world.commit(asked(ticked), follow))
        if isinstance(outcome, Clash):
            return None
        assert outcome.snapshot is not None, "a birth leaves a snapshot"
        return Answer(outcome.snapshot, verdict.answer, 201)


def _denied(world: World, submission: Submit, refused: Refused) -> Refused:
    refused.noted = True
    world.say(
        "job.submission_denied",
        level="warning",
        error_code=refused.code,
        workflow=submission.workflow,
        user_id=submission.actor.name,
        correlation_id=submission.correlation_id,
    )
    return refused
