"""Files that providers make when a test names none: small, real, and the same for the same wish."""

import struct
import zlib
from hashlib import sha256

from msgspec import Struct

SIDE = 16


class Made(Struct, frozen=True):
    """A file that a provider made."""

    content: bytes
    content_type: str = "image/png"
    ending: str = "png"


def picture(of: object, side: int = SIDE) -> Made:
    """A real PNG of one colour, which depends on what it shows."""
    colour = sha256(repr(of).encode()).digest()[:3]
    line = b"\0" + colour * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    parts = _part(b"IHDR", head) + _part(b"IDAT", zlib.compress(line * side)) + _part(b"IEND", b"")
    return Made(b"\x89PNG\r\n\x1a\n" + parts)


def _part(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
