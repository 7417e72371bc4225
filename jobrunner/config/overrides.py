"""An operator's settings laid over a declaration: ``[workflows.NAME]`` of the config file.

Pure: a Workflow goes in, another comes out, or the faults. The result is checked like any other
declaration; what jobs pin is the one that the plugin ships, so that a setting that is changed
holds for the jobs that are under way too.

Names are looked up as they are written, then without regard to case and dashes, since a variable
of the environment cannot spell them otherwise. From the general to the particular: ``*`` binds all
active states, ``STATE`` all its job types, ``STATE.job_type`` one.

A stage may say itself that it runs on a cluster. Whoever binds its place to ``here`` or to ``dask``
has the last word.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec.structs import replace

from jobrunner.config.environment import fold
from jobrunner.config.settings import (
    Config,
    NotifySettings,
    QuotaSettings,
    RetentionSettings,
    RetrySettings,
    WorkflowSettings,
    nearest,
)
from jobrunner.core.declaration.states import AWAY, DASK, EXTERNAL, REMOTE
from jobrunner.core.declaration.workflow import (
    ANY,
    Deadline,
    JobType,
    Lock,
    Notify,
    Quota,
    Retry,
    State,
    Workflow,
)
from jobrunner.core.keeping.retention import WorkflowRetention

V = TypeVar("V")
HERE = "here"
STAYS = f"@{HERE}"  # marks a stage, while names are put together, that is bound to run here
ENDED = ("settled", "final")
NOTIFY_URL = r"https?://[^\s/?#@]+(?:/[^\s#@]*)?(?:\?[^\s#]*)?"


def laid_over(
    workflow: Workflow,
    settings: WorkflowSettings,
    goes_away: Callable[[str], bool] = lambda stage: False,
) -> tuple[Workflow, tuple[str, ...]]:
    """Lay settings over a declaration as far as they fit, and name what does not: an older
    declaration need not know every name. ``goes_away`` tells of a stage, by its name, that it runs
    on a cluster where no setting says otherwise."""
    names = Names(workflow)
    changed = replace(
        workflow,
        states=_states(names, settings, goes_away),
        job_types=_priced(names, settings.prices),
        quota=_quota(workflow.quota, settings.quota),
        lease_s=workflow.lease_s if settings.lease is None else settings.lease,
        locks=_lapsing(workflow.locks, settings.lease),
        settings=_merged(workflow.settings, settings.settings),
        notify=_notify(names, settings.notify),
    )
    _ages(names, settings.retention.ages)
    return changed, tuple(names.faults)


def retained(workflow: Workflow, settings: RetentionSettings) -> WorkflowRetention:
    """How long its ended jobs are kept, by the names that the declaration has for its states."""
    ages = _ages(Names(workflow), settings.ages)
    return WorkflowRetention(settings.ages | ages, settings.keep)


def unknown_workflows(config: Config, names: Iterable[str]) -> tuple[str, ...]:
    """Sections for workflows that nobody declares."""
    known = sorted(names)
    folded = {fold(name) for name in known}
    return tuple(
        f"workflows.{name}: no such workflow; {nearest(name, known)}"
        for name in config.workflows
        if fold(name) not in folded
    )


def unknown_plugins(config: Config, names: Iterable[str]) -> tuple[str, ...]:
    """Names that are to be enabled and that no distribution brings."""
    known = sorted(names)
    return tuple(
        f"plugins.enabled = {name!r}: no plugin brings this name; {nearest(name, known)}"
        for name in config.plugins.enabled
        if name != ANY and name not in known
    )


def idle_rates(config: Config, taken: Iterable[str]) -> tuple[str, ...]:
    """Rates that no stage takes from."""
    known = sorted(taken)
    return tuple(
        f"rates.{name}: no stage takes from it; {nearest(name, known)}"
        for name in config.rates
        if name not in known
    )


@dataclass
class Names:
    """The names in the declaration, and the faults found on the way."""

    workflow: Workflow
    faults: list[str] = field(default_factory=list)

    def state(self, section: str, name: str) -> State | None:
        states = {state.name: state for state in self.workflow.states}
        return self._find(section, name, "state", states)

    def job_type(self, section: str, name: str) -> JobType | None:
        job_types = {job_type.name: job_type for job_type in self.workflow.job_types}
        return self._find(section, name, "job type", job_types)

    def fault(self, section: str, name: str, text: str) -> None:
        self.faults.append(f"workflows.{self.workflow.name}.{section}.{name}: {text}")

    def _find(self, section: str, name: str, noun: str, known: Mapping[str, V]) -> V | None:
        folded = {fold(candidate): value for candidate, value in known.items()}
        found = known.get(name) or folded.get(fold(name))
        if found is None:
            self.fault(section, name, f"no such {noun}; {nearest(name, list(known))}")
        return found


def _states(
    names: Names, settings: WorkflowSettings, goes_away: Callable[[str], bool]
) -> tuple[State, ...]:
    states = {state.name: state for state in names.workflow.states}
    _bind(names, settings.stages, states)
    states = {name: _settled(state, goes_away) for name, state in states.items()}
    for name, after_s in settings.deadline.items():
        _adjust(names, states, "deadline", name, after_s, _deadline)
    for name, limit_s in settings.limit.items():
        _adjust(names, states, "limit", name, limit_s, _limit)
    for name, retry in settings.retry.items():
        _adjust(names, states, "retry", name, retry, _retry)
    return tuple(states.values())


def _adjust(
    names: Names, states: dict[str, State], section: str, name: str, value: Any, change: Any
) -> None:
    found = names.state(section, name)
    if found is None:
        return
    changed = change(states[found.name], value)
    if isinstance(changed, str):
        names.fault(section, name, changed)
    else:
        states[found.name] = changed


# ---------------------------------------------------------------- stages


def _bind(names: Names, stages: Mapping[str, str], states: dict[str, State]) -> None:
    for key in sorted(stages, key=lambda key: (key != ANY, key.count("."), key)):
        if key == ANY:
            active = [state for state in states.values() if state.kind == "active"]
            asked = [state for state in states.values() if state.on_demand]
            stage, remote = _where(stages[key])
            far = (ANY,) if remote else ()
            states |= {s.name: replace(s, stage=_bound(s, ANY, stage), remote=far) for s in active}
            bound = {s.name: _own(s.on_demand, stage) for s in asked}
            states |= {s.name: replace(s, on_demand=bound[s.name], remote=far) for s in asked}
        else:
            _bind_one(names, key, stages[key], states)


def _bind_one(names: Names, key: str, stage: str, states: dict[str, State]) -> None:
    name, _, wanted = key.partition(".")
    found = names.state("stages", name)
    job_type = names.job_type("stages", wanted) if found and wanted else None
    if found is None or (wanted and job_type is None):
        return
    state = states[found.name]
    stage, remote = _where(stage)
    far = _far(names, state, job_type.name if job_type else ANY, remote)
    if state.kind == "active":
        bound = _bound(found, job_type.name if job_type else ANY, stage, state.stage)
        if stage in (DASK, HERE) and all(one == EXTERNAL for one in bound.values()):
            place = "a cluster could run" if stage == DASK else "could run here"
            names.fault("stages", key, f"has no stage of its own that {place}")
        states[state.name] = replace(state, stage=bound, remote=far)
    elif state.on_demand and not wanted:
        states[state.name] = replace(state, on_demand=_own(found.on_demand, stage), remote=far)
    elif state.on_demand:
        names.fault("stages", key, "runs on demand, for all job types alike")
    else:
        names.fault("stages", key, f"is a {state.kind} state: no stage runs there")


def _bound(
    declared: State, job_type: str, stage: str, before: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Bind this job type of a state, as it is bound by now, or all of them."""
    if job_type != ANY:
        own = declared.stage.get(job_type, declared.stage.get(ANY, EXTERNAL))
        return {**(before or {}), job_type: _own(own, stage)}
    if stage not in (DASK, HERE):
        return {ANY: stage}
    return {one: _own(bound, stage) for one, bound in declared.stage.items()}


