"""The first words of a service, to whoever hears them."""

import io
import sys

import pytest

from jobrunner.greeting import greet

TOKEN = "jr_of-the-first-admin"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stdout", "shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_token_is_for_a_terminal_and_for_no_log(
    stdout: io.StringIO, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal, or the log of a container, is kept, and read by others."""
    monkeypatch.setattr(sys, "stdout", stdout)
    greet(
        "http://127.0.0.1:8080",
        TOKEN,
        "/srv/admin.token",
        "http://127.0.0.1:8080/#/welcome?key=once",
    )
    assert (TOKEN in stdout.getvalue()) is shown
    assert "kept in /srv/admin.token" in stdout.getvalue()
    assert "sign in at http" in stdout.getvalue()
