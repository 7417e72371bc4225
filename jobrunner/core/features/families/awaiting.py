"""Families: jobs that a stage submits, and waits for.

A child is a job like any other; what it has more is its ``ParentLink``. Whether it goes on, and
how it ended, is kept in a row of its own beside it, and the end of a child counts down what its
parent waits for in the same commit. So a parent that waits for ten thousand is told once, and
neither its row nor its mailbox grows with them.

Nothing here is decided twice: a wait that is over is a row that stays until its parent has gone on,
and children that are to be cancelled are found by a row that stays until all of them were told.
"""

from jobrunner.core.attempts import amend, park, resume
from jobrunner.core.decision import NoOp
from jobrunner.core.draft import Case, Draft
from jobrunner.core.features.families.kinship import waits
from jobrunner.core.features.families.parentage import JobsAwaited
from jobrunner.core.job import ENGINE
from jobrunner.core.messages import JobsEnded
from jobrunner.core.replies import Verdict


def await_jobs(draft: Draft, awaited: JobsAwaited, seconds: float) -> None:
    """Park the attempt until enough of its children have ended; the commit counts those that have
    ended already."""
    park(draft, "", seconds)
    amend(draft, jobs=len(awaited.ids))
    draft.awaited = awaited


def jobs_ended(case: Case[JobsEnded]) -> Verdict:
    """The attempt that waits for children goes on: enough of them have ended."""
    job, message = case.job, case.message
    if not waits(job) or job.serial != message.serial:
        return NoOp("not_awaited", job)
    draft = Draft(case, ENGINE, "engine")
    resume(draft, jobs=0)
    return draft.tear_out()
