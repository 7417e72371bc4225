"""A stage that awaits, as a task of its own in the service's loop. It is trusted code: one that
never awaits holds up everybody, until the watchdog ends the process.
"""

import asyncio
from typing import Any

import anyio

from jobrunner.core.messages import Ended
from jobrunner.stages.api import Stage
from jobrunner.stages.context import Context
from jobrunner.stages.given import Given, Host
from jobrunner.stages.outcomes import crashed, raised, returned, said

ASKS = 3
BETWEEN_S = 1.0
CALLED_OFF = "the attempt is called off"
SELF = "the stage cancelled itself"


async def run_in_loop(stage: Stage, given: Given, params: Any, host: Host) -> Ended:
    loop = asyncio.get_running_loop()
    end: asyncio.Future[Ended] = loop.create_future()
    task = loop.create_task(_performed(stage, Context(given, host, params), end))
    try:
        return await end
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await _stopped(task)
        raise


async def _performed(stage: Stage, context: Context[Any], end: "asyncio.Future[Ended]") -> None:
    """Turn whatever a stage raises into an outcome: what ends a program (SystemExit) must not end
    the service. Nobody waits any more for that of an attempt that was called off."""
    ended: Ended | None = None
    try:
        ended = returned(await stage.run(context), context.saved)
    except asyncio.CancelledError:
        return
    except BaseException as fault:
        ended = raised(fault)
    finally:
        if not end.done():
            end.set_result(crashed(SELF) if ended is None else ended)


async def run_abandon(stage: Stage, given: Given, params: Any, host: Host) -> str:
    """Tell a stage that its job is over, and return what went wrong; it costs nobody anything."""
    assert stage.abandon is not None
    try:
        await stage.abandon(Context(given, host, params))
    except asyncio.CancelledError:
        raise
    except BaseException as fault:
        return f"{type(fault).__name__}: {said(fault)}"
    return ""


async def _stopped(task: asyncio.Task[None]) -> None:
    """Asked a few times; then its slot is kept for as long as it goes on. Asking for ever would
    take the loop from everybody else."""
    for _ in range(ASKS):
        task.cancel(CALLED_OFF)
        await asyncio.wait({task}, timeout=BETWEEN_S)
        if task.done():
            return
    await asyncio.wait({task})
