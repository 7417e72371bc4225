"""Streams of events, as they are printed."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from jobrunner.cli.frame.service import RunningService
from jobrunner.client import RetryLimits

PATIENCE = RetryLimits(tries=8)


class Happened(NamedTuple):
    """One event: its name, and what it says."""

    name: str
    data: dict[str, Any]


async def happenings(
    running: RunningService,
    job_id: str | None,
    workflow: str | None,
    status: Sequence[str],
    user: str | None,
) -> AsyncGenerator[Happened, None]:
    """Follow one job until it has come to its end, or all of them.

    Raises: Unreachable, when nobody answers any more.
    """
    client = running.client
    if job_id is not None:
        stream = client.events(job_id, limits=PATIENCE)
    else:
        stream = client.all_events(workflow=workflow, status=status, user_id=user, limits=PATIENCE)
    async with aclosing(stream) as told:
        async for event in told:
            yield Happened(event.kind, event.said)
