"""``GET /``: the dashboard. All its parts come from here; what it shows and does goes through the
public routes, in the session of the person who looks.

The address of the parts has a name that is made of what they are. So a browser keeps them for good,
asks for none of them twice, and never mixes those of two versions.
"""

import zlib
from functools import lru_cache
from typing import NamedTuple

from jobrunner.errors import Refused
from jobrunner.files.shipped import shipped, shipped_in
from jobrunner.http.frame.endpoint import SHOWN, Endpoint, HttpCall, HttpReply
from jobrunner.http.frame.packing import CODING, GZIP, takes
from jobrunner.http.routes.pages.docs import CSS, HTML, SCRIPT
from jobrunner.ports import digest

OURS, PAGE = ("static", "dashboard"), "index.html"
SVG = "image/svg+xml"
KINDS = {".js": SCRIPT, ".css": CSS, ".svg": SVG}
VENDORED = {
    "dagre.js": ("dagre", "dagre.esm.js"),
    "preact.js": ("preact", "standalone.module.js"),
    "uplot.css": ("uplot", "uPlot.min.css"),
    "uplot.js": ("uplot", "uPlot.esm.js"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
FOR_GOOD = "public, max-age=31536000, immutable"
ASKED_EACH_TIME = "no-cache"
UNNAMED = b"page/now/"
SMALLEST = 9


class PagePart(NamedTuple):
    """A part of the page as it is, and packed for whoever takes it so."""

    data: bytes
    packed: bytes
    tag: str
    kind: str


@Endpoint("GET", "/", {200: SHOWN, 304: None}, roles=None)
async def get_dashboard(call: HttpCall) -> HttpReply:
    """Show the dashboard."""
    page = _page(call.door.settings.base_path)
    return told(call, page, {"Cache-Control": ASKED_EACH_TIME, "Content-Security-Policy": POLICY})


@Endpoint(
    "GET",
    "/page/{build}/{part}",
    {200: "text/javascript", 304: None},
    roles=None,
    media=("text/css", SVG),
)
async def get_dashboard_part(call: HttpCall) -> HttpReply:
    """Load a script, a style or a picture of that page."""
    found = parts().get(call.path["part"])
    if found is None:
        raise Refused("NOT_FOUND", "the page has no such part")
    is_current = call.path["build"] == build()
    kept = {"Cache-Control": FOR_GOOD if is_current else ASKED_EACH_TIME}
    return told(call, found, kept)


@lru_cache(maxsize=1)
def parts() -> dict[str, PagePart]:
    """Read all parts, by name."""
    places = {name: (*OURS, name) for name in shipped_in(__package__, *OURS)}
    del places[PAGE]
    places |= {name: ("vendor", *at) for name, at in VENDORED.items()}
    return {
        name: part_of(shipped(__package__, *places[name]), KINDS[name[name.rfind(".") :]])
        for name in sorted(places)
    }


@lru_cache(maxsize=1)
def build() -> str:
    """Name these parts, and no others."""
    whole = b"".join(f"{name}={part.tag};".encode() for name, part in parts().items())
    return digest(whole).hex()[:16]


@lru_cache(maxsize=4)
def _page(base_path: str) -> PagePart:
    """The page itself, with the addresses of this build; behind a proxy they carry its path."""
    before = f"{base_path}/" if base_path else ""
    named = f"{before}page/{build()}/".encode()
    return part_of(shipped(__package__, *OURS, PAGE).replace(UNNAMED, named), HTML)


def part_of(data: bytes, kind: str) -> PagePart:
    packed = zlib.compress(data, SMALLEST, GZIP)
    return PagePart(data, packed, f'"{digest(data).hex()[:16]}"', kind)


def told(call: HttpCall, part: PagePart, headers: dict[str, str]) -> HttpReply:
    """A tag names bytes, so packed ones have a tag of their own."""
    is_packed = takes(call.headers.get("Accept-Encoding", ""))
    tag = f'{part.tag[:-1]}-z"' if is_packed else part.tag
    headers |= {"ETag": tag, "Vary": "Accept-Encoding"}
    asked = call.headers.get("If-None-Match", "")
    if tag in asked or asked.strip() == "*":
        return HttpReply(304, headers=headers)
    if is_packed:
        return HttpReply(200, part.packed, headers | {"Content-Encoding": CODING}, part.kind)
    return HttpReply(200, part.data, headers, part.kind)
