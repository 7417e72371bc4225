"""Hooks: code of a plugin that is called around all stages, for a record of its own or a rule for
everybody.

They are fenced like stages. One that raises or takes too long costs no job anything, unless it
declares that it may refuse: then an attempt that it could not look at does not begin.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from jobrunner.core.declaration.spelling import NAME
from jobrunner.stages.api import is_async

SECONDS_MAX = 60


class HookCall(Struct, frozen=True):
    """The attempt that a hook is told of. The rest is there when it is over: ``outcome`` is
    ``done``, ``partial``, ``rejected`` or ``failed``, ``seconds`` how long it took."""

    job_id: str
    workflow: str
    job_type: str
    user_id: str
    state: str
    stage: str
    run_id: str
    attempt: int
    params: Any = None
    outcome: str = ""
    failure_code: str = ""
    failure_message: str = ""
    seconds: float = 0


Hooking = Callable[[HookCall], Awaitable[None]]


class Hook(Struct, frozen=True):
    """An entry point of the group ``jobrunner.hooks`` leads to one of these.

    before     told of each execution of a stage here, also of one that goes on after an answer
    after      told when one is done, or partly
    failed     told when one has failed or was rejected
    refuses    ``before`` is waited for, and what it raises ends the attempt, as if its stage had
    seconds    how long each of them may take
    stages     only of these stages (none named: all)
    """

    name: str
    before: Hooking | None = None
    after: Hooking | None = None
    failed: Hooking | None = None
    refuses: bool = False
    seconds: float = 5
    stages: tuple[str, ...] = ()

    def wants(self, stage: str) -> bool:
        return not self.stages or stage in self.stages


def unfit_hook(hook: Hook) -> str:
    """Say why this hook cannot be called; empty when it can."""
    if not NAME.fullmatch(hook.name):
        return f"is no name for a hook; {NAME.pattern} is"
    told = {"before": hook.before, "after": hook.after, "failed": hook.failed}
    plain = [name for name, one in told.items() if one is not None and not is_async(one)]
    if plain:
        return f"{plain[0]} is a plain function, and must be an async def"
    if not any(told.values()):
        return "has nothing to call; give it before=, after= or failed="
    if hook.refuses and hook.before is None:
        return "refuses without a before=; what would it refuse?"
    if not 0 < hook.seconds <= SECONDS_MAX:
        return f"takes {hook.seconds} seconds; from above 0 to {SECONDS_MAX} are allowed"
    return ""
