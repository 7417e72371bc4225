"""How long things are kept, by the operator's settings and the names in declarations."""

from collections.abc import Iterable

from jobrunner.config.overrides import retained
from jobrunner.config.settings import Config, RetentionSettings
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.core.keeping.retention import RetentionTerms, WorkflowRetention

MINUTE_S, DAY_S = 60.0, 86_400.0


def retention_terms(
    config: Config, loaded: Iterable[Workflow], refused: Iterable[str]
) -> RetentionTerms:
    """Collect what retention removes. It removes nothing of a workflow that has settings of its own
    for this and could not be loaded: a slip in them may be why."""
    known = {workflow.name: workflow for workflow in loaded}
    absent = {*config.workflows, *refused} - known.keys()
    asked = {name for name in absent if config.workflow(name).retention != RetentionSettings()}
    workflows = {name: WorkflowRetention(doubtful=True) for name in asked} | {
        name: retained(workflow, config.workflow(name).retention)
        for name, workflow in known.items()
    }
    return RetentionTerms(
        ended_s=config.retention.ended,
        keys_s=config.retention.keys,
        counted_s=DAY_S if any(one.quota.per_day for one in known.values()) else MINUTE_S,
        files_s=config.retention.files,
        audit_s=config.retention.audit,
        dead_letters_s=config.retention.dead_letters,
        firings_s=config.retention.firings,
        batches_s=config.retention.batches,
        workflows=workflows,
    )
