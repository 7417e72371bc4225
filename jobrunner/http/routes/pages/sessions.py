"""Signing in at the dashboard: a token is shown once, and a cookie stands for it from then on."""

from typing import Annotated, Any, ClassVar, Literal, cast

from msgspec import Meta

from jobrunner.core.declaration.states import TokenRole
from jobrunner.core.features.sessions import EndSession, OpenSession
from jobrunner.core.instants import text_or_none
from jobrunner.core.job import Actor
from jobrunner.errors import Refused
from jobrunner.http.frame.auth import LOCAL, is_issued
from jobrunner.http.frame.endpoint import Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import needs_one, not_both
from jobrunner.http.frame.origins import is_local
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.sessions import check_proof, cookie, session_in
from jobrunner.http.frame.views import encode, reply
from jobrunner.ports import digest

Secret = Annotated[str, Meta(min_length=1, max_length=512)]


class SignIn(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``link`` is the key that a first start prints: it is good once, and on this machine."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        needs_one("token", "link"),
        not_both("token", "link"),
    )
    token: Secret | None = None
    link: Secret | None = None


class SessionView(View, frozen=True, kw_only=True):
    """The one who is signed in, and until when; ``name`` is null where nobody is. ``auth`` is how
    this service knows its callers: by ``tokens``, or not at all (``none``)."""

    auth: Literal["tokens", "none"]
    name: str | None
    role: TokenRole | None
    workflows: list[str]
    expires_at: str | None


@Endpoint("GET", "/session", {200: SessionView}, roles=None)
async def get_session(call: HttpCall) -> HttpReply:
    """Tell who is signed in at the dashboard."""
    if call.door.settings.auth == "none":
        return reply(_shown(call, LOCAL, None))
    session = session_in(call.headers)
    if session is None:
        return reply(_nobody(call))
    try:
        actor, expires_at = await call.door.keyring.signed_in(session)
    except Refused:
        call.door.limits.take_anonymous(call.address)
        return HttpReply(200, encode(_nobody(call)), {"Set-Cookie": _cookie(call, "", 0)})
    return reply(_shown(call, actor, expires_at))


@Endpoint("POST", "/session", {200: SessionView}, roles=None, body=SignIn, codes=("UNAUTHORIZED",))
async def open_session(call: HttpCall) -> HttpReply:
    """Sign in at the dashboard with a token; a cookie stands for it from then on.

    A first start prints a link whose key will do, once."""
    check_proof(call.headers)
    body: SignIn = call.body
    if call.door.settings.auth == "none":
        return reply(_shown(call, LOCAL, None))
    actor = await _shown_to_be(call, body)
    door, now = call.door, call.door.clock.now()
    lifetime_s = int(door.settings.session_s)
    if not lifetime_s:
        raise Refused("FORBIDDEN", "auth.session is 0: nobody signs in here; send the token")
    secret, expires_at = door.ids.secret(), now + lifetime_s * 1000
    await door.facade.write(
        OpenSession(digest(secret.encode()), actor.token, actor.name, now, expires_at)
    )
    headers = {"Set-Cookie": _cookie(call, secret, lifetime_s)}
    actor, expires_at = await door.keyring.signed_in(secret)
    return HttpReply(200, encode(_shown(call, actor, expires_at)), headers)


@Endpoint("DELETE", "/session", {204: None}, roles=None)
async def end_session(call: HttpCall) -> HttpReply:
    """Sign out at the dashboard."""
    check_proof(call.headers)
    session = session_in(call.headers)
    if session is not None:
        await call.door.facade.write(EndSession(digest(session.encode())))
        call.door.keyring.forget()
    return HttpReply(204, headers={"Set-Cookie": _cookie(call, "", 0)})


async def _shown_to_be(call: HttpCall, body: SignIn) -> Actor:
    """Raises: Refused UNAUTHORIZED, FORBIDDEN."""
    if (body.token is None) == (body.link is None):
        raise invalid("send a token or a link", ("$.token", "a token, or a link"))
    if body.link is None:
        return await _bearer(call, body.token or "")
    if not is_local(call.address, call.headers):
        raise Refused("FORBIDDEN", "this link is for the machine of the service; send a token")
    try:
        return await call.door.keyring.welcomed(body.link)
    except Refused:
        call.door.limits.take_anonymous(call.address)
        raise


async def _bearer(call: HttpCall, token: str) -> Actor:
    """Raises: Refused UNAUTHORIZED, FORBIDDEN."""
    if is_issued(token.encode("utf-8", "surrogateescape")):
        detail = "a token of an identity provider opens no session; ask for one of this service"
        raise Refused("FORBIDDEN", detail)
    try:
        return await call.door.keyring.actor_of(f"Bearer {token}")
    except Refused:
        call.door.limits.take_anonymous(call.address)
        raise


def _cookie(call: HttpCall, value: str, lifetime_s: int) -> str:
    settings = call.door.settings
    return cookie(value, settings.base_path, settings.public_url, lifetime_s)


def _nobody(call: HttpCall) -> SessionView:
    auth = call.door.settings.auth
    return SessionView(auth=auth, name=None, role=None, workflows=[], expires_at=None)


def _shown(call: HttpCall, actor: Actor, expires_at: int | None) -> SessionView:
    return SessionView(
        auth=call.door.settings.auth,
        name=actor.name,
        role=cast(TokenRole, actor.role),
        workflows=list(actor.workflows),
        expires_at=text_or_none(expires_at),
    )
