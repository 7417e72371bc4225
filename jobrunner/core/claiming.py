"""Whose attempt it is: which reports on it are taken, and which come from somebody who lost it.

A claim is known by the serial number of its attempt, which no other attempt of the job has, and
belongs to the token that took it, or to one that took that token's place. An attempt that nobody
claimed is open to everybody whom the job is open to.
"""

from typing import Protocol

from jobrunner.core.job import Actor, Attempt, Snapshot
from jobrunner.errors import Refused


class Marked(Protocol):
    """What a report may say of the work that it is about."""

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
        return _stale(job, attempt, wrong)
    if actor.role != "workflow" or attempt is None or not attempt.claimant:
        return None
    opener = job.run.opener if job.run and by_callback else ""
    if actor.stands_for(attempt.claimant) or (opener and actor.stands_for(opener)):
        return None
    return _stale(job, attempt, "this attempt was claimed with another token; claim one yourself")


def _misnamed(job: Snapshot, attempt: Attempt | None, said: Marked) -> str:
    if said.run_id and said.run_id != job.run_id:
        return f"run {said.run_id} is over"
    if said.claim is not None and (attempt is None or said.claim != attempt.serial):
        return f"claim {said.claim} is over; what was begun under it is not wanted any more"
    if said.attempt is not None and (attempt is None or said.attempt != attempt.number):
        return f"attempt {said.attempt} is over"
    return ""


def _stale(job: Snapshot, attempt: Attempt | None, detail: str) -> Refused:
    return Refused(
        "STALE_RUN",
        detail,
        run_id=job.run_id or None,
        attempt=attempt.number if attempt else None,
        claim=attempt.serial if attempt and attempt.claimant else None,
    )
