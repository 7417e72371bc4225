"""``version``: everything that this program is made of, with versions. No service is needed."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.installed import installed
from jobrunner.cli.frame.options import Shown
from jobrunner.stages.distributions import brought, normalized

PROGRAM = "jobrunner"
COLUMNS = ("what", "name", "version", "folder")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
OF_AN_EXTRA = re.compile(r";.*\bextra\b")


def version(*, shown: Shown = Shown()) -> None:
    """Name the program, its plugins and what they depend on, with versions and where each lies.

    Plugins are those that lie in the folder of plugins too. An extra that is not installed is not
    there.
    """
    installed(shown.load())
    plugins = [one.name for one in brought() if not one.fault]
    known: dict[str, dict[str, Any]] = {
        "python": {
            "what": "python",
            "name": "python",
            "version": sys.version.split()[0],
            "folder": sys.prefix,
        }
    }
    for name in (PROGRAM, *plugins):
        what = "program" if name == PROGRAM else "plugin"
        for found in closure(name):
            key = normalized(found.name)
            own = key == normalized(name)
            if own or key not in known:
                known[key] = _row(found, what if own else "dependency")
    printing.rows(_in_order(known), COLUMNS, shown, key="name")


def closure(name: str) -> Iterator[Distribution]:
    """The distribution, and all installed ones that it needs, each once."""
    waiting, seen = [name], set[str]()
    while waiting:
        name = waiting.pop()
        if normalized(name) in seen:
            continue
        seen.add(normalized(name))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # wanted on another system, or by another python
        yield found
        waiting += needed(found)


def needed(found: Distribution) -> list[str]:
    """Name what it needs itself, without its extras."""
    lines = (one for one in found.requires or () if not OF_AN_EXTRA.search(one))
    return [told[0] for one in lines if (told := NAME.match(one))]


def _row(found: Distribution, what: str) -> dict[str, Any]:
    where = Path(str(found.locate_file("")))
    return {"what": what, "name": found.name, "version": found.version, "folder": str(where)}


def _in_order(known: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    order = ("program", "python", "plugin", "dependency")
    return sorted(known.values(), key=lambda one: (order.index(one["what"]), one["name"].lower()))
