"""An advertisement as a picture: a stage of light, the product on it, its name and what it offers.

Colours, shapes and their places follow from the order, so the same order is the same picture.
"""

import random
from hashlib import sha256
from typing import Any

from PIL import Image, ImageDraw, ImageFilter
from PIL.PngImagePlugin import PngInfo

from jobrunner_cutx.studio import lettering

SIZES = {"1:1": (1080, 1080), "9:16": (1080, 1920), "4:5": (1080, 1350), "16:9": (1920, 1080)}
RGB = tuple[int, int, int]
Pen = Any

LOOKS: dict[str, list[tuple[RGB, RGB, RGB]]] = {
    "product_hero": [((24, 32, 58), (74, 96, 160), (255, 206, 96)),
                     ((20, 52, 54), (54, 140, 132), (255, 226, 150))],
    "lifestyle": [((232, 214, 190), (250, 240, 224), (150, 84, 52)),
                  ((206, 222, 210), (240, 246, 238), (52, 104, 78))],
    "minimal": [((240, 240, 238), (252, 252, 250), (30, 30, 34)),
                ((226, 232, 238), (248, 250, 252), (30, 52, 84))],
    "bold": [((220, 40, 72), (255, 120, 60), (255, 255, 255)),
             ((72, 30, 200), (180, 60, 220), (255, 236, 90))],
    "seasonal": [((18, 60, 44), (60, 120, 80), (255, 214, 140)),
                 ((90, 30, 40), (190, 80, 60), (255, 230, 190))],
}  # fmt: skip


def advertisement(given: dict[str, Any], path: str) -> None:
    size = SIZES.get(str(given.get("aspect_ratio")), SIZES["1:1"])
    about = PngInfo()
    about.add_text("Software", "jobrunner-cutx built-in provider")
    Board(given, size).drawn().save(path, "PNG", pnginfo=about)


