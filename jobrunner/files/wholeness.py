"""Finds out whether a file from elsewhere is whole, by the rules of its own format: what a broken
transfer or a dead program leaves behind begins like the whole thing.

Each format is walked from part to part, without unpacking anything and without reading what the
walk does not need. A format that is not known here is not judged.
"""

import io
import os
import struct
import zlib
from collections.abc import Callable
from typing import BinaryIO

CHUNK = 1024 * 1024
FLAC_FRAME_MAX = 1024 * 1024
ENDLESS = 0x7FFFF000  # and more, or 0: written by who could not know how long it would be
JPEG_ALONE = (0x01, *range(0xD0, 0xD8))
KBITS_1 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
KBITS_2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


class Short(Exception):
    """The file ends, or goes on otherwise, where its format says that there is more."""


def cut_short(source: str | bytes, content_type: str) -> bool:
    """``source`` is a path, or the content itself."""
    walk = WALKS.get(content_type)
    if walk is None:
        return False
    with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        try:
            walk(file, size)
        except (Short, struct.error, IndexError):
            return True
    return False


def _take(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise Short
    return data


def _skip(file: BinaryIO, count: int, size: int) -> None:
    if file.seek(count, os.SEEK_CUR) > size:
        raise Short


def _png(file: BinaryIO, size: int) -> None:
    _take(file, 8)
    kind = b""
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", _take(file, 8))
        if length > size:
            raise Short
        check = zlib.crc32(kind)
        for start in range(0, length, CHUNK):
            check = zlib.crc32(_take(file, min(CHUNK, length - start)), check)
        if struct.unpack(">I", _take(file, 4))[0] != check:
            raise Short


def _jpeg(file: BinaryIO, size: int) -> None:
    """Walk from segment to segment to the first scan; behind it look for the end's mark only."""
    _take(file, 2)
    while True:
        fill, mark = _take(file, 2)
        if fill != 0xFF:
            raise Short
        if mark == 0xDA:
            break
        if mark == 0xFF:
            file.seek(-1, os.SEEK_CUR)
            continue
        if mark not in JPEG_ALONE:
            _skip(file, struct.unpack(">H", _take(file, 2))[0] - 2, size)
    before = b""
    while data := file.read(CHUNK):
        if b"\xff\xd9" in before + data:
            return
        before = data[-1:]
    raise Short


def _gif(file: BinaryIO, size: int) -> None:
    flags = _take(file, 13)[10]
    _skip(file, _palette(flags), size)
    while (kind := _take(file, 1)) != b";":
        if kind == b",":
            _skip(file, _palette(_take(file, 9)[8]) + 1, size)
        elif kind == b"!":
            _take(file, 1)
        else:
            raise Short
        while length := _take(file, 1)[0]:
            _skip(file, length, size)


def _palette(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _riff(file: BinaryIO, size: int) -> None:
    length = struct.unpack("<4xI4x", _take(file, 12))[0]
    if 0 < length < ENDLESS and length + 8 > size:
        raise Short


def _mp4(file: BinaryIO, size: int) -> None:
    kinds, at = set(), 0
    while at < size:
        file.seek(at)
        length, kind = struct.unpack(">I4s", _take(file, 8))
        if length == 1:
            length = struct.unpack(">Q", _take(file, 8))[0]
        length = length or size - at
        if length < 8 or at + length > size:
            raise Short
        kinds.add(kind)
        at += length
    if b"moov" not in kinds or not kinds & {b"mdat", b"moof"}:
        raise Short


def _webm(file: BinaryIO, size: int) -> None:
    """Walk through head, body and the parts of the body. A part without a length ends with the
    file."""
    name, length = _element(file)
    if name != 0x1A45DFA3:
        raise Short
    _skip(file, length or 0, size)
    _, length = _element(file)
    end = size if length is None else file.tell() + length
    if end > size:
        raise Short
    while file.tell() < end:
        _, length = _element(file)
        if length is None:
            return
        _skip(file, length, size)


def _element(file: BinaryIO) -> tuple[int, int | None]:
    return _number(file, keep=True) or 0, _number(file, keep=False)


def _number(file: BinaryIO, *, keep: bool) -> int | None:
    """A number that begins with how long it is; None for the one that means: unknown."""
    first = _take(file, 1)[0]
    more = 8 - first.bit_length()
    if more > 7:
        raise Short
    bare = first if keep else first & (0x7F >> more)
    value = int.from_bytes(bytes([bare]) + _take(file, more))
    return None if not keep and value == (1 << 7 * (more + 1)) - 1 else value


def _ogg(file: BinaryIO, size: int) -> None:
    flags = 0
    while file.tell() < size:
        head = _take(file, 27)
        if head[:4] != b"OggS":
            raise Short
        flags = head[5]
        _skip(file, sum(_take(file, head[26])), size)
    if not flags & 4:
        raise Short


def _flac(file: BinaryIO, size: int) -> None:
    """Check that the last frame is one, up to its checksum at the end of the file, and the last one
    of the recording: a file that was cut between two frames ends with a whole one, too."""
    _take(file, 4)
    samples = _samples(file, size)
    file.seek(max(file.tell(), size - FLAC_FRAME_MAX))
    tail = file.read()
    at = len(tail)
    while (at := tail.rfind(b"\xff", 0, at)) >= 0:
        head = tail[at : at + 16]
        if head[:2] in (b"\xff\xf8", b"\xff\xf9") and (length := _head_length(head)):
            if _crc16(tail[at:]) == 0 and _reaches(head[:length], *samples):
                return
            break
    raise Short


def _samples(file: BinaryIO, size: int) -> tuple[int, int]:
    """Read the recording's own description: how many samples a block has and there are in all, 0
    where it was written before that was known. Leaves the file at the first frame."""
    described = (0, 0)
    last = False
    while not last:
        head = _take(file, 4)
        last = bool(head[0] & 0x80)
        length = int.from_bytes(head[1:])
        if head[0] & 0x7F == 0 and length >= 18:
            told = _take(file, 18)
            described = int.from_bytes(told[:2]), int.from_bytes(told[13:18]) & (1 << 36) - 1
            length -= 18
        _skip(file, length, size)
    return described


def _head_length(data: bytes) -> int:
    """Measure a head without its checksum; 0 where the checksum does not fit."""
    block, rate = data[2] >> 4, data[2] & 15
    length = 4 + _coded(data)
    length += {6: 1, 7: 2}.get(block, 0) + {12: 1, 13: 2, 14: 2}.get(rate, 0)
    return length if length < len(data) and _crc8(data[:length]) == data[length] else 0


def _coded(head: bytes) -> int:
    """Say in how many bytes the number of a frame, or of its first sample, is written."""
    return max(1, 8 - (head[4] ^ 0xFF).bit_length() if head[4] & 0x80 else 1)


def _reaches(head: bytes, block: int, samples: int) -> bool:
    """A frame tells its number where all have one size, else that of its first sample."""
    coded = _coded(head)
    number = head[4] if coded == 1 else head[4] & (0x7F >> coded)
    for one in head[5 : 4 + coded]:
        number = number << 6 | one & 0x3F
    first = number if head[1] & 1 else number * block
    return not samples or first + _block(head[2] >> 4, head[4 + coded :]) >= samples


def _block(code: int, told: bytes) -> int:
    """How many samples a frame has: by a code, or told after its number."""
    if code in (6, 7):
        return int.from_bytes(told[: code - 5]) + 1
    return 192 if code == 1 else 576 << code - 2 if code < 6 else 256 << code - 8


def _crc8(data: bytes) -> int:
    check = 0
    for one in data:
        check ^= one
        for _ in range(8):
            check = (check << 1) ^ 0x07 if check & 0x80 else check << 1
        check &= 0xFF
    return check


def _crc16(data: bytes) -> int:
    check = 0
    for one in data:
        check = (check << 8 & 0xFFFF) ^ CRC16[(check >> 8) ^ one]
    return check


def _table16() -> tuple[int, ...]:
    table = []
    for number in range(256):
        check = number << 8
        for _ in range(8):
            check = (check << 1) ^ 0x8005 if check & 0x8000 else check << 1
        table.append(check & 0xFFFF)
    return tuple(table)


def _mp3(file: BinaryIO, size: int) -> None:
    """Walk from frame to frame; what is no frame is a tag behind the last one."""
    head = _take(file, 10)
    tag = sum(part << shift for part, shift in zip(head[6:], (21, 14, 7, 0), strict=True))
    at = 10 + tag if head[:3] == b"ID3" else 0
    if at >= size:
        raise Short
    while at < size:
        file.seek(at)
        length = _frame(file.read(4))
        if not length:
            return
        at += length
    if at > size:
        raise Short


def _frame(head: bytes) -> int:
    """How long a frame of layer III is; 0 where there is none."""
    if len(head) < 4:
        raise Short
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    kbits, rate, padding = head[2] >> 4, head[2] >> 2 & 3, head[2] >> 1 & 1
    if head[0] != 0xFF or head[1] < 0xE0 or version == 1 or layer != 1 or rate == 3 or kbits == 15:
        return 0
    table, samples = (KBITS_1, 144_000) if version == 3 else (KBITS_2, 72_000)
    return samples * table[kbits] // RATES[version][rate] + padding if kbits else 0


CRC16 = _table16()
WALKS: dict[str, Callable[[BinaryIO, int], None]] = {
    "image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _riff,
    "audio/wav": _riff, "video/mp4": _mp4, "audio/mp4": _mp4, "video/quicktime": _mp4,
    "video/webm": _webm, "video/x-matroska": _webm, "audio/ogg": _ogg, "video/ogg": _ogg,
    "audio/flac": _flac, "audio/mpeg": _mp3,
}  # fmt: skip
