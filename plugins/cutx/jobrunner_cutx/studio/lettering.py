"""Words for pictures: in a font that this machine has, with the letters that the font has, in the
room that there is."""

import unicodedata
from functools import lru_cache
from typing import Any

from PIL import ImageFont

FONTS = ("LiberationSans-Regular.ttf", "DejaVuSans.ttf", "Arial.ttf", "Helvetica.ttc")
SIGNS = {
    "€": "EUR ", "£": "GBP ", "¥": "JPY ", "₹": "INR ", "×": "x", "–": "-", "—": "-",
    "ß": "ss", "æ": "ae", "ø": "o", "ł": "l", "Æ": "Ae", "Ø": "O", "Ł": "L",
}  # fmt: skip
SMALLEST = 0.5
NOBODYS = "\uffff"


@lru_cache(maxsize=64)
def font(size: float) -> Any:
    """The one that comes with Pillow has the plain letters and few other signs."""
    for name in FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)


def drawable(text: object, otherwise: str = "") -> str:
    """Keep what can be drawn of it: a letter that the font lacks goes without its accent, or
    goes."""
    said = "".join(map(_drawable, " ".join(str(text).split())))
    return " ".join(said.split()) or otherwise


def lines(text: str, room: float, size: float, most: int) -> list[str]:
    """Broken between words; what is too long ends in dots."""
    found = [""]
    for word in text.split():
        longer = f"{found[-1]} {word}".strip()
        if font(size).getlength(longer) <= room or not found[-1]:
            found[-1] = longer
        else:
            found.append(word)
    if len(found) > most:
        found = [*found[: most - 1], " ".join(found[most - 1 :])]
    return [_cut(line, room, size) for line in found]


def fitting(text: str, room: float, size: float) -> tuple[str, float]:
    """In a smaller size if that does, else cut."""
    smallest = size * SMALLEST
    while font(size).getlength(text) > room and size > smallest:
        size *= 0.9
    return _cut(text, room, size), size


@lru_cache(maxsize=1024)
def _drawable(letter: str) -> str:
    if _known(letter):
        return letter
    bare = "".join(
        SIGNS.get(one, one)
        for one in unicodedata.normalize("NFKD", letter)
        if not unicodedata.combining(one)
    )
    return "".join(one for one in bare if _known(one))


def _known(letter: str) -> bool:
    if letter == " ":
        return True
    if not letter.isprintable():
        return False
    return bytes(font(40).getmask(letter)) != bytes(font(40).getmask(NOBODYS))


def _cut(text: str, room: float, size: float) -> str:
    if font(size).getlength(text) <= room:
        return text
    while text and font(size).getlength(f"{text}...") > room:
        text = text[:-1]
    return f"{text.rstrip()}..."
