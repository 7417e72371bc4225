"""From the settings to a log: where lines go, and in which form."""

import os
import sys
from collections.abc import Mapping
from typing import Protocol

from jobrunner.errors import Misconfigured
from jobrunner.log.forms import AsJson, AsWords, Form
from jobrunner.log.subscriber import Log
from jobrunner.ports import ErrorOutput, LineThread, RotatedFile


class WantedLog(Protocol):
    """The settings of the log."""

    @property
    def format(self) -> str: ...
    @property
    def level(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def max_size(self) -> int: ...
    @property
    def keep(self) -> int: ...


def open_log(wanted: WantedLog, environ: Mapping[str, str]) -> Log:
    """Raises: Misconfigured, when its file cannot be opened."""
    here = not wanted.file and sys.stderr.isatty()
    form = form_of(wanted.format, environ, at_hand=here)
    if not wanted.file:
        return Log(lines=LineThread(ErrorOutput(2)), form=form, level=wanted.level)
    try:
        place = RotatedFile(wanted.file, wanted.max_size, wanted.keep, ErrorOutput(2))
    except OSError as error:
        cure = "name a file in a folder that this user may write, or leave it empty"
        raise Misconfigured(f"log.file = {wanted.file!r}: {error.strerror}; {cure}") from error
    return Log(lines=LineThread(place), form=form, level=wanted.level)


def form_of(name: str, environ: Mapping[str, str], *, at_hand: bool) -> Form:
    """Choose the form: for people on a terminal, for programs elsewhere, unless one is asked
    for."""
    if name == "json" or (name == "auto" and not at_hand):
        return AsJson()
    dull = "NO_COLOR" in environ or environ.get("TERM", "dumb") == "dumb" or os.name == "nt"
    return AsWords(at_hand=at_hand, coloured=at_hand and not dull)
