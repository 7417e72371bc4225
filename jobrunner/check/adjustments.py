"""Settings that an operator may make for a workflow, and whether they fit.

A workflow declares its settings as a struct whose fields all have defaults; without one, the names
and types of the defaults in its declaration hold. A key that nobody reads is a slip of the pen: the
setting that was meant stays as it was, and nothing else would say so.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from jobrunner.check.faults import meant
from jobrunner.core.declaration.spelling import shown
from jobrunner.core.declaration.workflow import Definition

OF_EVERY_WORKFLOW: dict[str, Any] = {"environment": list[str]}


def misset(definition: Definition, declared: Definition) -> Iterator[str]:
    """Every setting that is not one, or has a value that it cannot have: key, value, cure.
    ``declared`` is the same without what the operator has set."""
    workflow, kinds = definition.workflow, kinds_of(declared)
    faults = 0
    for key, value in workflow.settings.items():
        where = f"workflows.{workflow.name}.settings.{key}"
        if key not in kinds:
            faults += 1
            known = sorted(kinds.keys() - OF_EVERY_WORKFLOW.keys())
            yield f"{where} = {shown(value)}: no such setting; {meant(key, known)}"
        elif problem := _misfit(value, kinds[key]):
            faults += 1
            yield f"{where} = {shown(value)}: {problem}{_allowed(kinds[key])}"
    if definition.settings is not None and not faults:
        own = {k: v for k, v in workflow.settings.items() if k not in OF_EVERY_WORKFLOW}
        if problem := _misfit(own, definition.settings):
            yield f"workflows.{workflow.name}.settings: {problem}"


def kinds_of(definition: Definition) -> dict[str, Any]:
    """The type of each setting, by its key."""
    if definition.settings is None:
        kinds = {key: _like(value) for key, value in definition.workflow.settings.items()}
    else:
        fields = msgspec.structs.fields(definition.settings)
        kinds = {field.encode_name: field.type for field in fields}
    return OF_EVERY_WORKFLOW | kinds


def _like(default: Any) -> Any:
    if default is None:
        return Any
    if isinstance(default, int | float) and not isinstance(default, bool):
        return float
    return list if isinstance(default, tuple) else type(default)


def _misfit(value: Any, kind: Any) -> str:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _allowed(kind: Any) -> str:
    """Say what is allowed, in its author's words if there are any."""
    info: Any = inspect.type_info(kind)
    words = ""
    while isinstance(info, inspect.Metadata):
        words = words or (info.extra_json_schema or {}).get("description", "")
        info = info.type
    if isinstance(info, inspect.LiteralType):
        return f"; allowed are {', '.join(map(shown, info.values))}"
    return f"; it is {words}" if words else ""
