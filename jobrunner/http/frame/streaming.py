"""Writing a stream to a client that may be slow, or gone, at nobody else's cost."""

from collections.abc import AsyncIterator

import anyio
from aiohttp import web

from jobrunner.errors import Refused
from jobrunner.http.frame.call import Door
from jobrunner.ports import bound_send_buffer

BUFFER = 64 * 1024


async def pour_events(
    request: web.Request, pieces: AsyncIterator[bytes], content_type: str, door: Door
) -> web.StreamResponse:
    """Each piece as it comes. Who does not take one in time is cut off, whatever is left; a
    stream whose reader may no longer look simply ends."""
    response = web.StreamResponse(headers={"Content-Type": content_type})
    response.headers["X-Accel-Buffering"] = "no"
    assert request.transport is not None
    bound_send_buffer(request.transport, BUFFER)
    await response.prepare(request)
    try:
        await _write_all(request, response, pieces, door)
    except (TimeoutError, ConnectionError):
        door.log("stream.dropped", correlation_id=response.headers["X-Request-Id"])
        if request.transport is not None:
            request.transport.abort()
    except Refused:
        pass
    return response


def is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def _write_all(
    request: web.Request,
    response: web.StreamResponse,
    pieces: AsyncIterator[bytes],
    door: Door,
) -> None:
    """What the operating system would not take before this piece was written is looked at too:
    small pieces to somebody who reads nothing would otherwise pile up unseen.

    Raises: TimeoutError, ConnectionError.
    """
    limit_s, clock = door.settings.write_timeout_s, door.clock
    written_at = clock.monotonic()
    try:
        async for piece in pieces:
            if _unsent(request) and clock.monotonic() - written_at >= limit_s:
                raise TimeoutError
            with anyio.fail_after(limit_s):
                await response.write(piece)
            if not _unsent(request):
                written_at = clock.monotonic()
    finally:
        await pieces.aclose()  # type: ignore[attr-defined]


def _unsent(request: web.Request) -> bool:
    """Raises: ConnectionError, when the client has gone."""
    if is_gone(request):
        raise ConnectionResetError("the client has gone")
    assert request.transport is not None
    return request.transport.get_write_buffer_size() > 0
