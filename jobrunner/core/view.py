"""What a caller may do with a job as it stands: the same rules as ``decide``, asked in advance. And
how it stands, in words that are the same for every workflow."""

from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.workflow import Definition, End


def allowed(definition: Definition, job: Snapshot, actor: Actor) -> dict[str, list[str]]:
    """Statuses it may be moved to and commands it may be given, by this caller."""
    roles = actor.roles(job)
    edges = definition.table.get(job.status, {})
    statuses = [
        target for target, edge in edges.items() if "admin" in roles or roles & set(edge.by)
    ]
    commands = [
        command.name
        for command in definition.workflow.commands
        if roles & set(command.roles)
        and (job.status in command.walks or job.status in command.satisfied)
    ]
    return {"statuses": sorted(statuses), "commands": sorted(commands)}


def ended_as(definition: Definition, job: Snapshot) -> End | None:
    """Name the end that a job has come to, whatever its workflow calls the state."""
    state = definition.states[job.status]
    if state.kind not in ("settled", "final"):
        return None
    return state.ends or ("failed" if state.fails else "completed")


def needs_person(definition: Definition, job: Snapshot) -> bool:
    """Say whether nothing will move this job before a person does something about it."""
    if job.kind in ("settled", "final"):
        return False
    if job.stuck is not None or job.paused is not None:
        return True
    rests = job.kind == "waiting" and definition.states[job.status].person
    return rests and job.attempt is None and job.run_at is None
