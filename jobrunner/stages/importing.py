"""Imports what entry points lead to. A plugin that cannot be imported is told with the line of its
own that could not be run: the words of an exception rarely name it.
"""

import linecache
import traceback
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TypeVar

from jobrunner.stages.outcomes import said

T = TypeVar("T")
API = 1
LINE_MAX = 120


def imported(entry: EntryPoint, kind: type[T]) -> T | str:
    """Load the thing that the entry point leads to, or say why it is no use."""
    where = entry.dist.name if entry.dist else entry.value
    try:
        found = entry.load()
        asked = getattr(import_module(entry.module), "JOBRUNNER_API", API)
    except BaseException as stranger:
        text = f"{type(stranger).__name__}: {said(stranger)}"
        return f"of {where} does not load: {text}{_place(stranger, entry.module)}"
    if not isinstance(asked, int) or asked > API:
        return f"of {where} is for API {asked}, and this jobrunner has {API}; upgrade jobrunner"
    if not isinstance(found, kind):
        return f"of {where} leads to a {type(found).__name__}, not to a {kind.__name__}"
    return found


def _place(fault: BaseException, module: str) -> str:
    """The innermost line of the plugin's own; of what cannot be parsed, where that ended."""
    if isinstance(fault, SyntaxError) and fault.filename:
        return _line(fault.filename, fault.lineno or 0)
    steps, package = traceback.extract_tb(fault.__traceback__), module.partition(".")[0]
    own = [step for step in steps if package in Path(step.filename).with_suffix("").parts]
    return _line(own[-1].filename, own[-1].lineno or 0) if own else ""


def _line(filename: str, number: int) -> str:
    written = linecache.getline(filename, number).strip()[:LINE_MAX]
    return f" ({filename}, line {number}{f': {written}' if written else ''})"
