"""Births of which the commit checks all that the store could tell before: each key is free, the
balance reaches."""

from functools import lru_cache

from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.quota import quota_assert
from jobrunner.core.messages import Submit


def is_asserted(definition: Definition, submit: Submit) -> bool:
    """Say whether the commit looks at all that the store could tell of this birth."""
    told = submit.parent or submit.batch or submit.origin or submit.singleton
    if told or submit.draining or submit.overloaded or quota_assert(definition, submit):
        return False
    return _is_unguarded(definition)


@lru_cache(maxsize=256)
def _is_unguarded(definition: Definition) -> bool:
    """Say whether no guard is asked on the way of a birth: it may look at anything."""
    if definition.workflow.birth.guards:
        return False
    ahead, seen = [definition.workflow.initial], set[str]()
    while ahead:
        state = definition.states[ahead.pop()]
        seen.add(state.name)
        edges = definition.table[state.name]
        targets = [target for target in state.onward.values() if target in edges]
        if any(edges[target].guards for target in targets):
            return False
        ahead += (target for target in targets if target not in seen)
    return True
