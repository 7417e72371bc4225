"""Pictures as they come from anywhere, made into files as they are wanted.

Whatever a decoder makes of a stranger's bytes, it costs that picture and nothing else. What is read
becomes plain first: upright, eight bits a colour, in the colours that every screen means. What a
file says beside its picture (where it was taken, with what) is not handed on.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from PIL import Image, ImageCms, ImageOps

from jobrunner import PermanentFailure

TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
FORMATS = {"PNG": "png", "JPEG": "jpeg", "WEBP": "webp", "GIF": "gif"}
ENDINGS = {"png": "png", "jpeg": "jpg", "webp": "webp", "gif": "gif"}
PIXELS_MAX = 64_000_000
PLAIN = ("RGB", "RGBA", "L", "LA")
OPTIONS: dict[str, dict[str, Any]] = {
    "png": {"optimize": True},
    "jpeg": {"quality": 88, "optimize": True, "progressive": True},
    "webp": {"quality": 86},
    "gif": {},
}


class Read(Struct, frozen=True):
    """A picture in memory, and the format that it came in."""

    image: Image.Image
    kind: str


def read(path: str) -> Read:
    """The first frame of what moves. Raises: PermanentFailure (NO_IMAGE, IMAGE_TOO_LARGE)."""
    with _costs_only_this("this is no picture that can be read"), open(path, "rb") as file:
        picture = Image.open(file, formats=list(FORMATS))
        if picture.width * picture.height > PIXELS_MAX:
            raise _too_large(f"{picture.width} × {picture.height} pixels")
        picture.load()
        kind = FORMATS[str(picture.format)]
        return Read(_plain(ImageOps.exif_transpose(picture)), kind)


def write(picture: Read, edge: int, kind: str, path: str) -> None:
    """Never larger than what was read; ``edge`` 0 is as large. A JPEG has no transparency, so what
    shines through becomes white. Raises: PermanentFailure."""
    with _costs_only_this(f"it cannot be made a {kind}"):
        small = picture.image
        if edge and edge < max(small.size):
            small = small.copy()
            small.thumbnail((edge, edge), Image.Resampling.LANCZOS)
        if kind == "jpeg" and small.mode in ("RGBA", "LA"):
            small = _on_white(small)
        elif kind == "gif" and small.mode == "LA":
            small = small.convert("RGBA")
        small.save(path, kind.upper(), **OPTIONS[kind])


def _plain(picture: Image.Image) -> Image.Image:
    """Without anything but its pixels: what is said of the input's colours holds no more."""
    if picture.mode.startswith("I"):
        picture = picture.point(lambda value: value / 256).convert("L")
    see_through = "transparency" in picture.info or picture.mode in ("PA", "La", "RGBa")
    if see_through or picture.mode == "P":
        picture = picture.convert("RGBA" if see_through else "RGB")
    picture = _in_usual_colours(picture)
    if picture.mode not in PLAIN:
        picture = picture.convert("L" if picture.mode == "1" else "RGB")
    picture.info = {}
    return picture


def _in_usual_colours(picture: Image.Image) -> Image.Image:
    """By the profile that came with it, if that is one; a broken one is ignored."""
    profile = picture.info.get("icc_profile")
    if not profile or picture.mode not in ("RGB", "RGBA", "CMYK"):
        return picture
    mode = "RGBA" if picture.mode == "RGBA" else "RGB"
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        target = ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(picture, source, target, outputMode=mode)
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return picture
    return picture if converted is None else converted


def _on_white(picture: Image.Image) -> Image.Image:
    layer = picture.convert("RGBA")
    paper = Image.new("RGB", layer.size, "white")
    paper.paste(layer, mask=layer.getchannel("A"))
    return paper


@contextmanager
def _costs_only_this(text: str) -> Iterator[None]:
    """The disk's own errors are not the picture's, and go on as they are."""
    try:
        yield
    except PermanentFailure:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large("far too many pixels") from error
    except FileNotFoundError as error:
        raise PermanentFailure("ASSET_NOT_FOUND", "its file was removed meanwhile") from error
    except MemoryError as error:
        raise _too_large("more than the memory holds") from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise PermanentFailure("NO_IMAGE", text, excerpt=str(error)) from error


def _too_large(size: str) -> PermanentFailure:
    return PermanentFailure("IMAGE_TOO_LARGE", f"{size}; {PIXELS_MAX:,} pixels are read at most")
