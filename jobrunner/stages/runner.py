"""Runs one attempt of one stage. The only place where a stranger's exception is caught."""

import traceback

from jobrunner.core.job import Failure
from jobrunner.core.messages import Ended, Report
from jobrunner.errors import StageFault
from jobrunner.stages.api import (
    AwaitCallback,
    Context,
    Done,
    Partial,
    Rejected,
    RetryableFailure,
    Stage,
)

DETAIL_MAX = 20_000


async def run_attempt(stage: Stage, context: Context, serial: int) -> Ended:
    """How the attempt ended, whatever the stage did. Cancellation passes through."""
    try:
        outcome = await stage.run(context)
    except Rejected as fault:
        return Ended(serial, "rejected", failure=_failure(fault, retryable=False))
    except RetryableFailure as fault:
        return Ended(serial, "failed", failure=_failure(fault, True, fault.retry_after_s))
    except StageFault as fault:
        return Ended(serial, "failed", failure=_failure(fault, retryable=False))
    except Exception as stranger:
        return Ended(serial, "failed", failure=_crash(stranger))
    return _ended(serial, outcome)


def _ended(serial: int, outcome: object) -> Ended:
    match outcome:
        case Done(result, artifacts, assets):
            report = Report(result=result, artifacts=artifacts, assets=assets)
            return Ended(serial, "done", report)
        case Partial(message, result, artifacts, assets):
            report = Report(result=result, artifacts=artifacts, assets=assets)
            failure = Failure("PARTIAL", message, retryable=False)
            return Ended(serial, "partial", report, failure)
        case AwaitCallback(key, timeout_s):
            return Ended(serial, "parked", awaits=key, await_s=timeout_s)
    text = f"the stage returned {type(outcome).__name__}, which is no outcome"
    return Ended(serial, "failed", failure=Failure("STAGE_CRASHED", text, retryable=False))


def _failure(fault: StageFault, retryable: bool, retry_after_s: float = 0) -> Failure:
    return Failure(fault.code, fault.detail, retryable=retryable, retry_after_s=retry_after_s)


def _crash(stranger: Exception) -> Failure:
    """An unknown exception is permanent; its traceback stays with the attempt."""
    detail = "".join(traceback.format_exception(stranger))[-DETAIL_MAX:]
    return Failure("STAGE_CRASHED", _text(stranger), retryable=False, detail=detail)


def _text(stranger: Exception) -> str:
    try:
        return f"{type(stranger).__name__}: {stranger}"[:2000]
    except Exception:
        return type(stranger).__name__
