"""The store's file, while the service is down."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from jobrunner.cli.options import Asking
from jobrunner.errors import Misconfigured, Refused, Unreachable

if TYPE_CHECKING:
    from jobrunner.store import Store


@asynccontextmanager
async def file_or_none(asking: Asking) -> AsyncIterator["Store | None"]:
    """The opened store; None while the service holds its lock and answers for itself."""
    from jobrunner.app import open_offline

    async with AsyncExitStack() as stack:
        if asking.url is not None:
            yield None
            return
        try:
            store = await stack.enter_async_context(open_offline(asking.load()))
        except Misconfigured:
            if not await _answers(asking):
                raise
            store = None
        yield store


async def _answers(asking: Asking) -> bool:
    from jobrunner.cli.service import service

    async with service(asking) as running:
        try:
            await running.get("/healthz")
        except Unreachable:
            return False
        except Refused:
            return True
        return True
