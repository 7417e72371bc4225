"""What is made of pictures as people send them."""

import io
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from jobrunner_asset_pattern import pictures
from PIL import Image, ImageCms

from jobrunner import PermanentFailure

SIZE = (120, 80)
Sent = Callable[[], bytes]


def saved(picture: Image.Image, kind: str, **more: Any) -> bytes:
    data = io.BytesIO()
    picture.save(data, kind, **more)
    return data.getvalue()


def painted(kind: str = "PNG", mode: str = "RGB", **more: Any) -> bytes:
    """Red on the left, blue on the right."""
    picture = Image.new("RGB", SIZE, (200, 30, 30))
    picture.paste((30, 30, 200), (60, 0, 120, 80))
    return saved(picture.convert(mode), kind, **more)


def turned() -> bytes:
    """A camera that was held upright says so beside the picture, and whose it is."""
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "Camera of Ada"
    return painted("JPEG", exif=exif, quality=95)


def animated() -> bytes:
    frames = [Image.new("P", SIZE, number) for number in (1, 2, 3)]
    for frame in frames:
        frame.putpalette([0, 0, 0, 200, 30, 30, 0, 255, 0, 0, 0, 255])
    return saved(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=50)


def deep() -> bytes:
    """Sixteen bits, from black to white."""
    picture = Image.new("I;16", (256, 16))
    for x in range(256):
        picture.paste(x * 257, (x, 0, x + 1, 16))
    return saved(picture, "PNG")


def glass() -> bytes:
    """Its left half can be looked through."""
    picture = Image.new("RGBA", SIZE, (0, 128, 0, 255))
    picture.paste((0, 0, 0, 0), (0, 0, 60, 80))
    return saved(picture, "PNG")


def palette_glass() -> bytes:
    picture = Image.new("P", SIZE, 1)
    picture.putpalette([0, 0, 0, 0, 128, 0])
    picture.paste(0, (0, 0, 60, 80))
    return saved(picture, "GIF", transparency=0)


def grey_glass() -> bytes:
    picture = Image.new("LA", SIZE, (128, 255))
    picture.paste((0, 0), (0, 0, 60, 80))
    return saved(picture, "PNG")


def profiled() -> bytes:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return painted("JPEG", icc_profile=profile, quality=95)


def misprofiled() -> bytes:
    return painted("PNG", icc_profile=b"this is no profile")


def bomb(width: int, height: int) -> bytes:
    """A header that promises, and nothing to keep it with."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(part(*one) for one in parts)


def part(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def made(folder: Path, sent: bytes, kind: str = "", edge: int = 0) -> Image.Image:
    """The picture as it would be handed on."""
    source, target = folder / "in", folder / "out"
    source.write_bytes(sent)
    read = pictures.read(str(source))
    pictures.write(read, edge, kind or read.kind, str(target))
    picture = Image.open(io.BytesIO(target.read_bytes()))
    picture.load()
    return picture


def near(found: Any, wanted: tuple[int, ...]) -> bool:
    return all(abs(a - b) <= 25 for a, b in zip(found, wanted, strict=True))


GOOD: dict[str, tuple[Sent, str]] = {
    "png": (lambda: painted("PNG"), "png"),
    "jpeg": (lambda: painted("JPEG", quality=95), "jpeg"),
    "webp": (lambda: painted("WEBP", quality=95), "webp"),
    "gif": (lambda: painted("GIF", "P"), "gif"),
    "cmyk": (lambda: painted("JPEG", "CMYK", quality=95), "jpeg"),
    "palette": (lambda: painted("PNG", "P"), "png"),
    "profile": (profiled, "jpeg"),
    "broken profile": (misprofiled, "png"),
}


@pytest.mark.parametrize("kind", ["", "png", "jpeg", "webp"])
@pytest.mark.parametrize("name", GOOD)
def test_the_colours_stay(tmp_path: Path, name: str, kind: str) -> None:
    """Whatever it came as, red is red and blue is blue, and nothing else is said beside it."""
    sent, format_ = GOOD[name]
    picture = made(tmp_path, sent(), kind, 60)
    assert (picture.format or "").lower() == (kind or format_)
    assert picture.size == (60, 40)
    plain = picture.convert("RGB")
    assert near(plain.getpixel((8, 20)), (200, 30, 30)), plain.getpixel((8, 20))
    assert near(plain.getpixel((52, 20)), (30, 30, 200)), plain.getpixel((52, 20))
    assert "icc_profile" not in picture.info


def test_it_stands_upright(tmp_path: Path) -> None:
    """As its camera was held; whose camera it was is nobody's business."""
    picture = made(tmp_path, turned())
    assert picture.size == (80, 120)
    assert near(picture.getpixel((40, 10)), (200, 30, 30))
    assert near(picture.getpixel((40, 110)), (30, 30, 200))
    assert dict(picture.getexif()) == {}
    assert b"Ada" not in (tmp_path / "out").read_bytes()


