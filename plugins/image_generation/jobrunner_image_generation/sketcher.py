"""The built-in sketcher: a small scene out of the words of a prompt, without any provider.

The words choose the light, the land and what stands in it; the seed and the whole prompt choose
where everything goes, so the same wish is the same picture. It says in the picture's metadata what
it is, because nobody should take it for the work of a model.
"""

import math
import random
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from PIL import Image, ImageDraw, ImageFilter
from PIL.PngImagePlugin import PngInfo

EDGE_MAX = 4096
BOARD = 512
RGB = tuple[int, int, int]
Pen = Any

LIGHTS: dict[str, tuple[RGB, RGB]] = {
    "night": ((10, 14, 40), (48, 52, 98)),
    "dusk": ((58, 40, 96), (240, 138, 96)),
    "sunset": ((92, 44, 100), (250, 160, 84)),
    "dawn": ((120, 150, 205), (252, 206, 178)),
    "storm": ((52, 60, 72), (128, 138, 148)),
    "winter": ((168, 190, 214), (232, 240, 247)),
    "day": ((96, 160, 224), (208, 232, 248)),
}
LIGHT_WORDS = {
    "night": "night midnight moon moonlit stars starry dark galaxy space",
    "dusk": "dusk evening twilight",
    "sunset": "sunset golden autumn fire",
    "dawn": "dawn morning sunrise spring",
    "storm": "storm stormy rain rainy grey gray fog foggy gloomy",
    "winter": "winter snow snowy ice frozen",
}
COLOURS: dict[str, RGB] = {
    "red": (206, 62, 56), "orange": (236, 140, 52), "yellow": (242, 204, 74),
    "green": (84, 150, 88), "blue": (62, 112, 190), "purple": (134, 88, 168),
    "pink": (236, 142, 168), "white": (244, 242, 236), "black": (34, 34, 40),
    "brown": (130, 92, 62), "gold": (218, 174, 72), "silver": (176, 184, 194),
}  # fmt: skip


class TooLarge(ValueError):
    """More pixels than the sketcher has paper for."""


def draw(path: str, prompt: str, size: str, seed: int) -> None:
    """Writes a PNG. Raises: TooLarge."""
    width, height = (int(part) for part in size.split("x"))
    if max(width, height) > EDGE_MAX:
        raise TooLarge(f"the built-in sketcher draws up to {EDGE_MAX} pixels an edge, not {size}")
    scene = Scene(prompt, seed, width / height)
    picture = scene.drawn().resize((width, height), Image.Resampling.LANCZOS)
    about = PngInfo()
    about.add_text("Software", "jobrunner built-in sketcher")
    about.add_itxt("Description", f"a sketch, made by rules and not by a model: {prompt[:1000]}")
    about.add_text("Seed", str(seed))
    picture.save(path, "PNG", pnginfo=about)


