"""Checks that a declaration is what its types say, in every field, down to the last one.

Declarations are written by strangers, and python builds a struct of whatever it is given. So this
is looked at before anything else reads a declaration: the rules of ``check`` may then take types
for granted. Every slip is told by the place it stands at, with its value and the likely cure.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from jobrunner.check.faults import Fault, meant
from jobrunner.core.declaration.spelling import ARTIFACT, NAME, PATH, shown
from jobrunner.core.declaration.workflow import (
    ANY,
    Audit,
    Call,
    Command,
    Deadline,
    Definition,
    Edge,
    Editable,
    JobType,
    Lock,
    Quota,
    Recipe,
    Retry,
    Route,
    State,
    Upload,
    Workflow,
)

SECONDS = (0, 10**9)
AMOUNT = (0, 2**53)
SUCCESS = (200, 299)
WITHIN: dict[tuple[type, str], tuple[float, float]] = {
    (State, "limit_s"): SECONDS,
    (State, "heartbeat_s"): SECONDS,
    (State, "entry"): (0, 100),
    (Deadline, "after_s"): SECONDS,
    (Retry, "max"): (1, 10**6),
    (Retry, "base_s"): SECONDS,
    (Retry, "factor"): (1, 1000),
    (Retry, "cap_s"): SECONDS,
    (Retry, "jitter"): (0, 1),
    (Lock, "lapse_s"): SECONDS,
    (Command, "status_from"): SUCCESS,
    (Recipe, "max_length"): (1, 255),
    (Quota, "open_jobs"): AMOUNT,
    (Quota, "per_minute"): AMOUNT,
    (Quota, "per_day"): AMOUNT,
    (Route, "wait_s"): (0, 60),
    (Route, "status"): SUCCESS,
    (Workflow, "lease_s"): SECONDS,
}
EVENT = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
SHAPED: dict[tuple[type, str], re.Pattern[str]] = {
    (Workflow, "name"): NAME,
    (Workflow, "codes"): NAME,
    (State, "name"): NAME,
    (State, "checkpoint"): ARTIFACT,
    (State, "produces"): ARTIFACT,
    (Lock, "scope"): NAME,
    (Command, "name"): NAME,
    (Command, "aliases"): PATH,
    (Editable, "name"): ARTIFACT,
    (Editable, "locked"): NAME,
    (Upload, "locked"): NAME,
    (JobType, "name"): NAME,
    (Call, "name"): NAME,
    (Audit, "event"): EVENT,
}
MAY_BE_EMPTY = {(State, "checkpoint"), (State, "produces")}
INTEGER_MAX = 2**53
DEPTH_MAX = 32


class Slip(Struct, frozen=True):
    """A value that is not what it must be: where it stands, what is wanted, the likely cure."""

    where: str
    value: str
    wanted: str
    cure: str = ""

    def __str__(self) -> str:
        cure = f"; {self.cure}" if self.cure else ""
        return f"{self.where} is {self.value}, and must be {self.wanted}{cure}"


def illformed(definition: Definition) -> Iterator[Fault]:
    """List every value in a declaration that is of a wrong type, or can mean nothing."""
    for slip in (*slips(definition.workflow, Workflow, ""), *_brought(definition)):
        yield Fault("value", str(slip), (slip.where, f"here: {slip.value}"))


def slips(value: Any, kind: Any, where: str) -> Iterator[Slip]:
    """List everything in a value that is not as its type says; ``where`` is what it is called."""
    origin = get_origin(kind)
    if kind is Any:
        yield from _data(value, where, DEPTH_MAX)
    elif origin in (Union, UnionType):
        yield from _either(value, get_args(kind), where)
    elif origin is Literal:
        yield from _one_of(value, get_args(kind), where)
    elif origin is tuple:
        yield from _tuple(value, get_args(kind)[0], where)
    elif origin is dict:
        yield from _dict(value, get_args(kind)[1], where)
    elif origin is Callable:
        if not callable(value):
            cure = "it is decorated twice; once is enough" if isinstance(value, Struct) else ""
            yield Slip(where, shown(value), "a function", cure)
    elif origin is type:
        yield from _readable(value, where)
    elif issubclass(kind, Struct):
        yield from _struct(value, kind, where)
    else:
        yield from _plain(value, kind, where)


# ---------------------------------------------------------------- structs and what holds others


def _struct(value: Any, kind: type[Struct], where: str) -> Iterator[Slip]:
    if not isinstance(value, kind):
        yield Slip(
            where or "the declaration", shown(value), f"a {kind.__name__}", _made(value, kind)
        )
        return
    place = _called(value, kind, where)
    for field, of in _fields(kind):
        inside = getattr(value, field)
        name = f"{place}: {field}" if place else field
        found = list(slips(inside, of, name))
        yield from found or _meaningless(inside, (kind, field), name)


@cache
def _fields(kind: type[Struct]) -> tuple[tuple[str, Any], ...]:
    """Name each field with its type. To read what a hint means takes longer than all the rest."""
    return tuple((field.name, field.type) for field in msgspec.structs.fields(kind))


def _called(value: Struct, kind: type[Struct], where: str) -> str:
    """Name this part of the declaration as its author does."""
    name = getattr(value, "name", None)
    if kind is Edge:
        return f"edge {_word(value, 'source')} -> {_word(value, 'target')}"
    if kind is Workflow or not isinstance(name, str) or not NAME.fullmatch(name):
        return where
    nouns = {State: "state", JobType: "job type", Command: "command", Upload: "upload"}
    nouns |= {Editable: "editable"}
    return f"{nouns[kind]} {name}" if kind in nouns else where


def _word(value: Struct, field: str) -> str:
    word = getattr(value, field)
    return word if (isinstance(word, str) and NAME.fullmatch(word)) or word == ANY else shown(word)


def _either(value: Any, kinds: tuple[Any, ...], where: str) -> Iterator[Slip]:
    if value is None and NoneType in kinds:
        return
    others = [kind for kind in kinds if kind is not NoneType]
    if all(get_origin(kind) is Literal for kind in others):
        options = tuple(option for kind in others for option in get_args(kind))
        yield from _one_of(value, options, where)
        return
    tried = [list(slips(value, kind, where)) for kind in others]
    yield from min(tried, key=len)


def _tuple(value: Any, kind: Any, where: str) -> Iterator[Slip]:
    if not isinstance(value, tuple):
        yield Slip(where, shown(value), "a tuple", _tupled(value))
        return
    for number, item in enumerate(value, 1):
        yield from slips(item, kind, f"{where}, the {_ordinal(number)}")


def _dict(value: Any, kind: Any, where: str) -> Iterator[Slip]:
    if not isinstance(value, dict):
        cure = f'write {{"*": {shown(value)}}}' if isinstance(value, str) else ""
        yield Slip(where, shown(value), "a dict", cure)
        return
    for key, inside in value.items():
        if fault := list(_plain(key, str, f"{where}: the key {shown(key)}")):
            yield from fault
        else:
            yield from slips(inside, kind, f"{where}[{shown(key)}]")


def _made(value: Any, kind: type[Struct]) -> str:
    """A part that is given as the one value that matters in it."""
    fits = (kind is Call and isinstance(value, str)) or (
        kind is Deadline and isinstance(value, int | float)
    )
    if fits:
        return f"write {kind.__name__}({shown(value)})"
    is_named = isinstance(value, str) and "name" in kind.__struct_fields__
    return f"write {kind.__name__}({shown(value)}, ...)" if is_named else ""


def _tupled(value: Any) -> str:
    if isinstance(value, str):
        return f"write ({shown(value)},): with the comma it is a tuple"
    if isinstance(value, Struct):
        return "put it in brackets, with a comma behind it"
    return "write it in round brackets" if isinstance(value, list | set | frozenset) else ""


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


# ---------------------------------------------------------------- single values


def _one_of(value: Any, options: tuple[Any, ...], where: str) -> Iterator[Slip]:
    if any(type(value) is type(option) and value == option for option in options):
        return
    texts = [option for option in options if isinstance(option, str)]
    wanted = " or ".join(shown(option) for option in options if option != "")
    cure = meant(value, texts) if isinstance(value, str) and texts else ""
    cure = cure if cure.startswith("did") else ""
    yield Slip(where, shown(value), wanted, cure or ("" if value else "leave it out"))


def _plain(value: Any, kind: type, where: str) -> Iterator[Slip]:
    if kind is bool:
        if not isinstance(value, bool):
            yield Slip(where, shown(value), "True or False")
    elif kind is str:
        yield from _text(value, where)
    else:
        yield from _number(value, kind, where)


def _text(value: Any, where: str) -> Iterator[Slip]:
    if not isinstance(value, str):
        yield Slip(where, shown(value), "text", _text_of(value))
    elif not value.isprintable():
        yield Slip(where, shown(value), "text of printable characters")


def _text_of(value: Any) -> str:
    name = getattr(value, "name", None) if isinstance(value, Struct) else None
    name = name if isinstance(name, str) else getattr(value, "__name__", None)
    return f"its name is meant: {shown(name)}" if isinstance(name, str) else ""


def _number(value: Any, kind: type, where: str) -> Iterator[Slip]:
    wanted = "a whole number" if kind is int else "a number"
    wanted += " of seconds" if where.endswith("_s") else ""
    kinds = (int,) if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        cure = "write it without quotes" if isinstance(value, str) else ""
        yield Slip(where, shown(value), wanted, cure)
    elif not math.isfinite(value) or abs(value) > INTEGER_MAX:
        yield Slip(where, shown(value), f"{wanted} within ±2^53")


def _data(value: Any, where: str, depth: int) -> Iterator[Slip]:
    """Refuse what cannot be stored and sent as JSON and read back as the same."""
    if value is None or isinstance(value, bool):
        return
    if depth == 0:
        yield Slip(where, shown(value), f"data nested no deeper than {DEPTH_MAX}")
    elif isinstance(value, str):
        yield from _encodable(value, where)
    elif isinstance(value, int | float):
        yield from _number(value, float, where)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value, 1):
            yield from _data(item, f"{where}, the {_ordinal(number)}", depth - 1)
    elif isinstance(value, dict):
        for key, inside in value.items():
            yield from _text(key, f"{where}: the key {shown(key)}")
            yield from _data(inside, f"{where}[{shown(key)}]", depth - 1)
    else:
        yield Slip(where, shown(value), "data: text, numbers, lists and dicts of them")


def _encodable(value: str, where: str) -> Iterator[Slip]:
    try:
        value.encode()
    except UnicodeEncodeError:
        yield Slip(where, shown(value), "text without lone surrogates")


def _meaningless(value: Any, place: tuple[type, str], where: str) -> Iterator[Slip]:
    """Refuse values of the right type that this field could never mean."""
    shape, within = SHAPED.get(place), WITHIN.get(place)
    if shape is not None:
        for item in _texts(value):
            if not shape.fullmatch(item) and (item or place not in MAY_BE_EMPTY):
                yield Slip(where, shown(item), f"like {shape.pattern}", _reshaped(item, shape))
    if within is not None:
        low, high = within
        for number in _numbers(value):
            if not low <= number <= high:
                yield Slip(where, shown(number), f"from {low} to {high}")


def _reshaped(item: str, shape: re.Pattern[str]) -> str:
    """The nearest name of this shape."""
    for instead in ("-", "_"):
        near = re.sub(r"[^A-Za-z0-9_.-]+", instead, item).strip("-_.")
        for name in (near, near.lower()):
            if shape.fullmatch(name):
                return f"write {shown(name)}"
    return ""


def _texts(value: Any) -> list[str]:
    found = [value] if isinstance(value, str) else list(value)
    return [item for item in found if isinstance(item, str)]


def _numbers(value: Any) -> list[float]:
    found = value.values() if isinstance(value, dict) else [value]
    return [item for item in found if isinstance(item, int | float)]


# ---------------------------------------------------------------- functions and structs


def _brought(definition: Definition) -> Iterator[Slip]:
    """Check what stands behind the names: something to call, something to read a request into."""
    for name, function in definition.functions.items():
        yield from _text(name, f"functions: the name {shown(name)}")
        yield from slips(function, Callable[..., Any], f"functions[{shown(name)}]")
    for name, struct in definition.structs.items():
        yield from _text(name, f"structs: the name {shown(name)}")
        yield from _readable(struct, f"structs[{shown(name)}]")
    if definition.settings is not None:
        unreadable = list(_readable(definition.settings, "settings"))
        yield from unreadable or _bare(definition.settings)


def _bare(struct: type[Struct]) -> Iterator[Slip]:
    """Check that an operator need not set anything at all."""
    try:
        msgspec.to_builtins(struct())
    except Exception as error:  # noqa: BLE001 - as below
        wanted = "a struct whose fields all have defaults"
        yield Slip("settings", struct.__qualname__, wanted, shown(error))


def _readable(struct: Any, where: str) -> Iterator[Slip]:
    if not isinstance(struct, type) or not issubclass(struct, Struct):
        cure = f"write class {struct.__name__}(Struct)" if isinstance(struct, type) else ""
        yield Slip(where, shown(struct), "a class made of msgspec.Struct", cure)
        return
    try:
        msgspec.json.Decoder(struct)
        msgspec.json.schema(struct)
    except Exception as error:  # noqa: BLE001 - whatever a stranger's annotations lead to
        yield Slip(where, struct.__qualname__, "a struct that JSON can fill", shown(error))