@pytest.mark.parametrize("kind", ["", "png", "jpeg", "webp"])
def test_what_moves_stands_still(tmp_path: Path, kind: str) -> None:
    picture = made(tmp_path, animated(), kind, 60)
    assert getattr(picture, "n_frames", 1) == 1
    assert near(picture.convert("RGB").getpixel((30, 20)), (200, 30, 30))


@pytest.mark.parametrize("kind", ["", "jpeg", "webp"])
def test_sixteen_bits_become_eight(tmp_path: Path, kind: str) -> None:
    """Black stays black, grey grey and white white."""
    picture = made(tmp_path, deep(), kind).convert("L")
    for x in (0, 64, 128, 192, 255):
        assert abs(int(picture.getpixel((x, 8))) - x) <= 4  # type: ignore[arg-type]


@pytest.mark.parametrize("sent", [glass, palette_glass, grey_glass])
@pytest.mark.parametrize("kind", ["", "png", "webp"])
def test_glass_stays_glass(tmp_path: Path, sent: Sent, kind: str) -> None:
    picture = made(tmp_path, sent(), kind, 60).convert("RGBA")
    assert picture.getpixel((8, 20))[3] == 0  # type: ignore[index]
    assert picture.getpixel((52, 20))[3] == 255  # type: ignore[index]


@pytest.mark.parametrize("sent", [glass, palette_glass, grey_glass])
def test_glass_is_white_where_there_is_none(tmp_path: Path, sent: Sent) -> None:
    picture = made(tmp_path, sent(), "jpeg")
    assert picture.mode == "RGB"
    assert near(picture.getpixel((8, 20)), (255, 255, 255))


def test_nothing_grows(tmp_path: Path) -> None:
    assert made(tmp_path, painted(), "png", 4000).size == SIZE
    assert made(tmp_path, painted(), "png", 1).size == (1, 1)


BAD: dict[str, tuple[Sent, str]] = {
    "nothing": (lambda: b"", "NO_IMAGE"),
    "a page": (lambda: b"<html></html>", "NO_IMAGE"),
    "half a PNG": (lambda: saved(Image.effect_noise((200, 200), 60), "PNG")[:9000], "NO_IMAGE"),
    "half a JPEG": (lambda: painted("JPEG")[:700], "NO_IMAGE"),
    "half a WebP": (lambda: painted("WEBP")[:60], "NO_IMAGE"),
    "a header": (lambda: painted("PNG")[:33], "NO_IMAGE"),
    "a postscript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "NO_IMAGE"),
    "a TIFF": (lambda: painted("TIFF"), "NO_IMAGE"),
    "a BMP": (lambda: painted("BMP"), "NO_IMAGE"),
    "too large": (lambda: bomb(9000, 9000), "IMAGE_TOO_LARGE"),
    "larger than its reader allows": (lambda: bomb(10_000, 10_000), "IMAGE_TOO_LARGE"),
    "a bomb": (lambda: bomb(200_000, 200_000), "IMAGE_TOO_LARGE"),
    "no rows": (lambda: bomb(10, 0), "NO_IMAGE"),
    "an empty promise": (lambda: bomb(5000, 5000), "NO_IMAGE"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_picture_says_so(tmp_path: Path, name: str) -> None:
    """P40"""
    sent, code = BAD[name]
    with pytest.raises(PermanentFailure) as failure:
        made(tmp_path, sent())
    assert failure.value.code == code
    assert failure.value.detail
    assert " at 0x" not in failure.value.detail


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_a_flipped_byte_is_never_a_crash(tmp_path: Path, kind: str) -> None:
    """A picture, or a failure that says what it is."""
    whole = painted(kind)
    for place in range(0, len(whole), max(len(whole) // 60, 1)):
        sent = bytearray(whole)
        sent[place] ^= 0xFF
        with suppress(PermanentFailure):
            made(tmp_path, bytes(sent), "png", 32)


@pytest.mark.parametrize("name", ["a postscript", "a TIFF", "a BMP"])
def test_no_other_decoder_is_tried(tmp_path: Path, name: str) -> None:
    """Each is one more program that strangers could talk to."""
    with pytest.raises(PermanentFailure, match="NO_IMAGE") as caught:
        made(tmp_path, BAD[name][0]())
    assert "cannot identify" in caught.value.excerpt


def test_a_file_that_went_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(PermanentFailure, match="removed"):
        pictures.read(str(tmp_path / "gone"))


def test_a_picture_that_no_format_can_hold(tmp_path: Path) -> None:
    wide = saved(Image.new("L", (17_000, 2)), "PNG")
    with pytest.raises(PermanentFailure, match="webp"):
        made(tmp_path, wide, "webp")
    assert made(tmp_path, wide, "webp", 100).size == (100, 1)
