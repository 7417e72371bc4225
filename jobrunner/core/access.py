"""Access to a job: for whom it exists, and the words in which all others are told that it does
not."""

from jobrunner.core.declaration.spelling import NOT
from jobrunner.core.declaration.workflow import Definition, End
from jobrunner.core.features.answers.giving import asks_person
from jobrunner.core.job import Actor, Snapshot
from jobrunner.errors import Refused

INSIDERS = frozenset({"admin", "reader", "workflow", "engine", "timer", "stage"})


def unknown(job_id: str) -> Refused:
    """Make the refusal for a missing job; one for somebody else's job reads the same."""
    return Refused("NOT_FOUND", f"there is no job {job_id}")


def foreign(definition: Definition | None, job: Snapshot, actor: Actor) -> Refused | None:
    """Refuse strangers: to them the job is not there, or, where the workflow says so, forbidden. So
    is one of a workflow that the caller's token is not for."""
    if actor.serves(job.workflow) and (actor.role in INSIDERS or actor.name == job.user_id):
        return None
    if definition is not None and definition.workflow.foreign == 403:
        return Refused("FORBIDDEN", f"job {job.id} belongs to somebody else")
    return unknown(job.id)


def allowed(definition: Definition, status: str, roles: frozenset[str]) -> dict[str, list[str]]:
    """Statuses that a job may be moved to from this one and commands it may be given, by a caller
    of these roles."""
    edges = definition.table.get(status, {})
    statuses = [
        target for target, edge in edges.items() if "admin" in roles or roles & set(edge.by)
    ]
    commands = [
        command.name
        for command in definition.workflow.commands
        if roles & set(command.roles) and (status in command.walks or status in command.satisfied)
    ]
    return {"statuses": sorted(statuses), "commands": sorted(commands)}


def ended_as(definition: Definition, status: str) -> End | None:
    """Name the end that a job has come to, whatever its workflow calls the state."""
    state = definition.states[status]
    if not state.ended:
        return None
    return state.ends or ("failed" if state.fails else "completed")


def needs_person(definition: Definition, job: Snapshot) -> bool:
    """Say whether nothing will move this job before a person does something about it."""
    if job.ended:
        return False
    if job.stuck is not None or job.paused is not None:
        return True
    if asks_person(job):
        return True
    rests = job.kind == "waiting" and rests_with_person(definition, job.status, job.job_type)
    return rests and job.attempt is None and job.timer("run_at") is None


def rests_with_person(definition: Definition, status: str, job_type: str) -> bool:
    """Say whether a waiting state waits for a person, by its declaration or by a setting."""
    state = definition.states[status]
    held_back = state.onward_if.startswith(NOT) and bool(state.onward)
    return state.person or (held_back and not definition.onward_of(status, job_type))
