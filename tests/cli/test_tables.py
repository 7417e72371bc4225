"""Tables as a person sees them: as wide as the terminal, in local time, coloured where it can."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from jobrunner import cli
from jobrunner.cli.frame import printing
from jobrunner.cli.frame.options import Form, moment
from jobrunner.cli.frame.tables import MARK, Column, fitted, shortest
from jobrunner.errors import Refused

IDS = ["019a1b2c-3d4e-7001-8000-000000000001", "019a1b2c-3d4f-7001-8000-000000000001"]
COLUMNS = [Column("id", short=True), Column("workflow"), Column("reason")]
COLUMNS += [Column("created_at", instants=True)]
CELLS = [[one, "howera", "because it was wanted, twice", "2026-11-19 08:30:00"] for one in IDS]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a time zone five and a half hours before UTC's noon."""
    monkeypatch.setenv("TZ", "IST-5:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("width", [1, 5, 12, 13, 20, 33, 48, 60, 79, 80, 100, 200])
def test_no_line_is_longer_than_the_terminal_is_wide(width: int) -> None:
    assert all(len(line) <= width for line in fitted(COLUMNS, CELLS, width))


def test_where_nobody_looks_nothing_is_cut() -> None:
    for line, cells in zip(fitted(COLUMNS, CELLS, None)[1:], CELLS, strict=True):
        assert all(cell in line for cell in cells)
    assert fitted(COLUMNS, CELLS, 500) == fitted(COLUMNS, CELLS, None)


def test_ids_of_jobs_give_way_before_words_are_cut() -> None:
    head, *lines = fitted(COLUMNS, CELLS, 80)
    assert head.split() == ["ID", "WORKFLOW", "REASON", "CREATED_AT"]
    assert [line.split()[0] for line in lines] == ["019a1b2c-3d4e", "019a1b2c-3d4f"]
    assert all(CELLS[0][2] in line and MARK not in line for line in lines)


def test_instants_lose_year_and_seconds_before_words_are_cut() -> None:
    _, line, _ = fitted(COLUMNS, CELLS, 66)
    assert line.endswith("  11-19 08:30")
    assert CELLS[0][2] in line
    _, line, _ = fitted(COLUMNS, CELLS, 50)
    assert line.endswith("  11-19 08:30")
    assert MARK in line


def test_as_much_of_ids_stays_as_tells_them_apart() -> None:
    alike = [*IDS, IDS[0][:-1] + "2"]
    assert shortest(alike) == 36
    assert shortest(IDS) == 13
    assert shortest(["-", IDS[0], IDS[0]]) == 13


def test_ids_that_no_part_of_would_do_stay_whole_and_columns_go_from_the_right() -> None:
    tokens = [Column("id"), Column("name"), Column("reason")]
    head, line = fitted(tokens, [[IDS[0], "ann", "a long story about her"]], 41)
    assert head.split() == ["ID"]
    assert line == IDS[0]
    head, line = fitted(tokens, [[IDS[0], "ann", "a long story about her"]], 52)
    assert line.split()[:2] == [IDS[0], "ann"]
    assert line.endswith(MARK)


def test_letters_that_take_two_cells_count_as_two() -> None:
    (_, line) = fitted([Column("a"), Column("b")], [["猫" * 20, "x"]], 21)
    assert line.startswith("猫" * 8 + MARK)


def test_times_are_those_of_this_machine(
    elsewhere: None, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "1", "created_at": "2026-11-19T04:30:01.250Z", "at": "noon", "text": "2026-11-19"}
    printing.rows([row], ("created_at", "at", "text"))
    printing.rows([row], ("created_at",), Form(utc=True))
    printing.rows([row], ("created_at",), Form(output="json"))
    _, local, _, utc, *json = capsys.readouterr().out.splitlines()
    assert local == "2026-11-19 10:00:01  noon  2026-11-19"
    assert utc == "2026-11-19 04:30:01Z"
    assert '"2026-11-19T04:30:01.250Z"' in "".join(json)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2h", "2026-11-19T02:47:00.000Z"),
        ("90m", "2026-11-19T03:17:00.000Z"),
        ("3D", "2026-11-16T04:47:00.000Z"),
        ("1w", "2026-11-12T04:47:00.000Z"),
        ("2026-11-19", "2026-11-18T18:30:00.000Z"),
        ("2026-11-19T08:30", "2026-11-19T03:00:00.000Z"),
        ("2026-11-19T08:30:00Z", "2026-11-19T08:30:00.000Z"),
        ("99999999d", "1970-01-01T00:00:00.000Z"),
    ],
)
def test_since(elsewhere: None, text: str, instant: str) -> None:
    now = 1_795_063_620_000  # 2026-11-19T04:47:00Z
    assert moment(text, now) == instant
    assert moment(None, now) is None


@pytest.mark.parametrize("text", ["", "soon", "2", "2y", "-2h", "2026-13-01", "0001-01-01"])
def test_since_what_is_no_time(text: str) -> None:
    with pytest.raises(Exception, match="--since"):
        moment(text, 1_795_063_620_000)


def seen(program: str, **environ: str) -> str:
    """What a program writes to a terminal."""
    ours, theirs = pty.openpty()
    kept = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")
    }
    try:
        done = subprocess.Popen(
            [sys.executable, "-c", program], stdout=theirs, env=kept | {"TERM": "xterm"} | environ
        )
        os.close(theirs)
        said = b""
        try:
            while block := os.read(ours, 4096):
                said += block
        except OSError:  # so a terminal says that nobody writes to it any more
            pass
        assert done.wait(120) == 0
    finally:
        os.close(ours)
    return said.decode()


COLOURED = """
from jobrunner import cli
from jobrunner.cli.frame import printing
printing.rows([{"id": "1", "ended_as": "failed", "reason": "x" * 300}], ("id", "reason"))
"""


def test_colours_are_for_terminals_that_want_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b[31m" in seen(COLOURED)
    assert "\x1b" not in seen(COLOURED, NO_COLOR="1")
    assert "\x1b" not in seen(COLOURED, TERM="dumb")
    exec(COLOURED)
    assert "\x1b" not in capsys.readouterr().out


def test_a_terminal_says_how_wide_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert max(map(len, seen(COLOURED, COLUMNS="40", NO_COLOR="1").splitlines())) == 40
    monkeypatch.setenv("COLUMNS", "30")
    exec(COLOURED)
    assert max(map(len, capsys.readouterr().out.splitlines())) == 30
    monkeypatch.delenv("COLUMNS")
    exec(COLOURED)
    assert "x" * 300 in capsys.readouterr().out


def test_no_word_of_others_is_an_order_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in JSON, which says the same, nor in a refusal, where a job's own words may stand."""
    wicked = "\x1b]0;mine\x07 \x9b2J \u202eabc\x7f caf\u00e9\nnext"
    printing.json({"why": wicked})
    printing.line({"why": wicked})

    def refuse(*_: object, **__: object) -> None:
        raise Refused("JOB_LOCKED", f"the job is stuck: {wicked}")

    monkeypatch.setattr(cli, "app", refuse)
    assert cli.run(["job", "list"]) == 1
    told = capsys.readouterr()
    for text in (told.out, told.err):
        assert all(letter.isprintable() or letter == "\n" for letter in text), text
        assert "caf\u00e9" in text
    whole, _, line = told.out.rpartition("}\n{")
    assert json.loads(f"{whole}}}")["why"] == json.loads(f"{{{line}")["why"] == wicked
