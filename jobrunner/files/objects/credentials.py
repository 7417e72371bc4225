"""The keys to a store of objects: from a file in the form that its other tools read, or from the
environment. They are read anew when the file changes, and are in no text of ours."""

import configparser
import os
from collections.abc import Mapping

from msgspec import Struct

from jobrunner.errors import Misconfigured

FIELDS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


class ObjectKeys(Struct, frozen=True):
    """``token`` goes with keys that are good for a while."""

    access: str
    secret: str
    token: str = ""

    def __repr__(self) -> str:
        return "ObjectKeys(…)"


def keys_of(file: str, environ: Mapping[str, str]) -> ObjectKeys:
    """Raises: Misconfigured, without both of them."""
    found = _in_file(file) if file else [environ.get(name.upper(), "") for name in FIELDS]
    if not (found[0] and found[1]):
        where = f"{file} has" if file else "the environment has"
        raise Misconfigured(
            f"objects.credentials: {where} no {' and '.join(_named(FIELDS[:2], file))}: name a "
            "file with a section [default] that has both, or set both variables"
        )
    return ObjectKeys(*found)


def mark_of(file: str) -> tuple[int, ...]:
    """Changes when the file does; nothing where there is none."""
    if not file:
        return ()
    try:
        stat = os.stat(file)
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _named(fields: tuple[str, ...], file: str) -> list[str]:
    return [name if file else name.upper() for name in fields]


def _in_file(file: str) -> list[str]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(file, encoding="utf-8") as text:
            parser.read_file(text)
    except OSError as error:
        reason = f"objects.credentials: {file} cannot be read: {error.strerror}"
        raise Misconfigured(reason) from error
    except (configparser.Error, UnicodeDecodeError):
        reason = f"objects.credentials: {file} does not read like [default] and NAME = VALUE"
        raise Misconfigured(reason) from None
    section = parser["default"] if parser.has_section("default") else {}
    return [str(section.get(name, "")).strip() for name in FIELDS]
