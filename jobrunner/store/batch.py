"""One batch, one transaction, one function on the writer's thread.

The batch is cut into sets of units that do not get into each other's way. A set is written
statement by statement, each over all its units at once, inside a savepoint. If anything in it is
refused, the savepoint is rolled back and the units are written one by one, a savepoint each: so a
unit that must be refused is refused alone, and the others never learn of it.

What an error means depends on where it struck:

1. A clash (a row already taken, a row not hit): that unit's answer, as data.
2. A fault in what we wrote (a constraint that no clash explains, a value that does not bind): a
   bug, raised at that unit's caller; the others go on.
3. The disk is full, in whatever statement and also in COMMIT: everything is rolled back, every
   unit gets a plain no, and the next batch may succeed.
4. Anything else from the disk: nobody knows what is in the file. Every unit is told so.

After every error ``in_transaction`` is looked at. When SQLite has rolled back by itself, no further
statement may run: it would be a transaction of its own.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from msgspec import Struct

from jobrunner.core.decision import Clash
from jobrunner.core.job import Snapshot
from jobrunner.errors import OutcomeUnknown, StorageError, StorageFull
from jobrunner.store.compiling import QuotaCheck, Work
from jobrunner.store.disk_quota import is_used_up
from jobrunner.store.features.families.batches import BATCHES_IN_ORDER
from jobrunner.store.features.families.families import FAMILY_IN_ORDER
from jobrunner.store.features.quota import exceeded
from jobrunner.store.features.statements import BESIDE_IN_ORDER
from jobrunner.store.keeping.desk import LAST_IN_ORDER
from jobrunner.store.statements import BLOCK, IN_ORDER, LEDGER, TALLY, Row, Statement


class Written(Struct, frozen=True):
    """The result of a commit: the snapshot as stored, if the unit was about a job."""

    snapshot: Snapshot | None = None


Verdict = Written | Clash | Exception

OURS = {
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_MISUSE,
    sqlite3.SQLITE_RANGE,
}
ORDER = (*IN_ORDER, *BESIDE_IN_ORDER, *FAMILY_IN_ORDER, *BATCHES_IN_ORDER, *LAST_IN_ORDER)
TAKEN = {sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY}


class _Refusal(Exception):
    def __init__(self, reason: str, detail: str = "") -> None:
        self.clash = Clash(reason, detail)


def commit(connection: sqlite3.Connection) -> None:
    connection.execute("COMMIT")


def write_batch(
    connection: sqlite3.Connection,
    epoch: int,
    batch: Sequence[Work],
    commit: Callable[[sqlite3.Connection], None] = commit,
) -> list[Verdict]:
    """Write a batch and return a verdict for each unit, in their order. ``commit`` says the last
    word, and may time it."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        return _none_written(connection, error, batch)
    try:
        verdicts = _write(connection, epoch, batch)
        commit(connection)
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody may be told "written"
        return _none_written(connection, error, batch)
    return verdicts


def _write(connection: sqlite3.Connection, epoch: int, batch: Sequence[Work]) -> list[Verdict]:
    current = int(connection.execute("SELECT max(epoch) FROM lives").fetchone()[0])
    if current != epoch:
        clash = Clash("epoch", f"the file is in epoch {current}, this process in {epoch}")
        return [clash] * len(batch)
    return [verdict for works in sets(batch) for verdict in _write_set(connection, works)]


def sets(batch: Sequence[Work]) -> list[list[Work]]:
    """Cut a batch into sets. Writing a set at once has the same result as writing its units in
    turn."""
    found: list[list[Work]] = []
    touched: set[str] = set()
    counted: set[tuple[str, str]] = set()
    closed: set[tuple[str, str]] = set()
    fresh = True
    for work in batch:
        scope = (work.quota.user_id, work.quota.workflow) if work.quota else None
        apart = work.alone or scope in closed or work.closes in counted
        if fresh or apart or not touched.isdisjoint(work.touched):
            found.append([])
            touched, counted, closed = set(), set(), set()
        found[-1].append(work)
        touched.update(work.touched)
        counted.update({scope} if scope else ())
        closed.update({work.closes} if work.closes else ())
        fresh = work.alone
    return found


def _write_set(connection: sqlite3.Connection, works: list[Work]) -> list[Verdict]:
    refused = _attempt(connection, works)
    if refused is None:
        return [Written(work.snapshot) for work in works]
    if len(works) == 1:
        return [refused]
    return [verdict for work in works for verdict in _write_set(connection, [work])]


