"""Makes a running server of the table of routes. What holds for every request is done here, once.

Each request goes through the same steps: correlation id, refusal of what no honest client sends,
route, token, role, query, body, handler. Errors of every kind end in ``_frame`` and leave in the
same shape.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import msgspec
from aiohttp import web
from msgspec import Struct

from jobrunner.actors.requester import ADDRESS, REQUEST
from jobrunner.actors.tasks import Crew
from jobrunner.core.job import Actor
from jobrunner.errors import Refused, StorageFull, bug_told
from jobrunner.http.frame import cors
from jobrunner.http.frame.bodies import check_coding, convert, decode, read, too_large
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpDoor, HttpReply, Query
from jobrunner.http.frame.origins import CLIENT, check_page, client_of, is_local
from jobrunner.http.frame.packing import Packing
from jobrunner.http.frame.problems import internal, invalid, problem, refusal_of
from jobrunner.http.frame.refusals import Refusals
from jobrunner.http.frame.sessions import session_for
from jobrunner.http.frame.sockets import FIXED, REQUEST_ID, SUBMISSIONS, open_site, open_socket
from jobrunner.http.frame.streaming import Stream, invite, is_gone, pour_events, say_nothing_yet
from jobrunner.http.front.waiting import Front
from jobrunner.ports import raise_open_files

REQUEST_ID_MAX = 128
FILES_SPARE = 512
CONNECTIONS_MIN = 64
UNREAD = (408, 413)
NOBODY = Actor("", "user")
NOWHERE = "none"
ABOUT_US = frozenset({"/healthz", "/readyz", "/metrics"})
REFUSED = web.RequestKey("refused", Refused)
KNOWN = web.RequestKey("known", bool)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
Table = Sequence[Endpoint]
Served = Callable[[web.Request], Awaitable[web.StreamResponse]]
Signed = Callable[[web.Request, web.StreamResponse], Awaitable[None]]


class Places(Struct, frozen=True):
    """Where to listen; empty: not there. ``socket`` is the path of a Unix socket."""

    host: str
    port: int
    admin_host: str = ""
    admin_port: int = 0
    socket: str = ""
    socket_mode: int = 0o660


def make_app(door: HttpDoor, table: Table, *, operators: bool = True) -> web.Application:
    """Make the application, with every route of the table, or only those not for operators."""
    app = web.Application(middlewares=[_frame(door)], client_max_size=door.settings.max_body)
    app.on_response_prepare.append(_signing(door))
    submissions = dict[bytes, tuple[str, str]]()
    for endpoint in table:
        if endpoint.for_operators and not operators:
            continue
        handler = _serve(door, endpoint)
        expect = say_nothing_yet if endpoint.streams else invite
        app.router.add_route(endpoint.method, endpoint.path, handler, expect_handler=expect)
        if endpoint.weight == "making" and "{" not in endpoint.path:
            submissions[" ".join(endpoint.door).encode()] = endpoint.door
        if endpoint.method == "GET":
            app.router.add_route("HEAD", endpoint.path, handler, expect_handler=expect)
    app[SUBMISSIONS] = submissions
    return app


@asynccontextmanager
async def open_sites(
    door: HttpDoor, table: Table, places: Places
) -> AsyncIterator[tuple[tuple[str, int], tuple[str, int] | None]]:
    """Listen, and watch how well that goes. With an ``admin_host`` the routes for operators are
    there and nowhere else.

    Raises: Misconfigured.
    """
    most = raise_open_files(door.limits.bounds.connections + FILES_SPARE) - FILES_SPARE
    if most < door.limits.bounds.connections:
        door.limits.lower_connections(max(most, CONNECTIONS_MIN))
        door.log("limits.lowered", level="warning", connections=door.limits.bounds.connections)
    async with _watched(door), AsyncExitStack() as stack:
        apart = None
        if places.admin_host:
            at = places.admin_host, places.admin_port, "server.admin_"
            apart = await stack.enter_async_context(open_site(make_app(door, table), door, *at))
        is_alone = not places.admin_host
        if places.socket:
            at_socket = make_app(door, table, operators=is_alone)
            opened = open_socket(at_socket, door, places.socket, places.socket_mode)
            await stack.enter_async_context(opened)
        everybody = make_app(door, table, operators=is_alone)
        site = open_site(everybody, door, places.host, places.port)
        yield await stack.enter_async_context(site), apart


@asynccontextmanager
async def _watched(door: HttpDoor) -> AsyncIterator[None]:
    """Measure meanwhile how late everything is."""
    crew = Crew(door.clock, door.log, door.facade.loss.give_up)
    crew.keep(door.limits.watch)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await crew.close()


def _signing(door: HttpDoor) -> Signed:
    origins = door.settings.cors

    async def sign(request: web.Request, response: web.StreamResponse) -> None:
        """Add the headers that every answer carries; an answer keeps its own."""
        for name, value in FIXED.items():
            response.headers.setdefault(name, value)
        response.headers["Server"] = FIXED["Server"]
        response.headers["X-Request-Id"] = request.get(REQUEST_ID, "")
        if origins:
            for name, value in cors.told(request.headers.get("Origin", ""), origins).items():
                response.headers.add(name, value)

    return sign


def _frame(door: HttpDoor) -> Any:
    """Make the middleware around every request, including those that match no route."""
    refusals, packing = Refusals(door), Packing(door.settings.gzip)
    trust = door.settings.trusted_proxies, door.settings.trusts_socket

    @web.middleware
    async def framed(request: web.Request, handler: Served) -> web.StreamResponse:
        correlation_id = _correlation_id(request, door)
        request[REQUEST_ID] = correlation_id
        REQUEST.set(correlation_id)
        request[CLIENT] = client_of(request, *trust)
        ADDRESS.set(request[CLIENT])
        began = door.clock.monotonic()
        try:
            if _is_ambiguous(request):
                raise invalid("Transfer-Encoding: only chunked", ("Transfer-Encoding", "not so"))
            _demand_standing(door, request)
            response = await _answered(door, request, handler)
            await packing.pack(request, response)
            if not response.prepared:
                _demand_standing(door, request)  # the last thing before it is sent
            if (refused := request.get(REFUSED)) is not None:
                refusals.note(request, _route(request), refused, correlation_id, known=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            _note_full(door, error)
            refused = _refusal_of(door, error) or _surprise(door, request, error)
            door.meter.refused(refused.code)
            if refused.code != "INTERNAL":
                known = request.get(KNOWN, False)
                refusals.note(request, _route(request), refused, correlation_id, known)
            response = _response(problem(refused, correlation_id))
            if refused.status in UNREAD or _is_ambiguous(request):
                response.force_close()
        finally:
            _front(request).leave()
        took_s = door.clock.monotonic() - began
        door.meter.answered(_route(request), _verb(request), response.status, took_s)
        return response

    return framed


async def _answered(door: HttpDoor, request: web.Request, handler: Served) -> web.StreamResponse:
    settings = door.settings
    if not cors.is_preflight(request, settings.cors):
        return await handler(request)
    if settings.auth == "none":
        check_page(request, settings.public_url, settings.cors)
    return cors.preflight()


def _demand_standing(door: HttpDoor, request: web.Request) -> None:
    """Refuse everything, except questions about this service itself, when another machine may serve
    by now.

    Raises: Refused LEASE_OVER"""
    if (refusal := door.refusal()) and _route(request) not in ABOUT_US:
        raise Refused("LEASE_OVER", refusal)


def _route(request: web.Request) -> str:
    """Name the route as the table does; everything that no route takes counts as one."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else NOWHERE


