"""Long bodies: files that come in block by block, and events that go out, each under a clock.

A sender is cut off that is silent for too long, and one that drips: what has come by now must be
at least so much for the time it took. So no body holds a connection for ever, and a large one on a
slow line gets all the time that it needs. A reader that takes nothing is cut off in the same way.
"""

from collections.abc import AsyncIterator

import anyio
from aiohttp import web

from jobrunner.errors import Refused
from jobrunner.http.frame.bodies import too_large
from jobrunner.http.frame.endpoint import HttpCall, HttpDoor, Settings
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.sessions import session_in
from jobrunner.ports import Clock, bound_send_buffer

BLOCK = 256 * 1024
ANY_TYPE = "application/octet-stream"
EVENT_STREAM = "text/event-stream"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

BUFFER = 64 * 1024


class Stream:
    """The body of one request. Nothing of it is asked for before ``blocks`` is."""

    def __init__(self, request: web.Request, settings: Settings, clock: Clock) -> None:
        self._request = request
        self._settings = settings
        self._clock = clock

    @property
    def length(self) -> int | None:
        """Return the announced length; None for a body that comes in chunks."""
        return self._request.content_length if self._request.body_exists else 0

    @property
    def media_type(self) -> str:
        """Raises: Refused UNSUPPORTED_MEDIA_TYPE for what is not the file itself."""
        if "Content-Type" not in self._request.headers:
            return ANY_TYPE
        media_type = self._request.content_type.lower()
        if media_type.startswith("multipart/"):
            raise Refused("UNSUPPORTED_MEDIA_TYPE", "send the file itself as the body, not a form")
        return media_type

    async def blocks(self, limit: int) -> AsyncIterator[bytes]:
        """At most ``limit`` bytes in all.

        Raises: Refused BODY_TOO_LARGE, BODY_TIMEOUT, and VALIDATION_ERROR when it broke off."""
        await invite(self._request)
        began, got = self._clock.monotonic(), 0
        held = bytearray()
        while True:
            try:
                chunk = await self._next()
            except Refused:
                if held:
                    yield bytes(held)  # what came is worth keeping to who can go on from there
                raise
            got += len(chunk)
            if got > limit:
                raise too_large(limit)
            self._check_pace(self._clock.monotonic() - began, got)
            held += chunk
            if held and (not chunk or len(held) >= BLOCK):
                yield bytes(held)
                held = bytearray()
            if not chunk:
                return

    async def _next(self) -> bytes:
        with anyio.move_on_after(self._settings.upload_idle_s):
            try:
                return await self._request.content.readany()
            except ConnectionError as error:
                raise invalid("the body broke off", ("$", "broken")) from error
        raise _slow(f"nothing of the body came for {self._settings.upload_idle_s:g} s")

    def _check_pace(self, took_s: float, got: int) -> None:
        allowed_s = self._settings.upload_idle_s + got / self._settings.upload_rate
        if took_s > allowed_s:
            raise _slow(f"the body comes slower than {self._settings.upload_rate} bytes a second")


async def pour_events(
    request: web.Request, pieces: AsyncIterator[bytes], content_type: str, door: HttpDoor
) -> web.StreamResponse:
    """Send each piece as it comes. A reader that does not take one in time is cut off; the stream
    of one that may no longer look simply ends."""
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


async def check_caller(call: HttpCall) -> None:
    """Ask before something is told whether whoever opened a stream may still hear it: its token may
    have been revoked, or be over, since then.

    Raises: Refused UNAUTHORIZED."""
    authorization = call.headers.get("Authorization")
    await call.door.keyring.actor_of(authorization, session_in(call.headers))


def is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def _write_all(
    request: web.Request, response: web.StreamResponse, pieces: AsyncIterator[bytes], door: HttpDoor
) -> None:
    """Write a piece, and look also at what the operating system would not take before it: small
    pieces to somebody who reads nothing would otherwise pile up unseen.

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


async def invite(request: web.Request) -> None:
    """Answer ``Expect: 100-continue``, now that the body is wanted. Ignore other expectations, as
    HTTP allows: the server underneath would refuse them in words that are not ours."""
    asked = request.headers.get("Expect", "").lower() == "100-continue"
    if asked and request.version >= (1, 1):
        await request.writer.write(CONTINUE)
        request.writer.output_size = 0


def _slow(detail: str) -> Refused:
    return Refused("BODY_TIMEOUT", detail)
