"""The bindings of stages at the last start and in the settings, compared for a person."""

from typing import TYPE_CHECKING

from jobrunner.config.settings import Config
from jobrunner.core.features.bindings import Binding, differences
from jobrunner.store.features.bindings import stored_bindings

if TYPE_CHECKING:
    from jobrunner.stages import Registry

    Lines = dict[str, list[str]]


def rebound(config: Config, registry: "Registry") -> "Lines":
    """By workflow, a line for each place that the next start will bind otherwise, or that the last
    one did, with how many jobs it is about."""
    stored = stored_bindings(config.store.path)
    registry.remember(stored.declarations)
    known = {binding.spot: binding for binding in stored.bindings}
    ahead = [one for one in differences(registry.declared(), stored.bindings, 0) if one.was]
    lines: Lines = {}
    for one in ahead:
        _add(lines, registry, one, _ahead(one, stored.jobs.get(one.spot, 0)))
    for one in known.values() if not ahead else ():
        if one.was:
            _add(lines, registry, one, _done(one))
    return lines


def _add(lines: "Lines", registry: "Registry", binding: Binding, line: str) -> None:
    definition = registry.pinned(binding.digest)
    if definition is not None:
        lines.setdefault(definition.workflow.name, []).append(line)


def _ahead(one: Binding, jobs: int) -> str:
    now = f"{one.was} at the last start, {one.stage} from the next one on"
    return f"{one.status} of {one.job_type}: {now} ({_jobs(jobs)} there)"


def _done(one: Binding) -> str:
    now = f"{one.stage}, {one.was} before"
    return f"{one.status} of {one.job_type}: {now} ({_jobs(one.jobs)} brought along)"


def _jobs(count: int) -> str:
    return f"{count} job{'' if count == 1 else 's'}"