def _verb(request: web.Request) -> str:
    return request.method if request.method in METHODS else "OTHER"


def _serve(door: HttpDoor, endpoint: Endpoint) -> Served:
    """Turn one entry of the table into a handler for aiohttp."""
    decoder, handler, weight = _decoder_of(endpoint), endpoint.handler, endpoint.weight
    assert handler is not None, f"{endpoint.path} decorates nothing"

    async def served(request: web.Request) -> web.StreamResponse:
        settings = door.settings
        if settings.auth == "none":
            check_page(request, settings.public_url, settings.cors, of_a_page=endpoint.is_a_page)
        address = request[CLIENT]
        actor = await _actor(door, endpoint, request, address)
        request[KNOWN] = actor is not NOBODY
        query = None if endpoint.query is None else _query(request, endpoint.query)
        door.limits.admit(weight)
        raw, body = await _body(door, endpoint, decoder, request)
        front = _front(request)
        if weight == "making":
            await front.come_in()
        call = HttpCall(
            door,
            actor,
            request[REQUEST_ID],
            request.match_info,
            request.headers,
            body,
            query,
            raw,
            Stream(request, door.settings, door.clock) if endpoint.streams else None,
            address,
            leave=front.leave,
            gone=lambda: is_gone(request),
        )
        reply = await handler(call)
        if reply.refused is not None:
            request[REFUSED] = reply.refused
        if reply.events is not None and request.method == "GET":
            with door.limits.stream(actor.name, lambda: is_gone(request)):
                return await pour_events(request, reply.events, reply.content_type, door)
        if reply.pour is not None:
            poured: web.StreamResponse = await reply.pour(request)
            return poured
        return _response(reply)

    return served


