"""Who may know that a job exists, and the words in which the others are told that it does not."""

from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.workflow import Definition
from jobrunner.errors import Refused

INSIDERS = frozenset({"admin", "workflow", "engine", "timer", "stage"})


def unknown(job_id: str) -> Refused:
    """A missing job and one that is none of the caller's business read the same."""
    return Refused("NOT_FOUND", f"there is no job {job_id}")


def foreign(definition: Definition | None, job: Snapshot, actor: Actor) -> Refused | None:
    """A stranger's job is not there, or, where the workflow says so, forbidden. So is one of a
    workflow that the caller's token is not for."""
    if actor.serves(job.workflow) and (actor.role in INSIDERS or actor.name == job.user_id):
        return None
    if definition is not None and definition.workflow.foreign == 403:
        return Refused("FORBIDDEN", f"job {job.id} belongs to somebody else")
    return unknown(job.id)
