"""Everything that the parts of this room share: store, definitions, ports and log."""

import os
from typing import Any

from jobrunner.actors.commits import Announce, Follow, ours
from jobrunner.actors.features.awaited import AwaitedNames
from jobrunner.actors.features.pauses import Pauses
from jobrunner.actors.features.plugins import line_of
from jobrunner.actors.features.turns.one_at_a_time import Turns
from jobrunner.actors.features.turns.rates import Rates
from jobrunner.actors.features.upgrades.replays import Recorder
from jobrunner.actors.keeping.storage_loss import StorageLoss
from jobrunner.actors.requester import asked
from jobrunner.actors.running_stages import Roster
from jobrunner.actors.watchers import Watchers
from jobrunner.core.decision import Clash, Unit
from jobrunner.core.features.bindings import Binding, Spot
from jobrunner.core.features.meter import SILENT, Meter, Span
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Drawing, Moment
from jobrunner.errors import OutcomeUnknown, PluginFault, Refused, bug_told
from jobrunner.files.library import SoundFiles, scratch_path
from jobrunner.ports import Children, Clock, Ids
from jobrunner.stages import Registry
from jobrunner.stages.equipment import Surroundings
from jobrunner.store.batch import Written
from jobrunner.store.reader import StoreReader
from jobrunner.store.store import Store


class World:
    """``assets`` is the folder of all files; ``checked`` knows which of them are sound. Once it is
    ``draining``, nothing new begins; while ``files_wanted`` is not 0, no file of a row that was
    deleted goes."""

    def __init__(
        self,
        store: Store,
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
        self.scratch = scratch_path(self.assets)
        self.checked = SoundFiles(self.assets)
        self.surroundings = surroundings or Surroundings()
        self.pauses = Pauses()
        self.rates = Rates(clock)
        self.turns = Turns()
        self.roster = Roster()
        self.watchers = Watchers()
        self.awaited = AwaitedNames()
        self.loss = StorageLoss(log)
        self.recorder = Recorder()
        self.bindings: dict[Spot, Binding] = {}
        self.draining = False
        self.files_wanted = 0
        self._line = line_of(log)

    @property
    def reader(self) -> StoreReader:
        return self.store.reader

    async def commit(self, unit: Unit, then: Follow | None = None) -> Written | Clash:
        """Write a unit. Where nobody can tell whether it was written, the service ends. ``then`` is
        called with the job as it was stored, also when the caller has gone.

        Raises: StorageError
        """
        try:
            return await self.store.commit(unit, then)
        except OutcomeUnknown as error:
            self.loss.give_up(error)
            raise

    async def write(self, unit: Unit) -> None:
        """Write what is about no job's state: tokens, pauses, notes.

        Raises: Refused, StorageError
        """
        outcome = ours(await self.commit(asked(unit)))
        if isinstance(outcome, Clash):
            code = "ALREADY_EXISTS" if outcome.reason == "exists" else "NOT_FOUND"
            raise Refused(code, outcome.detail or "there is no such thing")

    def moment(self) -> Moment:
        now, jitter, epoch = self.clock.now(), self.ids.jitter(), self.store.epoch
        return Drawing(now, jitter=jitter, epoch=epoch, draw=self.ids.fresh)

    def span(self, began_at: int, seconds: float) -> Span:
        """Make the span of something that ends now and took so long."""
        return Span(began_at, self.clock.now(), seconds)

    def announce(self, event: str, job: Snapshot, level: str, **fields: Any) -> None:
        self.line(event, job, level, fields)

    def line(self, event: str, job: Snapshot, level: str, fields: dict[str, Any]) -> None:
        """The same of fields that somebody has."""
        about = {"job_id": job.id, "workflow": job.workflow, "user_id": job.user_id}
        self._line(event, level, {**about, "correlation_id": job.correlation_id, **fields})

    def faulted(self, fault: PluginFault, job: Snapshot | None = None, **about: Any) -> Refused:
        """Tell the log in full that a function of a plugin failed, and make a refusal for whoever
        has asked. One that is only missing was told at the start."""
        if not fault.missing:
            fields = {"workflow": fault.workflow, "function": fault.function, "detail": str(fault)}
            fields |= {**bug_told(fault.__cause__ or fault), **about}
            if job is not None:
                self.announce("plugin.fault", job, "error", **fields)
            else:
                self.say("plugin.fault", "error", **fields)
        return fault.refusal()

    def say(self, event: str, level: str = "info", **fields: Any) -> None:
        """Log a line that is about no job in particular."""
        self._line(event, level, fields)
