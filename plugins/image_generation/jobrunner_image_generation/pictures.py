"""Looks at what came as a picture before it is kept: a kind that is known, a size that can be
unpacked, and whole to the last line. Whose word for it this is does not count.
"""

import io
from typing import BinaryIO

from msgspec import Struct
from PIL import Image

KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif"}
ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}
PIXELS_MAX = 64_000_000


class NoPicture(ValueError):
    """It cannot be kept; the text says why."""


class Shot(Struct, frozen=True):
    """A sound picture."""

    content_type: str
    width: int
    height: int

    @property
    def ending(self) -> str:
        return ENDINGS[self.content_type]


def looked_at(source: str | bytes) -> Shot:
    """A path, or the picture itself. Raises: NoPicture."""
    if isinstance(source, bytes):
        return _looked_at(io.BytesIO(source))
    with open(source, "rb") as file:
        return _looked_at(file)


def _looked_at(file: BinaryIO) -> Shot:
    try:
        picture = Image.open(file, formats=list(KINDS))
        width, height = picture.size
        if width * height <= PIXELS_MAX:
            picture.load()
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise NoPicture(f"it has more than {PIXELS_MAX:,} pixels") from error
    except Exception as error:  # decoders of strangers' bytes raise anything
        raise NoPicture(f"it cannot be read: {_said(error)}") from error
    if width * height > PIXELS_MAX:
        raise NoPicture(f"it has {width} × {height} pixels; {PIXELS_MAX:,} are read")
    return Shot(KINDS[str(picture.format)], width, height)


def _said(error: Exception) -> str:
    """Without the library's name for the object in memory, which tells nobody anything."""
    return f"{error}".split(" <", maxsplit=1)[0][:200] or type(error).__name__