def _own(declared: str, stage: str) -> str:
    """Name the declared stage where it is bound to run, or the one that takes its place."""
    if stage == DASK:
        return _away(declared)
    if stage == HERE:
        return declared if declared == EXTERNAL else f"{declared}{STAYS}"
    return stage


def _away(stage: str) -> str:
    """Name the form of a stage that runs on a cluster; who works outside has none."""
    return stage if stage == EXTERNAL or stage.endswith(AWAY) else f"{stage}{AWAY}"


def _settled(state: State, goes_away: Callable[[str], bool]) -> State:
    """Follow what a stage says of itself, where no setting said where it runs."""

    def placed(stage: str) -> str:
        if stage.endswith(STAYS):
            return stage.removesuffix(STAYS)
        return _away(stage) if stage and goes_away(stage) else stage

    bound = {job_type: placed(stage) for job_type, stage in state.stage.items()}
    return replace(state, stage=bound, on_demand=placed(state.on_demand))


def _where(stage: str) -> tuple[str, bool]:
    """Tell a stage that workers elsewhere run; to the engine that is outside."""
    return (EXTERNAL, True) if stage == REMOTE else (stage, False)


def _far(names: Names, state: State, job_type: str, remote: bool) -> tuple[str, ...]:
    """The job types of a state that are run elsewhere, this one bound as it is."""
    if job_type == ANY:
        return (ANY,) if remote else ()
    every = {one.name for one in names.workflow.job_types}
    before = every if ANY in state.remote else set(state.remote)
    return tuple(sorted(before | {job_type} if remote else before - {job_type}))


