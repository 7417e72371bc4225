"""Makes a running server of the table of routes. What holds for every request is done here, once.

Each request goes through the same steps: correlation id, refusal of what no honest client sends,
route, token, role, query, body, handler. Errors of every kind end in ``_Frame`` and leave in the
same shape.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial
from typing import Any, NamedTuple

import anyio
import msgspec
from aiohttp import web
from msgspec import Struct
from yarl import URL

from jobrunner.actors.requester import ADDRESS, REQUEST
from jobrunner.actors.tasks import Crew
from jobrunner.core.job import Actor
from jobrunner.errors import Refused, StorageFull, bug_told
from jobrunner.http.frame import cors
from jobrunner.http.frame.answering import NOWHERE, HttpRequest, WrittenAnswer
from jobrunner.http.frame.bodies import check_coding, convert, decode, read, taken
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpDoor, HttpReply, Query, Settings
from jobrunner.http.frame.inputs import is_visible
from jobrunner.http.frame.origins import check_page, client_of, is_local
from jobrunner.http.frame.packing import Packing
from jobrunner.http.frame.problems import internal, invalid, problem, refusal_of
from jobrunner.http.frame.refusals import Refusals
from jobrunner.http.frame.sessions import session_for
from jobrunner.http.frame.sockets import Site, open_site, open_socket
from jobrunner.http.frame.streaming import Stream, invite, is_gone, pour_events
from jobrunner.http.front.waiting import Front
from jobrunner.ports import raise_open_files

REQUEST_ID_MAX = 128
FILES_SPARE = 512
CONNECTIONS_MIN = 64
PATHS_KEPT = 512
UNREAD = (408, 413)
NOBODY = Actor("", "user")
ABOUT_US = frozenset({"/healthz", "/readyz", "/metrics"})
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
Table = Sequence[Endpoint]
Served = Callable[[HttpRequest], Awaitable[HttpReply | web.StreamResponse]]


class Places(Struct, frozen=True):
    """Where to listen; empty: not there. ``socket`` is the path of a Unix socket."""

    host: str
    port: int
    admin_host: str = ""
    admin_port: int = 0
    socket: str = ""
    socket_mode: int = 0o660


def make_site(door: HttpDoor, table: Table, *, operators: bool = True) -> Site:
    """Make a site, with every route of the table, or only those not for operators."""
    frame, submissions = _Frame(door), dict[bytes, tuple[str, str]]()
    for endpoint in table:
        if endpoint.for_operators and not operators:
            continue
        frame.add(endpoint)
        if endpoint.weight == "making" and "{" not in endpoint.path:
            submissions[" ".join(endpoint.door).encode()] = endpoint.door
    return Site(frame.answer, submissions)


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
            apart = await stack.enter_async_context(open_site(make_site(door, table), door, *at))
        is_alone = not places.admin_host
        if places.socket:
            at_socket = make_site(door, table, operators=is_alone)
            opened = open_socket(at_socket, door, places.socket, places.socket_mode)
            await stack.enter_async_context(opened)
        everybody = make_site(door, table, operators=is_alone)
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


class _Entry(NamedTuple):
    """A route, by the name that it has in figures and log, and what serves it."""

    route: str
    served: Served
    invites: bool = True


class _Frame:
    """Stands around every request, including those that match no route."""

    def __init__(self, door: HttpDoor) -> None:
        self._door = door
        self._refusals, self._packing = Refusals(door), Packing(door.settings.gzip)
        self._trust = door.settings.trusted_proxies, door.settings.trusts_socket
        self._router = web.UrlDispatcher()
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._lately: dict[tuple[str, str], tuple[_Entry, dict[str, str]]] = {}

    def add(self, endpoint: Endpoint) -> None:
        served = _serve(self._door, endpoint)
        for method in ("GET", "HEAD") if endpoint.method == "GET" else (endpoint.method,):
            named: Any = served  # the router only finds it
            resource = self._router.add_route(method, endpoint.path, named).resource
            assert resource is not None, "whatever has a path is a resource"
            entry = _Entry(resource.canonical, served, not endpoint.streams)
            self._entries[method, entry.route] = entry

    async def answer(self, request: HttpRequest) -> web.StreamResponse:
        door, method, path = self._door, request.method, request.rel_url.raw_path
        entry = self._entries.get((method, path)) if "{" not in path else None
        entry = entry or await self._found(request, method, path)
        request.route = entry.route
        if entry.invites and "Expect" in request.headers:
            await invite(request)
        request.correlation_id = _correlation_id(request.headers) or door.ids.fresh()
        REQUEST.set(request.correlation_id)
        request.client = client_of(request, *self._trust)
        ADDRESS.set(request.client)
        began = door.clock.monotonic()
        try:
            response = await self._answered(request, entry.served)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            response = self._refused(request, error)
        finally:
            _front(request).leave()
        took_s = door.clock.monotonic() - began
        verb = method if method in METHODS else "OTHER"
        door.meter.answered(request.route, verb, response.status, took_s)
        return response

    async def _found(self, request: HttpRequest, method: str, path: str) -> _Entry:
        """Find the route of a path with fields in it, for what comes again among the last ones.
        Everything that no route takes counts as one."""
        if (known := self._lately.get((method, path))) is None:
            found = await self._router.resolve(request)
            if (resource := found.route.resource) is None:
                return _Entry(NOWHERE, found.handler)  # which refuses it
            if len(self._lately) >= PATHS_KEPT:
                self._lately.clear()
            known = self._entries[method, resource.canonical], {**found}
            self._lately[method, path] = known
        entry, request.fields = known
        return entry

    async def _answered(self, request: HttpRequest, served: Served) -> web.StreamResponse:
        """Raises: Exception, whatever may befall a request."""
        if _is_ambiguous(request):
            raise invalid("Transfer-Encoding: only chunked", ("Transfer-Encoding", "not so"))
        self._demand_standing(request)
        settings = self._door.settings
        if settings.cors and cors.is_preflight(request, settings.cors):
            if settings.auth == "none":
                check_page(request, settings.public_url, settings.cors)
            answer: HttpReply | web.StreamResponse = cors.preflight()
        else:
            answer = await served(request)
        if isinstance(answer, HttpReply):
            if request.method == "GET":
                answer = await self._packing.pack(request, answer)
            answer = WrittenAnswer(answer)
            self._demand_standing(request)  # the last thing before it is sent
        if request.refused is not None:
            self._refusals.note(request, request.refused, known=True)
        return answer

    def _refused(self, request: HttpRequest, error: Exception) -> WrittenAnswer:
        """Say no, in the one shape that all refusals have."""
        door = self._door
        _note_full(door, error)
        refused = _refusal_of(error) or _surprise(door, request, error)
        door.meter.refused(refused.code)
        if refused.code != "INTERNAL":
            self._refusals.note(request, refused, known=request.known)
        response = WrittenAnswer(problem(refused, request.correlation_id))
        if refused.status in UNREAD or _is_ambiguous(request):
            response.force_close()
        return response

    def _demand_standing(self, request: HttpRequest) -> None:
        """Refuse everything, except questions about this service itself, when another machine may
        serve by now.

        Raises: Refused LEASE_OVER"""
        if (refusal := self._door.refusal()) and request.route not in ABOUT_US:
            raise Refused("LEASE_OVER", refusal)


def _serve(door: HttpDoor, endpoint: Endpoint) -> Served:
    """Turn one entry of the table into what serves it."""
    handler, weight, kind = endpoint.handler, endpoint.weight, endpoint.query
    assert handler is not None, f"{endpoint.path} decorates nothing"
    actor_of, body_of = _actor(door, endpoint), _body(door.settings, endpoint)
    settings, limits, is_a_page = door.settings, door.limits, endpoint.is_a_page

    async def served(request: HttpRequest) -> HttpReply | web.StreamResponse:
        if settings.auth == "none":
            check_page(request, settings.public_url, settings.cors, of_a_page=is_a_page)
        actor = await actor_of(request)
        request.known = actor is not NOBODY
        query = None if kind is None else _query(kind, request.rel_url.raw_query_string)
        limits.admit(weight)
        raw, body = await body_of(request)
        front = _front(request)
        if weight == "making":
            await front.come_in(actor.name)
        call = HttpCall(
            door,
            actor,
            request.correlation_id,
            request.fields,
            request.headers,
            body,
            query,
            raw,
            Stream(request, settings, door.clock) if endpoint.streams else None,
            request.client,
            front.leave,
            partial(is_gone, request),
        )
        reply = await handler(call)
        request.refused = reply.refused
        if reply.events is not None and request.method == "GET":
            with limits.stream(actor.name, call.gone):
                return await pour_events(request, reply.events, reply.content_type, door)
        if reply.pour is not None:
            poured: web.StreamResponse = await reply.pour(request)
            return poured
        return reply

    return served


def _body(
    settings: Settings, endpoint: Endpoint
) -> Callable[[HttpRequest], Awaitable[tuple[bytes, Any]]]:
    """Make what reads the body that the endpoint takes, if any: its bytes, and their value."""
    takes_a_body, is_read = endpoint.takes_a_body, endpoint.body is not None
    plain, most = endpoint.plain, max(endpoint.max_body, settings.max_body)
    kind = Any if endpoint.takes_any_body or not is_read else endpoint.body
    decoder, absent = msgspec.json.Decoder(kind), b"{}" if endpoint.empty else b""

    async def body(request: HttpRequest) -> tuple[bytes, Any]:
        if takes_a_body:
            check_coding(request)
        if not is_read:
            return b"", None
        if request.content.is_eof():
            raw = taken(request, most, plain=plain)
        else:
            raw = await read(request, settings, plain=plain, most=most)
        return raw, None if plain else decode(raw or absent, decoder)

    return body


def _front(request: HttpRequest) -> Front:
    assert isinstance(request.protocol, Front), "every connection has a front"
    return request.protocol


def _actor(door: HttpDoor, endpoint: Endpoint) -> Callable[[HttpRequest], Awaitable[Actor]]:
    """Make what finds out who calls. A wrong token is charged to its address; a good one never is,
    whoever else guesses tokens behind the same address."""
    callers, local = endpoint.callers, endpoint.local

    async def actor(request: HttpRequest) -> Actor:
        """Raises: Refused UNAUTHORIZED, FORBIDDEN, RATE_LIMITED."""
        headers = request.headers
        if callers is None or (local and is_local(request.remote, headers)):
            return NOBODY
        authorization = headers.get("Authorization")
        session = session_for(request.method, headers) if authorization is None else None
        try:
            found, token = await door.keyring.caller_of(authorization, session)
        except Refused:
            door.limits.take_anonymous(request.client)
            raise
        door.limits.take(token)
        if found.role not in callers:
            wanted = " or ".join(sorted(callers))
            raise Refused("FORBIDDEN", f"this needs the role {wanted}; yours is {found.role}")
        return found

    return actor


@lru_cache(maxsize=256)
def _query(kind: type[Query], text: str) -> Query:
    """Read a query; clients ask the same over and over.

    Raises: Refused VALIDATION_ERROR, also for a name that is not known here."""
    query = URL.build(query_string=text, encoded=True).query
    given: dict[str, Any] = {}
    for name in query:
        values = query.getall(name)
        if len(values) > 1 and name not in kind.many:
            raise invalid(f"?{name} is there more than once", (f"?{name}", "repeated"))
        given[name] = values if name in kind.many else values[0]
    return convert(given, kind, "?")


def _correlation_id(headers: Mapping[str, str]) -> str:
    """Take the id that the caller gave, if it may be one."""
    given = headers.get("X-Request-Id", "")
    return given if len(given) <= REQUEST_ID_MAX and is_visible(given) else ""


def _is_ambiguous(request: HttpRequest) -> bool:
    """Say whether there is a ``Transfer-Encoding`` other than plain ``chunked``: two readings of
    where a body ends are one too many. What follows on such a connection is not read."""
    if "Transfer-Encoding" not in request.headers:
        return False
    codings = request.headers.getall("Transfer-Encoding")
    return [coding.strip().lower() for coding in codings] != ["chunked"]


def _refusal_of(error: Exception) -> Refused | None:
    """Turn an error into a refusal, where we or the server underneath meant it as an answer."""
    match error:
        case web.HTTPMethodNotAllowed():
            methods = sorted(error.allowed_methods)
            detail = f"{error.method} is not for this path; it has {', '.join(methods)}"
            return Refused("METHOD_NOT_ALLOWED", detail, allowed_methods=methods)
        case web.HTTPNotFound():
            return Refused("NOT_FOUND", "nothing is at this path; see /openapi.json")
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


def _surprise(door: HttpDoor, request: HttpRequest, error: Exception) -> Refused:
    """Tell a bug to the log, and to nobody else."""
    door.log(
        "http.fault",
        level="error",
        method=request.method,
        path=request.path,
        address=request.client,
        correlation_id=request.correlation_id,
        **bug_told(error),
    )
    return internal()


__all__ = ["Places", "make_site", "open_site", "open_sites"]
