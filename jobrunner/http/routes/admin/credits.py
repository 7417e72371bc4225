"""The accounts: what can be spent, the ledger, and credits given."""

from typing import Annotated

from msgspec import Meta

from jobrunner.core.declaration.spelling import USER
from jobrunner.core.units import Grant
from jobrunner.errors import Refused
from jobrunner.http.frame import inputs
from jobrunner.http.frame.endpoint import ADMINS, Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.views import reply, view_of


class GrantOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Under one ``idempotency_key`` an account is given these credits once."""

    amount: Annotated[int, Meta(ge=1, le=10**9)]
    reason: Annotated[str, Meta(min_length=1, max_length=500)]
    idempotency_key: inputs.Key | None = None


class CreditsView(View, frozen=True, kw_only=True):
    """``balance`` is what can be spent."""

    user_id: str
    balance: int
    held: int


class Granted(CreditsView, frozen=True, kw_only=True):
    """The account as it is now; ``replayed``: these credits were given before."""

    replayed: bool


class LedgerLine(View, frozen=True, kw_only=True):
    kind: str
    amount: int
    balance_after: int
    held_after: int
    job_id: str | None
    run_id: str | None
    reason: str
    created_at: str


class Ledger(View, frozen=True, kw_only=True):
    history: list[LedgerLine]
    next_cursor: str | None


@Endpoint("GET", "/credits", {200: CreditsView}, query=inputs.OwnedQuery)
async def get_credits(call: HttpCall) -> HttpReply:
    """Show the credits that the caller can spend."""
    query: inputs.OwnedQuery = call.query
    user_id = inputs.owner_of(call, query)
    found = await call.door.reader.credits(user_id)
    return reply(view_of(CreditsView, found, user_id=user_id))


@Endpoint("GET", "/credits/history", {200: Ledger}, query=inputs.OwnedPageQuery)
async def get_credits_history(call: HttpCall) -> HttpReply:
    """List the entries of the ledger, newest first."""
    query: inputs.OwnedPageQuery = call.query
    user_id = inputs.owner_of(call, query)
    rows = await call.door.reader.ledger(user_id, query.limit, inputs.key_of(query.cursor))
    entries = [view_of(LedgerLine, row) for row in rows]
    return reply(
        Ledger(
            history=entries, next_cursor=inputs.following_cursor([row.id for row in rows], query)
        )
    )


@Endpoint(
    "POST",
    "/admin/credits/{user}/grant",
    {200: Granted},
    ADMINS,
    body=GrantOrder,
    codes=("IDEMPOTENCY_MISMATCH",),
)
async def grant_credits(call: HttpCall) -> HttpReply:
    """Give credits to a user."""
    body: GrantOrder = call.body
    user_id, now = call.path["user"], call.door.clock.now()
    await _check_user(call, user_id)
    key = inputs.key_given(call, body.idempotency_key) or ""
    given = Grant(user_id, body.amount, body.reason, call.actor.name, now, key=key)
    replayed = await call.door.facade.grant(given)
    purse = await call.door.reader.credits(user_id)
    return reply(view_of(Granted, purse, user_id=user_id, replayed=replayed))


async def _check_user(call: HttpCall, user_id: str) -> None:
    """Refuse a name that nobody ever had: it is probably misspelled. Of those whom an issuer names
    nobody knows which there are, so there any is taken that can be one.

    Raises: Refused NOT_FOUND."""
    reader = call.door.reader
    if call.door.keyring.believes_others and USER.fullmatch(user_id):
        return
    named = any(token.name == user_id for token in await reader.tokens())
    if not named and not await reader.ledger(user_id, 1, None):
        detail = f"there is no user {user_id!r}: no token has that name, and nothing was paid"
        raise Refused("NOT_FOUND", detail)
