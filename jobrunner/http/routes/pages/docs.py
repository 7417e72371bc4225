"""``GET /docs``: the OpenAPI document as a page. Everything it needs comes from here, and its
policy lets the browser ask nobody else."""

from functools import lru_cache
from typing import NamedTuple

from jobrunner.errors import Refused
from jobrunner.files.shipped import shipped
from jobrunner.http.frame.endpoint import SHOWN, Endpoint, HttpCall, HttpReply
from jobrunner.ports import digest

HTML = "text/html; charset=utf-8"
CSS, SCRIPT = "text/css; charset=utf-8", "text/javascript; charset=utf-8"
# Styles that a script sets one by one are no inline styles; of those, and of inline scripts, there
# are none here.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = ("static", "docs.html")
PARTS = {
    "docs.css": ("static", "docs.css"),
    "docs.js": ("static", "docs.js"),
    "swagger-ui.css": ("vendor", "swagger_ui", "swagger-ui.css"),
    "swagger-ui-bundle.js": ("vendor", "swagger_ui", "swagger-ui-bundle.js"),
}


class Part(NamedTuple):
    data: bytes
    tag: str


@Endpoint("GET", "/docs", {200: SHOWN, 304: None}, roles=None)
async def get_docs(call: HttpCall) -> HttpReply:
    """Show the OpenAPI document as a page."""
    return _shown(call, PAGE, HTML)


@Endpoint(
    "GET", "/docs/{part}", {200: "text/css", 304: None}, roles=None, media=("text/javascript",)
)
async def get_docs_part(call: HttpCall) -> HttpReply:
    """Load a style or a script of that page."""
    name = call.path["part"]
    if name not in PARTS:
        raise Refused("NOT_FOUND", "the page has no such part")
    return _shown(call, PARTS[name], CSS if name.endswith(".css") else SCRIPT)


def _shown(call: HttpCall, place: tuple[str, ...], kind: str) -> HttpReply:
    """A browser keeps it, and asks each time whether it is still so."""
    found = _read(place)
    headers = {"ETag": found.tag, "Cache-Control": "no-cache", "Content-Security-Policy": POLICY}
    asked = call.headers.get("If-None-Match", "")
    if found.tag in asked or asked.strip() == "*":
        return HttpReply(304, headers=headers)
    return HttpReply(200, found.data, headers, kind)


@lru_cache(maxsize=len(PARTS) + 1)
def _read(place: tuple[str, ...]) -> Part:
    data = shipped(__package__, *place)
    return Part(data, f'"{digest(data).hex()[:16]}"')
