"""A request on its way through the frame, and the answer that leaves in one piece.

The server underneath makes an answer in many steps, so that it may be a stream; what is whole
already goes over the wire with one write. Streams go the other way, and carry the same headers.
"""

import re
from collections.abc import Mapping

from aiohttp import web
from aiohttp.helpers import rfc822_formatted_time

from jobrunner.errors import Refused
from jobrunner.http.frame import cors
from jobrunner.http.frame.endpoint import HttpDoor, HttpReply
from jobrunner.http.frame.problems import phrase_of

FIXED = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Server": "jobrunner",
}
NOWHERE = "none"
BODILESS = (204, 304)
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class HttpRequest(web.Request):
    """``route`` is as the table names it, and ``fields`` are those of the path; ``client`` is where
    the request comes from, ``known`` whether with a good token."""

    ATTRS = web.Request.ATTRS | frozenset(
        {"door", "route", "fields", "correlation_id", "client", "known", "refused"}
    )
    door: HttpDoor
    route = NOWHERE
    fields: Mapping[str, str] = {}
    correlation_id = ""
    client = ""
    known = False
    refused: Refused | None = None

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        """Add the headers that every answer carries to a stream, which keeps its own."""
        for name, value in FIXED.items():
            response.headers.setdefault(name, value)
        response.headers["Server"] = FIXED["Server"]
        response.headers["X-Request-Id"] = self.correlation_id
        origins = self.door.settings.cors
        for name, value in cors.told(self.headers.get("Origin", ""), origins).items():
            response.headers.add(name, value)


class WrittenAnswer(web.StreamResponse):
    """A whole answer, which keeps its own headers."""

    def __init__(self, reply: HttpReply) -> None:
        self._reply = reply
        self._status = reply.status

    def said_to(self, request: HttpRequest) -> bytes:
        """Write all of it, as it goes over the wire."""
        self._eof_sent = True
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        head = self._head(request)
        if request.method == "HEAD" or self._status in BODILESS:
            return head
        return head + self._reply.body

    def _head(self, request: HttpRequest) -> bytes:
        reply, own, body = self._reply, self._reply.headers, self._reply.body
        major, minor = request.version
        text = f"HTTP/{major}.{minor} {reply.status} {phrase_of(reply.status)}\r\n{_lines(own)}"
        if FIXED.keys().isdisjoint(own):
            text += FIXED_LINES
        else:
            text += _lines({name: value for name, value in FIXED.items() if name not in own})
        text += f"X-Request-Id: {request.correlation_id}\r\nDate: {rfc822_formatted_time()}\r\n"
        if body or reply.events is not None:
            text += f"Content-Type: {reply.content_type}\r\n"
        if (body or request.method != "HEAD") and reply.status not in BODILESS:
            text += f"Content-Length: {len(body)}\r\n"
        if self._keep_alive != (minor > 0) and "Connection" not in own:
            text += f"Connection: {'keep-alive' if self._keep_alive else 'close'}\r\n"
        if origins := request.door.settings.cors:
            text += _lines(cors.told(request.headers.get("Origin", ""), origins))
        return f"{text}\r\n".encode()


def _lines(headers: Mapping[str, str]) -> str:
    """Raises: ValueError, for what would be more than a line."""
    text = ""
    for name, value in headers.items():
        if not value.isprintable() and CONTROL.search(value):
            raise ValueError(f"{name} has a control character: {value!r}")
        text += f"{name}: {value}\r\n"
    return text


FIXED_LINES = _lines(FIXED)
