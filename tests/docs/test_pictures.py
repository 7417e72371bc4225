"""What README shows of the product is what the product shows today."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from jobrunner import cli
from tests.docs.pages import ROOT, links, read, snippets
from tests.docs.recording import Recording
from tests.served import serving

PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
COLUMNS_OF_STEP = 5  # at the end; version, hop and instant before them are of one run


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without settings."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: str(picture.stem))
@pytest.mark.usefixtures("elsewhere")
def test_a_picture_is_what_is_drawn_today(
    picture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["workflow", "graph", picture.stem, "--format", "svg"]
    assert cli.run(command) == 0
    drawn = capsys.readouterr().out
    assert picture.read_text(encoding="utf-8") == drawn, f"renew it: jobrunner {' '.join(command)}"


def test_every_picture_is_shown() -> None:
    shown = {ROOT / path for path, _ in links(read("README.md"))}
    assert PICTURES
    assert set(PICTURES) <= shown


def in_order(some: Iterable[str], every: Iterable[str]) -> bool:
    rest = iter(every)
    return all(one in rest for one in some)


def test_the_recording_is_of_today(tmp_path: Path) -> None:
    frames, history = (block.splitlines() for block in snippets(read("README.md"), "text"))
    with serving(tmp_path) as served:
        today = Recording(served)
    assert (frames[0], frames[-1]) == (today.frames[0], today.frames[-1])
    assert in_order(frames, today.frames), "renew it: python -m tests.docs.recording"
    assert [_step(row) for row in history] == [_step(row) for row in today.history]


def _step(row: str) -> list[str]:
    return [cell.replace("admin", "ann") for cell in row.split()[-COLUMNS_OF_STEP:]]
