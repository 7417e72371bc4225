"""Finds the distributions that bring plugins: their names, versions, places and entry points, as
far as they can be read. Nothing of theirs is imported here.

One that an installer left half done, or whose list of entry points is garbled, is told with its
fault and takes nobody else with it. Of two that carry one name python sees the first on its path;
the other one is told as hidden.
"""

import json
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from jobrunner.check.faults import meant

PREFIX = "jobrunner."
Kind = Literal["workflows", "stages", "sources", "companions", "hooks", "panels"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BESIDE = ("demos",)  # what nothing that is served depends on
LISTED = re.compile(r"^\s*\[\s*jobrunner\.", re.MULTILINE)


class Brought(Struct, frozen=True):
    """A distribution that brings something. ``folder`` is where it lies, or for an editable one
    where its sources do; ``fault`` says why nothing of it is used."""

    name: str
    version: str
    folder: str
    editable: bool = False
    entries: tuple[EntryPoint, ...] = ()
    fault: str = ""

    def of(self, kind: Kind) -> list[EntryPoint]:
        """List its entry points of one of the ``KINDS``, by name."""
        found = self.of_group(PREFIX + kind)
        return sorted(found, key=lambda entry: (entry.name, entry.value))

    def of_group(self, group: str) -> list[EntryPoint]:
        return [entry for entry in self.entries if entry.group == group]


def brought() -> list[Brought]:
    """List all distributions that python finds, by name; of those with one name, the one that
    counts comes first."""
    found = [one for one in map(_read, distributions()) if one is not None]
    return sorted(_with_hidden(found), key=lambda one: normalized(one.name))


def entries(group: str, enabled: Iterable[str] = ("*",)) -> list[EntryPoint]:
    """List what may load of one group, as of ``jobrunner.stages``, from all distributions."""
    every = ((one, entry) for one in brought() if not one.fault for entry in one.of_group(group))
    return [entry for one, entry in every if may_load(one, entry, enabled)]


def offered() -> list[str]:
    """Name every entry point that ``plugins.enabled`` may name."""
    usable = (one for one in brought() if not one.fault)
    return sorted({entry.name for one in usable for kind in KINDS for entry in one.of(kind)})


def may_load(one: Brought, entry: EntryPoint, enabled: Iterable[str]) -> bool:
    """A workflow that may load brings along what its distribution has beside it: without its
    stages it would be no use."""
    names = set(enabled)
    if names & {"*", entry.name}:
        return True
    beside = entry.group != PREFIX + "workflows"
    return beside and any(workflow.name in names for workflow in one.of("workflows"))


def normalized(name: str) -> str:
    """How the names of distributions are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _with_hidden(found: Iterable[Brought]) -> Iterator[Brought]:
    """A folder that stands on the path twice is found twice, and told once."""
    first: dict[str, Brought] = {}
    told: set[tuple[str, str, str]] = set()
    for one in found:
        name = normalized(one.name)
        other = first.setdefault(name, one)
        if (name, one.version, one.folder) not in told:
            told.add((name, one.version, one.folder))
            yield one if other is one else replace(one, fault=_hidden_by(other))


def _hidden_by(other: Brought) -> str:
    return f"is hidden by {other.name} {other.version} in {other.folder}; remove one of them"


def _read(distribution: Distribution) -> Brought | None:
    """Read a distribution; None for one that has nothing for us."""
    try:
        text = distribution.read_text("entry_points.txt") or ""
    except (OSError, UnicodeDecodeError):
        return None
    if not LISTED.search(text):
        return None
    name, version = _named(distribution)
    folder, editable = _place(distribution)
    try:
        found = tuple(e for e in distribution.entry_points if e.group.startswith(PREFIX))
    except Exception as garbled:  # noqa: BLE001 - whatever a stranger's file does to the parser
        why = _first_wrong(text) or str(garbled)
        fault = f"its list of entry points cannot be read ({why}); install it again"
        return Brought(name, version, folder, editable, fault=fault)
    return Brought(name, version, folder, editable, found, _unknown_groups(found))


def _first_wrong(text: str) -> str:
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line and not line.startswith(("#", ";", "[")) and "=" not in line:
            return f"line {number}, {line[:80]!r}, is no NAME = MODULE:OBJECT"
    return ""


def _unknown_groups(found: tuple[EntryPoint, ...]) -> str:
    """Describe a group of entry points that is not known. One among others may be for a newer
    jobrunner; alone it is misspelt."""
    groups = {entry.group.removeprefix(PREFIX) for entry in found}
    if not groups or groups & {*KINDS, *BESIDE}:
        return ""
    group = min(groups)
    return f"brings {PREFIX}{group}, which is no group; {meant(group, [*KINDS, *BESIDE])}"


def _named(distribution: Distribution) -> tuple[str, str]:
    try:
        told = distribution.metadata
        return told["Name"] or "?", told["Version"] or "?"
    except Exception:  # noqa: BLE001 - as above
        return "?", "?"


def _place(distribution: Distribution) -> tuple[str, bool]:
    lies = str(Path(str(distribution.locate_file(""))).resolve())
    try:
        told = json.loads(distribution.read_text("direct_url.json") or "{}")
        if told.get("dir_info", {}).get("editable"):
            return unquote(urlsplit(told["url"]).path), True
    except (OSError, ValueError, KeyError, AttributeError):
        return lies, False
    return lies, False


def sorted_entries(group: str, enabled: tuple[str, ...]) -> list[EntryPoint]:
    """List them in an order that is the same at every start."""
    return sorted(entries(group, enabled), key=lambda entry: (entry.name, entry.value))
