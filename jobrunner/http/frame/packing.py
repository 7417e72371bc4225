"""Compresses large answers (gzip), for clients that accept it, away from the loop.

Never packed: an answer with an ETag, which names its bytes; a stream, which is told piece by piece;
a file, which is what its digest says; and whatever answers more than a question. While as many are
being packed as may be, the next ones leave as they are: it is a favour, and nobody waits for one.
"""

import zlib

import anyio
import anyio.to_thread
from aiohttp import web
from msgspec.structs import replace

from jobrunner.http.frame.endpoint import HttpReply

AT_ONCE = 2
LEVEL = 3
GZIP = 31
CODING = "gzip"


class Packing:
    """``size_min`` bytes and more are packed; 0 packs nothing."""

    def __init__(self, size_min: int) -> None:
        self._size_min = size_min
        self.places = anyio.CapacityLimiter(AT_ONCE)

    async def pack(self, request: web.Request, reply: HttpReply) -> HttpReply:
        """Pack what answers a question, if it is to be and somebody has time."""
        if not self._is_large(reply):
            return reply
        headers = reply.headers | {"Vary": "Accept-Encoding"}
        body, accepted = reply.body, ",".join(request.headers.getall("Accept-Encoding", ()))
        if self.places.available_tokens and takes(accepted):
            body = await anyio.to_thread.run_sync(_packed, body, limiter=self.places)
            headers["Content-Encoding"] = CODING
        return replace(reply, body=body, headers=headers)

    def _is_large(self, reply: HttpReply) -> bool:
        """Say whether this answer may be packed, whoever asked."""
        return (
            0 < self._size_min <= len(reply.body)
            and reply.status == 200
            and "ETag" not in reply.headers
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
