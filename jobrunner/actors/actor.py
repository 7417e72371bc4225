"""The actor of one job: receive, decide, commit, answer, perform.

An actor is no task: each letter is dealt with in the task that brought it, one letter at a time.
The actor keeps the snapshot that was committed last; after any surprise it forgets that and reads
again, because the row is the truth. A caller that is cancelled meanwhile only loses its answer: the
commit itself sees to what follows from it.
"""

from functools import partial

import msgspec
from msgspec.structs import replace

from jobrunner.actors.commits import Answer, ours
from jobrunner.actors.consequences import Consequences
from jobrunner.actors.features.families.lineage import unless_awaited
from jobrunner.actors.features.turns.loans import Loans
from jobrunner.actors.mailbox import Mailbox
from jobrunner.actors.requester import REQUEST, asked
from jobrunner.actors.shared import World
from jobrunner.actors.stage_input import verified
from jobrunner.core.access import foreign, unknown
from jobrunner.core.decide import Verdict, beset, decide, needs
from jobrunner.core.decision import Clash, Decision, NoOp
from jobrunner.core.declaration.params import Stale, params_of
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts, SeenEvent
from jobrunner.core.features.bulk import Tick
from jobrunner.core.features.redaction import redacted
from jobrunner.core.features.webhooks import KEPT_MS
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import (
    Advance,
    Ended,
    Fired,
    JobsEnded,
    Message,
    Rebound,
    Recovered,
    SetAside,
    Start,
    Supersede,
    Told,
)
from jobrunner.core.units import Unreadable
from jobrunner.errors import PluginFault, Refused

TRIES = 4
SNAPSHOT_BYTES = 4096
NONE: frozenset[str] = frozenset()
FROM_INSIDE = (Start, Ended, Fired, Recovered, SetAside, Advance, Supersede, Rebound, JobsEnded)