class Board:
    def __init__(self, given: dict[str, Any], size: tuple[int, int], caption: str = "") -> None:
        product = given.get("product") or {}
        name = product.get("name") or given.get("product_id") or ""
        self.name = lettering.drawable(name, "The product")
        self.claim = lettering.drawable(caption or _claim(given, product))
        self.offer = lettering.drawable(product.get("price") or "")
        self.w, self.h = size
        mark = sha256(repr(sorted(given.items(), key=str)).encode()).digest()
        self.luck = random.Random(mark)
        style = str(given.get("style") or "product_hero")
        self.dark, self.light, self.ink = self.luck.choice(LOOKS.get(style, LOOKS["product_hero"]))
        self.bright = sum(self.light) > 600

    def drawn(self) -> Image.Image:
        picture = self._ground()
        self._shapes(picture)
        pen = ImageDraw.Draw(picture, "RGBA")
        centre = self.w / 2 if self.h >= self.w else self.w * 0.7
        self._product(picture, centre, self.h * (0.56 if self.h >= self.w else 0.55))
        self._words(pen)
        return picture

    def _ground(self) -> Image.Image:
        """Light from the middle."""
        small = Image.new("RGB", (96, 96))
        for y in range(96):
            for x in range(96):
                part = min(((x - 48) ** 2 + (y - 56) ** 2) ** 0.5 / 62, 1.0)
                r, g, b = (
                    round(a + (c - a) * part) for a, c in zip(self.light, self.dark, strict=True)
                )
                small.putpixel((x, y), (r, g, b))
        return small.resize((self.w, self.h), Image.Resampling.BICUBIC)

    def _shapes(self, picture: Image.Image) -> None:
        layer = Image.new("RGBA", picture.size)
        pen = ImageDraw.Draw(layer)
        for _ in range(7):
            x, y = self.luck.uniform(0, self.w), self.luck.uniform(0, self.h)
            radius = self.luck.uniform(0.06, 0.24) * min(self.w, self.h)
            place = (x - radius, y - radius, x + radius, y + radius)
            colour = (*self.luck.choice((self.light, self.dark, self.ink)), 30)
            (pen.ellipse if self.luck.random() < 0.6 else pen.rectangle)(place, fill=colour)
        layer = layer.filter(ImageFilter.GaussianBlur(min(self.w, self.h) * 0.012))
        picture.paste(layer, mask=layer.getchannel("A"))

    def _product(self, picture: Image.Image, x: float, y: float) -> None:
        """A bottle, a box or a jar: nobody knows what it looks like, so it looks like one."""
        size = min(self.w, self.h) * 0.26
        shadow = Image.new("RGBA", picture.size)
        place = (x - size * 0.9, y + size * 0.92, x + size * 0.9, y + size * 1.16)
        ImageDraw.Draw(shadow).ellipse(place, fill=(0, 0, 0, 120))
        shadow = shadow.filter(ImageFilter.GaussianBlur(size * 0.08))
        picture.paste(shadow, mask=shadow.getchannel("A"))
        pen = ImageDraw.Draw(picture, "RGBA")
        self.luck.choice((self._bottle, self._box, self._jar))(pen, x, y, size)

    def _bottle(self, pen: Pen, x: float, y: float, size: float) -> None:
        body = (x - size * 0.42, y - size * 0.45, x + size * 0.42, y + size * 1.05)
        pen.rounded_rectangle(body, size * 0.2, fill=self.ink)
        neck = (x - size * 0.14, y - size * 0.85, x + size * 0.14, y - size * 0.4)
        pen.rectangle(neck, fill=self.ink)
        cap = (x - size * 0.19, y - size * 1.02, x + size * 0.19, y - size * 0.8)
        pen.rounded_rectangle(cap, size * 0.05, fill=self.dark if self.bright else self.light)
        self._label(pen, x, y + size * 0.32, size * 0.36)
        shine = (x - size * 0.34, y - size * 0.35, x - size * 0.24, y + size * 0.92)
        pen.rounded_rectangle(shine, size * 0.05, fill=(255, 255, 255, 60))

    def _box(self, pen: Pen, x: float, y: float, size: float) -> None:
        front = (x - size * 0.75, y - size * 0.55, x + size * 0.45, y + size * 1.05)
        pen.rectangle(front, fill=self.ink)
        side = [(x + size * 0.45, y - size * 0.55), (x + size * 0.8, y - size * 0.75),
                (x + size * 0.8, y + size * 0.85), (x + size * 0.45, y + size * 1.05)]  # fmt: skip
        pen.polygon(side, fill=(*self.ink, 190))
        top = [(x - size * 0.75, y - size * 0.55), (x - size * 0.4, y - size * 0.75),
               (x + size * 0.8, y - size * 0.75), (x + size * 0.45, y - size * 0.55)]  # fmt: skip
        pen.polygon(top, fill=(*self.ink, 225))
        self._label(pen, x - size * 0.15, y + size * 0.25, size * 0.5)

    def _jar(self, pen: Pen, x: float, y: float, size: float) -> None:
        body = (x - size * 0.66, y - size * 0.3, x + size * 0.66, y + size * 1.05)
        pen.rounded_rectangle(body, size * 0.16, fill=self.ink)
        lid = (x - size * 0.7, y - size * 0.56, x + size * 0.7, y - size * 0.24)
        pen.rounded_rectangle(lid, size * 0.06, fill=self.dark if self.bright else self.light)
        self._label(pen, x, y + size * 0.36, size * 0.56)

    def _label(self, pen: Pen, x: float, y: float, half: float) -> None:
        paper = (250, 248, 242) if sum(self.ink) < 420 else (36, 36, 44)
        text = (36, 36, 44) if sum(self.ink) < 420 else (250, 248, 242)
        pen.rectangle((x - half, y - half * 0.55, x + half, y + half * 0.55), fill=paper)
        name, size = lettering.fitting(self.name.split()[0], half * 1.7, half * 0.6)
        pen.text((x, y), name, font=lettering.font(size), fill=text, anchor="mm")

    def _words(self, pen: Pen) -> None:
        tall = self.h >= self.w
        room = self.w * (0.86 if tall else 0.44)
        x = self.w * 0.07
        y = self.h * (0.07 if tall else 0.16)
        ink = (24, 26, 34) if self.bright else (255, 255, 255)
        size = self.w * (0.075 if tall else 0.05)
        for line in lettering.lines(self.name, room, size, 2):
            pen.text((x, y), line, font=lettering.font(size), fill=ink)
            y += size * 1.18
        size = self.w * (0.036 if tall else 0.024)
        for line in lettering.lines(self.claim, room, size, 4):
            pen.text((x, y + size * 0.4), line, font=lettering.font(size), fill=(*ink, 220))
            y += size * 1.35
        if self.offer:
            self._offer(pen, x)

    def _offer(self, pen: Pen, x: float) -> None:
        size = min(self.w, self.h) * 0.045
        offer, size = lettering.fitting(self.offer, self.w * 0.8, size)
        font = lettering.font(size)
        width = font.getlength(offer)
        y = self.h * 0.87
        pen.rounded_rectangle((x, y, x + width + size * 1.4, y + size * 1.7), size * 0.85,
                              fill=self.ink)  # fmt: skip
        text = (30, 30, 36) if sum(self.ink) > 420 else (255, 255, 255)
        pen.text((x + size * 0.7, y + size * 0.8), offer, font=font, fill=text, anchor="lm")


def _claim(given: dict[str, Any], product: dict[str, Any]) -> str:
    features = product.get("features") or []
    return str(given.get("prompt") or (features[0] if features else "")
               or product.get("description") or "See it for yourself")  # fmt: skip


def captioned(given: dict[str, Any], caption: str, path: str) -> None:
    """One scene of a film."""
    size = SIZES.get(str(given.get("aspect_ratio")), SIZES["9:16"])
    half = (size[0] // 2, size[1] // 2)
    Board(given, size, caption).drawn().resize(half, Image.Resampling.LANCZOS).save(path, "PNG")
