"""Faults of a declaration, each with the way in which a job would come to suffer from it."""

from collections.abc import Iterable
from difflib import get_close_matches

from msgspec import Struct


class Fault(Struct, frozen=True):
    """``rule`` is the name of what was broken, ``text`` says what is wrong and the likely cure,
    ``trace`` is a counter-example: the steps of one job, and where it stands then."""

    rule: str
    text: str
    trace: tuple[str, ...] = ()


def meant(name: str, known: Iterable[str]) -> str:
    """The likely cure of a name that stands for nothing."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"declared are {', '.join(names)}" if names else "none is declared"
