"""The first words of a service, to whoever hears them."""

import io
import sys

import pytest

from jobrunner.greeting import greet

URL = "http://127.0.0.1:8080"
TOKEN = "jr_of-the-first-admin"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stdout", "shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_secrets_are_for_a_terminal_and_for_no_log(
    stdout: io.StringIO, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal, or the log of a container, is kept, and read by others. Where no link is shown,
    there is none that somebody could find."""
    monkeypatch.setattr(sys, "stdout", stdout)
    made: list[str] = []

    def linked() -> str:
        made.append(f"{URL}/#/welcome?key=once")
        return made[-1]

    greet(URL, TOKEN, "/srv/admin.token", linked)
    said = stdout.getvalue()
    assert (TOKEN in said, "key=once" in said, bool(made)) == (shown, shown, shown)
    assert "kept in /srv/admin.token" in said
    assert ("jobrunner token create" in said) is not shown


def test_a_later_start_says_where_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", said := io.StringIO())
    greet(URL)
    assert said.getvalue() == f"jobrunner answers on {URL}\n"
