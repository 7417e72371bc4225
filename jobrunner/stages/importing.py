"""Imports plugins. One that cannot be imported is reported with its own line that failed and the
likely cure: the words of an exception rarely name either.
"""

import linecache
import traceback
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, TypeVar

from jobrunner.check.faults import meant
from jobrunner.core.declaration.workflow import Workflow
from jobrunner.stages.calling import miscalled
from jobrunner.stages.outcomes import said

T = TypeVar("T")
API = 1
LINE_MAX = 120
CURES = {
    "Stage": 'write @stage("NAME") above the function',
    "Companion": 'write @companion("WORKFLOW") above the function',
    "Definition": "write Definition(Workflow(...), functions={...}, structs={...})",
    "Source": 'write Source("NAME", read)',
    "Hook": 'write Hook("NAME", before=..., after=..., failed=...)',
    "Panel": 'write Panel("WORKFLOW", __name__)',
}
GROUPS = {
    "Stage": "stages",
    "Companion": "companions",
    "Definition": "workflows",
    "Source": "sources",
    "Hook": "hooks",
    "Panel": "panels",
}


def imported(entry: EntryPoint, kind: type[T]) -> T | str:
    """Load the thing that the entry point leads to, or say why it is no use."""
    where = (entry.dist.name if entry.dist else "") or entry.value
    try:
        found = entry.load()
        asked = getattr(import_module(entry.module), "JOBRUNNER_API", API)
    except BaseException as stranger:
        text = f"{type(stranger).__name__}: {said(stranger)}"
        cure = _cure(stranger, entry, kind)
        return f"of {where} does not load: {text}{_place(stranger, entry.module)}{cure}"
    if not isinstance(asked, int) or asked > API:
        return f"of {where} is for API {asked}, and this jobrunner has {API}; upgrade jobrunner"
    if not isinstance(found, kind):
        cure = _other(found, entry, kind)
        return f"of {where} leads to a {type(found).__name__}, not to a {kind.__name__}{cure}"
    return found


def _cure(fault: BaseException, entry: EntryPoint, kind: type[Any]) -> str:
    if cure := miscalled(fault):
        return f"; {cure}"
    name = entry.module.partition(".")[0]
    if isinstance(fault, ModuleNotFoundError) and fault.name in (name, entry.module):
        return f"; {entry.name} = {entry.value} leads there: is it in what was installed?"
    if isinstance(fault, ModuleNotFoundError) and fault.name:
        return f"; install {fault.name.partition('.')[0]}, and name it in the plugin's dependencies"
    if isinstance(fault, AttributeError) and fault.obj is not None and entry.attr == fault.name:
        known = _known_in(fault.obj, kind)
        return f"; {entry.name} = {entry.value}: {meant(entry.attr, known)}"
    if isinstance(fault, SystemExit):
        return "; nothing may end the process when it is imported"
    return ""


def _known_in(module: Any, kind: type[Any]) -> list[str]:
    return [name for name, one in vars(module).items() if isinstance(one, kind)]


def _other(found: Any, entry: EntryPoint, kind: type[Any]) -> str:
    """The likely cure where there is something else than what belongs there."""
    group = GROUPS.get(type(found).__name__)
    if group is not None:
        return f"; it belongs into the group jobrunner.{group}"
    if not entry.attr:
        known = _known_in(found, kind)
        return f"; write {entry.name} = {entry.value}:{known[0] if known else 'NAME'}"
    wraps = callable(found) or isinstance(found, Workflow)
    return f"; {CURES[kind.__name__]}" if wraps and kind.__name__ in CURES else ""


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
