"""The kind of a file by its first bytes, whatever its sender says about it.

Only the beginning is looked at, so this keeps an error page from becoming a picture; it is no
proof that the rest of the file is sound.
"""

import re

HEAD_SIZE = 512
UNKNOWN = "application/octet-stream"

BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
)
INSIDE_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
BRANDS = {
    b"M4A ": "audio/mp4", b"M4B ": "audio/mp4", b"qt  ": "video/quicktime",
    b"avif": "image/avif", b"avis": "image/avif",
    b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heic",
}  # fmt: skip

HTML = re.compile(
    rb"<(?:!doctype html|!--|(?:html|head|body|title|script|style|iframe|table|div|br|a|p|h1)\b)",
    re.IGNORECASE,
)
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")


def sniff(head: bytes) -> str:
    """The media type of a file that begins like this; ``application/octet-stream`` when the
    beginning tells nothing."""
    for beginning, kind in BEGINNINGS:
        if head.startswith(beginning):
            return kind
    return _boxed(head) or _framed(head) or _written(head)


def _boxed(head: bytes) -> str:
    """Containers that name their content a few bytes later."""
    if head.startswith(b"RIFF"):
        return INSIDE_RIFF.get(head[8:12], UNKNOWN)
    if head[4:8] == b"ftyp":
        return BRANDS.get(head[8:12], "video/mp4")
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return "video/webm" if b"webm" in head[:64] else "video/x-matroska"
    return ""


def _framed(head: bytes) -> str:
    """Audio that begins with its first frame: eleven bits set, then the layer."""
    if len(head) < 2 or head[0] != 0xFF:
        return ""
    if head[1] & 0xE6 == 0xE2:
        return "audio/mpeg"
    return "audio/aac" if head[1] & 0xF6 == 0xF0 else ""


def _written(head: bytes) -> str:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text or CONTROL.search(head) or not _is_utf8(head):
        return UNKNOWN
    if HTML.match(text):
        return "text/html"
    if text.startswith((b"<?xml", b"<svg")):
        return "image/svg+xml" if b"<svg" in text else "application/xml"
    return "application/json" if text.startswith((b"{", b"[")) else "text/plain"


def _is_utf8(head: bytes) -> bool:
    """The last character may be cut in two."""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) >= HEAD_SIZE and error.start >= len(head) - 3
    return True
