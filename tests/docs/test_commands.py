"""The commands that texts show are commands, with options that they take."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import cyclopts
import pytest

from jobrunner import cli
from tests.docs.pages import ROOT, TEXTS, label, snippets

INLINE = re.compile(r"`(jobrunner [^`]+)`")


def typed(text: str) -> Iterator[list[str]]:
    """Every call of ``jobrunner``: its words up to whatever the shell reads as its end."""
    for block in (*snippets(text, "sh"), *INLINE.findall(text)):
        for line in block.replace("\\\n", " ").splitlines():
            for call in re.findall(r"(?:^|[\s(|;])jobrunner (.*)", line):
                for one in call.split("jobrunner "):
                    yield _words(one)


def _words(call: str) -> list[str]:
    lexer = shlex.shlex(re.split(r"\$\(", call)[0], posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if set(word) <= set("|;&()<>"):
            break
        words.append(word)
    return words


def faults(words: list[str]) -> list[str]:
    """What is wrong with one call."""
    command, rest = _command(words)
    if list(_inner(command)) and not rest:
        return [f"jobrunner {' '.join(words)}: is half a command"]
    if list(_inner(command)):
        return [f"jobrunner {' '.join(words)}: no such command"]
    known = {name for argument in command.assemble_argument_collection() for name in argument.names}
    asked = [word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return [f"jobrunner {' '.join(words)}: no option {name}" for name in asked if name not in known]


def _command(words: list[str]) -> tuple[cyclopts.App, list[str]]:
    command: cyclopts.App = cli.app
    rest = list(words)
    while rest and rest[0] in set(_inner(command)):
        command = command[rest.pop(0)]
    return command, rest


def _inner(app: cyclopts.App) -> Iterator[str]:
    return (name for name in app if not name.startswith("-"))


@pytest.mark.parametrize("text", TEXTS, ids=label)
def test_every_command_that_is_shown_is_there(text: Path) -> None:
    told = text.read_text(encoding="utf-8")
    found = [fault for words in typed(told) for fault in faults(words)]
    assert not found
    if text.name in ("README.md", "PLUGINS.md") and text.parent == ROOT:
        assert len(list(typed(told))) > 5


@pytest.mark.parametrize(
    "wrong", ["plugin nwe tram", "plugin", "job show $JOB --outptu json", "plugins list"]
)
def test_a_slip_is_found(wrong: str) -> None:
    (words,) = typed(f"```sh\nexport A=$(jobrunner {wrong})\n```\n")
    assert faults(words)


def test_several_calls_in_one_line() -> None:
    text = "`jobrunner job list -o ids | jobrunner job retry -`"
    assert list(typed(text)) == [["job", "list", "-o", "ids"], ["job", "retry", "-"]]
