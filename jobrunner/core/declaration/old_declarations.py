"""Reads a stored declaration as a workflow of today: what is not known any more is ignored, and
what was renamed is found by its old name."""

from collections.abc import Mapping
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.declaration.workflow import Definition, Workflow

T = TypeVar("T")


def leniently(data: bytes) -> Workflow:
    """Raises: msgspec.MsgspecError, for what is no declaration at all."""
    return msgspec.convert(_known(msgspec.json.decode(data), Workflow), Workflow, strict=False)


def rebound(workflow: Workflow, renamed: Mapping[str, str]) -> Workflow:
    """The same, bound to stages by the names that they have today."""
    states = tuple(
        replace(
            state,
            stage={kind: renamed.get(name, name) for kind, name in state.stage.items()},
            on_demand=renamed.get(state.on_demand, state.on_demand),
        )
        for state in workflow.states
    )
    return replace(workflow, states=states) if renamed else workflow


def with_former(brought: Mapping[str, T], today: Definition) -> dict[str, T]:
    """Add the names that things had before; a name that is in use means what it means now."""
    former = {was: brought[name] for was, name in today.was.items() if name in brought}
    return {**former, **brought}


def _known(value: Any, kind: Any) -> Any:
    """The same without the fields that its struct does not have today."""
    origin, inside = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Struct) and isinstance(value, dict):
        types = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        return {name: _known(part, types[name]) for name, part in value.items() if name in types}
    if origin is tuple and isinstance(value, list):
        return [_known(part, inside[0]) for part in value]
    if origin is dict and isinstance(value, dict):
        return {name: _known(part, inside[1]) for name, part in value.items()}
    if NoneType in inside and value is not None:
        (only, *_) = [part for part in inside if part is not NoneType]
        return _known(value, only)
    return value
