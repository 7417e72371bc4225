"""A stored declaration as a workflow of today: what is not known any more is ignored."""

from types import NoneType
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Struct

from jobrunner.core.declaration.workflow import Workflow


def leniently(data: bytes) -> Workflow:
    """Raises: msgspec.MsgspecError, for what is no declaration at all."""
    return msgspec.convert(_known(msgspec.json.decode(data), Workflow), Workflow, strict=False)


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
