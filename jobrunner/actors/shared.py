"""What every actor shares: the store, the definitions, the ports, and what follows a commit."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

from jobrunner.actors.commits import Announce, Writer
from jobrunner.actors.features.pauses import Pauses
from jobrunner.actors.features.streams import Followers
from jobrunner.actors.running_stages import Roster
from jobrunner.core.decision import Decision, StartStage, StopStage
from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.features.bindings import Binding, Spot
from jobrunner.core.features.meter import SILENT, Meter, Span
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import Ended, Moment
from jobrunner.core.questions import Reader
from jobrunner.errors import PluginFault, Refused, bug_told
from jobrunner.files.library import Checked
from jobrunner.ports import Children, Clock, Ids
from jobrunner.stages import Registry
from jobrunner.stages.equipment import Surroundings

Started = Callable[[Snapshot, Attempt], None]
Stopped = Callable[[str, int], None]
Abandoned = Callable[[Snapshot, Attempt], None]


class World:
    """``assets`` is the folder of all files; ``checked`` knows which of them are sound.
    ``committed`` is the one place where the consequences of a commit begin."""

    def __init__(
        self,
        store: Writer,
        registry: Registry,
        clock: Clock,
        ids: Ids,
        log: Announce,
        children: Children,
        assets: str = "",
        surroundings: Surroundings | None = None,
        meter: Meter = SILENT,
    ) -> None:
        self.store = store
        self.meter = meter
        self.registry = registry
        self.clock = clock
        self.ids = ids
        self.children = children
        self.assets = os.path.abspath(assets) if assets else ""
        self.checked = Checked(self.assets)
        self.surroundings = surroundings or Surroundings()
        self.pauses = Pauses()
        self.roster = Roster()
        self.bindings: dict[Spot, Binding] = {}
        self._log = log
        self._watchers: dict[str, list[asyncio.Event]] = {}
        self._arrivals: list[asyncio.Event] = []
        self.followers = Followers()
        self.closing = False
        self.on_start: Started = lambda job, attempt: None
        self.on_stop: Stopped = lambda job_id, serial: None
        self.on_abandoned: Abandoned = lambda job, attempt: None
        self.on_left: Abandoned = lambda job, attempt: None
        self.on_line: Callable[[int, str], None] = lambda change, user_id: None
        self.on_timer: Callable[[int], None] = lambda due_at: None
        self.on_other: Callable[[str], None] = lambda job_id: None
        self.on_outbox: Callable[[str], None] = lambda lane: None

    @property
    def reader(self) -> Reader:
        return self.store.reader

    def moment(self) -> Moment:
        return Moment(self.clock.now(), self.ids.fresh(), self.ids.jitter(), self.store.epoch)

    def span(self, began_at: int, seconds: float) -> Span:
        """Something that ends now and took so long."""
        return Span(began_at, self.clock.now(), seconds)

    def committed(self, decision: Decision, job: Snapshot) -> None:
        """It is on disk now: say so, wake whoever waits for it, do what was decided."""
        for line in decision.logs:
            self.announce(line.event, job, "info", **line.fields)
        for effect in decision.effects:
            match effect:
                case StartStage(attempt):
                    self.on_start(job, attempt)
                case StopStage(serial):
                    self.on_stop(job.id, serial)
        if (over := _abandoned(decision)) is not None:
            self.on_abandoned(job, over)
        for attempt in decision.attempts:
            if attempt.status == "ended" and attempt.sent:
                self.on_left(job, attempt)
        for attempt in filter(_ended_outside, decision.attempts):
            self.meter.attempted(job, attempt, _ending(attempt), _lifetime(attempt))
        self._line_changed(decision)
        self._timers_changed(decision)
        self._wake(decision)
        if decision.notifications:
            self.on_outbox("")
        for other in decision.also:
            self.committed(other, other.after)
            self.on_other(other.after.id)

    def announce(self, event: str, job: Snapshot, level: str, **fields: Any) -> None:
        about = {
            "job_id": job.id,
            "workflow": job.workflow,
            "user_id": job.user_id,
            "correlation_id": job.correlation_id,
        }
        self._log(event, level=level, **about | fields)

    def faulted(self, fault: PluginFault, job: Snapshot | None = None, **about: Any) -> Refused:
        """A function of a plugin failed: told to the log in full, and as a refusal to whoever has
        asked. One that is only missing was told at the start."""
        if not fault.missing:
            fields = {
                "workflow": fault.workflow,
                "function": fault.function,
                "detail": str(fault),
                **bug_told(fault.__cause__ or fault),
            }
            if job is not None:
                self.announce("plugin.fault", job, "error", **fields, **about)
            else:
                self.say("plugin.fault", level="error", **fields, **about)
        return fault.refusal()

    def say(self, event: str, level: str = "info", **fields: Any) -> None:
        """A line that is about no job in particular."""
        self._log(event, level=level, **fields)

    def close(self) -> None:
        """Nobody is kept waiting by a service that is about to stop."""
        self.closing = True
        waiting = [event for events in self._watchers.values() for event in events]
        for event in (*waiting, *self._arrivals):
            event.set()
        self.followers.close()

    def watch(self, job_id: str) -> asyncio.Event:
        """Set as soon as something of this job is committed; give it back with ``unwatch``."""
        event = asyncio.Event()
        self._watchers.setdefault(job_id, []).append(event)
        return event

    def unwatch(self, job_id: str, event: asyncio.Event) -> None:
        watchers = self._watchers.get(job_id, [])
        if event in watchers:
            watchers.remove(event)
        if not watchers:
            self._watchers.pop(job_id, None)

    def expect(self) -> asyncio.Event:
        """Set as soon as there may be work for somebody outside; give it back with ``leave``."""
        event = asyncio.Event()
        self._arrivals.append(event)
        return event

    def arrived(self) -> None:
        """There may be work for somebody outside."""
        for event in self._arrivals:
            event.set()

    def leave(self, event: asyncio.Event) -> None:
        self._arrivals.remove(event)

    def _line_changed(self, decision: Decision) -> None:
        was = decision.before is not None and _stands(decision.before)
        stands = _stands(decision.after)
        if was != stands:
            self.on_line(1 if stands else -1, decision.after.user_id)

    def _timers_changed(self, decision: Decision) -> None:
        """Also when a job that was put aside is released, or one that was paused is resumed: its
        timers were not looked for."""
        before = decision.before
        seen = before is not None and before.stuck is None and before.paused is None
        known = before.timers if before is not None and seen else ()
        if decision.after.timers == known:
            return
        for timer in decision.after.timers:
            if timer not in known:
                self.on_timer(timer.due_at)

    def _wake(self, decision: Decision) -> None:
        for event in self._watchers.get(decision.after.id, ()):
            event.set()
        self.followers.hear(decision.before, decision.after)
        if self._arrivals and _up_for_claim(decision.after):
            for event in self._arrivals:
                event.set()


def _stands(job: Snapshot) -> bool:
    """In line for a slot; a job that was put aside or paused keeps its place and is not called."""
    return job.line_at is not None and job.stuck is None and job.paused is None


def _abandoned(decision: Decision) -> Attempt | None:
    """The attempt that was open when its job came to an end, and was not done."""
    before, after = decision.before, decision.after
    if before is None or before.attempt is None or after.kind not in ("settled", "final"):
        return None
    serial = before.attempt.serial
    over = next((one for one in decision.attempts if one.serial == serial), None)
    done = over is None or over.status != "ended" or over.outcome in ("done", "partial")
    return None if done else over


def _ended_outside(attempt: Attempt) -> bool:
    return attempt.stage == EXTERNAL and attempt.status == "ended"


def _ending(attempt: Attempt) -> Ended:
    return Ended(attempt.serial, attempt.outcome or "interrupted", failure=attempt.failure)


def _lifetime(attempt: Attempt) -> Span:
    """Nobody here watched it: the rows say how long it took."""
    began_at = attempt.started_at or attempt.opened_at
    ended_at = attempt.ended_at or began_at
    return Span(began_at, ended_at, max(ended_at - began_at, 0) / 1000)


def _up_for_claim(job: Snapshot) -> bool:
    """Perhaps: whoever looks for work will see. A report of progress is no reason to look."""
    if job.line_at is not None or job.paused is not None:
        return False
    return job.attempt.status == "due" if job.attempt else job.kind == "queued"
