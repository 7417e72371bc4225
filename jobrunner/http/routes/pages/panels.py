"""Panels: pages that plugins bring for jobs of their workflows, each in a frame of the dashboard.

The frame is an origin of its own: it has no session, no storage and no network, it cannot leave its
place, and the page around it is closed to it. It asks that page for the one job that it stands for,
by messages; the page asks the service, in the session of whoever looks. The parts come without a
session, for a frame like this sends none, and hold nothing but what the plugin's author wrote.
"""

import re
from functools import lru_cache
from types import MappingProxyType

from jobrunner.errors import Refused
from jobrunner.files.shipped import shipped
from jobrunner.http.frame.endpoint import ANYBODY, SHOWN, Endpoint, HttpCall, HttpReply
from jobrunner.http.routes.pages.dashboard import (
    ASKED_EACH_TIME,
    FOR_GOOD,
    VENDORED,
    PagePart,
    part_of,
    told,
)
from jobrunner.http.routes.pages.docs import HTML
from jobrunner.ports import digest
from jobrunner.stages.beside.panels import KINDS, OURS, PAGE, Panel, files_of, suffix

POLICY = (
    "sandbox allow-scripts allow-forms; default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; media-src 'self' blob: data:; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
# A picture that is opened as a page does nothing.
INERT = "sandbox; default-src 'none'; frame-ancestors 'none'"
GUARD = b'<script src="guard.js"></script>'
DOCTYPE = re.compile(rb"\s*(<!doctype[^>]*>)?", re.IGNORECASE)
LOOK = ("static", "dashboard", "look.css")
# Its scripts are modules, and a frame without an origin is a stranger to every one of them.
STRANGERS = {"Access-Control-Allow-Origin": "*", "X-DNS-Prefetch-Control": "off"}


@Endpoint(
    "GET",
    "/panels/{name}/{build}/{part}",
    {200: SHOWN, 304: None},
    roles=None,
    media=tuple(sorted({kind.partition(";")[0] for kind in KINDS.values()} - {SHOWN})),
)
async def get_panel_part(call: HttpCall) -> HttpReply:
    """Load a part of a plugin's panel, for its frame."""
    panel = call.door.facade.definitions.panels.get(call.path["name"])
    found = _parts(panel).get(call.path["part"]) if panel else None
    if panel is None or found is None:
        raise Refused("NOT_FOUND", "there is no such part of a panel")
    is_current = call.path["build"] == _build(panel)
    kept = {"Cache-Control": FOR_GOOD if is_current else ASKED_EACH_TIME}
    policy = POLICY if found.kind == HTML else INERT
    return told(call, found, kept | STRANGERS | {"Content-Security-Policy": policy})


@Endpoint("POST", "/panels/{name}/silence", {204: None}, ANYBODY)
async def tell_of_silence(call: HttpCall) -> HttpReply:
    """Say that a panel did not start in a browser, for whoever looks after its plugin."""
    if call.path["name"] not in call.door.facade.definitions.panels:
        raise Refused("NOT_FOUND", "there is no such panel")
    about = {"workflow": call.path["name"], "user_id": call.actor.name}
    error = f"its page said nothing in the browser of {call.actor.name}"
    call.door.log("panel.silent", level="warning", **about, error=error)
    return HttpReply(204)


def page_of(panel: Panel) -> str:
    """The address that its frame opens; that of another build is another one."""
    return f"/panels/{panel.workflow}/{_build(panel)}/{PAGE}"


@lru_cache(maxsize=64)
def _parts(panel: Panel) -> MappingProxyType[str, PagePart]:
    """List the panel's own files, and those that the service has for all panels."""
    own = {name: _guarded(name, data) for name, data in files_of(panel).items()}
    found = own | {name: _ours(name) for name in OURS}
    return MappingProxyType({name: part_of(found[name], KINDS[suffix(name)]) for name in found})


def _guarded(name: str, data: bytes) -> bytes:
    """Take away what no policy forbids, before anything else of the page is read."""
    if not name.endswith(".html"):
        return data
    begin = DOCTYPE.match(data)
    at = begin.end() if begin else 0
    return data[:at] + GUARD + data[at:]


def _ours(name: str) -> bytes:
    """A panel looks like the page around it."""
    place = ("vendor", *VENDORED[name]) if name in VENDORED else ("static", "panel", name)
    own = shipped(__package__, *place)
    return shipped(__package__, *LOOK) + own if name.endswith(".css") else own


@lru_cache(maxsize=64)
def _build(panel: Panel) -> str:
    whole = b"".join(f"{name}={part.tag};".encode() for name, part in sorted(_parts(panel).items()))
    return digest(whole).hex()[:16]
