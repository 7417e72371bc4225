"""What a caller may do with a job as it stands: the same rules as ``decide``, asked in advance."""

from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.workflow import Definition


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
