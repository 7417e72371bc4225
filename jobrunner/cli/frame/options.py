"""Options that several commands share, and the small forms that their values have."""

import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import CycloptsError, Parameter

from jobrunner.config.reading import DURATIONS, load
from jobrunner.config.settings import Config
from jobrunner.core.instants import text_of

Flag = Annotated[bool, Parameter(negative="")]
Many = Annotated[list[str] | None, Parameter(negative="", consume_multiple=False)]
Output = Annotated[Literal["table", "json", "ids"], Parameter(alias="-o")]


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """Every command knows its settings."""

    config: Path | None = None
    "The config file; else config.toml in the working folder, if there."

    def load(self) -> Config:
        return load(self.config, os.environ)


@Parameter(name="*")
@dataclass(frozen=True)
class Asking(Where):
    """Commands that may speak to the running service."""

    url: Annotated[str | None, Parameter(env_var="JOBRUNNER_URL")] = None
    "The service's address; else that of the config file."

    token: Annotated[str | None, Parameter(env_var="JOBRUNNER_TOKEN")] = None
    "The token to use; else that in admin.token beside the database."


@Parameter(name="*")
@dataclass(frozen=True)
class Form:
    """Commands that print a thing, or rows of them."""

    output: Output = "table"
    "A table for people, JSON with everything, or only ids."

    utc: Flag = False
    "Show times in UTC; else in this machine's time zone."


@Parameter(name="*")
@dataclass(frozen=True)
class Listing(Form, Asking):
    """Commands that print what the running service says."""


@Parameter(name="*")
@dataclass(frozen=True)
class Shown(Form, Where):
    """Commands that print what is there without a service."""


def no_option(_: Any, values: Any) -> None:
    for value in [values] if isinstance(values, str) else values or ():
        if value.startswith("-") and value != "-":
            raise ValueError(f'Unknown option: "{value}".')


Ids = Annotated[list[str], Parameter(allow_leading_hyphen=True, validator=no_option)]


Told = Annotated[Path | None, Parameter(allow_leading_hyphen=True)]
"""A file, or ``-`` for stdin."""


def spelled_out(ids: Iterable[str]) -> list[str]:
    """The ids with ``-`` replaced by what stdin lists, one a line."""
    every: list[str] = []
    for one in ids:
        every += sys.stdin.read().split() if one == "-" else [one]
    return every


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """``name=value``, several times."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise CycloptsError(msg=f"{text!r} is not of the form name=value")
        found[name] = value
    return found


def parameters(params: str | None, single: Iterable[str]) -> dict[str, Any]:
    """``--params`` as JSON, ``@file`` or ``@-`` for stdin; each ``--param`` lies over it, as JSON
    where it reads as JSON and as text where it does not."""
    whole = _json(_text(params)) if params else {}
    if not isinstance(whole, dict):
        raise CycloptsError(msg="--params must be a JSON object")
    return whole | {name: json_or_text(value) for name, value in pairs(single).items()}


def _text(params: str) -> str:
    return text_of_file(Path(params[1:]), "--params") if params.startswith("@") else params


def text_of_file(path: Path, option: str) -> str:
    """The text of a file, or of stdin under the name ``-``."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CycloptsError(msg=f"{option} {path}: {error}") from None


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise CycloptsError(msg=f"--params is not JSON: {error}") from None


def json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def seconds(text: str | None, option: str) -> int | None:
    """A duration like 90d, 12h or 30m, or a number of seconds."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,9})([smhd]?)", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise CycloptsError(msg=f"{option} {text}: a duration like 90d, 12h, 30m or 45s")
    return int(int(match[1]) * DURATIONS[match[2]])


def moment(text: str | None, now: int) -> str | None:
    """``--since``: a duration back from now (2h, 3d), a day, or an instant; as the service writes
    instants. Without an offset it is one of this machine's time zone."""
    if text is None:
        return None
    back = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip().lower())
    if back is not None:
        unit_s = 7 * DURATIONS["d"] if back[2] == "w" else DURATIONS[back[2]]
        return _text_of(max(now - int(int(back[1]) * unit_s * 1000), 0), text)
    try:
        return _text_of(int(datetime.fromisoformat(text).astimezone().timestamp() * 1000), text)
    except (ValueError, OverflowError, OSError):
        raise _no_moment(text) from None


def _text_of(instant: int, text: str) -> str:
    if instant < 0:
        raise _no_moment(text)
    return text_of(instant)


def _no_moment(text: str) -> CycloptsError:
    return CycloptsError(msg=f"--since {text}: like 2h, 3d, 2026-11-19 or 2026-11-19T08:30")


def not_negative(_: Any, value: int | None) -> None:
    if value is not None and value < 0:
        raise ValueError("a whole number from 0")


def positive(_: Any, value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError("a whole number from 1")
