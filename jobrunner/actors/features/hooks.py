"""Calls the hooks of plugins around the attempts that run here.

What may refuse is waited for, in the attempt's slot and within its seconds. All other hooks run
beside the attempt, or after the commit of its end, and nobody waits for them.
"""

import asyncio
from typing import Any

from jobrunner.actors.shared import World
from jobrunner.actors.tasks import Crew
from jobrunner.core.job import Attempt, Snapshot
from jobrunner.core.messages import Ended
from jobrunner.errors import StageFault
from jobrunner.stages.hooks import Hook, HookCall, Hooking
from jobrunner.stages.outcomes import failed, raised, said

ENDS = {"done": "after", "partial": "after", "failed": "failed", "rejected": "failed"}
LINES_EVERY_S = 60.0
LATE = "it took longer than {seconds:g} s"


class Hooks:
    def __init__(self, world: World, crew: Crew) -> None:
        self._world = world
        self._crew = crew
        self._said_at: dict[str, float] = {}

    async def before(self, job: Snapshot, attempt: Attempt) -> Ended | None:
        """Tell of an attempt that is about to begin; return its end, where a hook refuses it."""
        for hook in self._wanting(attempt):
            if hook.before is None:
                continue
            call = _call(job, attempt)
            if not hook.refuses:
                self._crew.start_soon(self._tell, hook, hook.before, call)
            elif (fault := await _called(hook, hook.before, call)) is not None:
                return self._refused(hook, call, fault)
        return None

    def over(self, job: Snapshot, attempt: Attempt, ended: Ended, seconds: float) -> None:
        """Tell of an attempt that has ended, when that is on the disk."""
        if not self._world.registry.hooks:
            return
        kind = ENDS.get(ended.outcome, "")
        for hook in self._wanting(attempt) if kind else ():
            told: Hooking | None = getattr(hook, kind)
            if told is not None:
                clean, failure = self._world.surroundings.redaction, ended.failure
                words = (failure.code, clean(failure.message)) if failure else ("", "")
                call = _call(job, attempt, ended.outcome, *words, round(seconds, 3))
                self._crew.start_soon(self._tell, hook, told, call)

    def _wanting(self, attempt: Attempt) -> list[Hook]:
        return [one for one in self._world.registry.hooks.values() if one.wants(attempt.stage)]

    async def _tell(self, hook: Hook, told: Hooking, call: HookCall) -> None:
        if (fault := await _called(hook, told, call)) is not None:
            self._note(hook, call, fault)

    def _refused(self, hook: Hook, call: HookCall, fault: BaseException) -> Ended:
        if isinstance(fault, StageFault):
            return raised(fault)
        self._note(hook, call, fault)
        text = f"hook {hook.name}, which may refuse an attempt, could not be asked"
        return failed("HOOK_FAILED", text, retryable=True, detail=said(fault))

    def _note(self, hook: Hook, call: HookCall, fault: BaseException) -> None:
        """Log it once a minute for each hook: it may be called a thousand times in one."""
        now = self._world.clock.monotonic()
        if now - self._said_at.get(hook.name, -LINES_EVERY_S) < LINES_EVERY_S:
            return
        self._said_at[hook.name] = now
        late = LATE.format(seconds=hook.seconds)
        error = late if isinstance(fault, TimeoutError) else type(fault).__name__
        about = {"stage": call.stage, "attempt": call.attempt, "error": error}
        self._world.say("hook.failed", "warning", hook=hook.name, job_id=call.job_id, **about)


async def _called(hook: Hook, told: Hooking, call: HookCall) -> BaseException | None:
    """Return what it raised; a TimeoutError where it is not done in time. It is called off then,
    and nobody waits for whether it listens."""
    task = asyncio.ensure_future(_fenced(told, call))
    try:
        done, _ = await asyncio.wait({task}, timeout=hook.seconds)
        return task.result() if done else TimeoutError()
    finally:
        task.cancel()


async def _fenced(told: Hooking, call: HookCall) -> BaseException | None:
    """Let nothing out of it but being cancelled: what ends a program must not end the service."""
    try:
        await told(call)
    except asyncio.CancelledError as fault:
        return fault
    except BaseException as fault:  # noqa: BLE001 - a stranger's, and told
        return fault
    return None


def _call(job: Snapshot, attempt: Attempt, *end: Any) -> HookCall:
    return HookCall(
        job.id, job.workflow, job.job_type, job.user_id, attempt.state, attempt.stage,
        attempt.run_id, attempt.number, job.params, *end,
    )  # fmt: skip