class Scene:
    """A board about as large as ``BOARD``, drawn at twice that for smooth edges."""

    def __init__(self, prompt: str, seed: int, ratio: float) -> None:
        self.words = re.findall(r"[a-z]+", prompt.lower())
        mark = sha256(f"{seed}\0{prompt}".encode()).digest()
        self.luck = random.Random(mark)
        self.w = round(2 * BOARD * min(max(ratio, 0.1), 10) ** 0.5)
        self.h = round(2 * BOARD / min(max(ratio, 0.1), 10) ** 0.5)
        self.light = self._light()
        self.accents = [COLOURS[word] for word in self.words if word in COLOURS]
        self.ground = round(self.h * self.luck.uniform(0.58, 0.7))

    def drawn(self) -> Image.Image:
        picture = self._sky()
        pen = ImageDraw.Draw(picture, "RGBA")
        self._heaven(pen)
        subjects = self._subjects()
        for name in ("mountain", "city"):
            if name in subjects:
                SUBJECTS[name](self, pen)
        self._land(pen, "sea" in subjects)
        for name, sketch in SUBJECTS.items():
            if name in subjects - {"mountain", "city"}:
                sketch(self, pen)
        if not subjects:
            self._abstract(pen)
        return self._grained(picture)

    def has(self, words: str) -> bool:
        return bool(set(words.split()) & set(self.words))

    def colour(self, fallback: RGB) -> RGB:
        return self.luck.choice(self.accents) if self.accents else fallback

    def shade(self, colour: RGB, by: float) -> RGB:
        """Towards the light of the horizon."""
        far = LIGHTS[self.light][1]
        r, g, b = (round(c + (f - c) * by) for c, f in zip(colour, far, strict=True))
        return r, g, b

    def _light(self) -> str:
        found = [name for name, words in LIGHT_WORDS.items() if self.has(words)]
        return found[0] if found else "day"

    def _subjects(self) -> set[str]:
        plain = {word.removesuffix("s") for word in self.words} | set(self.words)
        return {name for name, words in SUBJECT_WORDS.items() if set(words.split()) & plain}

    def _sky(self) -> Image.Image:
        high, low = LIGHTS[self.light]
        column = Image.new("RGB", (1, self.ground))
        for y in range(self.ground):
            part = y / self.ground
            r, g, b = (round(a + (c - a) * part) for a, c in zip(high, low, strict=True))
            column.putpixel((0, y), (r, g, b))
        picture = Image.new("RGB", (self.w, self.h), low)
        picture.paste(column.resize((self.w, self.ground)), (0, 0))
        return picture

    def _heaven(self, pen: Pen) -> None:
        x, y = self.luck.uniform(0.15, 0.85) * self.w, self.luck.uniform(0.12, 0.3) * self.h
        radius = self.h * 0.06
        if self.light == "night":
            for _ in range(160):
                at = self.luck.randrange(self.w), self.luck.randrange(self.ground)
                size = self.luck.choice((1, 1, 2, 3))
                pen.ellipse(_round(*at, size), fill=(255, 255, 240, self.luck.randrange(90, 255)))
            pen.ellipse(_round(x, y, radius), fill=(240, 240, 224))
        elif self.light != "storm":
            for step in range(6, 0, -1):
                pen.ellipse(_round(x, y, radius * (1 + step * 0.35)), fill=(255, 244, 200, 18))
            pen.ellipse(_round(x, y, radius), fill=(255, 240, 190))
        for _ in range(self.luck.randrange(2, 6)):
            self._cloud(pen)

    def _cloud(self, pen: Pen) -> None:
        x, y = self.luck.uniform(0, self.w), self.luck.uniform(0.05, 0.4) * self.h
        for _ in range(7):
            dx, dy = self.luck.gauss(0, 60), self.luck.gauss(0, 10)
            pen.ellipse(_round(x + dx, y + dy, self.luck.uniform(18, 44), 0.6),
                        fill=(*self.shade((255, 255, 255), 0.35), 70))  # fmt: skip

    def _land(self, pen: Pen, sea: bool) -> None:
        near = (38, 84, 122) if sea else (72, 116, 70)
        if self.light == "winter" and not sea:
            near = (226, 232, 238)
        for row in range(self.ground, self.h):
            part = (row - self.ground) / (self.h - self.ground)
            pen.line((0, row, self.w, row), fill=self.shade(near, 0.7 * (1 - part)))
        for _ in range(90 if sea else 140):
            x, y = self.luck.uniform(0, self.w), self.luck.uniform(self.ground + 4, self.h)
            size = 4 + 30 * (y - self.ground) / (self.h - self.ground)
            if sea:
                pen.line((x, y, x + 2 * size, y), fill=(255, 255, 255, 60), width=2)
            else:
                pen.line((x, y, x + self.luck.gauss(0, 4), y - size),
                         fill=(*self.shade(near, 0.2), 110), width=2)  # fmt: skip

    def _abstract(self, pen: Pen) -> None:
        """Nothing that it knows: rings and ribbons, in the colours that were named."""
        palette = self.accents or [self.luck.choice(list(COLOURS.values())) for _ in range(4)]
        for number in range(26):
            x, y = self.luck.uniform(0, self.w), self.luck.uniform(0, self.h)
            radius = self.luck.uniform(0.03, 0.2) * self.h
            colour = (*palette[number % len(palette)], self.luck.randrange(60, 170))
            if number % 2:
                pen.ellipse(_round(x, y, radius), outline=colour, width=14)
            else:
                points = [
                    (x + radius * 2 * t / 20, y + radius * math.sin(t / 3 + number))
                    for t in range(40)
                ]
                pen.line(points, fill=colour, width=18, joint="curve")

    def _grained(self, picture: Image.Image) -> Image.Image:
        half = picture.resize((self.w // 2, self.h // 2), Image.Resampling.LANCZOS)
        noise = Image.frombytes("L", half.size, self.luck.randbytes(half.width * half.height))
        paper = Image.merge("RGB", [noise.filter(ImageFilter.GaussianBlur(0.6))] * 3)
        return Image.blend(half, paper, 0.035)


def _round(x: float, y: float, radius: float, flat: float = 1.0) -> tuple[float, ...]:
    return x - radius, y - radius * flat, x + radius, y + radius * flat


def _mountain(scene: Scene, pen: Pen) -> None:
    for layer in range(3):
        colour = scene.shade((74, 82, 104), 0.65 - 0.25 * layer)
        top = scene.ground - scene.h * (0.34 - 0.09 * layer)
        peaks: list[tuple[float, float]] = [(0, scene.ground)]
        x = -scene.w * 0.1
        while x < scene.w * 1.1:
            peaks.append((x, scene.luck.uniform(top, top + scene.h * 0.14)))
            x += scene.w * 0.08
            peaks.append((x, scene.luck.uniform(top + scene.h * 0.1, scene.ground)))
            x += scene.w * 0.08
        pen.polygon([*peaks, (scene.w, scene.ground)], fill=colour)


def _city(scene: Scene, pen: Pen) -> None:
    x = 0.0
    while x < scene.w:
        width = scene.luck.uniform(40, 110)
        top = scene.ground - scene.luck.uniform(0.08, 0.36) * scene.h
        pen.rectangle((x, top, x + width, scene.ground), fill=scene.shade((52, 58, 76), 0.25))
        for wx in range(round(x) + 8, round(x + width) - 10, 18):
            for wy in range(round(top) + 10, scene.ground - 12, 24):
                if scene.luck.random() < 0.5:
                    pen.rectangle((wx, wy, wx + 8, wy + 12), fill=(250, 222, 140, 190))
        x += width + scene.luck.uniform(0, 12)


def _tree(scene: Scene, pen: Pen) -> None:
    for _ in range(9 if scene.has("forest woods trees jungle") else 3):
        x = scene.luck.uniform(0.03, 0.97) * scene.w
        foot = scene.luck.uniform(scene.ground + 10, scene.h * 0.9)
        tall = scene.h * 0.22 * (0.5 + (foot - scene.ground) / (scene.h - scene.ground))
        pen.rectangle((x - 7, foot - tall * 0.4, x + 7, foot), fill=(88, 62, 44))
        green = scene.colour((58, 112, 66))
        for _ in range(9):
            dx, dy = scene.luck.gauss(0, tall * 0.16), scene.luck.gauss(0, tall * 0.14)
            pen.ellipse(
                _round(x + dx, foot - tall * 0.7 + dy, tall * 0.17),
                fill=(*scene.shade(green, scene.luck.uniform(0, 0.3)), 230),
            )


def _house(scene: Scene, pen: Pen) -> None:
    x, foot = scene.luck.uniform(0.2, 0.7) * scene.w, scene.ground + scene.h * 0.1
    width, tall = scene.w * 0.14, scene.h * 0.13
    wall = scene.colour((226, 206, 176))
    pen.rectangle((x, foot - tall, x + width, foot), fill=wall)
    roof = [
        (x - 16, foot - tall),
        (x + width / 2, foot - tall * 1.7),
        (x + width + 16, foot - tall),
    ]
    pen.polygon(roof, fill=(152, 70, 56))
    pen.rectangle((x + width * 0.42, foot - tall * 0.55, x + width * 0.6, foot), fill=(96, 66, 48))
    for part in (0.14, 0.72):
        place = (x + width * part, foot - tall * 0.7, x + width * (part + 0.16), foot - tall * 0.4)
        pen.rectangle(place, fill=(252, 230, 150))


def _lighthouse(scene: Scene, pen: Pen) -> None:
    x, foot = scene.luck.uniform(0.25, 0.75) * scene.w, scene.ground + scene.h * 0.06
    tall, wide = scene.h * 0.42, scene.h * 0.035
    pen.ellipse(_round(x, foot, wide * 3.4, 0.4), fill=scene.shade((80, 74, 72), 0.1))
    lamp = foot - tall
    for side in (-1, 1):
        far = x + side * scene.w
        pen.polygon([(x, lamp), (far, lamp - 90), (far, lamp + 60)], fill=(255, 240, 180, 46))
    bands = 6
    for band in range(bands):
        low, high = foot - tall * band / bands, foot - tall * (band + 1) / bands
        w0, w1 = wide * (1 - 0.4 * band / bands), wide * (1 - 0.4 * (band + 1) / bands)
        colour = scene.colour((204, 60, 54)) if band % 2 else (244, 242, 236)
        pen.polygon([(x - w0, low), (x - w1, high), (x + w1, high), (x + w0, low)], fill=colour)
    pen.rectangle((x - wide * 0.5, lamp - wide, x + wide * 0.5, lamp), fill=(255, 236, 160))
    roof = [(x - wide * 0.7, lamp - wide), (x, lamp - wide * 2), (x + wide * 0.7, lamp - wide)]
    pen.polygon(roof, fill=(70, 52, 52))


def _boat(scene: Scene, pen: Pen) -> None:
    x, y = scene.luck.uniform(0.2, 0.8) * scene.w, scene.ground + scene.h * 0.12
    size = scene.h * 0.1
    keel = y + size * 0.4
    hull = [(x - size, y), (x + size, y), (x + size * 0.6, keel), (x - size * 0.6, keel)]
    pen.polygon(hull, fill=scene.colour((122, 74, 50)))
    pen.line((x, y, x, y - size * 1.6), fill=(70, 54, 44), width=6)
    pen.polygon([(x + 4, y - size * 1.55), (x + size * 0.9, y - 10), (x + 4, y - 10)],
                fill=(248, 244, 234))  # fmt: skip


def _flower(scene: Scene, pen: Pen) -> None:
    for _ in range(30):
        x, y = scene.luck.uniform(0, scene.w), scene.luck.uniform(scene.ground + 30, scene.h)
        size = 5 + 13 * (y - scene.ground) / (scene.h - scene.ground)
        pen.line((x, y, x, y + size * 2.5), fill=(60, 120, 66), width=3)
        colour = scene.colour(scene.luck.choice(list(COLOURS.values())))
        for turn in range(5):
            angle = turn * 2 * math.pi / 5
            petal = _round(x + size * math.cos(angle), y + size * math.sin(angle), size * 0.7)
            pen.ellipse(petal, fill=colour)
        pen.ellipse(_round(x, y, size * 0.5), fill=(250, 214, 90))


def _animal(scene: Scene, pen: Pen) -> None:
    x, foot = scene.luck.uniform(0.3, 0.7) * scene.w, scene.ground + scene.h * 0.2
    size = scene.h * 0.11
    coat = scene.colour((92, 78, 70))
    pen.ellipse(_round(x, foot - size * 0.8, size, 0.75), fill=coat)
    pen.ellipse(_round(x + size * 0.75, foot - size * 1.75, size * 0.55), fill=coat)
    for side in (0.42, 0.95):
        ear = [(x + size * side, foot - size * 2.0), (x + size * (side + 0.1), foot - size * 2.7),
               (x + size * (side + 0.32), foot - size * 2.1)]  # fmt: skip
        pen.polygon(ear, fill=coat)
    for side in (0.6, 0.95):
        pen.ellipse(_round(x + size * side, foot - size * 1.8, size * 0.08), fill=(250, 240, 150))
    for side in (-0.7, -0.3, 0.3, 0.7):
        pen.rectangle(
            (x + size * side - 8, foot - size * 0.5, x + size * side + 8, foot), fill=coat
        )
    pen.arc(_round(x - size * 1.2, foot - size * 1.3, size * 0.6), 0, 200, fill=coat, width=14)


def _nothing(scene: Scene, pen: Pen) -> None:
    """The sea is drawn with the land."""


SUBJECT_WORDS = {
    "mountain": "mountain hill peak alp cliff valley",
    "city": "city skyline street tower town skyscraper",
    "sea": "sea ocean lake water river beach coast harbour harbor lighthouse boat ship island",
    "tree": "tree forest wood jungle garden park",
    "house": "house cottage cabin home hut barn farm village",
    "lighthouse": "lighthouse",
    "boat": "boat ship sail sailing yacht",
    "flower": "flower meadow garden rose tulip field spring",
    "animal": "cat kitten dog puppy fox animal wolf",
}
SUBJECTS: dict[str, Callable[[Scene, Pen], None]] = {
    "mountain": _mountain,
    "city": _city,
    "sea": _nothing,
    "tree": _tree,
    "house": _house,
    "lighthouse": _lighthouse,
    "boat": _boat,
    "flower": _flower,
    "animal": _animal,
}
