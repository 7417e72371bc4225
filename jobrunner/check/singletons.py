"""Checks of a declared singleton: whether a job can give way, and whether it waits for so long."""

from collections.abc import Iterator

from jobrunner.check.families import uncanceled
from jobrunner.check.faults import Fault
from jobrunner.core.declaration.one_of_a_kind import SingletonBy
from jobrunner.core.declaration.workflow import Workflow

QUIET_MAX_S = 30 * 86400


def crowded(workflow: Workflow) -> Iterator[Fault]:
    rule = workflow.singleton
    if rule is None:
        return
    for problem, outcome in _problems(workflow, rule):
        text = f"singleton {problem}"
        yield Fault("singleton", text, ("two jobs of one key are submitted", f"here: {outcome}"))


def _problems(workflow: Workflow, rule: SingletonBy) -> Iterator[tuple[str, str]]:
    if not 0 <= rule.quiet_s <= QUIET_MAX_S:
        cure = f"it must be from 0 to {QUIET_MAX_S}"
        yield f"has quiet_s={rule.quiet_s}; {cure}", "the second one never begins"
    if rule.mode != "first" and (problem := uncanceled(workflow)):
        cure = f'{problem}, or declare mode="first"'
        yield f"has the older job give way (mode={rule.mode!r}), and {cure}", "both stay"
