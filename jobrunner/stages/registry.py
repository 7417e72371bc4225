"""The registry: what installed plugins bring, taken in or refused by name.

Each group of entry points leads to one kind of thing, by one name only, and for no newer API than
ours. A stage that does not fit takes with it the workflows that bind it, and nothing else.

A workflow that does not load, does not pass the check, or binds a stage that nobody brings is
refused with its reasons; the service runs without it and says so. Whatever is wrong with what one
plugin brings, down to the type of a single value, costs that plugin alone. Jobs that were born
under an older declaration keep that one: its data comes from the store, its functions from the
plugin.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.check.adjustments import misset
from jobrunner.check.credits import standings
from jobrunner.check.families import absent_children, uncancelable
from jobrunner.check.types import illformed
from jobrunner.core.declaration.missing import absent, lacking
from jobrunner.core.declaration.old_declarations import leniently, rebound, with_former
from jobrunner.core.declaration.states import AWAY
from jobrunner.core.declaration.workflow import Definition, Workflow
from jobrunner.core.features.turns.rates import RateLimit, rate_of
from jobrunner.core.features.upgrades.forecasts import Forecast, forecast
from jobrunner.core.features.upgrades.upgrades import UnderWay
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Message, Migrate
from jobrunner.stages.api import Stage
from jobrunner.stages.away import away_form
from jobrunner.stages.beside.panels import Panel, unfit_panel
from jobrunner.stages.companions import Companion
from jobrunner.stages.distributions import PREFIX, Kind, sorted_entries
from jobrunner.stages.fitting import checked, known_as, misfit, told, unbound, wrong
from jobrunner.stages.hooks import Hook, unfit_hook
from jobrunner.stages.importing import imported
from jobrunner.stages.outcomes import said
from jobrunner.stages.process.code import is_stale, remember, unchanged
from jobrunner.stages.sources import Source, unfit_source

Overlay = Callable[[Workflow], tuple[Workflow, tuple[str, ...]]]
Offered = Stage | Source | Definition | Companion | Hook | Panel
T = TypeVar("T", bound=Struct)
# What an entry point of each kind leads to, in the order of loading: a workflow binds stages.
LED_TO: dict[Kind, type[Offered]] = {
    "stages": Stage,
    "sources": Source,
    "workflows": Definition,
    "companions": Companion,
    "hooks": Hook,
    "panels": Panel,
}


class Registry:
    """``overlay`` puts the operator's settings for a workflow over its declaration; ``taken`` are
    the routes (method, path) that a workflow's own may not shadow; ``resources`` is what there is
    of what stages may ask for (None: anything). ``refused`` holds the reasons by kind and name."""

    def __init__(
        self,
        overlay: Overlay | None = None,
        taken: frozenset[tuple[str, str]] = frozenset(),
        resources: Mapping[str, int] | None = None,
    ) -> None:
        self._overlay: Overlay = overlay or (lambda workflow: (workflow, ()))
        self._taken = taken
        self._resources = resources
        self._current: dict[str, Definition] = {}
        self._pinned: dict[str, Definition] = {}
        self.stages: dict[str, Stage] = {}
        self._stages_of: dict[str, tuple[Stage, ...]] = {}
        self._standings: dict[str, frozenset[tuple[str, str, bool]]] = {}
        self.supplied: dict[str, int] = {}
        self._short: set[str] = set()
        self.paced: dict[str, RateLimit] = {}
        self.companions: dict[str, Companion] = {}
        self.hooks: dict[str, Hook] = {}
        self.panels: dict[str, Panel] = {}
        self.sources: dict[str, Source] = {}
        self.refused: dict[Kind, dict[str, tuple[str, ...]]] = {kind: {} for kind in LED_TO}
        self._brought: dict[Kind, dict[str, str]] = {kind: {} for kind in LED_TO}
        self.outdated: dict[tuple[str, str], tuple[str, ...]] = {}

    def load(self, enabled: Iterable[str] = ("*",)) -> None:
        """Take in everything that installed distributions offer."""
        may = tuple(enabled)
        for kind, led_to in LED_TO.items():
            for entry in sorted_entries(PREFIX + kind, may):
                found = imported(entry, led_to)
                if isinstance(found, str):
                    self._refuse(kind, entry.name, found)
                else:
                    self.add(found, entry.name, entry.dist.name if entry.dist else "")

    def add(self, offered: Offered, called: str = "", by: str = "") -> None:
        """Take in one thing that a plugin brings, or refuse it.

        ``called`` is what its entry point calls it, for one that has no name to be told by; ``by``
        is the distribution that brings it."""
        if isinstance(offered, Definition):
            self._add_workflow(offered, called, by)
        elif isinstance(offered, Stage):
            self._add_stage(offered, called, by)
        elif isinstance(offered, Source):
            about = offered, offered.name, (called, by)
            self._add_one("sources", self.sources, *about, unfit_source)
        elif isinstance(offered, Hook):
            self._add_one("hooks", self.hooks, offered, offered.name, (called, by), unfit_hook)
        elif isinstance(offered, Panel):
            about_panel = offered, offered.workflow, (called, by)
            self._add_one("panels", self.panels, *about_panel, unfit_panel)
        else:
            self._add_one("companions", self.companions, offered, offered.workflow, (called, by))

    def names(self) -> list[str]:
        """Name the workflows that run here."""
        return sorted(self._current)

    def known(self) -> list[str]:
        """Name every workflow that is installed, refused ones included."""
        return sorted({*self._current, *self.refused["workflows"]})

    def current(self, name: str) -> Definition | None:
        """Find the declaration that a new job of this name is born under."""
        return self._current.get(name)

    def of(self, job: Snapshot) -> Definition | None:
        """Find the declaration that this job was born under; None while it is not loaded."""
        return self._pinned.get(job.digest)

    def judging(self, job: Snapshot, message: Message) -> Definition | None:
        """Find the declaration by which this message is decided: the job's own, but for a move to
        the one of today."""
        return self.current(job.workflow) if isinstance(message, Migrate) else self.of(job)

    def standings(self, definition: Definition) -> frozenset[tuple[str, str, bool]]:
        """List every standing in which the money of a job may be in each state, and is settled."""
        if (known := self._standings.get(definition.digest)) is None:
            known = self._standings[definition.digest] = standings(definition)
        return known

    def pinned(self, digest: str) -> Definition | None:
        """Find the declaration of this digest, as it is served today."""
        return self._pinned.get(digest)

    def loaded(self) -> list[Workflow]:
        """List the declarations of today, the operator's settings applied."""
        return [definition.workflow for definition in self._current.values()]

    def absent_children(self, name: str) -> list[str]:
        """Say which declared children of this workflow no job can be made of for now."""
        found = self._current.get(name)
        return [*absent_children(found.workflow, self._current, self.known())] if found else []

    def declared(self) -> list[Definition]:
        """List every declaration that jobs may be under, of today and of before."""
        return list(self._pinned.values())

    def forecast(self, name: str, places: Iterable[UnderWay]) -> Forecast:
        """Say what becomes of the jobs of this workflow that are under way."""
        return forecast(name, places, self._current.get(name), self._pinned, self.brings)

    def lacking(self, job: Snapshot) -> tuple[str, ...]:
        """List the stages that this job needs to go on by itself and that nobody brings today."""
        definition = self._pinned.get(job.digest)
        return lacking(definition, job, self.brings) if definition else ()

    def stage(self, name: str) -> Stage | None:
        """Find a stage by its name, or by one that it had before."""
        return self._known(name) or self.stages.get(self._renamed().get(name, ""))

    def brings(self, stage: str) -> bool:
        """Say whether some plugin brings this stage, and it was not refused."""
        found, plain = self._known(stage), stage.removesuffix(AWAY)
        may = plain not in self.refused["stages"] or (plain != stage and plain in self._short)
        return found is not None and may and not is_stale(found)

    def bound_at(self, workflow: str, status: str, job_type: str) -> str:
        """The stage that a job in line there is about to run."""
        definition = self._current.get(workflow)
        if definition is None or status not in definition.states:
            return ""
        state = definition.states[status]
        if state.kind == "queued":
            status = definition.onward_of(status, job_type) or status
        return state.on_demand or definition.stage_of(status, job_type)

    def is_of_today(self, definition: Definition) -> bool:
        """Say whether new jobs are born under this declaration, so that nothing of it is absent."""
        return self._current.get(definition.workflow.name) is definition

    def rates(self) -> frozenset[str]:
        """Name the rates that some stage takes from."""
        return frozenset(name for stage in self.stages.values() for name in stage.rates)

    def is_current(self, name: str, digest: str) -> bool:
        """Say whether new jobs of this workflow are born under the declaration of this digest."""
        current = self._current.get(name)
        return current is not None and current.digest == digest

    def namesakes(self, name: str) -> tuple[str, ...]:
        """List the digests of other declarations of this workflow that say the same version."""
        version = self._current[name].workflow.version if name in self._current else None
        return tuple(
            digest
            for digest, other in self._pinned.items()
            if (other.workflow.name, other.workflow.version) == (name, version)
            and not self.is_current(name, digest)
        )

    def stages_of(self, definition: Definition) -> tuple[Stage, ...]:
        """List the stages that run here for jobs under this declaration."""
        if (known := self._stages_of.get(definition.digest)) is None:
            bound = {
                definition.stage_of(state, job_type)
                for state in definition.states
                for job_type in definition.job_types
            }
            known = tuple(self.stages[name] for name in sorted(bound & self.stages.keys()))
            self._stages_of[definition.digest] = known
        return unchanged(known)

    def adjust(self, stage: Stage) -> None:
        """Take this in the place of the stage of its name; only numbers of it are different."""
        self.stages[stage.name] = stage
        self._stages_of.clear()

    def requote(self, name: str, **limits: int) -> None:
        """Change the quota of a workflow for submissions to come."""
        now = self._current[name]
        workflow = replace(now.workflow, quota=replace(now.workflow.quota, **limits))
        kept = now.functions, now.structs, now.digest, now.settings, now.was
        changed = Definition(workflow, *kept)
        self._current[name] = self._pinned[now.digest] = changed
        self._stages_of.clear()

    def places(self, stages: frozenset[str]) -> tuple[tuple[str, str, str], ...]:
        """Workflow, status, job type: everywhere that one of these stages is waited for."""
        return tuple(
            (name, status, job_type)
            for name, definition in sorted(self._current.items())
            for status in definition.states
            for job_type in definition.job_types
            if self.bound_at(name, status, job_type) in stages
        )

    def remember(self, declarations: Iterable[tuple[str, str, bytes]]) -> None:
        """Older declarations that stored jobs were born under: (name, digest, data). What one
        names and the plugin of today does not bring is noted in ``outdated``; what needs it
        waits."""
        for name, digest, data in declarations:
            now = self._current.get(name)
            if now is None or digest in self._pinned:
                continue
            if faults := self._pin(now, digest, data):
                self.outdated[name, digest] = faults

    def tried(self, name: str, digest: str, data: bytes) -> tuple[Definition, tuple[str, ...]]:
        """Read a declaration as it would run here, with what is wrong with it; keep nothing."""
        return self._examined(self._older(self._current[name], digest, data))

    def forget(self, digests: Iterable[str]) -> None:
        """Forget declarations that no job is under."""
        for digest in digests:
            self._pinned.pop(digest, None)

    def _add_workflow(self, declared: Definition, called: str, by: str) -> None:
        """Refuse one that would be faulty as it would run here; of two, the first one stays."""
        name = known_as(getattr(declared.workflow, "name", None), called)
        effective, faults = self._examined(declared)
        if name in self._current:
            faults += (f"{name} {self._twice('workflows', name, by)}",)
        if faults:
            self._refuse("workflows", name, *faults)
            return
        self._brought["workflows"][name] = by
        self._current[name] = effective
        self._stages_of.clear()
        self._pinned[effective.digest] = effective
        for parent, unfit in uncancelable(name, self._current).items():
            self._refuse("workflows", parent, *map(told, unfit))
            self._pinned.pop(self._current.pop(parent).digest, None)

    def _add_stage(self, stage: Stage, called: str, by: str) -> None:
        """Refuse one that two plugins bring: nobody knows which one was meant.

        A refused stage stays known: its ``abandon`` may have to end what it once began."""
        if fault := wrong(stage, Stage):
            self._refuse("stages", known_as(stage.name, called), fault)
            return
        if stage.name in self.stages:
            self._refuse("stages", stage.name, self._twice("stages", stage.name, by))
        elif reason := misfit(stage, self._there_with(stage)):
            self._refuse("stages", stage.name, reason)
            self._short |= set() if misfit(stage) else {stage.name}
        else:
            self._pace(stage)
            if stage.runs == "process":
                remember(stage)
        self.stages[stage.name] = stage
        self._brought["stages"].setdefault(stage.name, by)

    def _there_with(self, stage: Stage) -> Mapping[str, int] | None:
        """Count what stages may ask for: as the operator says, else as the stages that bring it."""
        for name, count in stage.supply.items():
            self.supplied[name] = max(count, self.supplied.get(name, 0))
        return None if self._resources is None else {**self.supplied, **self._resources}

    def _known(self, name: str) -> Stage | None:
        """Find a stage, or its form for a cluster: that is there as soon as somebody binds it."""
        found, plain = self.stages.get(name), name.removesuffix(AWAY)
        if found is None and plain != name and plain in self.stages:
            found = self.stages[name] = away_form(self.stages[plain])
        return found

    def by(self, stage: str) -> str:
        """Name the distribution that brings this stage; empty for none."""
        return self._brought["stages"].get(stage.removesuffix(AWAY), "")

    def _pace(self, stage: Stage) -> None:
        """Note what its author says of a rate; of two who say something, the slower is believed."""
        for name, text in stage.pace.items():
            limit, known = rate_of(text), self.paced.get(name)
            if limit and (known is None or limit.gap_s > known.gap_s):
                self.paced[name] = limit

    def _add_one(
        self,
        kind: Kind,
        kept: dict[str, T],
        offered: T,
        name: str,
        said_by: tuple[str, str],
        unfit: Callable[[T], str] = lambda offered: "",
    ) -> None:
        """Take in what is offered under a name or for a workflow; of two, take neither: which was
        meant?"""
        called, by = said_by
        if fault := wrong(offered, type(offered)):
            self._refuse(kind, known_as(name, called), fault)
        elif fault := unfit(offered):
            self._refuse(kind, name, fault)
        elif name in kept or name in self.refused[kind]:
            kept.pop(name, None)
            self._refuse(kind, name, self._twice(kind, name, by))
        else:
            kept[name] = offered
            self._brought[kind][name] = by

    def _twice(self, kind: Kind, name: str, by: str) -> str:
        """Name both plugins, where both are distributions."""
        first = self._brought[kind].get(name, "")
        who = f", by {first} and by {by}" if first and by else ""
        return f"is brought twice{who}; remove one of the plugins"

    def _refuse(self, kind: Kind, name: str, *reasons: str) -> None:
        self.refused[kind][name] = reasons

    def _pin(self, now: Definition, digest: str, data: bytes) -> tuple[str, ...]:
        """Take in an older declaration, which passed the check of its day. What is absent today
        strands what needs it, and that alone; what it has no binding for is worked outside."""
        try:
            self._pinned[digest], _ = self._fit(self._older(now, digest, data))
        except Exception as stumbled:
            return (f"the stored declaration is not understood any more: {said(stumbled)}",)
        return absent(self._pinned[digest], self.brings)

    def _older(self, now: Definition, digest: str, data: bytes) -> Definition:
        workflow = rebound(leniently(data), self._renamed())
        functions, structs = with_former(now.functions, now), with_former(now.structs, now)
        return Definition(workflow, functions, structs, digest, now.settings)

    def _examined(self, declared: Definition) -> tuple[Definition, tuple[str, ...]]:
        """The workflow as it would run here, with everything that is wrong with it. What the rules
        themselves stumble over is a fault of this workflow too, and stops nobody else."""
        try:
            if faults := tuple(fault.text for fault in illformed(declared)):
                return declared, faults
            effective, faults = self._fit(declared)
            faults += tuple(misset(effective, declared))
            faults += checked(effective, self._taken, declared)
            unbound_here = unbound(effective, self.brings, self.refused["stages"])
            return effective, faults + unbound_here
        except Exception as stumbled:
            text = f"{type(stumbled).__name__}: {said(stumbled)}"
            return declared, (f"cannot be examined ({text}); ask its author to mend it",)

    def _renamed(self) -> dict[str, str]:
        """Map what stages were called to what they are called, where nothing is called so now."""
        found = {was: stage.name for stage in self.stages.values() for was in stage.was}
        return {was: name for was, name in found.items() if was not in self.stages}

    def _fit(self, declared: Definition) -> tuple[Definition, tuple[str, ...]]:
        workflow, faults = self._overlay(declared.workflow)
        kept = (declared.functions, declared.structs, declared.digest, declared.settings)
        return Definition(workflow, *kept, declared.was), faults
