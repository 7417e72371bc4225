"""Works out what a finished decision means for the family of its job, where it has one."""

from jobrunner.core.access import ended_as
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.families.parentage import JobsAwaited, Kin, Standing
from jobrunner.core.job import Snapshot

WELL = ("completed", "partial")


def kin_of(
    definition: Definition, before: Snapshot | None, after: Snapshot, awaited: JobsAwaited | None
) -> Kin | None:
    """Return what a decision means for parents, children and batches; None for most jobs, which
    have none."""
    child = after.parent is not None or after.batch is not None
    parent = bool(definition.workflow.children)
    if not child and not parent:
        return None
    stood = standing(definition, before) if child and before is not None else ""
    stands = standing(definition, after) if child else ""
    goes_on = before is not None and waits(before) and not waits(after)
    ends = parent and before is not None and after.ended and not before.ended
    turned = stood != stands or (child and before is None)
    if not (turned or awaited or goes_on or ends):
        return None
    return Kin(stood, stands, awaited, goes_on, ends)


def standing(definition: Definition, job: Snapshot) -> Standing:
    """Say how a child looks to its parent: not ended, or ended well or ill."""
    if not job.ended:
        return ""
    return "well" if ended_as(definition, job.status) in WELL else "ill"


def waits(job: Snapshot) -> bool:
    """Say whether the attempt of this job waits for children."""
    attempt = job.attempt
    return attempt is not None and attempt.status == "parked" and attempt.jobs > 0
