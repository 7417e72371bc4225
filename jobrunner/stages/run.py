"""Runs one attempt of one stage, wherever the stage wants to run."""

from msgspec import Struct

from jobrunner.core.declaration.params import Stale, decoded
from jobrunner.core.messages import Ended
from jobrunner.ports import Children
from jobrunner.stages.api import Stage
from jobrunner.stages.given import Given, Host
from jobrunner.stages.in_loop import run_in_loop
from jobrunner.stages.in_thread import run_in_thread
from jobrunner.stages.outcomes import failed
from jobrunner.stages.process.host import run_in_process


async def run_attempt(
    stage: Stage, given: Given, kind: type[Struct] | None, host: Host, children: Children
) -> Ended:
    """How the attempt ended, whatever the stage did. Cancellation passes through, when nothing of
    the stage is left; a stage in a thread or in the loop can be deaf to it for as long as it likes.
    """
    try:
        params = decoded(given.params, kind) if kind else given.params
    except Stale as stale:
        return failed("PARAMS_STALE", str(stale))
    if stage.runs == "process":
        return await run_in_process(stage, given, kind, host, children)
    if stage.runs == "thread":
        return await run_in_thread(stage, given, params, host, children)
    return await run_in_loop(stage, given, params, host)
