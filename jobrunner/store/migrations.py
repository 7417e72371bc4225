"""Numbered steps from an empty file to the schema of today; each happens whole or not at all.

The statements of a step and the number in ``user_version`` share one transaction, so a crash in
between leaves the file at the step before. ``executescript`` would commit first and run the rest
one by one; hence the splitting by hand.
"""

import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources


@cache
def steps() -> tuple[str, ...]:
    """The texts of all steps; the first one has number 1."""
    folder = resources.files(__package__) / "schema"
    files = sorted((file for file in folder.iterdir()), key=lambda file: file.name)
    return tuple(file.read_text("utf-8") for file in files if file.name.endswith(".sql"))


def latest() -> int:
    return len(steps())


def level(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    for number in range(level(connection) + 1, latest() + 1):
        take_step(connection, number, steps()[number - 1])


def take_step(connection: sqlite3.Connection, number: int, text: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements(text):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number:d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def statements(text: str) -> Iterator[str]:
    """Split a script into statements; ``complete_statement`` knows where a trigger ends."""
    gathered = ""
    for line in text.splitlines(keepends=True):
        gathered += line
        if sqlite3.complete_statement(gathered):
            yield gathered
            gathered = ""
    assert not gathered.strip(), f"the last statement has no end: {gathered!r}"
