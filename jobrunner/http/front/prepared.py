"""An answer that is written once and sent often; only the correlation id differs."""

from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from jobrunner.errors import Refused
from jobrunner.http.frame.problems import problem

MARK = "0f2a1bd6-the-correlation-id-comes-here"


class Prepared:
    """A refusal as it goes over a connection that stays open."""

    def __init__(self, refused: Refused, fixed: Mapping[str, str]) -> None:
        reply = problem(refused, MARK)
        before, found, after = reply.body.partition(msgspec.json.encode(MARK))
        assert found, "every refusal says its correlation id"
        headers = {**fixed, **reply.headers, "Content-Type": reply.content_type}
        lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._head = "\r\n".join(lines).encode() + b"\r\nX-Request-Id: "
        self._before = b"\r\n\r\n" + before
        self._after = after
        self._size = len(before) + len(after)

    def written(self, correlation_id: str, more: bytes = b"") -> bytes:
        """``more`` are further headers, each behind a line break."""
        said = msgspec.json.encode(correlation_id)
        named = correlation_id.encode()
        length = b"\r\nContent-Length: %d" % (self._size + len(said))
        return b"".join((self._head, named, more, length, self._before, said, self._after))
