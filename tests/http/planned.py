"""What a service asks its file, and how SQLite goes about it: nothing may take the longer the more
jobs have ended."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobrunner.store.rows import SELECT_WHOLE

VALUES = re.compile(r"'(?:[^']|'')*'|\b\d+\b")
ALIASES = re.compile(r"\b(\w+)(?: INDEXED BY \w+)?(?: AS)? ([a-z])\b")
WALK = re.compile(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?")
# One row for each thing that somebody declared, gave or did by hand.
FEW = frozenset(
    "accounts backups bindings bulks clearings definitions endpoints lives limits pauses "
    "restorations schedules sessions states successions tally tokens upgrades".split()
)
# Rows that go when their job has ended.
UNDER_WAY = frozenset({"family_waits", "locks", "timers"})
# All of them are looked at on purpose: a file is examined, objects are counted for an operator,
# retention bounds the batches.
EXAMINED = " ".join(SELECT_WHOLE.split())
LOOKED_AT = (
    "SELECT count(*) FROM objects",
    "SELECT coalesce(sum(size), 0) FROM objects",
    "SELECT coalesce(sum(open), 0), coalesce(sum(1 - open), 0), ",
)


class Questions:
    """Each that was asked, once, with the values that it was first asked with."""

    def __init__(self) -> None:
        self._asked: dict[str, str] = {}

    def hear(self, sql: str) -> None:
        """Scripts of the schema have comments, and are run once."""
        if "\n--" not in sql:
            line = " ".join(sql.split())
            self._asked.setdefault(VALUES.sub("?", line), line)

    def walks(self, path: Path) -> list[str]:
        """Of those, the ones that read all of a table that grows, and where."""
        with closing(sqlite3.connect(path)) as db:
            tables = dict(db.execute("SELECT name, 1 FROM sqlite_schema WHERE type = 'table'"))
            partial = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'"
            kept_short = {name for (name,) in db.execute(partial)}
            grows = tables.keys() - FEW - UNDER_WAY
            return [
                f"{step}: {sql}"
                for sql in self._asked.values()
                if sql != EXAMINED and not sql.startswith(LOOKED_AT)
                for step in _plan(db, sql)
                if _walks(step, sql, grows, kept_short)
            ]

    def __len__(self) -> int:
        return len(self._asked)


@contextmanager
def overheard(patch: pytest.MonkeyPatch, path: Path) -> Iterator[Questions]:
    """Whatever is asked of this file by who opens it meanwhile."""
    questions, connect = Questions(), sqlite3.connect

    def listening(named: Any, *given: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(named, *given, **more)
        if str(path) in str(named):
            connection.set_trace_callback(questions.hear)
        return connection

    with patch.context() as one:
        one.setattr(sqlite3, "connect", listening)
        yield questions


def _plan(db: sqlite3.Connection, sql: str) -> list[str]:
    try:
        return [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
    except sqlite3.Error:  # no question: a pragma, a transaction, a table of another file
        return []


def _walks(step: str, sql: str, grows: Any, kept_short: set[str]) -> bool:
    found = WALK.match(step)
    if found is None or "LIMIT" in sql:
        return False
    tables = {short: name for name, short in ALIASES.findall(sql) if name in grows}
    return tables.get(found[1], found[1]) in grows and found[2] not in kept_short
