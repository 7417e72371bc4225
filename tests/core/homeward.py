"""How a job comes to rest when no person does anything any more: attempts end, clocks run out, and
an outside worker takes what lies in a line."""

from collections.abc import Callable, Iterator
from typing import Literal

from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import EXTERNAL, Definition
from jobrunner.core.features.pauses import OF_HELD_WORK
from jobrunner.core.job import Failure, Snapshot, Timer
from jobrunner.core.messages import Claim, Ended, Fired, Message, Report, Start
from jobrunner.errors import Refused
from tests.core.wishes import PAGE
from tests.driving import WORKER

Mood = Literal["fails", "hangs", "parks", "dies", "is done"]
MOODS: tuple[Mood, ...] = ("fails", "hangs", "parks", "dies", "is done")
STEPS_MAX = 60

MADE = Report(
    artifacts={
        "audio_uri": PAGE.url,
        "transcript_uri": PAGE.url,
        "draft_uri": PAGE.url,
        "export_uri": PAGE.url,
        "draft": "# One",
        "pieces": 7,
    },
    assets=(PAGE,),
)


def at_rest(job: Snapshot) -> bool:
    """It has ended, or waits for a person: because its state says so, because its run lapsed, or
    because it is stuck, or because somebody paused it and nobody works on it any more."""
    if job.stuck or job.kind in ("settled", "final"):
        return True
    if job.paused is not None:
        return not (_works_here(job) or _held_clocks(job))
    return job.kind == "waiting" and not job.live and job.attempt is None


def next_event(definition: Definition, job: Snapshot, mood: Mood) -> Message | None:
    """What happens next to a job that nobody looks after; None when nothing ever will."""
    attempt = job.attempt
    if job.line_at is not None and job.paused is None:
        return Start()
    if attempt is not None and _works_here(job) and mood != "hangs":
        return _ending(attempt.serial, mood)
    if timers := job.timers if job.paused is None else _held_clocks(job):
        timer = min(timers, key=lambda timer: timer.due_at)
        return Fired(timer.purpose, timer.due_at)
    if job.paused is not None:
        return None
    if job.kind == "queued" or (attempt is not None and attempt.stage == EXTERNAL):
        return Claim(WORKER)
    return None


def homeward(
    definition: Definition,
    job: Snapshot,
    mood: Mood,
    tell: Callable[[Message], tuple[Snapshot, object]],
) -> Iterator[Message]:
    """Step by step to where it rests; ``tell`` answers with the job as it then is."""
    for _ in range(STEPS_MAX):
        if at_rest(job):
            return
        message = next_event(definition, job, mood)
        assert message is not None, f"nothing will ever happen in {job.status}: {job}"
        was = job
        job, said = tell(message)
        assert not isinstance(said, Refused), f"{message} in {was.status}: {said!r}"
        assert isinstance(said, Decision), f"{message} does nothing in {was.status}: {said!r}"
        yield message
    raise AssertionError(f"still {job.status} after {STEPS_MAX} steps: {job}")


def _works_here(job: Snapshot) -> bool:
    attempt = job.attempt
    return attempt is not None and (attempt.holder, attempt.status) == ("stage", "running")


def _held_clocks(job: Snapshot) -> tuple[Timer, ...]:
    """Those that ring while the job is paused."""
    return tuple(timer for timer in job.timers if timer.purpose in OF_HELD_WORK)


def _ending(serial: int, mood: Mood) -> Message:
    match mood:
        case "parks":
            return Ended(serial, "parked", awaits="a call that never comes")
        case "dies":
            return Ended(
                serial, "failed", failure=Failure("STAGE_CRASHED", "boom", retryable=False)
            )
        case "is done":
            return Ended(serial, "done", MADE)
        case _:
            return Ended(serial, "failed", failure=Failure("NETWORK", "nobody answers"))
