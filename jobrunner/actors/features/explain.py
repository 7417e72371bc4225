"""Explains why a job is not moving, in words and in fields: one process knows all of it."""

from typing import Any

from jobrunner.actors.dispatcher import Dispatcher
from jobrunner.actors.features.families.lineage import lineage
from jobrunner.actors.shared import World
from jobrunner.core.credits import price_of
from jobrunner.core.declaration.states import AWAY
from jobrunner.core.declaration.workflow import EXTERNAL, Definition
from jobrunner.core.features.answers.giving import awaited_in
from jobrunner.core.features.answers.posed import Posed
from jobrunner.core.features.turns.one_at_a_time import key_ahead
from jobrunner.core.instants import text_of
from jobrunner.core.job import Attempt, Paused, Snapshot
from jobrunner.errors import PluginFault

CHILDREN = "its children"
STORE = "the store of objects, which holds files of its workflow, to answer again"


async def explain(world: World, dispatcher: Dispatcher, job: Snapshot) -> dict[str, Any]:
    """Say what it waits for, which locks it holds, its place in line, its timers."""
    definition = world.registry.of(job)
    facts: dict[str, Any] = {
        "status": job.status,
        "kind": job.kind,
        "waits_for": _deaf(world, job)
        or _lack(world, job)
        or _reason(world, definition, job, dispatcher),
        "stuck": job.stuck,
        "paused": _paused(world, job),
        "locks": [
            {
                "scope": lock.scope,
                "run_id": lock.run_id,
                "holder": lock.holder,
                "lease_until": lock.lease_until,
            }
            for lock in job.locks
        ],
        "timers": [{"purpose": one.purpose, "due_at": one.due_at} for one in job.timers],
        "attempt": _attempt(job.attempt),
        "binding": _binding(world, job),
        "schedule": _schedule(job),
    }
    if job.line_at is not None:
        place = await world.reader.place(job, tuple(world.registry.names()))
        facts["queue_position"] = place.ahead + 1
        facts["queue_position_exact"] = place.exact
        facts["running"] = len(dispatcher.running)
        facts |= await _rates(world, job)
    balance = (await world.reader.credits(job.user_id)).balance
    price = price_of(definition, job) if definition is not None else job.cost
    if job.kind == "settled" and price > balance:
        facts["credits_short"] = price - balance

    def reason(one: Snapshot) -> str:
        return _reason(world, world.registry.of(one), one, dispatcher)

    facts |= await lineage(world, job, reason)
    return facts


async def _rates(world: World, job: Snapshot) -> dict[str, Any]:
    """The rates that its stage takes from, and about when its turn comes behind those before it."""
    registry = world.registry
    bound = registry.bound_at(job.workflow, job.status, job.job_type)
    stage = registry.stage(bound)
    if stage is None or not stage.rates or job.line_at is None:
        return {}
    found = [rate for rate in world.rates.now() if rate.name in stage.rates]
    others = frozenset(name for rate in found for name in rate.stages)
    places = registry.places(others)
    ahead = await world.reader.ahead_at(places, job.priority, job.line_at, job.row)
    told = [
        {
            "name": rate.name,
            "limit": rate.limit.text if rate.limit else None,
            "room_at": rate.room_at,
            "held_until": rate.held_until,
        }
        for rate in found
    ]
    return {"rates": told, "turn_about_at": world.rates.turn_at(stage, ahead)}


def _binding(world: World, job: Snapshot) -> dict[str, Any] | None:
    """The stage of the place where the job is, and how it came to be that one."""
    bound = world.bindings.get((job.digest, job.status, job.job_type))
    if bound is None:
        return None
    changed = {"was": bound.was, "changed_at": bound.changed_at, "jobs": bound.jobs}
    return {"stage": bound.stage, **(changed if bound.was else {})}


def _schedule(job: Snapshot) -> dict[str, Any] | None:
    """The schedule that made it, and the moment that it was made for."""
    made = job.schedule
    return {"name": made.name, "moment": text_of(made.moment)} if made is not None else None


def _deaf(world: World, job: Snapshot) -> str:
    stage = world.roster.is_deaf(job.id)
    return (
        f"stage {stage}, which was told to stop and goes on; restart the service" if stage else ""
    )


def _lack(world: World, job: Snapshot) -> str:
    """Name what its plugin does not bring today."""
    missing = () if job.stuck else world.registry.lacking(job)
    return f"its plugin to bring {', '.join(missing)} again" if missing else ""


def _paused(world: World, job: Snapshot) -> dict[str, Any] | None:
    """Say what is paused, the job or its workflow, and by whom. Of a paused stage ``waits_for``
    tells."""
    halted = world.pauses.workflows.get(job.workflow)
    paused = job.paused or halted
    if paused is None:
        return None
    what = "job" if job.paused else "workflow"
    return {"what": what, "by": paused.by, "reason": paused.reason, "at": paused.at}


