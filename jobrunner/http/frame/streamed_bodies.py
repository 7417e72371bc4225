"""A body that is not read but poured: block by block, in a bounded piece of memory, under a clock.

A sender is cut off that is silent for too long, and one that drips: what has come by now must be
at least so much for the time it took. So no body holds a connection for ever, and a large one on a
slow line gets all the time that it needs.
"""

from collections.abc import AsyncIterator

import anyio
from aiohttp import web

from jobrunner.errors import Refused
from jobrunner.http.frame.bodies import too_large
from jobrunner.http.frame.call import Settings
from jobrunner.http.frame.problems import invalid
from jobrunner.ports import Clock

BLOCK = 256 * 1024
ANY_TYPE = "application/octet-stream"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Stream:
    """The body of one request. Nothing of it is asked for before ``blocks`` is."""

    def __init__(self, request: web.Request, settings: Settings, clock: Clock) -> None:
        self._request = request
        self._settings = settings
        self._clock = clock

    @property
    def length(self) -> int | None:
        """As announced; None for one that comes in chunks."""
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
        await self._invite()
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

    async def _invite(self) -> None:
        """Who asked whether to send at all is told so, now that the answer is yes."""
        asked = self._request.headers.get("Expect", "").lower() == "100-continue"
        if asked and self._request.version >= (1, 1):
            await self._request.writer.write(CONTINUE)
            self._request.writer.output_size = 0

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


async def say_nothing_yet(_: web.Request) -> None:
    """Instead of an invitation before anybody looked at the request: ``blocks`` sends it."""


def _slow(detail: str) -> Refused:
    return Refused("BODY_TIMEOUT", detail)
