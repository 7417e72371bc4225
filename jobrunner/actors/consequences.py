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
            return
        self._tell.kept(job)
        for line in decision.logs:
            self._world.announce(line.event, job, "info", **line.fields)
        self._perform(decision, job)
        self._look_after_attempts(decision, job)
        measure(self._world, decision.before, job)
        self._world.turns.committed(decision.before, job)
        self._line_changed(decision.before, job)
        self._timers_changed(decision)
        self._world.watchers.committed(decision)
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
            match effect:
                case StartStage(attempt):
                    self._tell.start(job, attempt)
                case StopStage(serial):
                    self._tell.stop(job.id, serial)

    def _look_after_attempts(self, decision: Decision, job: Snapshot) -> None:
        if (over := _abandoned(decision)) is not None:
            self._tell.abandoned(job, over)
        for attempt in decision.attempts:
            if attempt.status == "ended" and attempt.sent:
                self._tell.sent_files(job, attempt)
        for attempt in decision.attempts:
            if attempt.stage == EXTERNAL and attempt.status == "ended":
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

    def _timers_changed(self, decision: Decision) -> None:
        """While a job is stuck or paused its timers are not looked for, so those of one that is
        released or resumed count as new."""
        before = decision.before
        seen = before is not None and before.stuck is None and before.paused is None
        known = before.timers if before is not None and seen else ()
        if decision.after.timers == known:
            return
        for timer in decision.after.timers:
            if timer not in known:
                self._tell.timer(timer.due_at)


def _stands_in_line(job: Snapshot) -> bool:
    """Say whether the job can be called: one that is stuck or paused keeps its place in line and is
    not."""
    return job.line_at is not None and job.stuck is None and job.paused is None


def _abandoned(decision: Decision) -> Attempt | None:
    """Return the attempt that was open when its job ended, and was not done."""
    before, after = decision.before, decision.after
    if before is None or before.attempt is None or not after.ended:
        return None
    serial = before.attempt.serial
    over = next((one for one in decision.attempts if one.serial == serial), None)
    done = over is None or over.status != "ended" or over.outcome in ("done", "partial")
    return None if done else over


def _ending(attempt: Attempt) -> Ended:
    return Ended(attempt.serial, attempt.outcome or "interrupted", failure=attempt.failure)


def _lifetime(attempt: Attempt) -> Span:
    """Take from its row how long an attempt outside took: nobody here watched it."""
    began_at = attempt.started_at or attempt.opened_at
    ended_at = attempt.ended_at or began_at
    return Span(began_at, ended_at, max(ended_at - began_at, 0) / 1000)