def _reason(
    world: World, definition: Definition | None, job: Snapshot, dispatcher: Dispatcher
) -> str:
    if definition is None:
        return f"workflow {job.workflow} is not loaded"
    if job.stuck:
        return f"an admin to release it; it is stuck: {job.stuck}"
    if job.kind == "final":
        return "nothing: the job has ended"
    if job.kind == "settled":
        return "nothing: the job has ended; a command can revive it"
    if job.paused is not None:
        why = f": {job.paused.reason}" if job.paused.reason else ""
        return f"somebody to resume it; {job.paused.by} paused it{why}"
    if job.line_at is not None:
        return _in_line(world, dispatcher, job)
    if job.attempt is not None:
        return _turn(world, definition, job) or _of_attempt(job) + _where(world, job)
    return _turn(world, definition, job) or _of_state(definition, job)


def _in_line(world: World, dispatcher: Dispatcher, job: Snapshot) -> str:
    """Say what a job in line waits for."""
    pauses, registry = world.pauses, world.registry
    bound = registry.bound_at(job.workflow, job.status, job.job_type)
    if job.workflow in pauses.workflows:
        return _resumed(f"workflow {job.workflow}", pauses.workflows[job.workflow])
    if paused := pauses.stages.get(bound):
        return _resumed(f"stage {bound}", paused)
    if world.surroundings.lacks_files(job.workflow):
        return STORE
    if world.surroundings.is_held(job.workflow):
        return "the companion of its workflow, which is still being opened"
    if dispatcher.is_asked(job.id):
        return "nothing: its turn has come, it is about to start, and its inputs are checked"
    if dispatcher.on_trial:
        return "the attempts that were open when the service died, which start one by one"
    return dispatcher.lack(job, job.id, registry.stage(bound)) or "its turn, which is next"


def _turn(world: World, definition: Definition, job: Snapshot) -> str:
    """Say what comes before an outside worker may claim this one."""
    claimable = job.kind == "queued" if job.attempt is None else job.attempt.status == "due"
    if claimable and world.surroundings.lacks_files(job.workflow):
        return STORE
    if not (claimable and world.turns.are_asked):
        return ""
    try:
        return world.turns.lack(job.id, key_ahead(definition, job, world.clock.now()))
    except PluginFault:
        return ""


def _resumed(what: str, paused: Paused) -> str:
    why = f": {paused.reason}" if paused.reason else ""
    return f"{what} to be resumed, which {paused.by} paused{why}"


def _where(world: World, job: Snapshot) -> str:
    where = world.surroundings.elsewhere.where(job.id)
    return f", on {where} of the cluster" if where else ""


def _of_attempt(job: Snapshot) -> str:
    attempt = job.attempt
    assert attempt is not None, "asked of a job with an attempt"
    if (awaited := awaited_in(attempt)) is not None:
        return _asked(*awaited)
    if attempt.status == "parked" and attempt.jobs:
        return f"{CHILDREN} to end: {attempt.jobs} of them are awaited"
    if attempt.status == "parked":
        return f"a callback for {attempt.awaits}"
    if attempt.status == "running":
        what = f"{attempt.runs} in {attempt.state}" if attempt.runs else attempt.state
        return f"{attempt.holder} to finish {what}"
    if job.timer("backoff") is not None:
        return "the end of its backoff"
    return f"an outside worker to claim {attempt.state}"


def _asked(name: str, posed: Posed) -> str:
    whose = " or ".join("its owner" if role == "user" else f"role {role}" for role in posed.by)
    text = f" ({posed.text})" if posed.text else ""
    return f"an answer to {name!r}{text} by {whose or 'an admin'}, or who has its address"


def _of_state(definition: Definition, job: Snapshot) -> str:
    if job.timer("run_at") is not None:
        return "its start time"
    if job.timer("retry") is not None:
        return "the end of its backoff"
    if job.kind == "queued":
        return "an outside worker to claim it"
    targets = definition.targets(job.status)
    towards = f"one of {', '.join(targets)}" if len(targets) > 1 else "".join(targets)
    return f"a command or callback towards {towards}"


def _attempt(attempt: Attempt | None) -> dict[str, Any] | None:
    if attempt is None:
        return None
    where = "outside" if attempt.stage == EXTERNAL else "here"
    where = "cluster" if attempt.stage.endswith(AWAY) else where
    return {
        "state": attempt.state,
        "number": attempt.number,
        "status": attempt.status,
        "holder": attempt.holder or None,
        "runs": where,
        "not_before": attempt.not_before or None,
    }
