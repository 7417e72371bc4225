"""Films as people have them, and files that are none: what ``howera.audio`` makes of each."""

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from jobrunner_howera import film
from jobrunner_howera.audio import extract

from jobrunner import PermanentFailure
from jobrunner.testing import run_stage_live

SOUND = ("-f", "lavfi", "-i", "sine=frequency=440:duration=6")
PICTURE = ("-f", "lavfi", "-i", "testsrc=size=160x120:rate=5:duration=6")
WHOLE = (*PICTURE, *SOUND, "-c:v", "libx264", "-c:a", "aac", "-movflags", "+faststart")


def made(path: Path, *arguments: str) -> bytes:
    command = (film.program(), "-nostdin", "-loglevel", "error", *arguments, "-y", str(path))
    subprocess.run(command, check=True)
    return path.read_bytes()


def heard(content: bytes) -> Any:
    async def alone() -> Any:
        return await run_stage_live(
            extract,
            artifacts={"video_uri": "/assets/film/content"},
            assets={"film": ("video", content)},
        )

    return anyio.run(alone)


def refused(content: bytes) -> tuple[str, str]:
    tried = heard(content)
    assert tried.outcome == "failed"
    assert not tried.failure.retryable
    assert tried.assets == ()
    return tried.failure.code, tried.failure.message


def test_the_sound_is_kept_and_its_length_told(tmp_path: Path) -> None:
    """H6"""
    tried = heard(made(tmp_path / "film.mp4", *WHOLE))
    assert tried.outcome == "done", tried.failure
    assert [asset.asset_type for asset in tried.assets] == ["audio"]
    assert tried.artifacts["audio_uri"] == tried.assets[0].url
    assert tried.artifacts["metrics"] == {"video_seconds": 6.0}
    into = tmp_path / "kept.flac"
    into.write_bytes(tried.files[tried.assets[0].url])
    assert film.looked_into(str(into)) == film.Film(6.0, True, False)
    assert sum(len(block) for block in film.samples_of(str(into), 1.0)) == 6 * 16_000 * 2


def test_a_film_without_sound_is_told_apart(tmp_path: Path) -> None:
    code, text = refused(made(tmp_path / "film.mp4", *PICTURE, "-c:v", "libx264"))
    assert code == "VIDEO_SILENT"
    assert "no sound" in text


def test_the_ending_of_a_name_means_nothing(tmp_path: Path) -> None:
    """A Matroska film that says it is an MP4."""
    path = tmp_path / "film.mp4"
    content = made(path, *PICTURE, *SOUND, "-c:v", "libx264", "-c:a", "aac", "-f", "matroska")
    assert heard(content).outcome == "done"


def test_sound_alone_is_enough(tmp_path: Path) -> None:
    tried = heard(made(tmp_path / "speech.mp3", *SOUND))
    assert tried.outcome == "done", tried.failure


def test_a_film_that_does_not_say_how_long_it_is(tmp_path: Path) -> None:
    """As a browser records it: a stream, whose length nobody knew when it began."""
    path = tmp_path / "film.webm"
    command = (
        film.program(), "-nostdin", "-loglevel", "error", *SOUND, "-c:a", "libopus", "-f", "webm",
        "pipe:1",
    )  # fmt: skip
    path.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    assert film.looked_into(str(path)).seconds == 0.0
    tried = heard(path.read_bytes())
    assert tried.outcome == "done", tried.failure
    assert tried.artifacts["metrics"]["video_seconds"] == pytest.approx(6, abs=0.1)


