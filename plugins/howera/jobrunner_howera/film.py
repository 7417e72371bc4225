"""The one door to ffmpeg: looking into a film, taking its sound and its pictures.

Only local paths that this program made are handed over. ffmpeg may open files and nothing else, and
takes formats that hold a film; a playlist, which names other files of this machine, is none of
them. It is started in the attempt's own process group, so whoever ends the attempt ends it too.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import IO

from msgspec import Struct

from jobrunner import PermanentFailure, RetryableFailure, lent_environment

FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,ogg,mp3,wav,w64,flac,aac,flv,"
    "asf,aiff,amr,caf,ac3,mxf"
)
QUIET = (
    "-nostdin", "-hide_banner", "-protocol_whitelist", "file,pipe", "-format_whitelist", FORMATS,
)  # fmt: skip
PATIENT = ("-err_detect", "ignore_err", "-fflags", "+discardcorrupt+genpts")
HOURS_MAX = 6
WHOLE = 0.9
TOLD_MAX = 8192
DURATION = re.compile(r"Duration: (\d+):(\d\d):(\d\d(?:\.\d+)?)")
PROGRESS = re.compile(r"out_time_us=(\d+)")
FULL = re.compile(r"No space left|Disk quota", re.IGNORECASE)


class Film(Struct, frozen=True):
    """The facts of a film before it is worked on. ``seconds`` is 0 where the file does not say:
    what a browser records has no length in it."""

    seconds: float
    sound: bool
    pictures: bool


def program() -> str:
    """The ffmpeg that came with this package, or the one of the machine."""
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        return str(get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        found = shutil.which("ffmpeg")
    if found is None:
        text = "there is no ffmpeg: install imageio-ffmpeg, or ffmpeg itself"
        raise PermanentFailure("STAGE_UNAVAILABLE", text)
    return found


def surroundings() -> dict[str, str]:
    """Return what ffmpeg sees of the environment: not the key of a provider that this attempt may
    have."""
    return lent_environment("HOME", "TMPDIR")


def looked_into(path: str) -> Film:
    """Raises: PermanentFailure VIDEO_EMPTY, VIDEO_UNREADABLE, VIDEO_TOO_LONG."""
    if os.path.getsize(path) == 0:
        raise PermanentFailure("VIDEO_EMPTY", "the video has no bytes: upload it again")
    told = subprocess.run(
        (program(), *QUIET, "-i", path), capture_output=True, check=False, env=surroundings()
    ).stderr.decode("utf-8", "replace")
    if "Stream #" not in told:
        raise PermanentFailure("VIDEO_UNREADABLE", f"this is no video that can be read{_why(told)}")
    length = _length(told)
    if length > HOURS_MAX * 3600:
        text = f"the video lasts {length / 3600:.1f} h; {HOURS_MAX} h are worked on: cut it"
        raise PermanentFailure("VIDEO_TOO_LONG", text)
    return Film(length, ": Audio:" in told, ": Video:" in told)


def sound_of(path: str, into: str, seconds: float, tell: Callable[[float], None]) -> str:
    """Speech as recognisers want it: one channel, 16,000 samples a second, nothing lost. A film
    that does not decode strictly is tried once more, forgiving what is damaged in it; the answer
    says so, and is empty where all was well."""
    wanted = ("-vn", "-ac", "1", "-ar", "16000", "-t", str(HOURS_MAX * 3600), "-c:a", "flac")
    try:
        _run(("-xerror", *QUIET, "-i", path, *wanted, "-y", into), seconds, tell)
    except PermanentFailure as strict:
        return _forgiven(path, into, seconds, tell, wanted, strict)
    return ""


def _forgiven(
    path: str,
    into: str,
    seconds: float,
    tell: Callable[[float], None],
    wanted: tuple[str, ...],
    strict: PermanentFailure,
) -> str:
    """Raises: PermanentFailure VIDEO_UNREADABLE, when too much of the film is gone."""
    _run((*QUIET, *PATIENT, "-i", path, *wanted, "-y", into), seconds, tell)
    heard = looked_into(into).seconds
    if heard < seconds * WHOLE:
        text = f"the video is damaged or cut short: {heard:.0f} of {seconds:.0f} s can be heard"
        raise PermanentFailure("VIDEO_UNREADABLE", text) from strict
    return f"the video is damaged in places, {heard:.0f} of {seconds:.0f} s were heard"


def samples_of(path: str, block_s: float) -> Iterator[bytes]:
    """The sound as 16-bit samples, a block at a time; the last one is shorter."""
    size = int(block_s * 16_000) * 2
    wanted = ("-f", "s16le", "-ac", "1", "-ar", "16000", "pipe:1")
    command = (program(), *QUIET, "-loglevel", "error", "-i", path, *wanted)
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=surroundings()) as process:
        assert process.stdout is not None
        while block := process.stdout.read(size):
            yield block
    if process.returncode:
        raise PermanentFailure("AUDIO_UNREADABLE", "the sound cannot be decoded to its end")


def spoken(path: str, into: str, start_s: float, seconds: float) -> None:
    """A part of the sound, small, for sending away."""
    part = ("-ss", f"{start_s:.3f}", "-t", f"{seconds:.3f}")
    wanted = ("-ac", "1", "-ar", "16000", "-c:a", "libmp3lame", "-b:a", "32k")
    _run((*QUIET, *part, "-i", path, *wanted, "-y", into), 0, lambda _: None)


def picture_at(path: str, seconds: float, into: str) -> bool:
    """One picture; False where the film has none."""
    wanted = ("-frames:v", "1", "-vf", "scale='min(1280,iw)':-2", "-q:v", "3")
    command = (*QUIET, "-ss", f"{seconds:.2f}", "-i", path, *wanted, "-y", into)
    whole = (program(), *command)
    done = subprocess.run(whole, capture_output=True, check=False, env=surroundings())
    return done.returncode == 0 and os.path.exists(into) and os.path.getsize(into) > 0


def _run(arguments: tuple[str, ...], seconds: float, tell: Callable[[float], None]) -> None:
    """Raises: RetryableFailure STORAGE, PermanentFailure VIDEO_UNREADABLE."""
    command = (program(), "-progress", "pipe:1", "-loglevel", "error", *arguments)
    with (
        tempfile.TemporaryFile() as complaints,  # a pipe would fill up, and ffmpeg would wait
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=complaints, env=surroundings()
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if seconds and (found := PROGRESS.match(line.decode("ascii", "replace"))):
                tell(min(int(found[1]) / 1e6 / seconds, 1.0))
        process.wait()
        told = _end_of(complaints)
    if process.returncode == 0:
        return
    if FULL.search(told):
        raise RetryableFailure("STORAGE", "the disk is full: make room, the job goes on by itself")
    raise PermanentFailure("VIDEO_UNREADABLE", f"the video cannot be decoded{_why(told)}")


def _length(told: str) -> float:
    found = DURATION.search(told)
    if found is None:
        return 0.0
    hours, minutes, seconds = found.groups()
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def _end_of(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - TOLD_MAX))
    return file.read().decode("utf-8", "replace")


def _why(told: str) -> str:
    """The last line of what ffmpeg said, without the paths of this machine."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    last = re.sub(r"/\S*/", "", lines[-1]) if lines else ""
    return f": {last[:200]}" if last else ""
