"""``credit``: who has how much, and why."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from msgspec.structs import asdict

from jobrunner.cli import printing
from jobrunner.cli.file import OPERATOR, clock, commit, file_or_none
from jobrunner.cli.options import Asking, Listing, positive
from jobrunner.core.decision import Grant
from jobrunner.errors import Refused

if TYPE_CHECKING:
    from jobrunner.store import Store

app = App(name="credit", help="Who has how many credits, and why.")

COLUMNS = ("created_at", "kind", "amount", "balance_after", "held_after", "job_id", "reason")


@app.command
async def balance(user: str, /, *, asking: Asking = Asking()) -> None:
    """Print what USER can spend and what is held for jobs under way."""
    async with file_or_none(asking) as store:
        if store is not None:
            found = asdict(await store.reader.credits(user))
        else:
            from jobrunner.cli.service import service

            async with service(asking) as running:
                found = await running.get("/credits", {"user_id": user})
    printing.record(found)


@app.command
async def grant(
    user: str,
    amount: Annotated[int, Parameter(validator=positive)],
    /,
    *,
    reason: str = "granted by the operator",
    asking: Asking = Asking(),
) -> None:
    """Give AMOUNT credits to USER."""
    async with file_or_none(asking) as store:
        if store is not None:
            await _known(store, user)
            await commit(store, Grant(user, amount, reason, OPERATOR, clock.now()))
        else:
            from jobrunner.cli.service import part, service

            body = {"amount": amount, "reason": reason}
            async with service(asking) as running:
                await running.post(f"/admin/credits/{part(user)}/grant", body)


@app.command
async def history(
    user: str,
    /,
    *,
    limit: Annotated[int, Parameter(validator=positive)] = 20,
    listing: Listing = Listing(),
) -> None:
    """List what happened to the credits of USER, newest first."""
    async with file_or_none(listing) as store:
        if store is not None:
            found = [_row(asdict(row)) for row in await store.reader.ledger(user, limit, None)]
        else:
            from jobrunner.cli.service import service

            query = {"user_id": user, "limit": limit}
            async with service(listing) as running:
                found = (await running.get("/credits/history", query))["history"]
    printing.rows(found, COLUMNS, listing.output)


async def _known(store: "Store", user: str) -> None:
    """Raises: Refused, for a name that is probably misspelled: no token, and never any credits."""
    named = any(token.name == user for token in await store.reader.tokens())
    if not named and not await store.reader.ledger(user, 1, None):
        raise Refused("NOT_FOUND", f"there is no user {user!r}: no token has that name")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"created_at": printing.stamp(row["created_at"])}
