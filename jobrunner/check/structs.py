"""Finds structs that would crash the process.

msgspec 0.22 builds a wrong type table for a field whose union holds text with a ``pattern`` next to
a list, a set, a variadic tuple or a dict: the garbage collector then reads memory that is not its
own, sooner or later, far from the cause. A plugin's struct of this shape is refused at load.
"""

from collections.abc import Iterator

from msgspec import Struct, inspect

from jobrunner.check.faults import Fault
from jobrunner.core.declaration.workflow import Definition

NESTED = (inspect.DictType, inspect.ListType, inspect.VarTupleType, inspect.SetType)


def perilous(definition: Definition) -> Iterator[Fault]:
    for name, kind in definition.structs.items():
        for field in perilous_fields(kind):
            yield Fault(
                "struct",
                f"struct {name!r}: field {field} mixes text that has a pattern with a list or a "
                "dict, which this msgspec cannot hold; drop the pattern or split the field",
                (f"struct {kind.__qualname__}", f"here: field {field}"),
            )


def perilous_fields(kind: type[Struct]) -> list[str]:
    """List a struct's own fields that are perilous; a struct inside it is reached by its own name,
    or not at all."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType), f"{kind} is no struct"
    return [field.name for field in info.fields if mixes(field.type)]


def mixes(kind: inspect.Type) -> bool:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if not isinstance(kind, inspect.UnionType):
        return False
    parts = [part.type if isinstance(part, inspect.Metadata) else part for part in kind.types]
    patterned = any(isinstance(part, inspect.StrType) and part.pattern for part in parts)
    return patterned and any(isinstance(part, NESTED) for part in parts)
