"""The stages that can be run here, of one workflow: where they stand, and what is missing."""

from collections.abc import Mapping

from msgspec.structs import replace

from jobrunner.config.settings import Config
from jobrunner.core.declaration.states import AWAY, DASK, EXTERNAL, REMOTE
from jobrunner.core.declaration.workflow import Definition
from jobrunner.errors import Misconfigured
from jobrunner.stages import Registry, Stage
from jobrunner.stages.process.code import is_stale

Run = dict[str, str]


def for_elsewhere(config: Config) -> Config:
    """Leave out the bindings by which the service gives its stages away: they are run here."""
    workflows = {
        name: replace(one, stages=_run_here(one.stages)) for name, one in config.workflows.items()
    }
    return replace(config, workflows=workflows)


def _run_here(stages: Mapping[str, str]) -> dict[str, str]:
    given_away = (EXTERNAL, REMOTE, DASK)
    return {
        place: stage.removesuffix(AWAY)
        for place, stage in stages.items()
        if stage not in given_away
    }


class Abilities:
    """``missing`` are stages that the workflow binds and that no plugin brings here."""

    def __init__(self, registry: Registry, workflow: str, only: tuple[str, ...] = ()) -> None:
        """Raises: Misconfigured, where there is nothing to run."""
        self.registry = registry
        self.definition = _loaded(registry, workflow)
        bound = _bound(self.definition)
        brought = registry.stages.keys() - registry.refused["stages"].keys()
        self.missing = tuple(sorted({one["stage"] for one in bound} - brought))
        self.runs = [one for one in bound if one["stage"] in brought and _wanted(one, only)]
        if unknown := sorted(set(only) - {one["stage"] for one in self.runs}):
            known = ", ".join(sorted({one["stage"] for one in bound} & brought)) or "none"
            raise Misconfigured(f"{workflow} runs no stage {unknown[0]!r} here; it runs: {known}")
        if not self.runs:
            raise Misconfigured(f"no plugin brings a stage of {workflow}; see `plugin list`")

    def stage(self, name: str) -> Stage:
        found = self.registry.stage(name)
        assert found is not None, "only stages that are here are asked for"
        return found

    def with_room(self, running: Mapping[str, int], resources: Mapping[str, int]) -> list[Run]:
        """Choose those that may begin one more now: by their own number, and by what there is of
        what they take. One whose code has changed on the disk begins no more before a restart."""
        taken: dict[str, int] = {}
        for name, times in running.items():
            for resource, count in self.stage(name).resources.items():
                taken[resource] = taken.get(resource, 0) + times * count

        def fits(name: str) -> bool:
            stage = self.stage(name)
            if is_stale(stage):
                return False
            if stage.concurrency and running.get(name, 0) >= stage.concurrency:
                return False
            needs = stage.resources.items()
            return all(taken.get(one, 0) + n <= resources.get(one, 0) for one, n in needs)

        return [one for one in self.runs if fits(one["stage"])]

    @property
    def bounded(self) -> bool:
        """Some stage may not run as often as there are slots, so work is taken one by one."""
        stages = [self.stage(one["stage"]) for one in self.runs]
        return any(stage.concurrency or stage.resources for stage in stages)


def _loaded(registry: Registry, workflow: str) -> Definition:
    found = registry.current(workflow)
    if found is not None:
        return found
    if reasons := registry.refused["workflows"].get(workflow):
        raise Misconfigured(f"workflow {workflow} was refused here: {'; '.join(reasons)}")
    known = ", ".join(registry.names()) or "none"
    raise Misconfigured(f"no plugin here brings workflow {workflow!r}; there are: {known}")


def _bound(definition: Definition) -> list[Run]:
    """List every place of the declaration at which a stage of a plugin stands."""
    places = [
        (state.name, job_type, state.on_demand or definition.stage_of(state.name, job_type))
        for state in definition.workflow.states
        for job_type in definition.job_types
    ]
    return [
        {"state": state, "job_type": job_type, "stage": stage}
        for state, job_type, stage in places
        if stage and stage != EXTERNAL
    ]


def _wanted(run: Run, only: tuple[str, ...]) -> bool:
    return not only or run["stage"] in only
