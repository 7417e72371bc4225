"""The job that a path names, if the caller may know of it."""

from jobrunner.core.access import foreign, unknown
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.job import JOB_ID, Snapshot
from jobrunner.errors import Refused
from jobrunner.http.frame.call import Call


def job_id_of(call: Call) -> str:
    """Raises: Refused NOT_FOUND for what cannot be an id; nobody else need look for it."""
    job_id = call.path["id"]
    if JOB_ID.fullmatch(job_id) is None:
        raise unknown(job_id)
    return job_id


async def visible_job(call: Call) -> Snapshot:
    """Raises: Refused NOT_FOUND, or what the workflow has for strangers."""
    job_id = job_id_of(call)
    job = await call.door.reader.job(job_id)
    if job is None:
        raise unknown(job_id)
    if refused := foreign(call.door.facade.definitions.of(job), job, call.actor):
        raise refused
    return job


async def governed_job(call: Call) -> tuple[Snapshot, Definition]:
    """A visible job with its declaration, for whoever wants to change it.

    Raises: also Refused WORKFLOW_UNAVAILABLE.
    """
    job = await visible_job(call)
    definition = call.door.facade.definitions.of(job)
    if definition is None:
        raise unavailable(job.workflow)
    return job, definition


def unavailable(workflow: str) -> Refused:
    return Refused("WORKFLOW_UNAVAILABLE", f"workflow {workflow!r} is not loaded; ask the operator")
