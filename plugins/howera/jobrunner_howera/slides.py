"""The pictures of a step: one where it is short, and where it is long one of each thing that the
film shows in it.

A picture is another one when much of it, seen from afar, has another colour: a new slide is, a
speaker who moves is not.
"""

import math
import os

from msgspec import Struct

from jobrunner_howera import film

APART_S = 8.0
LOOKS_MAX = 8
SHOWN_MAX = 4
PLACE = 0.4
AFAR = (32, 18)
STEP, SHARE = 24, 0.06


class Shot(Struct, frozen=True):
    """A picture, and the moment that it shows."""

    path: str
    moment_s: float


def shown(path: str, start_s: float, end_s: float, into: str) -> list[Shot]:
    """JPEGs, in the order of the film; ``into`` is how their paths begin."""
    made: list[Shot] = []
    seen: list[bytes] = []
    for number, moment in enumerate(_moments(start_s, end_s), 1):
        place = f"{into}-{number:02d}.jpg"
        if not film.picture_at(path, moment, place):
            continue
        look = _from_afar(place)
        if len(made) < SHOWN_MAX and all(_differ(look, known) for known in seen):
            made.append(Shot(place, round(moment, 2)))
            seen.append(look)
        else:
            os.unlink(place)
    return made


def _moments(start_s: float, end_s: float) -> list[float]:
    """Into each of equal parts, that long that a slide does not slip through."""
    length = max(end_s - start_s, 0.0)
    parts = min(max(1, math.ceil(length / APART_S)), LOOKS_MAX)
    return [start_s + length * (number + PLACE) / parts for number in range(parts)]


def _from_afar(path: str) -> bytes:
    from PIL import Image

    try:
        with Image.open(path) as picture:
            return picture.convert("RGB").resize(AFAR, Image.Resampling.BOX).tobytes()
    except (OSError, ValueError):
        return b""


def _differ(one: bytes, other: bytes) -> bool:
    if len(one) != len(other):
        return True
    other_than = sum(abs(a - b) > STEP for a, b in zip(one, other, strict=True))
    return other_than > SHARE * len(one)
