"""From the table to a running server: what is true for every request stands here, once.

The order for each: correlation id, what no honest client sends, route, token, role, query, body,
handler. Errors of every kind end in the same place and leave in the same shape.
"""

import contextlib
import os
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from jobrunner.core.job import Actor
from jobrunner.errors import Misconfigured, Refused
from jobrunner.http.bodies import convert, decode, read, too_large
from jobrunner.http.door import Call, Door, Reply
from jobrunner.http.endpoint import Endpoint
from jobrunner.http.problems import internal, invalid, problem, refusal_of
from jobrunner.http.routes import table_of
from jobrunner.http.wire import Query

HEADERS_MAX = 128
LINGER_S = 1
REQUEST_ID_MAX = 128
UNREAD = (408, 413)
NOBODY = Actor("", "user")
FIXED = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Server": "jobrunner",
}
REQUEST_ID = web.RequestKey("correlation_id", str)
Served = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(door: Door) -> web.Application:
    """The application, with every route that this door has."""
    app = web.Application(middlewares=[_frame(door)], client_max_size=door.settings.max_body)
    for endpoint in table_of(door):
        handler = _serve(door, endpoint)
        app.router.add_route(endpoint.method, endpoint.path, handler)
        if endpoint.method == "GET":
            app.router.add_route("HEAD", endpoint.path, handler)
    return app


@contextlib.asynccontextmanager
async def open_site(
    app: web.Application, door: Door, host: str, port: int
) -> AsyncIterator[tuple[str, int]]:
    """Listen until the block is left; yields the address in use (a port of 0 takes a free one).

    A client that hangs up cancels nothing: what it asked for may be half committed.

    Raises: Misconfigured
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=False,
        keepalive_timeout=door.settings.keepalive_s,
        shutdown_timeout=door.settings.shutdown_s,
        max_headers=HEADERS_MAX,
        lingering_time=LINGER_S,
    )
    await runner.setup()
    try:
        await _listen(web.TCPSite(runner, host, port), host, port)
        address = runner.addresses[0]
        yield str(address[0]), int(address[1])
    finally:
        await runner.cleanup()


async def _listen(site: web.TCPSite, host: str, port: int) -> None:
    """Raises: Misconfigured."""
    try:
        await site.start()
    except OSError as error:
        number = error.errno or 0
        reason = os.strerror(number).lower() if number > 0 else str(error.strerror)
        raise Misconfigured(
            f"server.host = {host!r} and server.port = {port} cannot be listened on ({reason}): "
            "choose another port, or stop the program that has this one"
        ) from error


def _frame(door: Door) -> Any:
    """Around every request, also those that match no route."""

    @web.middleware
    async def framed(request: web.Request, handler: Served) -> web.StreamResponse:
        correlation_id = _correlation_id(request, door)
        request[REQUEST_ID] = correlation_id
        try:
            _refuse_smuggling(request)
            response = await handler(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            refused = _refusal_of(door, error) or _surprise(door, request, error)
            response = _response(problem(refused, correlation_id))
            if refused.status in UNREAD:
                response.force_close()
        response.headers.update(FIXED)
        response.headers["X-Request-Id"] = correlation_id
        return response

    return framed


def _serve(door: Door, endpoint: Endpoint) -> Served:
    """One entry of the table as aiohttp wants it."""
    decoder: msgspec.json.Decoder[Any] = (
        msgspec.json.Decoder()
        if endpoint.takes_any_body or endpoint.body is None
        else msgspec.json.Decoder(endpoint.body)
    )

    async def served(request: web.Request) -> web.StreamResponse:
        actor = await _actor(door, endpoint, request)
        query = None if endpoint.query is None else _query(request, endpoint.query)
        raw, body = b"", None
        if endpoint.body is not None:
            raw = await read(request, door.settings)
            body = decode(raw if raw or not endpoint.empty else b"{}", decoder)
        call = Call(
            door,
            actor,
            request[REQUEST_ID],
            request.match_info,
            request.headers,
            body,
            query,
            raw,
        )
        return _response(await endpoint.handler(call))

    return served


async def _actor(door: Door, endpoint: Endpoint, request: web.Request) -> Actor:
    """Raises: Refused UNAUTHORIZED, FORBIDDEN."""
    if endpoint.roles is None:
        return NOBODY
    actor = await door.keyring.actor_of(request.headers.get("Authorization"))
    if actor.role not in endpoint.roles:
        wanted = " or ".join(sorted(endpoint.roles))
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


def _correlation_id(request: web.Request, door: Door) -> str:
    given = request.headers.get("X-Request-Id", "")
    if 1 <= len(given) <= REQUEST_ID_MAX and all("!" <= letter <= "~" for letter in given):
        return given
    return door.ids.fresh()


def _refuse_smuggling(request: web.Request) -> None:
    """Two readings of where a body ends are one too many: only plain ``chunked`` is taken."""
    codings = request.headers.getall("Transfer-Encoding", ())
    if codings and [coding.strip().lower() for coding in codings] != ["chunked"]:
        raise invalid("Transfer-Encoding: only chunked", ("Transfer-Encoding", "not chunked"))


def _refusal_of(door: Door, error: Exception) -> Refused | None:
    """What was meant as an answer, by us or by the server underneath."""
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


def _surprise(door: Door, request: web.Request, error: Exception) -> Refused:
    """A bug: told in full to the log, and to nobody else."""
    door.log(
        "http.fault",
        level="error",
        method=request.method,
        path=request.path,
        correlation_id=request[REQUEST_ID],
        error=repr(error),
        traceback="".join(traceback.format_exception(error)),
    )
    return internal()


def _response(reply: Reply) -> web.Response:
    headers = dict(reply.headers)
    if reply.body:
        headers["Content-Type"] = reply.content_type
    return web.Response(status=reply.status, body=reply.body or None, headers=headers)
