"""Every command ends its help with examples, and each of them is taken as it stands."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import cyclopts
import pytest

from jobrunner import cli
from jobrunner.cli.frame.examples import BEGINNING


def commands(app: cyclopts.App, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    inner = [name for name in app if not name.startswith("-")]
    if not inner:
        yield above
    for name in inner:
        yield from commands(app[name], (*above, name))


def shown(words: tuple[str, ...]) -> list[str]:
    command: cyclopts.App = cli.app
    for word in words:
        command = command[word]
    text = command.help_epilogue or ""
    assert text.startswith(BEGINNING), f"{' '.join(words)} has no examples"
    return [line.strip().strip("`") for line in text.splitlines()[2:]]


def calls(line: str) -> Iterator[list[str]]:
    """The words of each program of a pipe, without their first."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    call: list[str] = []
    for word in [*lexer, "|"]:
        if word == "|":
            assert call[0] == "jobrunner", line
            yield call[1:]
            call = []
        else:
            call.append(word)


@pytest.mark.parametrize("words", sorted(commands(cli.app)), ids=" ".join)
def test_every_example_is_taken(words: tuple[str, ...], tmp_path: Path) -> None:
    lines = shown(words)
    assert lines
    typed = [call for line in lines for call in calls(line)]
    assert any(tuple(call[: len(words)]) == words for call in typed), lines
    for call in typed:
        cli.app.parse_args(call, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("wrong", ["job tell", "job list --sinse 2h", "token list 7", "jobs list"])
def test_an_example_that_is_none_is_found(wrong: str) -> None:
    with pytest.raises(cyclopts.CycloptsError):
        cli.app.parse_args(wrong.split(), exit_on_error=False, print_error=False)