def _attempt(connection: sqlite3.Connection, works: list[Work]) -> Clash | Exception | None:
    """Write all of these, or none of them."""
    connection.execute("SAVEPOINT units")
    try:
        _apply(connection, works)
    except Exception as error:
        if _from_the_disk(error) or not connection.in_transaction:
            raise
        connection.execute("ROLLBACK TO units")
        connection.execute("RELEASE units")
        return error.clash if isinstance(error, _Refusal) else error
    connection.execute("RELEASE units")
    return None


def _apply(connection: sqlite3.Connection, works: list[Work]) -> None:
    rows = by_statement([row for work in works for row in work.rows])
    for statement in ORDER:
        if given := rows.get(statement):
            _execute(connection, statement, given)
    for quota in dict.fromkeys(work.quota for work in works if work.quota):
        _count(connection, quota)


def by_statement(rows: list[Row]) -> dict[Statement, list[tuple[Any, ...]]]:
    found: dict[Statement, list[tuple[Any, ...]]] = {}
    for statement, values in rows:
        found.setdefault(statement, []).append(values)
    if TALLY in found:
        found[TALLY] = _summed(found[TALLY])
    return found


def _summed(changes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sum the changes, to one row for each status: many jobs move between few of them."""
    sums: dict[tuple[str, str], list[int]] = {}
    for workflow, status, jobs, in_line in changes:
        total = sums.setdefault((workflow, status), [0, 0])
        total[0] += jobs
        total[1] += in_line
    return [(*place, *total) for place, total in sums.items()]


def _execute(
    connection: sqlite3.Connection, statement: Statement, given: list[tuple[Any, ...]]
) -> None:
    try:
        hit = _run(connection, statement, given)
    except sqlite3.IntegrityError as error:
        if statement.taken and error.sqlite_errorcode in TAKEN:
            raise _Refusal(statement.taken, str(error)) from error
        raise
    if statement.missed and hit < len(given):
        raise _Refusal(statement.missed)


def _run(connection: sqlite3.Connection, statement: Statement, given: list[tuple[Any, ...]]) -> int:
    """Write the rows and say how many were hit. A step takes as many as it can of those that are
    left, in powers of two: so there are few steps, and few texts to prepare."""
    if not statement.blocks:
        return connection.executemany(statement.sql, given).rowcount
    hit = at = 0
    while left := len(given) - at:
        size = min(1 << left.bit_length() - 1, BLOCK)
        block = given[at : at + size]
        told = _told(block) if statement is LEDGER else block
        hit += connection.execute(statement.several(size), tuple(chain(*told))).rowcount
        at += size
    return hit


def _told(entries: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Tell each entry of the ledger what those before it move in its account."""
    told, sums = [], dict[str, tuple[int, int]]()
    for entry in entries:
        user_id, _, amount, held = entry[:4]
        moved, held_moved = sums.get(user_id, (0, 0))
        told.append((*entry[:-2], moved, held_moved))
        sums[user_id] = (moved + amount, held_moved + held)
    return told


def _count(connection: sqlite3.Connection, quota: QuotaCheck) -> None:
    over = exceeded(connection, quota.user_id, quota.workflow, quota.limits, quota.now)
    if over:
        raise _Refusal("quota", over)


def _from_the_disk(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF not in OURS


def _none_written(
    connection: sqlite3.Connection, error: Exception, batch: Sequence[Work]
) -> list[Verdict]:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    plain_no = code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY} and _rolled_back(connection)
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_WRITE:
        plain_no = _rolled_back(connection) and is_used_up(connection)
        code = sqlite3.SQLITE_FULL if plain_no else code
    kind: type[StorageError] = StorageFull if plain_no else OutcomeUnknown
    if not plain_no:
        with suppress(sqlite3.Error):
            _rolled_back(connection)
    return [kind(_explained(error, code)) for _ in batch]


def _rolled_back(connection: sqlite3.Connection) -> bool:
    if connection.in_transaction:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            return False
    return True


def _explained(error: Exception, code: int) -> str:
    if code == sqlite3.SQLITE_FULL:
        return f"nothing was written: {error}; free some space on the disk of the store"
    if code == sqlite3.SQLITE_BUSY:
        return f"nothing was written: {error}; another program keeps the file's write lock"
    return f"the batch may or may not be in the file: {error}"
