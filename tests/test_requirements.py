"""Every numbered requirement of the five lifecycles is named by a test, or said to be waiting.

A test names what it shows in its docstring or in a comment: ``I5``, ``C34``, ``S19``, or a span
such as ``I29-I33``. What waits is listed here with what it waits for; a number that is both shown
and waiting is an error too, so that the list can only shrink honestly.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAST = {"I": 41, "C": 48, "S": 38, "P": 40, "H": 66}

WAITING: dict[str, str] = {}

ONE = re.compile(r"\b([ICSPH])(\d{1,2})(?:\s?[-–]\s?(?:\1)?(\d{1,2}))?\b")


def required() -> set[str]:
    return {f"{letter}{n}" for letter, last in LAST.items() for n in range(1, last + 1)}


def named(text: str) -> set[str]:
    """Every number in a text, spans filled in."""
    found = set()
    for letter, first, last in ONE.findall(text):
        found |= {f"{letter}{n}" for n in range(int(first), int(last or first) + 1)}
    return found


def shown() -> set[str]:
    texts = (
        path.read_text(encoding="utf-8")
        for folder in ("tests", "plugins")
        for path in (ROOT / folder).rglob("test_*.py")
        if path != Path(__file__)
    )
    return set().union(*map(named, texts)) & required()


def test_there_are_233() -> None:
    assert len(required()) == 233


def test_spans_and_single_numbers_are_understood() -> None:
    assert named("I29-I33, C4 and S10–13; H7") == {
        *("I29 I30 I31 I32 I33".split()),
        "C4",
        *("S10 S11 S12 S13".split()),
        "H7",
    }


def test_every_requirement_is_shown_or_waits() -> None:
    assert sorted(required() - shown() - WAITING.keys()) == []


def test_nothing_that_waits_is_shown() -> None:
    assert sorted(WAITING.keys() & shown()) == []
