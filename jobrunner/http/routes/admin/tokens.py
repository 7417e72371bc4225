"""Tokens: made with an end or without, replaced while the old ones are still good for a while,
revoked."""

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType

from jobrunner.core.declaration.states import TokenRole
from jobrunner.core.features.tokens import replaced
from jobrunner.core.instants import instant_of
from jobrunner.core.questions import Token
from jobrunner.core.units import Grant, NewToken, RevokeToken
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import ADMINS, Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import Instant, Name, UserId, not_both
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import reply, view_of
from jobrunner.http.routes.jobs.submissions import workflow_named
from jobrunner.ports import digest

Lifetime = Annotated[int, Meta(ge=1, le=10 * 366 * 86400, description="Seconds from now")]


class TokenOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``credits`` is what a new account starts with; without it, what the service is set to.
    ``workflows`` are the only ones that a token of role ``workflow`` is for; without it, all."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        not_both("expires_at", "expires_in"),
        {
            "anyOf": [
                {"properties": {"role": {"const": "workflow"}}},
                {"properties": {"workflows": {"maxItems": 0}}},
            ]
        },
    )
    name: UserId
    role: TokenRole
    expires_at: Instant | None = None
    expires_in: Lifetime | None = None
    credits: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    workflows: Annotated[list[Name], Meta(max_length=64)] = []


class Rotation(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The old token is good for ``grace`` seconds more; the new one for ``expires_in``, or without
    end."""

    grace: Annotated[int, Meta(ge=0, le=366 * 86400)] = 86400
    expires_in: Lifetime | None = None


class TokenEntry(View, frozen=True, kw_only=True):
    """``token`` is shown once, when it is made. ``workflows``: none means all."""

    id: str
    name: str
    role: TokenRole
    workflows: list[str]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    token: str | UnsetType = UNSET


class Tokens(View, frozen=True, kw_only=True):
    tokens: list[TokenEntry]


@Endpoint("GET", "/admin/tokens", {200: Tokens}, ADMINS)
async def list_tokens(call: HttpCall) -> HttpReply:
    """List the tokens, without their secrets."""
    found = await call.door.reader.tokens()
    return reply(Tokens(tokens=[_token_entry(token) for token in found]))


@Endpoint(
    "POST", "/admin/tokens", {201: TokenEntry}, ADMINS, body=TokenOrder, codes=("UNKNOWN_WORKFLOW",)
)
async def create_token(call: HttpCall) -> HttpReply:
    """Create a token; its secret is shown this once."""
    body: TokenOrder = call.body
    entry = await _made(call, body.name, body.role, _end(call, body), workflows=_bound(call, body))
    if body.role == "user":
        await _open_account(call, body)
    return reply(entry, 201)


@Endpoint("POST", "/admin/tokens/{id}/rotate", {201: TokenEntry}, ADMINS, body=Rotation, empty=True)
async def rotate_token(call: HttpCall) -> HttpReply:
    """Replace a token, or all of a name; the old ones end a little later."""
    body: Rotation = call.body
    now = call.door.clock.now()
    old = replaced(await call.door.reader.tokens(), call.path["id"], now)
    if isinstance(old, Refused):
        raise old
    end = None if body.expires_in is None else now + body.expires_in * 1000
    until = now + body.grace * 1000
    ids = tuple(token.id for token in old)
    made = await _made(call, old[0].name, old[0].role, end, ids, until, old[0].workflows)
    return reply(made, 201)


@Endpoint("DELETE", "/admin/tokens/{id}", {204: None}, ADMINS)
async def revoke_token(call: HttpCall) -> HttpReply:
    """Revoke a token by its id, or all of a name."""
    which, now = call.path["id"], call.door.clock.now()
    await call.door.facade.write(RevokeToken(which, now, call.actor.name))
    call.door.keyring.forget()
    return HttpReply(204)


async def _made(
    call: HttpCall,
    name: str,
    role: str,
    expires_at: int | None,
    replaces: tuple[str, ...] = (),
    until: int = 0,
    workflows: tuple[str, ...] = (),
) -> TokenEntry:
    door, now = call.door, call.door.clock.now()
    secret, token_id = door.ids.secret(), door.ids.fresh()
    sealed, by = digest(secret.encode()), call.actor.name
    await door.facade.write(
        NewToken(token_id, name, role, sealed, now, by, expires_at, replaces, until, workflows)
    )
    door.keyring.forget()
    return _token_entry(Token(token_id, name, role, now, expires_at, workflows=workflows), secret)


def _bound(call: HttpCall, order: TokenOrder) -> tuple[str, ...]:
    """Raises: Refused VALIDATION_ERROR, UNKNOWN_WORKFLOW."""
    if order.workflows and order.role != "workflow":
        detail = f"only a token of role workflow can be for some workflows; this is a {order.role}"
        raise invalid(detail, ("$.workflows", detail))
    definitions = call.door.facade.definitions
    for name in order.workflows:
        if name not in definitions.refused["workflows"]:
            workflow_named(call, name)
    return tuple(sorted(set(order.workflows)))


def _end(call: HttpCall, order: TokenOrder) -> int | None:
    """Raises: Refused VALIDATION_ERROR."""
    now = call.door.clock.now()
    if order.expires_at is not None and order.expires_in is not None:
        detail = "expires_at and expires_in both say when it ends; send one of them"
        raise invalid(detail, ("$.expires_in", detail))
    if order.expires_in is not None:
        return now + order.expires_in * 1000
    if order.expires_at is None:
        return None
    expires_at = instant_of(order.expires_at, "$.expires_at")
    if expires_at <= now:
        raise invalid("expires_at is over already", ("$.expires_at", "not in the future"))
    return expires_at


async def _open_account(call: HttpCall, body: TokenOrder) -> None:
    """Give a new user the first credits; another token of the same name changes no balance."""
    door = call.door
    first = door.settings.initial_credits if body.credits is None else body.credits
    opening = Grant(body.name, first, "initial", call.actor.name, door.clock.now(), once=True)
    try:
        await door.facade.write(opening)
    except Refused as refused:
        if refused.code != "ALREADY_EXISTS":
            raise


def _token_entry(token: Token, secret: str | UnsetType = UNSET) -> TokenEntry:
    return view_of(TokenEntry, token, token=secret)
