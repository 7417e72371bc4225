"""Whatever a text names in passing is there too: routes, keys of settings, codes, and settings."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobrunner import cli
from tests.docs.pages import ROOT, TEXTS, label, prose, read, snippets
from tests.docs.test_documented import keys, routes

SOURCES = [path for kind in ("jobrunner", "plugins") for path in ROOT.glob(f"{kind}/**/*.py")]
QUOTED = {
    text
    for path in SOURCES
    for text in re.findall(r'"([\w.-]+)"', path.read_text(encoding="utf-8"))
}
CALLS = [
    re.compile(re.sub(r"\\{.*?\\}", "[^/]+", re.escape(call)) + "$") for call in sorted(routes())
]
KEYS = set(keys())
SECTIONS = {key.partition(".")[0] for key in KEYS}
ELSEWHERE = {"docs/names.md": {"MAX_RETRIES"}}  # the words of the five documents
NOT_OF_TODAY = {"CHANGELOG.md", "DESIGN.md"}  # they name what was, and names of the code
PAGES = [path for path in TEXTS if label(path) not in NOT_OF_TODAY]


def unknown(text: str) -> Iterator[str]:
    """The routes, keys and codes in backquotes that are nowhere else; a name with a dot may be an
    event of the log, and one in capitals a state, so what the code says counts as well."""
    for call in re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE|OPTIONS) /[^`\s]*)`", text):
        if not any(known.match(call.partition("?")[0]) for known in CALLS):
            yield call
    for name in re.findall(r"`([a-z]+\.[a-zA-Z_.]+)`", prose(text)):
        if name.partition(".")[0] in SECTIONS and name not in KEYS | QUOTED:
            yield name
    for code in re.findall(r"`(?:\d{3} )?([A-Z]+(?:_[A-Z0-9]+)+)`", prose(text)):
        if code not in QUOTED:
            yield code


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_what_is_named_is_there(page: Path) -> None:
    found = set(unknown(page.read_text(encoding="utf-8")))
    assert found - ELSEWHERE.get(label(page), set()) == set()


def test_what_is_not_there_is_found() -> None:
    text = (
        "`GET /jobs/{id}?wait=30` `GET /jbos` `limits.lag` `limits.log` `502 NO_CODE` `OVERLOADED`"
    )
    assert list(unknown(text)) == ["GET /jbos", "limits.log", "NO_CODE"]


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_what_make_is_told_to_do_it_can(page: Path) -> None:
    targets = set(re.findall(r"^(\w+):", read("Makefile"), re.MULTILINE))
    told = page.read_text(encoding="utf-8")
    typed = "\n".join(snippets(told, "sh"))
    asked = re.findall(r"`make (\w+)[^`]*`", told) + re.findall(r"^make (\w+)", typed, re.MULTILINE)
    assert set(asked) - targets == set()


@pytest.mark.parametrize("page", ["README.md", *(label(path) for path in ROOT.glob("docs/*.md"))])
def test_settings_that_are_shown_are_taken(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPS_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
    for number, block in enumerate(snippets(read(page), "toml")):
        file = tmp_path / f"{number}.toml"
        file.write_text(block.replace("/srv/backups", str(tmp_path)))
        assert cli.run(["config", "check", "--config", str(file)]) == 0, capsys.readouterr()
