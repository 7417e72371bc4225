"""A short film with real speech, for trying everything out: `python -m jobrunner_howera.clip FILE`.

The voice is a recording that the recogniser's package carries; the pictures are drawn here. What is
said is known word by word, so that a transcript can be judged.
"""

import os
import subprocess
import sys
import tempfile

from jobrunner_howera import film

SAID = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age "
    "of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season"
    " of Light, it was the season of Darkness, it was the spring of hope, it was the winter of "
    "despair, we had everything before us, we had nothing before us, we were all going direct to "
    "Heaven, we were all going direct the other way. In short, the period was so far like the "
    "present period, that some of its noisiest authorities insisted on its being received, for good"
    " or for evil, in the superlative degree of comparison only."
)
SLIDES = 4
SECONDS = 44


def make(path: str) -> None:
    """Writes an MP4 of three quarters of a minute."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(SLIDES):
            _slide(os.path.join(folder, f"slide-{number}.png"), number)
        pictures = ("-framerate", f"{SLIDES}/{SECONDS}", "-i", os.path.join(folder, "slide-%d.png"))
        codecs = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-r", "10", "-c:a", "aac", "-shortest")
        command = (film.program(), "-nostdin", "-hide_banner", "-loglevel", "error", *pictures)
        whole = (*command, "-i", voice(), *codecs, "-y", path)
        subprocess.run(whole, check=True, env=film.surroundings())


def voice() -> str:
    from moonshine_voice import get_assets_path

    return os.path.join(str(get_assets_path()), "two_cities.wav")


def accuracy(text: str) -> float:
    """The share of the words that were said which the text has, in their order."""
    said, heard = _words(SAID), _words(text)
    row = list(range(len(heard) + 1))
    for number, word in enumerate(said, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(heard, 1):
            cost = min(row[place] + 1, row[place - 1] + 1, before + (word != other))
            before, row[place] = row[place], cost
    return max(0.0, 1 - row[-1] / len(said))


def _words(text: str) -> list[str]:
    plain = "".join(sign if sign.isalpha() else " " for sign in text.lower())
    return plain.split()


def _slide(path: str, number: int) -> None:
    from PIL import Image, ImageDraw, ImageFont

    colours = ("#24405c", "#5c3a24", "#2f5c3a", "#54345c")
    picture = Image.new("RGB", (1280, 720), colours[number % len(colours)])
    pen = ImageDraw.Draw(picture)
    pen.text((90, 250), f"Part {number + 1}", font=ImageFont.load_default(110), fill="white")
    pen.text((96, 400), "A tale of two cities", font=ImageFont.load_default(48), fill="#e8e2d2")
    for step in range(SLIDES):
        place = (96 + 70 * step, 560, 146 + 70 * step, 572)
        pen.rectangle(place, fill="white" if step <= number else "#8a94a0")
    picture.save(path)


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else "clip.mp4")
