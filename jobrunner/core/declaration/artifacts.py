"""Listed artifacts: which form each has, and who may write it. Data, and the one
function that compares a value with it.

A form is told in the words of JSON Schema, of which it is a small part, and is published as such.
"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

Type = Literal["string", "number", "integer", "boolean", "object", "array"]
Writer = Literal["user", "workflow", "admin", "stage"]


class Shape(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One form that a value may have.

    at_least  of a string its length, and then it is more than white space; of an object or an array
              the number of its entries
    fields    what an object must hold, each in one of its forms
    items     the forms of an array's items (empty: any)
    """

    type: Type
    at_least: int = 0
    fields: "dict[str, tuple[Shape, ...]]" = {}
    items: "tuple[Shape, ...]" = ()


class Listed(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An artifact that the workflow lists.

    shapes   the forms that it may have (empty: any)
    writers  whose reports may bring it; nobody's, where it is empty. What the workflow's own
             commands, edits and uploads store is theirs to decide and is not asked about
    states   from which states a report may bring it (empty: from all)
    """

    name: str
    shapes: tuple[Shape, ...] = ()
    writers: tuple[Writer, ...] = ("workflow", "stage", "admin")
    states: tuple[str, ...] = ()


def unlike(value: Any, shapes: tuple[Shape, ...]) -> str:
    """Why a value has none of these forms; an empty string when it has one."""
    if not shapes or any(_like(value, shape) for shape in shapes):
        return ""
    return f"{_shown(value)} is not {' or '.join(map(told, shapes))}"


def told(shape: Shape) -> str:
    """The form in words, for whoever sent something else."""
    noun = f"{'an' if shape.type[0] in 'aio' else 'a'} {shape.type}"
    parts = [f"{name!r}" for name in shape.fields]
    more = f" with {', '.join(parts)}" if parts else ""
    if shape.at_least and shape.type == "string":
        return f"{noun} that says something"
    return f"{noun} with {shape.at_least} or more entries" if shape.at_least else noun + more


def schema_of_shapes(shapes: tuple[Shape, ...]) -> dict[str, Any]:
    """The same as JSON Schema, as it is published."""
    schemas = [_schema(shape) for shape in shapes]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else {}


def _like(value: Any, shape: Shape) -> bool:
    if not _TYPES[shape.type](value) or not _enough(value, shape.at_least):
        return False
    if isinstance(value, dict):
        return all(
            name in value and not unlike(value[name], inner) for name, inner in shape.fields.items()
        )
    if isinstance(value, list | tuple) and shape.items:
        return not any(unlike(one, shape.items) for one in value)
    return True


def _enough(value: Any, at_least: int) -> bool:
    if not at_least:
        return True
    return len(value) >= at_least and not (isinstance(value, str) and not value.strip())


def _shown(value: Any) -> str:
    """The value where it says nothing of anybody, else its type: what is long may be somebody's
    text."""
    if not isinstance(value, str | dict | list | tuple) or not value:
        return repr(value)
    if isinstance(value, str):
        return "a string" if value.strip() else "white space"
    return "this object" if isinstance(value, dict) else "this array"


def _schema(shape: Shape) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": shape.type}
    if shape.at_least:
        bound = {"string": "minLength", "object": "minProperties", "array": "minItems"}
        schema[bound[shape.type]] = shape.at_least
    if shape.at_least and shape.type == "string":
        schema["pattern"] = r"\S"
    if shape.fields:
        schema["required"] = list(shape.fields)
        schema["properties"] = {
            name: schema_of_shapes(inner) for name, inner in shape.fields.items()
        }
    if shape.items:
        schema["items"] = schema_of_shapes(shape.items)
    return schema


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list | tuple),
}