# ---------------------------------------------------------------- times and tries


def _deadline(state: State, after_s: float) -> State | str:
    """Set a deadline. One without a path is the attempt's own limit, so both move together."""
    if state.deadline and state.deadline.path:
        return replace(state, deadline=replace(state.deadline, after_s=after_s))
    if state.kind != "active":
        return "declares no deadline: there is nowhere for it to lead"
    return replace(state, limit_s=after_s, deadline=Deadline(after_s=after_s) if after_s else None)


def _limit(state: State, limit_s: float) -> State | str:
    if state.kind == "active" or state.on_demand:
        return replace(state, limit_s=limit_s)
    return f"is a {state.kind} state: no attempt runs there"


def _retry(state: State, settings: RetrySettings) -> State | str:
    if state.retry is None:
        return "declares no retries to adjust"
    return replace(state, retry=_tried(state.retry, settings))


def _tried(retry: Retry, settings: RetrySettings) -> Retry:
    given = {
        "max": settings.max,
        "base_s": settings.base,
        "factor": settings.factor,
        "cap_s": settings.cap,
        "jitter": settings.jitter,
    }
    return replace(retry, **_without_none(given))


# ---------------------------------------------------------------- money, quota, settings


def _priced(names: Names, prices: Mapping[str, int]) -> tuple[JobType, ...]:
    found = {name: names.job_type("prices", name) for name in prices}
    by_name = {declared.name: prices[name] for name, declared in found.items() if declared}
    return tuple(
        replace(job_type, price=by_name.get(job_type.name, job_type.price))
        for job_type in names.workflow.job_types
    )


def _lapsing(locks: tuple[Lock, ...], lease_s: float | None) -> tuple[Lock, ...]:
    """A run that nobody takes on closes after the lease, where runs may rest at all."""
    if lease_s is None:
        return locks
    return tuple(replace(lock, lapse_s=lease_s) if lock.lapse_s else lock for lock in locks)


def _quota(quota: Quota, settings: QuotaSettings) -> Quota:
    given = {name: getattr(settings, name) for name in settings.__struct_fields__}
    return replace(quota, **_without_none(given))


def _notify(names: Names, settings: NotifySettings) -> Notify:
    """Set who is told. Nothing of it is declared: where to is for the operator alone to say."""
    url = settings.url or ""
    if url and not re.fullmatch(NOTIFY_URL, url):
        text = "must be a URL with http or https, without a user, a password or a fragment"
        names.fault("notify", "url", text)
    if settings.secret_env and not url:
        names.fault("notify", "secret_env", "has no url to go with")
    return Notify(url, settings.on) if settings.on else Notify(url)


def _ages(names: Names, ages: Mapping[str, float]) -> dict[str, float]:
    """Set how long jobs are kept, by the statuses in which they end."""
    found = {}
    for name, age_s in ages.items():
        state = names.state("retention", name)
        if state is not None and state.kind in ENDED:
            found[state.name] = age_s
        elif state is not None:
            ends = ", ".join(one.name for one in names.workflow.states if one.kind in ENDED)
            text = f"is a {state.kind} state: a job does not end there, but in {ends}"
            names.fault("retention", name, text)
    return found


def _without_none(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _merged(declared: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Table by table; a key that only differs by case or dashes is the declared one."""
    merged = dict(declared)
    for key, value in given.items():
        name = next((known for known in declared if fold(known) == fold(key)), key)
        name = key if key in declared else name
        both = isinstance(value, dict) and isinstance(declared.get(name), dict)
        merged[name] = _merged(declared[name], value) if both else value
    return merged
