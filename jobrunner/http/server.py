"""From the table to a running server: what is true for every request stands here, once.

The order for each: correlation id, what no honest client sends, route, token, role, query, body,
handler. Errors of every kind end in the same place and leave in the same shape.
"""

import contextlib
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from jobrunner.errors import Refused
from jobrunner.http import openapi
from jobrunner.http.bodies import convert, decode, read, too_large
from jobrunner.http.door import Call, Door, Reply
from jobrunner.http.endpoint import Endpoint
from jobrunner.http.problems import internal, invalid, problem, refusal_of
from jobrunner.http.routes import table_of
from jobrunner.http.wire import Query

HEADERS_MAX = 128
REQUEST_ID = web.RequestKey("correlation_id", str)
Served = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(door: Door) -> web.Application:
    """The application, ready for ``open_site``."""
    table = table_of(door)
    app = web.Application(middlewares=[_frame(door)], client_max_size=door.settings.max_body)
    for endpoint in (*table, _document(door, table)):
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
    """
    settings = door.settings
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=False,
        keepalive_timeout=settings.keepalive_s,
        shutdown_timeout=settings.shutdown_s,
        max_headers=HEADERS_MAX,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        address = runner.addresses[0]
        yield str(address[0]), int(address[1])
    finally:
        await runner.cleanup()
