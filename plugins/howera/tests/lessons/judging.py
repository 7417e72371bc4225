"""How good a guide is: words heard, titles that are orders, pictures of the right moment, paper
that is not used."""

import io
import re
from itertools import pairwise
from typing import Any

from PIL import Image

from plugins.howera.tests.lessons.clips import Shown
from plugins.howera.tests.lessons.told import Lesson, Told

TITLE_WORDS_MAX = 12
NEAR = 60
APART_S = 1.0
MARGIN = 0.07
INK = 235


def word_errors(said: str, heard: str) -> tuple[int, int]:
    """Words that are wrong, missing or too many; and how many were said."""
    wanted, found = words(said), words(heard)
    row = list(range(len(found) + 1))
    for number, word in enumerate(wanted, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(found, 1):
            cost = min(row[place] + 1, row[place - 1] + 1, before + (word != other))
            before, row[place] = row[place], cost
    return row[-1], len(wanted)


def words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+", text.lower())


def is_order(title: str, step: Told) -> bool:
    """Say whether the title tells to do what the step tells."""
    found = words(title)
    if not found or len(found) > TITLE_WORDS_MAX or title.endswith("…"):
        return False
    return any(
        found[0] == verb and not set(objects.split()).isdisjoint(found[1:])
        for verb, objects in step.orders
    )


def titles(lesson: Lesson, shown: tuple[Shown, ...], steps: list[dict[str, Any]]) -> list[bool]:
    """For each told step, whether the title of the step that has most of it is its order."""
    return [
        is_order(str(_covering(span, steps).get("title", "")), step)
        for step, span in zip(lesson.steps, shown[1:], strict=True)
    ]


def _covering(span: Shown, steps: list[dict[str, Any]]) -> dict[str, Any]:
    return max(steps, key=lambda one: _shared(span, one["start_s"], one["end_s"]), default={})


def _shared(span: Shown, start_s: float, end_s: float) -> float:
    return min(span.end_s, end_s) - max(span.start_s, start_s)


def picture_is_right(
    content: bytes, shown: tuple[Shown, ...], start_s: float, end_s: float
) -> bool:
    """Say whether it is of a slide that is on show during the step."""
    with Image.open(io.BytesIO(content)) as picture:
        colour = picture.convert("RGB").getpixel((20, 20))
    assert isinstance(colour, tuple)
    meant = min(shown, key=lambda one: _apart(colour, one.colour))
    near = _apart(colour, meant.colour) < NEAR
    return near and _shared(meant, start_s, end_s) >= min(APART_S, (end_s - start_s) / 2)


def _apart(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


def empty(page: bytes) -> float:
    """The share of the page's height, between its margins, that has nothing in it: each gap counts
    that is higher than the space between two steps."""
    with Image.open(io.BytesIO(page)) as picture:
        grey = picture.convert("L")
    first, last = int(grey.height * MARGIN), int(grey.height * (1 - MARGIN))
    inked = [row for row in range(first, last) if _darkest(grey, row) < INK]
    edges = [first, *inked, last]
    gaps = (below - above for above, below in pairwise(edges))
    return sum(gap for gap in gaps if gap > grey.height * 0.04) / (last - first)


def _darkest(grey: Image.Image, row: int) -> float:
    lowest, _ = grey.crop((0, row, grey.width, row + 1)).getextrema()
    assert isinstance(lowest, int | float)
    return lowest
