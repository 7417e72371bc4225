"""Explains a call that could not be made: what was called, what it takes, what was probably meant.

Python says only which word is wrong. The line and the columns of the call lead to its name, and
that leads to the class or the function, as the module that called it knows it.
"""

import ast
import inspect
import linecache
import re
from types import TracebackType
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.check.faults import meant

UNKNOWN = re.compile(r"[Uu]nexpected keyword argument '(\w+)'")
MISSING = re.compile(r"Missing required argument '(\w+)'")
EXTRA = re.compile(r"Extra positional arguments provided")


def miscalled(fault: BaseException) -> str:
    """Say how the thing that was called wants to be called; empty for any other fault."""
    words = str(fault.args[0]) if isinstance(fault, TypeError) and fault.args else ""
    if not (UNKNOWN.search(words) or MISSING.search(words) or EXTRA.search(words)):
        return ""
    name, known = _called(fault.__traceback__)
    if not known:
        return ""
    if unknown := UNKNOWN.search(words):
        return f"{name} takes no {unknown[1]!r}; {_cure(unknown[1], known)}"
    if missing := MISSING.search(words):
        return f"{name} needs {missing[1]!r}; write {missing[1]}=…"
    return f"{name} takes at most {len(known)} values; write their names: {', '.join(known)}"


def _cure(word: str, known: list[str]) -> str:
    """The name that was meant, also one that only goes on, as ``limit`` for ``limit_s``."""
    longer = [name for name in known if name.startswith(f"{word}_")]
    cure = meant(longer[0] if longer else word, known)
    return cure if cure.startswith("did") else f"it takes {', '.join(known)}"


def _called(trace: TracebackType | None) -> tuple[str, list[str]]:
    """Find the name of what the innermost call is made of, and the words that it takes."""
    if trace is None:
        return "", []
    while trace.tb_next is not None:
        trace = trace.tb_next
    name = _name_of(trace)
    found = trace.tb_frame.f_globals.get(name.partition(".")[0]) if name else None
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return name, _words(found)


def _name_of(trace: TracebackType) -> str:
    places = list(trace.tb_frame.f_code.co_positions())
    line, end_line, column, end_column = places[trace.tb_lasti // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return ""
    file = trace.tb_frame.f_code.co_filename
    lines = [linecache.getline(file, number).encode() for number in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        call = ast.parse(b"".join(lines), mode="eval").body
    except SyntaxError:
        return ""
    return ast.unparse(call.func) if isinstance(call, ast.Call) else ""


def _words(called: Any) -> list[str]:
    if isinstance(called, type) and issubclass(called, Struct):
        return [field.name for field in msgspec.structs.fields(called)]
    try:
        return [name for name in inspect.signature(called).parameters if name != "self"]
    except (TypeError, ValueError):
        return []