class JobActor:
    """The only writer of one job. ``weight`` is about the size of its snapshot in bytes, 0 without
    one, and ``weighed`` the part of it that the supervisor has counted. ``loans`` names the
    stages that may begin in the commit of what follows from a letter."""

    def __init__(self, job_id: str, world: World, consequences: Consequences, loans: Loans) -> None:
        self.job_id = job_id
        self.mailbox = Mailbox()
        self.weight = self.weighed = 0
        self._world = world
        self._consequences = consequences
        self._loans = loans
        self._job: Snapshot | None = None
        self._forgot = 0

    @property
    def job(self) -> Snapshot | None:
        """The job as it was committed last, if that is known here."""
        return self._job

    def keep(self, job: Snapshot) -> None:
        """Remember this as what was committed last, unless something newer is known already."""
        before = self._job
        if before is not None and (before.version, before.beat) > (job.version, job.beat):
            return
        if before is None or not _same_payload(before, job):
            payload = (job.params, job.result, job.artifacts)
            self.weight = SNAPSHOT_BYTES + len(msgspec.json.encode(payload))
        self._job = job

    def forget(self) -> None:
        """Read the row again before the next decision: another job's commit changed this one."""
        self._job, self.weight = None, 0
        self._forgot += 1

    async def receive(self, message: Message, tick: Tick | None, *, inside: bool) -> Answer:
        """Deal with a letter when its turn comes, and answer it."""
        if self.mailbox.open:
            await self.mailbox.turn(inside=inside)
        self.mailbox.open = True
        try:
            return await self._received(message, tick)
        except Refused:
            raise
        except BaseException:
            self.forget()
            raise
        finally:
            self.mailbox.next()

    async def _received(self, message: Message, tick: Tick | None) -> Answer:
        message = redacted(message, self._world.surroundings.redaction)
        for tries in range(TRIES):
            job = self._job or await self._read()
            if job.unreadable:
                raise await self._unreadable(job, message)
            definition = self._definition(job, message)
            if isinstance(message, Start):
                self._lacks_nothing(job)
                message = _or_stuck(definition, job, message)
            verdict = await self._decide(definition, job, message, tries)
            if isinstance(verdict, Refused):
                inside = isinstance(message, FROM_INSIDE)
                raise verdict if inside else self._denied(job, message, verdict)
            if isinstance(verdict, NoOp):
                return self._noop(verdict)
            if answer := await self._commit(verdict, tick):
                return answer
            self.forget()
        raise Refused("JOB_VERSION_CONFLICT", "others keep changing this job; try again")

    async def foresee(self, message: Message) -> tuple[Snapshot, Verdict]:
        """Decide what would follow, with nothing written."""
        job = await self._read()
        if job.unreadable:
            raise await self._unreadable(job, message)
        definition = self._definition(job, message)
        message = _or_stuck(definition, job, message)
        facts = await self._facts(definition, job, message, 1)
        return job, await self._judged(definition, job, message, facts)

    async def _read(self) -> Snapshot:
        """Read the row; once more where it changed meanwhile, and nothing here remembers how."""
        forgot = -1
        while forgot != self._forgot:
            forgot = self._forgot
            job = await self._world.reader.job(self.job_id)
        if job is None:
            raise unknown(self.job_id)
        if job.unreadable:
            return job
        self.keep(job)
        return self._job or job

    async def _unreadable(self, job: Snapshot, message: Message) -> Refused:
        """Mark it stuck in its row, once, so that nobody comes by for it again."""
        self._denied_to_strangers(job, message)
        stuck = job.stuck or ""
        outcome = ours(await self._world.commit(Unreadable(job.id, stuck)))
        if not isinstance(outcome, Clash):
            self._consequences.unreadable(job)
        return Refused("JOB_LOCKED", f"the job is stuck: {stuck}", stuck=stuck)

    def _denied_to_strangers(self, job: Snapshot, message: Message) -> None:
        actor: Actor | None = getattr(message, "actor", None)
        if actor is not None:
            if refused := foreign(self._world.registry.of(job), job, actor):
                raise refused

    def _lacks_nothing(self, job: Snapshot) -> None:
        """Begin nothing that could not be brought to its end. Raises: Refused."""
        if missing := self._world.registry.lacking(job):
            text = f"waits for what its plugin lacks today: {', '.join(missing)}"
            raise Refused("WORKFLOW_UNAVAILABLE", text, missing=list(missing))

    def _definition(self, job: Snapshot, message: Message) -> Definition:
        definition = self._world.registry.judging(job, message)
        if definition is None:
            self._denied_to_strangers(job, message)
            raise Refused(
                "WORKFLOW_UNAVAILABLE", f"workflow {job.workflow} of this job is not loaded now"
            )
        return definition

    async def _decide(
        self, definition: Definition, job: Snapshot, message: Message, tries: int
    ) -> Verdict:
        """Decide about a letter after so many tries; it may begin an attempt in a slot on loan."""
        facts, verdict = await self._facts(definition, job, message, tries), None
        facts = self._loans.known_to(facts, definition, job, message)
        try:
            verdict = await self._judged(definition, job, message, facts)
            return verdict
        finally:
            self._loans.judged(facts, job, message, verdict)

    async def _judged(
        self, definition: Definition, job: Snapshot, message: Message, facts: Facts
    ) -> Verdict:
        moment = self._world.moment()
        try:
            verdict = decide(definition, job, message, facts, moment)
            if isinstance(verdict, Decision) and verdict.kin is not None:
                verdict = await unless_awaited(self._world.reader, job, message, verdict)
            return self._world.recorder.kept(verdict, message, facts, moment)
        except PluginFault as fault:
            refused = self._world.faulted(fault, job)
            if isinstance(message, FROM_INSIDE):
                return beset(definition, job, message, facts, moment, fault)
            return refused

    async def _facts(
        self, definition: Definition, job: Snapshot, message: Message, tries: int
    ) -> Facts:
        """Read only the facts on which this message may turn; look up last what memory knows."""
        wanted, world = needs(definition, job, message), self._world
        event, balance, webhook, sound = None, None, None, NONE
        if wanted.event is not None:
            seen = await world.reader.event(self.job_id, wanted.event)
            event = SeenEvent(*seen) if seen else None
        if wanted.balance:
            balance = (await world.reader.credits(job.user_id)).balance
        if wanted.files:
            sound = await verified(world, job)
        # Whoever brings a webhook has just looked, and so does the commit: only a clash is news.
        if wanted.webhook is not None and (tries or not isinstance(message, Told)):
            webhook = await world.reader.webhook(*wanted.webhook, world.clock.now() - KEPT_MS)
        holds = world.rates.holds(job.attempt) if isinstance(message, Ended) else None
        facts = Facts(event=event, balance=balance, verified=sound, webhook=webhook, holds=holds)
        return world.pauses.known_to(facts, job)

    async def _commit(self, decision: Decision, tick: Tick | None) -> Answer | None:
        """Commit the decision. None when a fact has changed meanwhile: read and decide again."""
        if tick is not None:
            decision = replace(decision, tick=tick)
        decision = self._world.rates.noted(decision)
        follow = partial(self._consequences.committed, decision)
        outcome = ours(await self._world.commit(asked(decision), follow))
        if isinstance(outcome, Clash):
            return None
        assert outcome.snapshot is not None, "a decision leaves a snapshot"
        replayed = bool(decision.answer.get("replayed", False))
        return Answer(outcome.snapshot, decision.answer, decision.status, replayed)

    def _noop(self, verdict: NoOp) -> Answer:
        for line in verdict.logs:
            level = "warning" if line.event == "job.progress_ignored" else "info"
            self._world.announce(line.event, verdict.snapshot, level, **line.fields)
        replayed = bool(verdict.answer.get("replayed", False))
        return Answer(verdict.snapshot, verdict.answer, verdict.status, replayed)

    def _denied(self, job: Snapshot, message: Message, refused: Refused) -> Refused:
        """Log a refusal, under the id that the caller is told, if there is one."""
        refused.noted = True
        self._world.announce(
            "job.transition_denied",
            job,
            "warning",
            error_code=refused.code,
            message=type(message).__name__,
            current_status=job.status,
            attempted_status=getattr(message, "to", None) or getattr(message, "command", None),
            correlation_id=REQUEST.get() or job.correlation_id,
        )
        return refused


def _same_payload(before: Snapshot, job: Snapshot) -> bool:
    same = before.params is job.params and before.result is job.result
    return same and before.artifacts is job.artifacts


def _or_stuck(definition: Definition, job: Snapshot, message: Message) -> Message:
    """Mark the job stuck where its stage could not read its parameters: no attempt may begin."""
    if isinstance(message, Start) and not job.stuck:
        try:
            params_of(definition, job)
        except Stale as stale:
            return SetAside(f"PARAMS_STALE: {stale}")
    return message
