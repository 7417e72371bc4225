"""The consequences of a commit, in one place: log lines, effects, measures, and who hears of it.

Everything here happens after the decision is on disk, so each of it may happen again after a crash
and none of it may fail the commit. It does not wait: it starts tasks and sets events.
"""

from collections.abc import Callable

from msgspec import Struct

from jobrunner.actors.keeping.measures import measure
from jobrunner.actors.shared import World
from jobrunner.core.decision import Decision, StartStage, StopStage
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.features.meter import Span
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import Ended


class Listeners(Struct, frozen=True, kw_only=True):
    """Everybody who hears of commits. No field has a default: one that is forgotten is an error
    when the room is put together, and not silence later."""

    kept: Callable[[Snapshot], None]  # this is how the job stands on disk
    unwritten: Callable[[Decision], None]  # this was decided, and could not be stored
    start: Callable[[Snapshot, Attempt], None]  # the stage of this attempt is to run here
    stop: Callable[[str, int], None]  # the attempt of this job and serial was left
    abandoned: Callable[[Snapshot, Attempt], None]  # the job ended, and this attempt was not done
    sent_files: Callable[[Snapshot, Attempt], None]  # it ended, and a worker had sent files for it
    line: Callable[[int, Snapshot], None]  # this job waits for a slot (1), or no more (-1)
    timer: Callable[[int], None]  # a timer was stored, due then
    outbox: Callable[[], None]  # there is something to tell
    family: Callable[[Decision], None]  # it means something to parent or children
    reread: Callable[[str], None]  # this job was changed by the commit of another one


class Consequences:
    """The only caller of ``Listeners``."""

    def __init__(self, world: World, listeners: Listeners) -> None:
        self._world = world
        self._tell = listeners

    def committed(self, decision: Decision, job: Snapshot | None) -> None:
        """Log what is on disk now, do what was decided, and wake whoever waits for it."""
        if job is None:
            self._tell.unwritten(decision)
            return
        before, world = decision.before, self._world
        self._tell.kept(job)
        for line in decision.logs:
            world.line(line.event, job, "info", line.fields)
        self._perform(decision, job)
        for attempt in decision.attempts:
            if attempt.status == "ended":
                self._attempt_over(before, job, attempt)
        if job.ended or world.meter.tracer is not None:
            measure(world, before, job)
        world.turns.committed(before, job)
        if job.line_at is not None or (before is not None and before.line_at is not None):
            self._line_changed(before, job)
        if job.timers:
            self._timers_changed(before, job)
        if job.attempt is not None and job.attempt.source:
            world.awaited.note(job.id, job.attempt)
        world.watchers.committed(before, job)
        if decision.notifications:
            self._tell.outbox()
        if decision.kin is not None:
            self._tell.family(decision)
        for other in decision.also:
            self.committed(other, other.after)
            self._tell.reread(other.after.id)

    def unreadable(self, job: Snapshot) -> None:
        """Take a job out of the line whose row is marked stuck now."""
        self._world.announce("job.unreadable", job, "error", detail=job.unreadable)
        if job.line_at is not None:
            self._tell.line(-1, job)

    def _perform(self, decision: Decision, job: Snapshot) -> None:
        for effect in decision.effects:
            if isinstance(effect, StartStage):
                self._tell.start(job, effect.attempt)
            elif isinstance(effect, StopStage):
                self._tell.stop(job.id, effect.serial)

    def _attempt_over(self, before: Snapshot | None, job: Snapshot, attempt: Attempt) -> None:
        """Look after an attempt that ended with this commit; it was abandoned if it was open when
        the job ended, and was not done."""
        was = before.attempt if before is not None else None
        is_last = was is not None and was.serial == attempt.serial and job.ended
        if is_last and attempt.outcome not in ("done", "partial"):
            self._tell.abandoned(job, attempt)
        if attempt.sent:
            self._tell.sent_files(job, attempt)
        if attempt.stage == EXTERNAL:
            self._world.meter.attempted(job, attempt, _ending(attempt), _lifetime(attempt))

    def _line_changed(self, before: Snapshot | None, job: Snapshot) -> None:
        was = before if before is not None and _stands_in_line(before) else None
        stands = _stands_in_line(job)
        if was and stands and (was.status, was.line_at) == (job.status, job.line_at):
            return
        if was:
            self._tell.line(-1, was)
        if stands:
            self._tell.line(1, job)

    def _timers_changed(self, before: Snapshot | None, job: Snapshot) -> None:
        """While a job is stuck or paused its timers are not looked for, so those of one that is
        released or resumed count as new."""
        seen = before is not None and before.stuck is None and before.paused is None
        known = before.timers if before is not None and seen else ()
        for timer in job.timers:
            if timer not in known:
                self._tell.timer(timer.due_at)


def _stands_in_line(job: Snapshot) -> bool:
    """Say whether the job can be called: one that is stuck or paused keeps its place in line and is
    not."""
    return job.line_at is not None and job.stuck is None and job.paused is None


def _ending(attempt: Attempt) -> Ended:
    return Ended(attempt.serial, attempt.outcome or "interrupted", failure=attempt.failure)


def _lifetime(attempt: Attempt) -> Span:
    """Take from its row how long an attempt outside took: nobody here watched it."""
    began_at = attempt.started_at or attempt.opened_at
    ended_at = attempt.ended_at or began_at
    return Span(began_at, ended_at, max(ended_at - began_at, 0) / 1000)
