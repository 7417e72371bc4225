"""A struct as columns: what is selected for it, in the order of its fields.

The select is made from the struct, so a field that is added to it is read without a second list
that could be in another order.
"""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

T = TypeVar("T", bound=Struct)
Db = sqlite3.Connection


class Columns(Generic[T]):
    """``source`` begins with the table that is called ``t``. A field is its column, unless
    ``elsewhere`` has an expression for it; ``read`` turns what is stored into the field's value.
    ``without`` are fields that are in no row, ``first`` reads the first field, which is a struct
    of columns itself."""

    def __init__(
        self,
        struct: type[T],
        source: str,
        *,
        elsewhere: Mapping[str, str] = {},
        read: Mapping[str, Callable[[Any], Any]] = {},
        without: tuple[str, ...] = (),
        first: "Columns[Any] | None" = None,
    ) -> None:
        names = [field.name for field in structs.fields(struct) if field.name not in without]
        own = names[1:] if first else names
        selected = [elsewhere.get(name, f't."{name}"') for name in own]
        self.listed: str = ", ".join([*([first.listed] if first else []), *selected])
        self.source = source
        self._struct = struct
        self._first = first
        self._width: int = len(names) if first is None else first._width + len(own)
        self._read = [(names.index(name), change) for name, change in read.items()]
        self.of: Callable[[tuple[Any, ...]], T] = self._changed
        if first is None and not read:
            self.of = lambda row: struct(*row)

    def one(self, db: Db, where: str, /, **values: Any) -> T | None:
        found = db.execute(self.select(where), values).fetchone()
        return self.of(found) if found else None

    def all(self, db: Db, where: str = "", /, **values: Any) -> tuple[T, ...]:
        return tuple(map(self.of, db.execute(self.select(where), values)))

    def select(self, where: str) -> str:
        return f"SELECT {self.listed} FROM {self.source} {where}"  # noqa: S608 - texts of our own

    def _changed(self, row: tuple[Any, ...]) -> T:
        values = list(row)
        if self._first is not None:
            values[: self._first._width] = [self._first.of(row[: self._first._width])]
        for place, change in self._read:
            values[place] = change(values[place])
        return self._struct(*values)
