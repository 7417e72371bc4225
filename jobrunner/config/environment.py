"""Settings from the environment: ``JOBRUNNER_SECTION__KEY`` laid over what the file says. Names are
compared without case, and with ``_`` for ``-``; two that then mean the same are a fault.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

PREFIX = "JOBRUNNER_"


class FromEnvironment(Struct, frozen=True):
    """A value from the environment: text, whatever the key wants, and the variable it came from."""

    text: str
    variable: str


def overlay(
    tree: dict[str, Any], environ: Mapping[str, str], sections: Mapping[str, Any], faults: list[str]
) -> None:
    """Puts every variable that is a setting into the tree, over what the file says."""
    taken: dict[tuple[str, ...], str] = {}
    for variable, text in sorted(environ.items()):
        keys = _keys(variable, sections, faults)
        if not keys:
            continue
        other = taken.setdefault(keys, variable)
        if other == variable:
            _put(tree, keys, FromEnvironment(text, variable), faults)
        else:
            faults.append(f"{variable}: means the same key as {other}; keep one of them")


def _keys(variable: str, sections: Mapping[str, Any], faults: list[str]) -> tuple[str, ...]:
    """The folded path a variable stands for; empty when it is none of the settings."""
    if not variable.upper().startswith(PREFIX):
        return ()
    name = variable[len(PREFIX) :]
    keys = tuple(fold(key) for key in name.split("__"))
    if len(keys) > 1:
        return keys
    for section, kind in sections.items():
        if isinstance(kind, type) and keys[0] in getattr(kind, "__struct_fields__", ()):
            cure = f"{PREFIX}{section.upper()}__{keys[0].upper()}"
            faults.append(f"{variable}: names no section; did you mean {cure}?")
    return ()


def _put(
    tree: dict[str, Any], keys: tuple[str, ...], given: FromEnvironment, faults: list[str]
) -> None:
    """Set one key, following names that the file spelled with capitals or dashes."""
    spot: Any = tree
    for depth, key in enumerate(keys):
        if not isinstance(spot, dict):
            inside = ".".join(keys[:depth])
            faults.append(f"{given.variable}: {inside} has a value already and holds no keys")
            return
        spellings = [name for name in spot if fold(name) == key]
        if len(spellings) > 1:
            both = " and ".join(map(repr, spellings))
            faults.append(f"{given.variable}: matches both {both} in the file; rename one")
            return
        spelling = spellings[0] if spellings else key
        if depth == len(keys) - 1:
            spot[spelling] = given
        else:
            spot = spot.setdefault(spelling, {})


def fold(name: str) -> str:
    """How names are compared when they come from the environment."""
    return name.lower().replace("-", "_")
