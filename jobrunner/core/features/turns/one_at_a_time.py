"""One at a time: of the attempts of a state that have the same key, so many are under way at once.

The key is what a pure function makes of the job when it gets in line. The job keeps it there and
while the attempt is under way, parked included: then it has its turn. Whoever hands out slots looks
at the key alone. What is claimed is in no line: its key is worked out when somebody claims it, and
stands in the job for as long as it is held or parked.
"""

from msgspec.structs import replace

from jobrunner.core.declaration.ask import Ask
from jobrunner.core.declaration.functions import call_function
from jobrunner.core.declaration.turn_keys import KEY_MAX
from jobrunner.core.declaration.workflow import EXTERNAL, Definition, State
from jobrunner.core.facts import Facts
from jobrunner.core.job import ENGINE, Snapshot
from jobrunner.core.messages import Advance
from jobrunner.errors import PluginFault

UNDER_WAY = ("running", "parked")
SEPARATOR = ":"


def with_turn(definition: Definition, before: Snapshot | None, job: Snapshot, now: int) -> Snapshot:
    """The job with the key that it waits or works under, where its state asks for one."""
    if not definition.takes_turns and not job.turn_key:
        return job
    state = _state_of_work(definition, job)
    if state is None or state.one_at_a_time is None:
        return replace(job, turn_key="", has_turn=False) if job.turn_key else job
    attempt = job.attempt
    if attempt is not None and attempt.status in UNDER_WAY:
        key = job.turn_key or _key(definition, state, job, now)
        return replace(job, turn_key=key, has_turn=bool(key))
    if before is not None and _goes_on_waiting(before, job):
        return job
    return replace(job, turn_key=_key(definition, state, job, now), has_turn=False)


def key_ahead(definition: Definition, job: Snapshot, now: int) -> str:
    """The key that this job would have if it were claimed now; empty where no state asks."""
    attempt = job.attempt
    behind = definition.onward_of(job.status, job.job_type) or job.status
    state = definition.states.get(attempt.state if attempt else behind)
    if state is None or state.one_at_a_time is None or job.ended:
        return ""
    return job.turn_key or _key(definition, state, job, now)


def most_of(key: str) -> int:
    """Say how many may be under way with this key."""
    return int(key.partition(SEPARATOR)[0])


def shown_key(key: str) -> str:
    """The part of a key that its function made."""
    return key.split(SEPARATOR, 3)[3]


def _state_of_work(definition: Definition, job: Snapshot) -> State | None:
    """The state whose attempt is under way, or for which the job is in line."""
    attempt = job.attempt
    if attempt is not None:
        in_line = job.line_at is not None and attempt.stage != EXTERNAL
        works = in_line or attempt.status in UNDER_WAY
        return definition.states.get(attempt.state) if works else None
    if job.line_at is None:
        return None
    return definition.states.get(definition.onward_of(job.status, job.job_type))


def _goes_on_waiting(before: Snapshot, job: Snapshot) -> bool:
    """Say whether this is the same wait, or the attempt goes on that already has its turn."""
    if not before.turn_key or before.turn_key != job.turn_key:
        return False
    serials = [one.attempt.serial if one.attempt else 0 for one in (before, job)]
    same = serials[0] == serials[1] and before.status == job.status
    return same and (before.has_turn or before.line_at == job.line_at)


def _key(definition: Definition, state: State, job: Snapshot, now: int) -> str:
    """Ask for the key; an absent function and an empty key hold nobody up."""
    call = state.one_at_a_time
    assert call is not None, f"{state.name} takes any number"
    params = job.params if isinstance(job.params, dict) else {}
    ask = Ask(definition, job, Advance(), ENGINE, params, Facts(), now, target=state.name)
    try:
        key = call_function(definition, call.name, ask, **call.args)
    except PluginFault as fault:
        if fault.missing or job.stuck:
            return ""
        raise
    if not isinstance(key, str) or len(key) > KEY_MAX:
        detail = f"answered no text of at most {KEY_MAX} characters"
        raise PluginFault(definition.workflow.name, call.name, detail)
    parts = (str(state.at_a_time), job.workflow, state.name, key)
    return SEPARATOR.join(parts) if key else ""