def test_a_film_that_was_cut_short(tmp_path: Path) -> None:
    """H47: what it says of its length, and how much of that there is."""
    content = made(tmp_path / "film.mp4", *WHOLE)
    code, text = refused(content[: len(content) * 2 // 3])
    assert code == "VIDEO_UNREADABLE"
    assert "of 6 s can be heard" in text


def test_a_film_whose_table_of_contents_is_missing(tmp_path: Path) -> None:
    content = made(tmp_path / "film.mp4", *PICTURE, *SOUND, "-c:v", "libx264", "-c:a", "aac")
    code, text = refused(content[: len(content) // 2])
    assert code == "VIDEO_UNREADABLE"
    assert str(tmp_path) not in text


def test_a_scratch_is_forgiven(tmp_path: Path) -> None:
    """H47: an attempt to make the best of it comes before giving up."""
    content = bytearray(made(tmp_path / "film.ts", *SOUND, "-c:a", "aac", "-f", "mpegts"))
    middle = len(content) // 2
    content[middle : middle + 400] = b"\x47" + b"\xff" * 399
    tried = heard(bytes(content))
    assert tried.outcome == "done", tried.failure


def test_no_bytes_at_all() -> None:
    assert refused(b"")[0] == "VIDEO_EMPTY"


@pytest.mark.parametrize(
    "content", [b"hello, I am no film\n" * 50, b"%PDF-1.7\n" + bytes(500), b"\x00" * 4096]
)
def test_what_is_no_film_at_all(content: bytes) -> None:
    assert refused(content)[0] == "VIDEO_UNREADABLE"


def test_ten_hours_are_too_long(tmp_path: Path) -> None:
    """A few kilobytes that claim ten hours: nothing is decoded to find out."""
    still = ("-f", "lavfi", "-i", "color=s=16x16:r=1/3600:d=36000")
    content = made(tmp_path / "film.mkv", *still, *SOUND, "-c:v", "libx264", "-c:a", "aac")
    code, text = refused(content)
    assert code == "VIDEO_TOO_LONG"
    assert "10.0 h" in text


HLS = "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6.0,\n{}\n#EXT-X-ENDLIST\n"
CONCAT = "ffconcat version 1.0\nfile {}\n"


@pytest.mark.parametrize(
    ("name", "playlist"), [("film.m3u8", HLS), ("film.mp4", CONCAT), ("film.mp4", HLS)]
)
def test_a_playlist_opens_nothing_of_this_machine(tmp_path: Path, name: str, playlist: str) -> None:
    """Its pieces would be read with the rights of the service, whoever uploaded it."""
    made(tmp_path / "secret.ts", *SOUND, "-c:a", "aac", "-f", "mpegts")
    path = tmp_path / name
    path.write_text(playlist.format("secret.ts"))
    with pytest.raises(PermanentFailure) as caught:
        film.looked_into(str(path))
    assert caught.value.code == "VIDEO_UNREADABLE"


def test_an_address_that_is_not_opened_here() -> None:
    async def alone() -> Any:
        return await run_stage_live(extract, artifacts={"video_uri": "s3://videos/7f3a.mp4"})

    tried = anyio.run(alone)
    assert (tried.failure.code, tried.failure.retryable) == ("VIDEO_UNREACHABLE", False)
    assert "'s3'" in tried.failure.message


@pytest.mark.parametrize("address", ["https://127.0.0.1/a.mp4", "http://169.254.169.254/a.mp4"])
def test_an_address_that_leads_inside(address: str) -> None:
    async def alone() -> Any:
        return await run_stage_live(extract, artifacts={"video_uri": address})

    tried = anyio.run(alone)
    assert tried.outcome == "failed"
    assert not tried.failure.retryable


def test_many_complaints_do_not_hold_up_the_work(tmp_path: Path) -> None:
    """ffmpeg may say more than a pipe holds, and nobody reads it before it is done."""
    content = bytearray(made(tmp_path / "film.ts", "-f", "lavfi", "-i",
                             "anoisesrc=duration=120", "-c:a", "mp2", "-f", "mpegts"))  # fmt: skip
    for place in range(4000, len(content) - 400, 700):
        content[place : place + 60] = b"\xa5" * 60
    path, into = tmp_path / "broken.ts", tmp_path / "sound.flac"
    path.write_bytes(content)
    with suppress(PermanentFailure):
        film.sound_of(str(path), str(into), 120, lambda part: None)
    assert into.stat().st_size > 0


def test_ffmpeg_sees_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is asked for; the attempt that asks may have a provider's key."""
    kept, fake = tmp_path / "seen", tmp_path / "ffmpeg"
    fake.write_text(f"#!/bin/sh\nenv >> {kept}\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(film, "program", lambda: str(fake))
    monkeypatch.setenv("SPEECH_KEY", "a-providers-key")
    path, into = str(tmp_path / "clip"), str(tmp_path / "made")
    Path(path).write_bytes(b"x")
    asked = (
        lambda: film.looked_into(path),
        lambda: film.sound_of(path, into, 1, lambda _: None),
        lambda: list(film.samples_of(path, 1)),
        lambda: film.spoken(path, into, 0, 1),
        lambda: film.picture_at(path, 0, into),
    )
    for ask in asked:
        with suppress(PermanentFailure):
            ask()
    seen = kept.read_text()
    assert seen.count("PATH=") >= len(asked)
    assert "a-providers-key" not in seen
