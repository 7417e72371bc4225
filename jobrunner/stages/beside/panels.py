"""Panels: pages of a plugin that show a job of its workflow, and let people work on it.

A panel is a folder of files in the plugin's package. They are read once, when the plugin is taken
in; a browser gets them in a frame that has no session, no storage and no network of its own.
"""

from collections.abc import Mapping

from msgspec import Struct

from jobrunner.files.shipped import shipped, shipped_in

PAGE = "index.html"
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".jpg": "image/jpeg",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
_taken: dict["Panel", Mapping[str, bytes]] = {}
OURS = frozenset({"guard.js", "jobrunner.js", "jobrunner.css", "preact.js"})


class Panel(Struct, frozen=True):
    """An entry point of the group ``jobrunner.panels`` leads to one of these.

    workflow   whose jobs it shows
    package    the package that its files lie in: ``__name__``
    title      over the frame
    folder     of the files, within the package; ``index.html`` is what the frame opens
    """

    workflow: str
    package: str
    title: str = "Panel"
    folder: str = "panel"


def unfit_panel(panel: Panel) -> str:
    """Say why this panel cannot be shown; empty when it can."""
    where = f"{panel.package}/{panel.folder}"
    try:
        names = _taken[panel] = _read(panel)
    except (ImportError, OSError, ValueError) as fault:
        return f"has no files in {where} ({type(fault).__name__}); are they in the distribution?"
    if PAGE not in names:
        return f"has no {PAGE} in {where}; that is what is opened"
    if taken := sorted(OURS.intersection(names)):
        return f"has a {taken[0]} in {where}; that name is the service's own"
    if inner := [name for name in names if _frames(name, names[name])]:
        return f"has a srcdoc in {where}/{inner[0]}; a panel has no frame of its own"
    if unknown := [name for name in names if suffix(name) not in KINDS]:
        return f"has {unknown[0]!r} in {where}; it may have {', '.join(KINDS)}"
    return ""


def files_of(panel: Panel) -> Mapping[str, bytes]:
    """Read a panel's files, by name, when it is taken in: after an upgrade beneath a running
    service they would be half of another panel, or none."""
    return _taken[panel]


def _read(panel: Panel) -> Mapping[str, bytes]:
    names = shipped_in(panel.package, panel.folder)
    return {name: shipped(panel.package, panel.folder, name) for name in names}


def _frames(name: str, data: bytes) -> bool:
    """A frame that is written into a page would be another world, with what this one lacks."""
    return name.endswith(".html") and b"srcdoc" in data.lower()


def suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""
