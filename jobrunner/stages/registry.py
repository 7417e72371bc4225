"""Which workflows and stages there are: found by entry points, fitted, or refused by name.

A workflow that does not load, does not pass the check, or binds a stage that nobody brought is
refused with its reasons; the service runs without it and says so. Jobs that were born under an
older declaration keep that one: its data comes from the store, its functions from the plugin.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from jobrunner.core.check import check
from jobrunner.core.job import Snapshot
from jobrunner.core.workflow import EXTERNAL, Definition, Workflow
from jobrunner.stages.api import Stage

Overlay = Callable[[Workflow], tuple[Workflow, tuple[str, ...]]]
WORKFLOWS = "jobrunner.workflows"
STAGES = "jobrunner.stages"


class Registry:
    """``overlay`` puts the operator's settings for a workflow over its declaration; ``taken`` are
    the routes (method, path) that a workflow's own may not shadow."""

    def __init__(
        self, overlay: Overlay | None = None, taken: frozenset[tuple[str, str]] = frozenset()
    ) -> None:
        self._overlay: Overlay = overlay or (lambda workflow: (workflow, ()))
        self._taken = taken
        self._current: dict[str, Definition] = {}
        self._pinned: dict[str, Definition] = {}
        self.stages: dict[str, Stage] = {}
        self.refused: dict[str, tuple[str, ...]] = {}

    def names(self) -> list[str]:
        return sorted(self._current)

    def current(self, name: str) -> Definition | None:
        """What a new job of this name is born under."""
        return self._current.get(name)

    def of(self, job: Snapshot) -> Definition | None:
        """What this job was born under, or None while its workflow is not loaded."""
        return self._pinned.get(job.digest)

    def stage(self, name: str) -> Stage | None:
        return self.stages.get(name)

    def add_stage(self, stage: Stage) -> None:
        self.stages[stage.name] = stage

    def add(self, declared: Definition) -> None:
        """A workflow as its plugin declares it; refused if it is faulty as it would run here."""
        name = declared.workflow.name
        effective, faults = self._fit(declared)
        faults += _checked(effective, self._taken) + self._unbound(effective)
        if name in self._current:
            faults += (f"{name} is declared twice; remove one of the plugins",)
        if faults:
            self.refused[name] = faults
            return
        self._current[name] = effective
        self._pinned[effective.digest] = effective

    def remember(self, declarations: Iterable[tuple[str, str, bytes]]) -> None:
        """Older declarations that stored jobs were born under: (name, digest, data)."""
        for name, digest, data in declarations:
            now = self._current.get(name)
            if now is not None and digest not in self._pinned:
                workflow = msgspec.json.decode(data, type=Workflow, strict=False)
                older = Definition(workflow, now.functions, now.structs, digest)
                self._pinned[digest] = self._fit(older)[0]

    def load(self, enabled: Iterable[str] = ("*",)) -> None:
        """Everything that installed distributions offer."""
        wanted = set(enabled)
        for entry in _sorted(STAGES):
            if found := self._import(entry, wanted):
                self.add_stage(found)
        for entry in _sorted(WORKFLOWS):
            if found := self._import(entry, wanted):
                self.add(found)

    def _fit(self, declared: Definition) -> tuple[Definition, tuple[str, ...]]:
        workflow, faults = self._overlay(declared.workflow)
        fitted = Definition(workflow, declared.functions, declared.structs, declared.digest)
        return fitted, faults

    def _unbound(self, definition: Definition) -> tuple[str, ...]:
        bound = {
            (state.name, stage)
            for state in definition.workflow.states
            for stage in (*state.stage.values(), state.on_demand)
        }
        return tuple(
            f"{state}: no plugin brings stage {stage!r}; install one that does, or bind "
            f'[workflows.{definition.workflow.name}.stages] {state} = "external"'
            for state, stage in sorted(bound)
            if stage and stage != EXTERNAL and stage not in self.stages
        )

    def _import(self, entry: EntryPoint, wanted: set[str]) -> Any:
        if "*" not in wanted and entry.name not in wanted:
            return None
        try:
            return entry.load()
        except Exception as stranger:
            where = entry.dist.name if entry.dist else entry.value
            self.refused[entry.name] = (f"{where} does not load: {stranger!r}",)
            return None


def _sorted(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value))


def _checked(definition: Definition, taken: frozenset[tuple[str, str]]) -> tuple[str, ...]:
    faults = check(definition, taken)
    return tuple(f"{fault.text} ({'; '.join(fault.trace)})" for fault in faults)
