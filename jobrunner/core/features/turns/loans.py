"""Slots on loan: an attempt begins in the commit that calls for it."""

from functools import lru_cache

from jobrunner.core.attempts import keep_the_slot
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.draft import Draft
from jobrunner.core.engine_events import leave_the_queue
from jobrunner.core.features.turns.halts import stage_ahead
from jobrunner.errors import Refused


def begin_at_once(draft: Draft) -> Refused | None:
    """Begin the attempt of a newborn that stands in line, where a slot is lent to it."""
    lent, job = draft.case.facts.lent, draft.job
    if not lent or job.line_at is None or stage_ahead(draft.definition, job) not in lent:
        return None
    refused = leave_the_queue(draft)
    if refused is None:
        keep_the_slot(draft)
    return refused


@lru_cache(maxsize=256)
def may_begin(definition: Definition) -> bool:
    """Say whether an attempt may begin in the commit that calls for it: no stage is to be waited
    for by its key, and nothing on the way there costs, or tells who takes it and why."""
    edges = definition.workflow.edges
    costs = any(edge.money in ("hold", "charge") and "engine" in edge.by for edge in edges)
    return not (costs or definition.takes_turns or _tells(definition))


def _tells(definition: Definition) -> bool:
    """Say whether a guard is asked on the way out of a queue, or a record is made there: both name
    the engine and its message, and are not to be about whoever has called for the work."""
    queues = [state for state in definition.states.values() if state.kind == "queued"]
    found = (definition.table[one.name].get(to) for one in queues for to in one.onward.values())
    return any(edge.guards or edge.audit for edge in found if edge is not None)
