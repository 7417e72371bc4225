"""Films with known words, judged at the end: `python -m plugins.howera.tests.lessons`.

Needs flite and espeak-ng. `--voices slt,rms` chooses; `--aside` takes the lessons that no rule was
written for; `--show` prints the titles.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import typst
from jobrunner_howera import drafts, paper
from jobrunner_howera.audio import extract
from jobrunner_howera.drafting import draft
from jobrunner_howera.transcribing import transcribe
from msgspec import Struct

from jobrunner.testing import run_stage
from plugins.howera.tests.lessons import clips, judging, told


class Figures(Struct):
    errors: int = 0
    said: int = 0
    titles: int = 0
    steps: int = 0
    pictures_right: int = 0
    pictures: int = 0
    pages: list[float] = []
    last_pages: list[float] = []

    def add(self, other: "Figures") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def told(self) -> str:
        pages = self.pages + self.last_pages
        return (
            f"word errors {100 * self.errors / max(self.said, 1):5.1f} %   titles {self.titles:3d}"
            f" of {self.steps:3d}   pictures {self.pictures_right:3d} of {self.pictures:3d}   "
            f"pages {len(pages):2d}, empty {_mean(pages):4.1f} % (without the last of each"
            f" {_mean(self.pages):4.1f} %, worst {100 * max(self.pages, default=0):4.1f} %)"
        )


def _mean(shares: list[float]) -> float:
    return 100 * sum(shares) / len(shares) if shares else 0


def measured(lesson: told.Lesson, voice: str, folder: Path, show: bool) -> Figures:
    clip = clips.made(lesson, voice, folder)
    sound = _worked(
        extract,
        artifacts={"video_uri": "/assets/film/content"},
        assets={"film": ("video", clip.path.read_bytes())},
    )
    audio = sound.files[sound.artifacts["audio_uri"]]
    heard = _worked(
        transcribe, artifacts={"audio_uri": "/assets/a/content"}, files={"audio_uri": audio}
    )
    transcript = heard.files[heard.artifacts["transcript_uri"]]
    made = _worked(
        draft,
        artifacts={"transcript_uri": "/assets/t/content", "video_uri": "/assets/film/content"},
        files={"transcript_uri": transcript},
        assets={"film": ("video", clip.path.read_bytes())},
    )
    value = made.artifacts["draft"]
    figures = _judged(lesson, clip, value, made)
    figures.pages, figures.last_pages = _pages(value, made, folder)
    if show:
        _show(value, lesson, clip)
    return figures


def _worked(stage: Any, **given: Any) -> Any:
    tried = run_stage(stage, **given)
    assert tried.outcome == "done", tried.failure
    return tried


def _judged(lesson: told.Lesson, clip: clips.Clip, value: dict[str, Any], made: Any) -> Figures:
    said = " ".join((lesson.opening, *(step.said for step in lesson.steps)))
    heard = " ".join(step["text"] for step in value["steps"])
    errors, count = judging.word_errors(said, heard)
    right = [
        judging.picture_is_right(made.files[address], clip.shown, step["start_s"], step["end_s"])
        for step in value["steps"]
        for address in drafts.pictures_of(step)
    ]
    good = judging.titles(lesson, clip.shown, value["steps"])
    return Figures(errors, count, sum(good), len(good), sum(right), len(right))


def _pages(value: dict[str, Any], made: Any, folder: Path) -> tuple[list[float], list[float]]:
    """As the document has them: all but the last, and the last one."""
    images = {}
    for number, step in enumerate(value["steps"]):
        for place, address in enumerate(drafts.pictures_of(step)):
            path = folder / f"picture-{number}-{place}.jpg"
            path.write_bytes(made.files[address])
            images[address] = str(path)
    paper.document(value, images, str(folder))
    drawn = typst.compile(str(folder / "instruction.typ"), root=str(folder), format="png", ppi=36.0)
    shares = [judging.empty(page) for page in (drawn if isinstance(drawn, list) else [drawn])]
    return shares[:-1], shares[-1:]


def _show(value: dict[str, Any], lesson: told.Lesson, clip: clips.Clip) -> None:
    _say(f"  {value['title']}")
    for step in value["steps"]:
        _say(f"    {step['start_s']:6.1f}  {step['title']}  |  {step['text']}")
    good = judging.titles(lesson, clip.shown, value["steps"])
    for step, well in zip(lesson.steps, good, strict=True):
        if not well:
            _say(f"    missed: {step.said}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voices", default=",".join((*clips.FLITE, *clips.ESPEAK)))
    parser.add_argument("--aside", action="store_true")
    parser.add_argument("--show", action="store_true")
    chosen = parser.parse_args()
    for voice in chosen.voices.split(","):
        whole = Figures()
        for lesson in told.ASIDE if chosen.aside else told.LESSONS:
            with tempfile.TemporaryDirectory() as held:
                whole.add(measured(lesson, voice, Path(held), chosen.show))
        _say(f"{voice:15s} {whole.told()}")


if __name__ == "__main__":
    main()
