"""The sketcher draws, and what came as a picture is looked at before it is kept."""

import io
import zlib
from pathlib import Path

import pytest
from jobrunner_image_generation import sketcher
from jobrunner_image_generation.pictures import NoPicture, looked_at
from PIL import Image

PROMPTS = [
    "a lighthouse at dusk",
    "a red cat in a garden",
    "nothing of this world",
    "city",
    "夜の海",
]


def painted(kind: str, size: tuple[int, int] = (40, 30)) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, "teal").save(data, kind)
    return data.getvalue()


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_sketch_is_a_picture_of_its_size(tmp_path: Path, prompt: str) -> None:
    path = tmp_path / "a.png"
    sketcher.draw(str(path), prompt, "320x200", 1)
    with Image.open(path) as picture:
        assert (picture.size, picture.mode) == ((320, 200), "RGB")
        assert len(picture.getcolors(1 << 20) or []) > 500
        assert picture.info["Software"] == "jobrunner built-in sketcher"
        assert picture.info["Seed"] == "1"
        assert prompt in picture.info["Description"]


def test_the_same_wish_is_the_same_picture(tmp_path: Path) -> None:
    drawn = []
    for number, (prompt, seed) in enumerate(
        [("a hill", 1), ("a hill", 1), ("a hill", 2), ("a", 1)]
    ):
        path = tmp_path / f"{number}.png"
        sketcher.draw(str(path), prompt, "64x64", seed)
        drawn.append(path.read_bytes())
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


@pytest.mark.parametrize("size", ["10x4096", "4096x10"])
def test_odd_shapes_are_drawn(tmp_path: Path, size: str) -> None:
    path = tmp_path / "a.png"
    sketcher.draw(str(path), "a boat on the sea", size, 0)
    shot = looked_at(str(path))
    assert f"{shot.width}x{shot.height}" == size


def test_there_is_no_paper_for_more(tmp_path: Path) -> None:
    with pytest.raises(sketcher.TooLarge, match="4096"):
        sketcher.draw(str(tmp_path / "a.png"), "a", "4097x10", 0)


@pytest.mark.parametrize(
    ("kind", "told"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp"), ("GIF", "image/gif")],
)
def test_a_sound_picture_is_told_by_what_is_in_it(kind: str, told: str) -> None:
    shot = looked_at(painted(kind))
    assert (shot.content_type, shot.width, shot.height) == (told, 40, 30)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_half_a_picture_is_none(kind: str) -> None:
    whole = painted(kind, (400, 300))
    with pytest.raises(NoPicture):
        looked_at(whole[: len(whole) // 2])


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"<html>", painted("BMP"), b"%!PS-1"])
def test_anything_else_is_none(data: bytes) -> None:
    with pytest.raises(NoPicture):
        looked_at(data)


@pytest.mark.parametrize("size", [(9000, 9000), (60_000, 60_000)])
def test_what_cannot_be_unpacked_is_refused_unread(size: tuple[int, int]) -> None:
    """Both before the decoder's own warning and long after it."""
    head = io.BytesIO()
    Image.new("1", (1, 1)).save(head, "PNG")
    bomb = bytearray(head.getvalue())
    bomb[16:24] = size[0].to_bytes(4) + size[1].to_bytes(4)
    bomb[29:33] = zlib.crc32(bytes(bomb[12:29])).to_bytes(4)
    with pytest.raises(NoPicture, match="pixels"):
        looked_at(bytes(bomb))