async def _body(
    door: HttpDoor, endpoint: Endpoint, decoder: msgspec.json.Decoder[Any], request: web.Request
) -> tuple[bytes, Any]:
    """Read the body that the endpoint takes, if any: its bytes, and their value."""
    if endpoint.takes_a_body:
        check_coding(request)
    if endpoint.body is None:
        return b"", None
    raw = await read(request, door.settings, plain=endpoint.plain, most=endpoint.max_body)
    if endpoint.plain:
        return raw, None
    return raw, decode(raw if raw or not endpoint.empty else b"{}", decoder)


def _decoder_of(endpoint: Endpoint) -> msgspec.json.Decoder[Any]:
    if endpoint.takes_any_body or endpoint.body is None:
        return msgspec.json.Decoder()
    return msgspec.json.Decoder(endpoint.body)


def _front(request: web.Request) -> Front:
    assert isinstance(request.protocol, Front), "every connection has a front"
    return request.protocol


async def _actor(door: HttpDoor, endpoint: Endpoint, request: web.Request, address: str) -> Actor:
    """Find out who calls. A wrong token is charged to its address; a good one never is, whoever
    else guesses tokens behind the same address.

    Raises: Refused UNAUTHORIZED, FORBIDDEN, RATE_LIMITED."""
    if endpoint.roles is None or (endpoint.local and is_local(request.remote, request.headers)):
        return NOBODY
    session = session_for(request.method, request.headers)
    try:
        actor, token = await door.keyring.caller_of(request.headers.get("Authorization"), session)
    except Refused:
        door.limits.take_anonymous(address)
        raise
    door.limits.take(token)
    callers = endpoint.callers or endpoint.roles
    if actor.role not in callers:
        wanted = " or ".join(sorted(callers))
        raise Refused("FORBIDDEN", f"this needs the role {wanted}; yours is {actor.role}")
    return actor


def _query(request: web.Request, kind: type[Query]) -> Query:
    """Raises: Refused VALIDATION_ERROR, also for a name that is not known here."""
    given: dict[str, Any] = {}
    if request.query_string:
        for name in request.query:
            values = request.query.getall(name)
            if len(values) > 1 and name not in kind.many:
                raise invalid(f"?{name} is there more than once", (f"?{name}", "repeated"))
            given[name] = values if name in kind.many else values[0]
    return convert(given, kind, "?")


def _correlation_id(request: web.Request, door: HttpDoor) -> str:
    given = request.headers.get("X-Request-Id", "")
    if 1 <= len(given) <= REQUEST_ID_MAX and all("!" <= letter <= "~" for letter in given):
        return given
    return door.ids.fresh()


def _is_ambiguous(request: web.Request) -> bool:
    """Say whether there is a ``Transfer-Encoding`` other than plain ``chunked``: two readings of
    where a body ends are one too many. What follows on such a connection is not read."""
    codings = request.headers.getall("Transfer-Encoding", ())
    return bool(codings) and [coding.strip().lower() for coding in codings] != ["chunked"]


def _refusal_of(door: HttpDoor, error: Exception) -> Refused | None:
    """Turn an error into a refusal, where we or the server underneath meant it as an answer."""
    match error:
        case web.HTTPMethodNotAllowed():
            methods = sorted(error.allowed_methods)
            detail = f"{error.method} is not for this path; it has {', '.join(methods)}"
            return Refused("METHOD_NOT_ALLOWED", detail, allowed_methods=methods)
        case web.HTTPNotFound():
            return Refused("NOT_FOUND", "nothing is at this path; see /openapi.json")
        case web.HTTPRequestEntityTooLarge():
            return too_large(door.settings.max_body)
        case web.HTTPException() if error.status < 500:
            return Refused("VALIDATION_ERROR", error.reason, status=error.status)
        case web.RequestPayloadError():
            return invalid("the body broke off or is not framed as announced", ("$", "broken"))
        case _:
            return refusal_of(error)


def _note_full(door: HttpDoor, error: Exception) -> None:
    """Log a full disk now and then, not for each of the many that are refused while it lasts."""
    full = type(error) is StorageFull or getattr(error, "code", "") == "STORAGE_FULL"
    if full and (times := door.limits.full_seen()):
        door.log("storage.full", level="error", times=times, detail=str(error))


def _surprise(door: HttpDoor, request: web.Request, error: Exception) -> Refused:
    """Tell a bug to the log, and to nobody else."""
    door.log(
        "http.fault",
        level="error",
        method=request.method,
        path=request.path,
        address=request[CLIENT],
        correlation_id=request[REQUEST_ID],
        **bug_told(error),
    )
    return internal()


def _response(reply: HttpReply) -> web.Response:
    headers = dict(reply.headers)
    if reply.body or reply.events is not None:
        headers["Content-Type"] = reply.content_type
    return web.Response(status=reply.status, body=reply.body or None, headers=headers)


__all__ = ["Places", "make_app", "open_site", "open_sites"]
