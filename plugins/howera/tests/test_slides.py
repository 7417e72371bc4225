"""What a step shows of a film: each slide once."""

import os
import subprocess
from pathlib import Path

import pytest
from jobrunner_howera import film, slides
from PIL import Image, ImageDraw, ImageFont

SLIDE_S = 10


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Five slides of ten seconds, the last one as the first, and something small that moves."""
    folder = tmp_path_factory.mktemp("lesson")
    for number, colour in enumerate(("#24405c", "#e8e2d2", "#2f5c3a", "#b04030", "#24405c")):
        for second in range(SLIDE_S):
            picture = Image.new("RGB", (320, 180), colour)
            pen = ImageDraw.Draw(picture)
            pen.text((20, 60), f"Part {number % 4}", font=ImageFont.load_default(40), fill="white")
            pen.ellipse((250 + second * 3, 20, 266 + second * 3, 36), fill="#888888")
            picture.save(folder / f"frame-{number * SLIDE_S + second:03d}.png")
    path = folder / "lesson.mp4"
    source = ("-framerate", "1", "-i", str(folder / "frame-%03d.png"))
    coded = ("-c:v", "libx264", "-pix_fmt", "yuv420p", "-r", "5", "-y", str(path))
    quiet = (film.program(), "-nostdin", "-loglevel", "error")
    subprocess.run((*quiet, *source, *coded), check=True)
    return str(path)


@pytest.mark.parametrize(
    ("start_s", "end_s", "count"),
    [
        (0, 3, 1), (0, 9, 1), (11, 19, 1), (0, 20, 2), (0, 40, 4), (0, 50, 4), (25, 45, 3),
        (8, 8, 1),
    ],
)  # fmt: skip
def test_each_slide_is_shown_once(
    tmp_path: Path, lesson: str, start_s: float, end_s: float, count: int
) -> None:
    made = slides.shown(lesson, start_s, end_s, str(tmp_path / "step-1"))
    assert len(made) == count
    paths = [one.path for one in made]
    assert sorted(os.path.join(tmp_path, name) for name in os.listdir(tmp_path)) == paths
    assert all(start_s <= one.moment_s <= end_s for one in made)


def test_behind_the_end_of_the_film_there_is_none(tmp_path: Path, lesson: str) -> None:
    assert slides.shown(lesson, 300, 330, str(tmp_path / "step-1")) == []
