"""A lesson as a film: spoken by a voice of this machine, with a slide of its own for each step."""

import subprocess
import tempfile
import wave
from pathlib import Path

from jobrunner_howera import film
from msgspec import Struct
from PIL import Image, ImageDraw, ImageFont

from plugins.howera.tests.lessons.told import Lesson

FLITE = ("slt", "rms", "awb", "kal16")
ESPEAK = ("en-us", "en-gb", "en-us+f3", "en-gb-scotland")
PAUSE_S = 0.8
RATE = 16_000
COLOURS = (
    (36, 64, 92), (150, 58, 36), (47, 110, 58), (110, 52, 128), (20, 130, 140), (150, 130, 30),
    (90, 90, 90),
)  # fmt: skip


class Shown(Struct, frozen=True):
    """From when to when a slide is on show; the first one belongs to the opening."""

    start_s: float
    end_s: float
    colour: tuple[int, int, int]


class Clip(Struct, frozen=True):
    path: Path
    shown: tuple[Shown, ...]


def made(lesson: Lesson, voice: str, folder: Path) -> Clip:
    path = folder / f"{lesson.name}-{voice}.mp4"
    parts = (lesson.opening, *(step.said for step in lesson.steps))
    with tempfile.TemporaryDirectory() as held:
        scratch = Path(held)
        lengths_s = _spoken(parts, voice, scratch)
        _filmed(lesson.name, lengths_s, scratch, path)
    return Clip(path, _timed(lengths_s))


def _spoken(parts: tuple[str, ...], voice: str, folder: Path) -> list[float]:
    """Into ``speech.wav``, a pause behind each part; their lengths with it."""
    lengths_s, whole = [], b""
    for number, text in enumerate(parts):
        path = folder / f"part-{number}.wav"
        subprocess.run(_speaker(voice, text, path), check=True, capture_output=True)
        even = folder / f"even-{number}.wav"
        _ffmpeg("-i", str(path), "-ac", "1", "-ar", str(RATE), str(even))
        with wave.open(str(even)) as file:
            frames = file.readframes(file.getnframes()) + bytes(2 * int(PAUSE_S * RATE))
        whole += frames
        lengths_s.append(len(frames) / 2 / RATE)
    with wave.open(str(folder / "speech.wav"), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", "none"))
        file.writeframes(whole)
    return lengths_s


def _speaker(voice: str, text: str, path: Path) -> tuple[str, ...]:
    if voice in FLITE:
        return ("flite", "-voice", voice, "-t", text, "-o", str(path))
    return ("espeak-ng", "-v", voice, "-w", str(path), text)


def _filmed(name: str, lengths_s: list[float], folder: Path, into: Path) -> None:
    order = []
    for number, length_s in enumerate(lengths_s):
        slide = folder / f"slide-{number}.png"
        _slide(slide, number, name)
        order += [f"file '{slide}'", f"duration {length_s:.3f}"]
    (folder / "order.txt").write_text("\n".join([*order, order[-2]]))
    shown = ("-f", "concat", "-safe", "0", "-i", str(folder / "order.txt"))
    coded = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-r", "10", "-c:a", "aac", "-shortest")
    _ffmpeg(*shown, "-i", str(folder / "speech.wav"), *coded, str(into))


def _slide(path: Path, number: int, name: str) -> None:
    picture = Image.new("RGB", (1280, 720), COLOURS[number])
    pen = ImageDraw.Draw(picture)
    pen.text((90, 250), f"{name} {number}", font=ImageFont.load_default(110), fill="white")
    picture.save(path)


def _timed(lengths_s: list[float]) -> tuple[Shown, ...]:
    shown, start_s = [], 0.0
    for length_s, colour in zip(lengths_s, COLOURS, strict=False):
        shown.append(Shown(start_s, start_s + length_s, colour))
        start_s += length_s
    return tuple(shown)


def _ffmpeg(*arguments: str) -> None:
    command = (film.program(), "-nostdin", "-loglevel", "error", *arguments[:-1], "-y")
    subprocess.run((*command, arguments[-1]), check=True)
