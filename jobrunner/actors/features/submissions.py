"""Submissions: no actor is needed to make a job, only facts, a decision and a commit."""

from msgspec.structs import replace

from jobrunner.actors.commits import Answer, ours
from jobrunner.actors.requester import asked
from jobrunner.actors.shared import World
from jobrunner.core.births import born, derived_parts, keys_of, needs_facts
from jobrunner.core.decision import Clash, KeyRow, NoOp
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.bulk import Tick
from jobrunner.core.messages import Facts, Submit
from jobrunner.core.questions import DoorQuestion
from jobrunner.core.replies import Verdict
from jobrunner.errors import PluginFault, Refused
from jobrunner.ports import digest

TRIES = 5


async def submit(world: World, submission: Submit, tick: Tick | None = None) -> Answer:
    """The job that this submission makes, or the one that it made before."""
    definition = world.registry.current(submission.workflow)
    if definition is None:
        raise Refused("UNKNOWN_WORKFLOW", f"there is no workflow {submission.workflow!r}")
    began_at, began = world.clock.now(), world.clock.monotonic()
    for _ in range(TRIES):
        try:
            verdict = await _decided(world, definition, submission)
        except PluginFault as fault:
            raise world.faulted(fault, correlation_id=submission.correlation_id) from fault
        if isinstance(verdict, Refused):
            raise _denied(world, submission, verdict)
        if isinstance(verdict, NoOp):
            world.say("job.replayed", job_id=verdict.snapshot.id, workflow=submission.workflow)
            return Answer(verdict.snapshot, verdict.answer, 200, replayed=True)
        ticked = replace(verdict, tick=tick) if tick else verdict
        outcome = ours(await world.store.commit(asked(ticked)))
        if not isinstance(outcome, Clash):
            assert outcome.snapshot is not None, "a birth leaves a snapshot"
            world.committed(verdict, outcome.snapshot)
            span = world.span(began_at, world.clock.monotonic() - began)
            world.meter.submitted(outcome.snapshot, span)
            return Answer(outcome.snapshot, verdict.answer, 201)
    raise Refused("OVERLOADED", "too much happens around this key or account; try again")


async def _decided(world: World, definition: Definition, submission: Submit) -> Verdict:
    moment = world.moment()
    parts = derived_parts(definition, submission, moment.now)
    keys = keys_of(parts, submission, _hex)
    facts = await _facts(world, definition, submission, keys, moment.now)
    kept = tuple(key for key in keys if key is not None)
    return born(definition, submission, facts, moment, kept)


async def _facts(
    world: World,
    definition: Definition,
    submission: Submit,
    keys: tuple[KeyRow | None, ...],
    now: int,
) -> Facts:
    verified = submission.origin.verified if submission.origin else frozenset[str]()
    if not needs_facts(definition, submission, keys):
        return Facts(verified=verified)
    client, derived = keys
    quota = definition.workflow.quota
    answer = await world.reader.door(
        DoorQuestion(
            user_id=submission.actor.name,
            workflow=submission.workflow,
            key_digest=client.digest if client else None,
            derived_digest=derived.digest if derived else None,
            quota=bool(quota.open_jobs or quota.per_minute or quota.per_day),
            now=now,
        )
    )
    return Facts(
        verified=verified,
        known=answer.known,
        derived=answer.derived,
        balance=answer.balance,
        open_jobs=answer.open_jobs,
        last_minute=answer.last_minute,
        last_day=answer.last_day,
    )


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


def _hex(data: bytes) -> str:
    return digest(data).hex()
