"""Values that a declared struct would take, drawn from a seed: few and small, so that equal ones
come up often."""

import random
import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, inspect

WORDS = (
    *("one", "two", "a lighthouse at night", "https://example.org/one", "s3://videos/one.mp4"),
    *("2026-01-01T00:00:00Z", "2026-01-01", "12:00:00", "a", "A", "1", "1.0.0", "en", "#ffffff"),
    *("ann@example.org", "018f0000-0000-7000-8000-000000000000", "one/two.txt", "+4930123456"),
    "one-1",
)
ANYTHING: tuple[Any, ...] = ("one", 2, True, {"one": 1}, ["one"])
TRIES = 50
DEEP = 4


class Implausible(AssertionError):
    """No value that would do was found; the author has to give some."""


def plausible(struct: type[Struct], draw: random.Random) -> dict[str, Any]:
    """Make a value as it would be stored: decoded by the struct, defaults filled in."""
    declared = inspect.type_info(struct)
    why = ""
    for _ in range(TRIES):
        try:
            made = msgspec.convert(_value(declared, draw, 0), struct)
        except (msgspec.ValidationError, Implausible) as fault:
            why = str(fault)
            continue
        found: dict[str, Any] = msgspec.to_builtins(made)
        return found
    raise Implausible(f"no value for {struct.__name__} was found ({why}); give some as params=")


def _value(kind: inspect.Type, draw: random.Random, depth: int) -> Any:
    if isinstance(kind, inspect.Metadata):
        return _value(kind.type, draw, depth)
    for kinds, made in MADE.items():
        if isinstance(kind, kinds):
            return made(kind, draw, depth)
    return draw.choice(WORDS)


def _fields(kind: inspect.StructType, draw: random.Random, depth: int) -> dict[str, Any]:
    given = [
        field for field in kind.fields if field.required or (depth < DEEP and draw.random() < 0.5)
    ]
    found = {field.encode_name: _value(field.type, draw, depth + 1) for field in given}
    if kind.tag_field:
        found[kind.tag_field] = kind.tag
    return found


def _one_of(union: inspect.UnionType, draw: random.Random, depth: int) -> Any:
    """Choose something rather than nothing, but for what would go on for ever."""
    something = [kind for kind in union.types if not isinstance(kind, inspect.NoneType)]
    if union.includes_none and (depth > DEEP or not something or draw.random() < 0.1):
        return None
    return _value(draw.choice(something), draw, depth)


def _some(kind: inspect.CollectionType | inspect.DictType, draw: random.Random) -> range:
    least = kind.min_length or 0
    return range(draw.randint(least, least + 1))


def _list(kind: inspect.CollectionType, draw: random.Random, depth: int) -> list[Any]:
    return [_value(kind.item_type, draw, depth + 1) for _ in _some(kind, draw)]


def _tuple(kind: inspect.TupleType, draw: random.Random, depth: int) -> list[Any]:
    return [_value(one, draw, depth + 1) for one in kind.item_types]


def _dict(kind: inspect.DictType, draw: random.Random, depth: int) -> dict[Any, Any]:
    key, value = kind.key_type, kind.value_type
    pairs = (
        (_value(key, draw, depth + 1), _value(value, draw, depth + 1)) for _ in _some(kind, draw)
    )
    return dict(pairs)


def _number(
    kind: inspect.IntType | inspect.FloatType, draw: random.Random, depth: int
) -> int | float:
    low = kind.ge if kind.ge is not None else (kind.gt + 1 if kind.gt is not None else None)
    high = kind.le if kind.le is not None else (kind.lt - 1 if kind.lt is not None else None)
    if low is None:
        low = 0 if high is None else min(0, high)
    high = low + 3 if high is None else min(high, low + 3)
    step = kind.multiple_of or 1
    number = -(-low // step) * step + step * draw.randint(0, max(int((high - low) // step), 0))
    return number if isinstance(kind, inspect.FloatType) else int(number)


def _text(kind: inspect.StrType, draw: random.Random, depth: int) -> str:
    """Words that fit; where none does, one that is long or short enough."""
    fitting = [word for word in WORDS if _fits(kind, word)]
    if fitting:
        return draw.choice(fitting[:3])
    text = draw.choice(WORDS) * ((kind.min_length or 1) // 3 + 1)
    text = text[: kind.max_length] if kind.max_length is not None else text
    if not _fits(kind, text):
        raise Implausible(f"no text for {kind}")
    return text


def _fits(kind: inspect.StrType, text: str) -> bool:
    if not (kind.min_length or 0) <= len(text) <= (kind.max_length or len(text)):
        return False
    return kind.pattern is None or re.search(kind.pattern, text) is not None


MADE: dict[Any, Callable[[Any, random.Random, int], Any]] = {
    inspect.StructType: _fields,
    inspect.UnionType: _one_of,
    inspect.LiteralType: lambda kind, draw, depth: draw.choice(kind.values),
    inspect.EnumType: lambda kind, draw, depth: draw.choice([one.value for one in kind.cls]),
    inspect.BoolType: lambda kind, draw, depth: draw.random() < 0.7,
    inspect.NoneType: lambda kind, draw, depth: None,
    inspect.AnyType: lambda kind, draw, depth: draw.choice(ANYTHING),
    (inspect.IntType, inspect.FloatType): _number,
    inspect.StrType: _text,
    inspect.DictType: _dict,
    inspect.TupleType: _tuple,
    inspect.CollectionType: _list,
}
