"""The store's file, used while the service is down, under the name ``operator``."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from jobrunner.cli.frame.options import Asking
from jobrunner.cli.frame.service import service
from jobrunner.core.decision import Clash, Unit
from jobrunner.errors import Misconfigured, Refused, Unreachable

if TYPE_CHECKING:
    from jobrunner.store.store import Store

OPERATOR = "operator"
CODE_OF_CLASH = {"missing": "NOT_FOUND", "exists": "ALREADY_EXISTS"}


@asynccontextmanager
async def file_or_none(asking: Asking) -> AsyncIterator["Store | None"]:
    """The opened store; None while the service holds its lock, or when an address was given: then
    it answers for itself.

    Raises: Misconfigured, where the file is held and nobody answers.
    """
    from jobrunner.app import open_offline

    async with AsyncExitStack() as stack:
        store = None
        if asking.url is None:
            try:
                store = await stack.enter_async_context(open_offline(asking.load()))
            except Misconfigured:
                if not await answers(asking):
                    raise
        yield store


async def commit(store: "Store", unit: Unit, cure: str = "") -> None:
    """Raises: Refused, when what the unit needs is not there or is there already; ``cure`` says
    what that would be."""
    outcome = await store.commit(unit)
    if isinstance(outcome, Clash):
        code = CODE_OF_CLASH.get(outcome.reason, "VALIDATION_ERROR")
        raise Refused(code, cure or outcome.detail or outcome.reason)


async def answers(asking: Asking) -> bool:
    async with service(asking) as running:
        try:
            await running.get("/healthz")
        except Unreachable:
            return False
        except Refused:
            return True
        return True
