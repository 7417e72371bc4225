"""Pages of other origins that the operator allows: what their browsers must be told so that scripts
may call us and read the answers.

A listed origin is told by its name, never by a wildcard, and never together with leave to send
cookies: ours are for the dashboard alone, and a token is put into its header by the script that
holds it. An origin
that is not listed is told nothing, which is how a browser knows.
"""

import re
from collections.abc import Mapping

from aiohttp import web

from jobrunner.http.frame.endpoint import HttpReply
from jobrunner.http.frame.headers import SAID, TOLD

PREFLIGHT_S = 600
METHODS = "DELETE, GET, HEAD, PATCH, POST, PUT"
OWN_KINDS = ("Authorization", "Content-Type", "Repr-Digest", "Cache-Control")
TAKEN = ", ".join(sorted({*OWN_KINDS, *(name for name in SAID if not name.startswith("webhook-"))}))
ORIGIN = re.compile(rb"\r\norigin:[\t ]*+([!-~]+)[\t ]*+\r\n", re.IGNORECASE)
READABLE = ", ".join(sorted({*TOLD, "Content-Disposition", "Date"} - {"Accept-Encoding", "Allow"}))


def listed(origin: str, origins: tuple[str, ...]) -> bool:
    """Say whether the operator names this origin; browsers write it in one way only."""
    return bool(origin) and origin in origins


def is_preflight(request: web.Request, origins: tuple[str, ...]) -> bool:
    """A browser asks first, on behalf of a listed page, whether it may ask."""
    return (
        request.method == "OPTIONS"
        and "Access-Control-Request-Method" in request.headers
        and listed(request.headers.get("Origin", ""), origins)
    )


def preflight() -> HttpReply:
    """Allow these pages to send whatever this service takes; the request itself is judged later."""
    headers = {
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Allow-Headers": TAKEN,
        "Access-Control-Max-Age": str(PREFLIGHT_S),
    }
    return HttpReply(204, headers=headers)


def told(origin: str, origins: tuple[str, ...]) -> Mapping[str, str]:
    """The headers that every answer has where origins are listed."""
    if not origins:
        return {}
    if not listed(origin, origins):
        return {"Vary": "Origin"}
    return {
        "Vary": "Origin",
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": READABLE,
    }


def written(message: bytes, origins: tuple[str, ...]) -> bytes:
    """The same for an answer to a request that was never more than its bytes."""
    if not origins:
        return b""
    found = ORIGIN.search(message.partition(b"\r\n\r\n")[0] + b"\r\n")
    headers = told(found[1].decode() if found else "", origins)
    return "".join(f"\r\n{name}: {value}" for name, value in headers.items()).encode()
