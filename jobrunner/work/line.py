"""The line to the service for one claim: what must arrive is said until there is an answer."""

from collections.abc import Callable
from typing import Any, TypeVar

import anyio

from jobrunner.client import (
    AsyncClient,
    CallerError,
    JobRecord,
    OperatorError,
    RetryLimits,
    TryLater,
)
from jobrunner.client.talk import Talk
from jobrunner.errors import Unreachable

T = TypeVar("T")
SHORT = RetryLimits(tries=3, total_s=5)
REST_S, REST_S_MAX = 0.5, 5.0
FAULTS_MAX = 20
OVER = frozenset({"STALE_RUN", "NOT_FOUND", "JOB_GONE", "TERMINAL_STATE", "JOB_ALREADY_RUNNING"})


class ClaimLost(Exception):
    """The service has said that this claim is over."""


async def insistent(client: AsyncClient, talk: Callable[[], Talk[T]]) -> T:
    """Hold this conversation, again and again while nobody answers. A service that has a fault of
    its own is asked some more times.

    Raises: ClaimLost; CallerError, for what will be refused next time too."""
    rest_s, failures = REST_S, 0
    while True:
        try:
            return await client.hold(talk(), SHORT)
        except CallerError as refused:
            if refused.code in OVER:
                raise ClaimLost(refused.detail) from refused
            if refused.code != "UPLOAD_IN_PROGRESS":
                raise
        except TryLater as busy:
            rest_s = max(rest_s, busy.retry_after_s)
        except OperatorError as fault:
            failures += 1
            if failures >= FAULTS_MAX:
                raise ClaimLost(fault.detail) from fault
        except Unreachable:
            pass
        await anyio.sleep(rest_s)
        rest_s = min(rest_s * 2, REST_S_MAX)


def is_held(job: JobRecord, claimed: Any) -> bool:
    """Say whether the job still stands where it was claimed."""
    same = job.run_id == claimed.run_id and job.attempt == claimed.attempt
    return same and job.status == claimed.job.status and not job.ended
