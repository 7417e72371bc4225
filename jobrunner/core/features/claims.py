"""Outside workers: taking a job or an attempt, and telling how it goes."""

from typing import Protocol

from jobrunner.core import replies
from jobrunner.core.attempts import amend, hold
from jobrunner.core.decision import LogEvent, NoOp
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.draft import BY_ENGINE, Case, Cause, Draft
from jobrunner.core.features.pauses import refusal
from jobrunner.core.job import Actor, Attempt, Snapshot
from jobrunner.core.messages import Beat, Claim
from jobrunner.core.steps import go_on, postponed, step
from jobrunner.errors import Refused


def claim(case: Case[Claim]) -> replies.Verdict:
    """Give an outside worker the job from its queue, or an attempt that nobody holds."""
    job, message, facts = case.job, case.message, case.facts
    if not message.actor.roles(job) & {"workflow", "admin"}:
        return replies.forbidden("claims are for role workflow")
    draft = replies.begin(case, "claim")
    if job.stuck:
        return _is_stuck(job)
    if pause := job.paused or facts.halted:
        return refusal(pause)
    if job.kind == "queued" and not postponed(draft):
        cause = BY_ENGINE if message.runs else Cause("workflow")
        if refused := _pick_up(draft, cause):
            return refused
    attempt = draft.job.attempt
    runs = stage_for(message.runs, draft.job)
    behind = case.definition.onward_of(job.status, job.job_type)
    led_on = bool(message.runs) and job.kind == "queued" and draft.job.status != behind
    led_on = led_on and draft.decided and not (runs and _free(draft))
    if draft.diverted or led_on:
        return replies.answered(draft)
    if attempt is None or not _free(draft):
        return _taken(draft)
    if message.runs and not runs:
        return replies.nothing_to(draft, "claim")
    hold(draft, message.actor.name, claimant=message.actor.badge)
    if runs != attempt.runs:
        amend(draft, runs=runs)
    lease = draft.job.timer("lease")
    draft.answer["lease_until"] = lease.due_at if lease else None
    draft.answer["attempt"] = attempt.number
    draft.answer["claim"] = attempt.serial
    return replies.answered(draft)


def beat(case: Case[Beat]) -> replies.Verdict:
    """Take progress, or a bare sign of life, from whoever works on the job."""
    job, message = case.job, case.message
    if not message.actor.roles(job) & {"workflow", "admin", "stage"}:
        return replies.forbidden("progress is for role workflow")
    if job.kind != "active" and (job.attempt is None or job.attempt.status == "due"):
        ignored = LogEvent("job.progress_ignored", {"status": job.status})
        return NoOp("progress_ignored", job, logs=(ignored,))
    draft = replies.begin(case, "progress")
    if refused := lost(job, message.actor, message) or replies.working_here(
        draft, message.actor.role
    ):
        return refused
    replies.note(draft, message.progress, message.message)
    return replies.answered(draft)


def stage_for(runs: tuple[tuple[str, str, str], ...], job: Snapshot) -> str:
    """Name the stage of the open attempt, if it is among those that a worker runs."""
    place = (job.attempt.state if job.attempt else "", job.job_type)
    return next((stage for *where, stage in runs if tuple(where) == place), "")


def _pick_up(draft: Draft, cause: Cause) -> Refused | None:
    """Along the queue's declared way into the active state behind it. Whoever runs a stage of ours
    goes on where its product is there already."""
    while draft.state.kind == "queued":
        target = draft.definition.onward_of(draft.job.status, draft.job.job_type)
        if not target:
            return replies.nothing_to(draft, "claim")
        if draft.definition.in_house(target, draft.job.job_type):
            return _taken(draft)
        if refused := step(draft, target, cause):
            return refused
        if cause.trigger == "engine" and (refused := go_on(draft, cause)):
            return refused
        if draft.diverted:
            break
    return None


def _free(draft: Draft) -> bool:
    attempt = draft.job.attempt
    if attempt is None or attempt.status != "due" or attempt.stage != EXTERNAL:
        return False
    return attempt.not_before <= draft.now


def _taken(draft: Draft) -> Refused:
    job = draft.job
    if job.attempt is None and job.kind != "queued" and not job.live:
        return replies.nothing_to(draft, "claim")
    why = "somebody works on this job, or it is not due yet"
    return Refused("JOB_ALREADY_RUNNING", why, run_id=job.run_id or None)


def _is_stuck(job: Snapshot) -> Refused:
    return Refused("JOB_LOCKED", f"the job is stuck: {job.stuck}", stuck=job.stuck)


class Marked(Protocol):
    """The marks by which a report names the work that it is about."""

    @property
    def run_id(self) -> str | None: ...
    @property
    def attempt(self) -> int | None: ...
    @property
    def claim(self) -> int | None: ...


def lost(job: Snapshot, actor: Actor, said: Marked, *, by_callback: bool = False) -> Refused | None:
    """Why this report is of other work than the job's, or of work that is somebody else's."""
    attempt = job.attempt
    if wrong := _misnamed(job, attempt, said):
        return misnamed(job, wrong)
    if actor.role != "workflow" or attempt is None or not attempt.claimant:
        return None
    opener = job.run.opener if job.run and by_callback else ""
    if actor.stands_for(attempt.claimant) or (opener and actor.stands_for(opener)):
        return None
    return misnamed(job, "this attempt was claimed with another token; claim one yourself")


def _misnamed(job: Snapshot, attempt: Attempt | None, said: Marked) -> str:
    if said.run_id and said.run_id != job.run_id:
        return f"run {said.run_id} is over"
    if said.claim is not None and (attempt is None or said.claim != attempt.serial):
        return f"claim {said.claim} is over; what was begun under it is not wanted any more"
    if said.attempt is not None and (attempt is None or said.attempt != attempt.number):
        return f"attempt {said.attempt} is over"
    return ""


def misnamed(job: Snapshot, detail: str) -> Refused:
    """Refuse a report of other work than the job's, saying which that is."""
    attempt = job.attempt
    return Refused(
        "STALE_RUN",
        detail,
        run_id=job.run_id or None,
        attempt=attempt.number if attempt else None,
        claim=attempt.serial if attempt and attempt.claimant else None,
    )
