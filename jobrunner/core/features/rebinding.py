"""Rebinding: a job rests where another stage is bound than before, and is brought to it.

An operator binds stages, and may bind others at the next start, for jobs under way too. A job that
rests where the binding is another one then gets the shape that it would have had if it had come
there now. What somebody has begun ends where it was begun: a claimed attempt with its worker, a
parked one with the stage that awaits the answer. What comes after it is bound as today.
"""

from jobrunner.core.attempts import OUR_STAGE, rebind
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.draft import Draft
from jobrunner.core.features.bindings import stage_behind
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.steps import calls_for_slot, watch_lapse


def bring(draft: Draft) -> None:
    """The job as it stands, in the shape of today's binding. What is so already stays untouched."""
    job = draft.job
    if job.attempt is not None:
        stage = stage_behind(draft.definition, job.status, job.job_type) or EXTERNAL
        otherwise = job.attempt.stage != stage or _is_timed_otherwise(draft, stage)
        if otherwise and not begun(job, job.attempt):
            rebind(draft, stage)
    elif job.kind == "queued":
        _line_up(draft)
    elif job.kind == "waiting":
        watch_lapse(draft, draft.state)


def begun(job: Snapshot, attempt: Attempt) -> bool:
    """Say whether somebody is at work on the job, or was and awaits an answer. An orchestrator that
    only moved the job here has claimed nothing."""
    if attempt.status == "running":
        return attempt.holder == OUR_STAGE or job.timer("lease") is not None
    return attempt.status == "parked" or attempt.started_at is not None


def _is_timed_otherwise(draft: Draft, stage: str) -> bool:
    """Say whether its deadline runs and should not, or should and does not: a worker outside has
    until then, and one that runs our stage is waited for as a slot is."""
    if stage != EXTERNAL:
        return False
    job, deadline = draft.job, draft.state.deadline
    far = draft.definition.is_remote(job.status, job.job_type)
    is_timed = deadline is not None and deadline.after_s > 0 and not far
    return is_timed != (job.timer("deadline") is not None)


def _line_up(draft: Draft) -> None:
    if not calls_for_slot(draft):
        draft.set(line_at=None)
    elif draft.job.line_at is None:
        draft.set(line_at=draft.now)
