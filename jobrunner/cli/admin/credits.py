"""``credit``: who has how much, and why."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from msgspec.structs import asdict

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.file import OPERATOR, file_or_none
from jobrunner.cli.frame.options import Asking, Listing, positive
from jobrunner.cli.frame.paging import Limit, Since, extent, paged
from jobrunner.cli.frame.service import part, service
from jobrunner.cli.frame.system import clock, ids
from jobrunner.core.credits import granted_otherwise
from jobrunner.core.decision import Clash
from jobrunner.core.declaration.spelling import USER
from jobrunner.core.instants import text_or_none
from jobrunner.core.units import Grant
from jobrunner.errors import Refused

if TYPE_CHECKING:
    from jobrunner.store.store import Store

app = App(name="credit", help="Credits of users: balances, history, grants.")

COLUMNS = ("created_at", "kind", "amount", "balance_after", "held_after", "job_id", "reason")


@app.command(help_epilogue=examples("jobrunner credit balance ann"))
async def balance(user: str, /, *, listing: Listing = Listing()) -> None:
    """Print what USER can spend and what is held for jobs under way."""
    async with file_or_none(listing) as store:
        if store is not None:
            found = asdict(await store.reader.credits(user))
        else:
            async with service(listing) as running:
                found = await running.get("/credits", {"user_id": user})
    printing.record(found, listing, key="user_id")


@app.command(
    help_epilogue=examples("jobrunner credit grant ann 50 --reason 'a birthday' --key birthday-ann")
)
async def grant(
    user: str,
    amount: Annotated[int, Parameter(validator=positive)],
    /,
    *,
    reason: str = "granted by the operator",
    key: str | None = None,
    asking: Asking = Asking(),
) -> None:
    """Give AMOUNT credits to USER.

    Parameters
    ----------
    key
        The idempotency key: the same key again gives nothing more. Without it each command has one
        of its own, and is repeated under it when no answer came.
    """
    key = key or ids.fresh()
    async with file_or_none(asking) as store:
        if store is not None:
            if not (asking.load().auth.oidc.issuer and USER.fullmatch(user)):
                await _known(store, user)
            await _given(store, Grant(user, amount, reason, OPERATOR, clock.now(), key=key))
        else:
            body = {"amount": amount, "reason": reason, "idempotency_key": key}
            async with service(asking) as running:
                await running.insist(f"/admin/credits/{part(user)}/grant", body, key)


@app.command(help_epilogue=examples("jobrunner credit history ann --since 7d"))
async def history(
    user: str,
    /,
    *,
    limit: Limit = None,
    since: Since = None,
    listing: Listing = Listing(),
) -> None:
    """List the changes to USER's credits, newest first."""
    async with file_or_none(listing) as store:
        if store is not None:
            most, start = extent(limit, since)
            rows = [_row(asdict(row)) for row in await store.reader.ledger(user, most, None)]
            found = [row for row in rows if start is None or row["created_at"] >= start]
        else:
            query = [("user_id", user)]
            async with service(listing) as running:
                found = await paged(running, "/credits/history", query, limit, since)
    printing.rows(found, COLUMNS, listing)


async def _given(store: "Store", grant: Grant) -> None:
    outcome = await store.commit(grant)
    if not isinstance(outcome, Clash):
        return
    before = await store.reader.grant(grant.user_id, grant.key)
    assert before is not None, f"a grant clashed: {outcome}"
    if refused := granted_otherwise(grant, before):
        raise refused


async def _known(store: "Store", user: str) -> None:
    """Raises: Refused, for a name that is probably misspelled: no token, and never any credits."""
    named = any(token.name == user for token in await store.reader.tokens())
    if not named and not await store.reader.ledger(user, 1, None):
        raise Refused("NOT_FOUND", f"there is no user {user!r}: no token has that name")


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"created_at": text_or_none(row["created_at"])}
