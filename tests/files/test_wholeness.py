"""Files of every kind, whole and cut: made by the programs that make them everywhere."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from PIL import Image

from jobrunner import cut_short
from jobrunner.files.wholeness import _head_length

SOUND = ("-f", "lavfi", "-i", "anoisesrc=r=22050:d=4:a=0.2:seed=7")
FILM = ("-f", "lavfi", "-i", "testsrc=size=160x120:rate=10:duration=3", *SOUND, "-shortest")
PICTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "png": ("image/png", {}),
    "jpg": ("image/jpeg", {}),
    "prog.jpg": ("image/jpeg", {"progressive": True}),
    "gif": ("image/gif", {}),
    "webp": ("image/webp", {}),
}
RECORDINGS = {
    "wav": ("audio/wav", SOUND),
    "mp3": ("audio/mpeg", (*SOUND, "-b:a", "64k")),
    "ogg": ("audio/ogg", (*SOUND, "-c:a", "libvorbis")),
    "flac": ("audio/flac", SOUND),
    "mp4": ("video/mp4", (*FILM, "-c:v", "libx264", "-c:a", "aac")),
    "fast.mp4": ("video/mp4", (*FILM, "-c:v", "libx264", "-movflags", "+faststart")),
    "parts.mp4": ("video/mp4", (*FILM, "-c:v", "libx264", "-movflags", "frag_keyframe+empty_moov")),
    "webm": ("video/webm", (*FILM, "-c:v", "libvpx", "-b:v", "200k", "-c:a", "libopus")),
    "mkv": ("video/x-matroska", (*FILM, "-c:v", "libx264")),
}


@pytest.fixture(scope="module", params=[*PICTURES, *RECORDINGS])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / f"file.{request.param}"
    if request.param in PICTURES:
        noise = Image.effect_noise((120, 90), 80).convert("RGB")
        options = PICTURES[request.param][1]
        noise.save(path, **options)
    else:
        _recorded(path, *RECORDINGS[request.param][1])
    return path


def _recorded(path: Path, *how: str) -> None:
    quiet = (get_ffmpeg_exe(), "-nostdin", "-loglevel", "error")
    subprocess.run((*quiet, *how, "-y", str(path)), check=True)


def kind_of(path: Path) -> str:
    return {**PICTURES, **RECORDINGS}[path.name.removeprefix("file.")][0]


def test_what_is_whole_is_whole(made: Path) -> None:
    assert not cut_short(str(made), kind_of(made))
    assert not cut_short(made.read_bytes(), kind_of(made))


def test_what_is_cut_anywhere_is_not(made: Path) -> None:
    """At a hundred places, and at its last bytes, where nearly all of it is there."""
    data, kind = made.read_bytes(), kind_of(made)
    places = {len(data) * part // 100 for part in range(100)} | {len(data) - 1, len(data) - 7}
    whole = [at for at in sorted(places) if not cut_short(data[:at], kind)]
    assert whole == []


VARIED = ("-c:a", "flac", "-compression_level", "5", "-frame_size")
FRAMED = {"blocks of the usual size": (), "blocks of their own": (*VARIED, "1000")}


@pytest.mark.parametrize("how", FRAMED)
def test_a_recording_cut_between_two_frames_is_not_whole(tmp_path: Path, how: str) -> None:
    path = tmp_path / "cut.flac"
    _recorded(path, *SOUND, *FRAMED[how])
    data = path.read_bytes()
    starts = [at for at in range(len(data) - 1) if _begins_frame(data, at)]
    assert len(starts) > 10
    assert not cut_short(data, "audio/flac")
    assert [at for at in starts if not cut_short(data[:at], "audio/flac")] == []


def _begins_frame(data: bytes, at: int) -> bool:
    """As whoever plays it looks for one: by its first bits and the checksum of its head."""
    return data[at] == 0xFF and data[at + 1] & 0xFE == 0xF8 and _head_length(data[at : at + 16]) > 0


def test_zeros_instead_of_the_rest_are_noticed_where_a_format_can(made: Path) -> None:
    """A file whose space was given and never written."""
    data, kind = made.read_bytes(), kind_of(made)
    half = data[: len(data) // 2].ljust(len(data), b"\0")
    if kind in ("image/png", "image/jpeg", "audio/ogg", "audio/flac", "image/gif"):
        assert cut_short(half, kind)


@pytest.mark.parametrize(
    "kind", ["image/png", "video/mp4", "video/webm", "audio/flac", "audio/ogg"]
)
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 64, b"<html>not found</html>" * 9])
def test_what_is_nothing_of_its_kind_is_not_whole(kind: str, data: bytes) -> None:
    assert cut_short(data, kind)


def test_a_kind_that_is_not_known_is_not_judged() -> None:
    assert not cut_short(b"anything", "application/pdf")
