"""Compresses large answers (gzip), for clients that accept it, away from the loop.

Never packed: an answer with an ETag, which names its bytes; a stream, which is told piece by piece;
a file, which is what its digest says; and whatever answers more than a question. While as many are
being packed as may be, the next ones leave as they are: it is a favour, and nobody waits for one.
"""

import zlib

import anyio
import anyio.to_thread
from aiohttp import web

AT_ONCE = 2
LEVEL = 3
GZIP = 31
CODING = "gzip"


class Packing:
    """``size_min`` bytes and more are packed; 0 packs nothing."""

    def __init__(self, size_min: int) -> None:
        self._size_min = size_min
        self.places = anyio.CapacityLimiter(AT_ONCE)

    async def pack(self, request: web.Request, response: web.StreamResponse) -> None:
        """Pack it in its place, if it is to be and somebody has time."""
        if not self._is_large(request, response):
            return
        response.headers.add("Vary", "Accept-Encoding")
        if not self.places.available_tokens or not takes(
            ",".join(request.headers.getall("Accept-Encoding", ()))
        ):
            return
        assert isinstance(response, web.Response)
        assert isinstance(response.body, bytes)
        body = response.body
        response.body = await anyio.to_thread.run_sync(_packed, body, limiter=self.places)
        response.headers["Content-Encoding"] = CODING

    def _is_large(self, request: web.Request, response: web.StreamResponse) -> bool:
        """Say whether this answer may be packed, whoever asked."""
        body = response.body if isinstance(response, web.Response) else None
        return (
            0 < self._size_min <= (len(body) if isinstance(body, bytes) else 0)
            and request.method == "GET"
            and response.status == 200
            and "ETag" not in response.headers
        )


def takes(accepted: str) -> bool:
    """Read ``Accept-Encoding``: gzip is named with a weight, or meant by ``*`` and not named."""
    weights = dict(_weighed(one) for one in accepted.lower().split(",") if one.strip())
    return weights.get(CODING, weights.get("*", 0.0)) > 0


def _weighed(one: str) -> tuple[str, float]:
    name, _, said = one.partition(";")
    key, _, weight = said.replace(" ", "").replace("\t", "").partition("=")
    try:
        return name.strip(), float(weight) if key == "q" else 1.0
    except ValueError:
        return name.strip(), 0.0


def _packed(body: bytes) -> bytes:
    return zlib.compress(body, LEVEL, GZIP)
