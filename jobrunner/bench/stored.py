"""A file as years of work leave it: ``python -m jobrunner.bench.stored FILE --ended 10000000``.

Jobs that are in the file, made by the service itself, are the patterns. Their rows are copied by
SQL, table by table, with ids, owners, moments and keys of their own: so nothing comes in that the
service would not have written, and ``db check`` finds the file clean. Meanwhile it is safe from
nothing: one that was broken off is thrown away. Notifications are not copied.
"""

import argparse
from collections.abc import Iterator
from typing import Any

import anyio
import msgspec
from msgspec import Struct, structs

from jobrunner.errors import Misconfigured
from jobrunner.ports import SystemClock
from jobrunner.store.hop import open_handle
from jobrunner.store.opening import ProcessLock

BALANCE = 10**12
SKEW = 10
YEAR_MS = 365 * 86_400_000
FAST = ("journal_mode = delete", "journal_mode = off", "synchronous = off", "foreign_keys = 0",
        "locking_mode = exclusive", "cache_size = -262144")  # fmt: skip
SAFE = ("locking_mode = normal", "journal_mode = wal")
ENDED = "kind IN ('settled', 'final')"
WAITING = "kind IN ('waiting', 'queued', 'active') AND line_at IS NULL AND stuck IS NULL"
PATTERNS = """
    CREATE TEMP TABLE patterns AS
    SELECT row_number() OVER (ORDER BY id) - 1 AS place, id, uid, created_at AS at,
        (SELECT name FROM awaits WHERE job = jobs.id AND open) AS awaits,
        (SELECT due_at FROM timers WHERE job = jobs.id AND purpose = 'run_at') AS due
    FROM jobs WHERE {} ORDER BY id LIMIT 1000
"""
COPIES = """
    CREATE TEMP TABLE copies AS
    WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n + 1 < :jobs),
        born AS (SELECT n, n + (SELECT max(id) + 1 FROM main.jobs) AS job,
            :now - :span + n * :span / :jobs AS at FROM number)
    SELECT job, p.id AS pattern, p.uid AS was, b.at - p.at AS later, awaits,
        printf('%08x-%04x-7000-8000-%012x', b.at >> 16, b.at & 65535, job) AS uid,
        coalesce(CAST(:due_from + n * :apart AS INTEGER) - p.due, 0) AS wait,
        (SELECT user_id FROM owners WHERE place = n / :patterns * 7919 % :users) AS user_id
    FROM born b JOIN patterns p ON p.place = n % :patterns
"""
ACCOUNTS = """
    INSERT OR IGNORE INTO accounts (user_id, initial, opened_at)
    SELECT DISTINCT user_id, ?, ? FROM owners
"""
# Which column of a table names the job, where it is not ``job``.
NAMED_BY = {"jobs": "id", "keys": "job_id", "ledger": "job_id", "audit": "job_id",
            "dead_letters": "job_id"}  # fmt: skip
TABLES = ("jobs", "payloads", "history", "attempts", "locks", "timers", "artifacts", "assets",
          "events", "awaits", "webhooks", "keys", "ledger", "audit", "dead_letters")  # fmt: skip
NUMBERED = {"history.seq", "assets.id", "webhooks.id", "ledger.id", "audit.id", "dead_letters.id"}
# What a copy (``c``) has otherwise than its pattern (``t``), in all tables or in one.
OTHERWISE = {
    "job": "c.job",
    "job_id": "c.uid",
    "user_id": "c.user_id",
    "created_at": "t.created_at + c.later",
    "updated_at": "t.updated_at + c.later",
    "at": "t.at + c.later",
    "jobs.id": "c.job",
    "jobs.uid": "c.uid",
    "jobs.claim_at": "t.claim_at + c.wait",
    "jobs.rest": "moved(t.rest, c.awaits, c.job, c.wait)",
    "payloads.params": "moved(t.params, c.awaits, c.job, 0)",
    "attempts.attempt": "moved(t.attempt, c.awaits, c.job, 0)",
    "awaits.name": "t.name || '-' || c.job",
    "timers.due_at": "t.due_at + c.wait",
    "webhooks.webhook_id": "t.webhook_id || '-' || c.job",
    "webhooks.name": "t.name || '-' || c.job",
    "assets.uid": "substr(c.uid, 1, 14) || printf('7%03x', t.nth) || substr(c.uid, 19)",
    "assets.storage_path": "replace(t.storage_path, c.was, c.uid)",
    "artifacts.value": "replace(t.value, c.was, c.uid)",
    "keys.digest": "lower(hex(randomblob(32)))",
    "ledger.balance_after": "a.balance + sum(t.amount) OVER mine",
    "ledger.held_after": "a.held + sum(t.held_change) OVER mine",
}
# The others are written in the order of the copies, which is that of their own keys.
BEHIND = {
    "keys": "ORDER BY 1, 2, 3",
    "awaits": "ORDER BY 1",
    "ledger": "JOIN accounts a ON a.user_id = c.user_id "
    "WINDOW mine AS (PARTITION BY c.user_id ORDER BY c.job, t.nth) ORDER BY c.job, t.nth",
}


class Growth(Struct, frozen=True):
    """So many copies of jobs that have ended, spread over a year up to now; or of those that wait,
    where what waits for its moment is due ``per_s`` a second from ``due_from`` on. Half of all
    belong to the first of ``users``, and ever fewer to the next ones."""

    jobs: int
    waiting: bool = False
    due_from: int = 0
    per_s: float = 1000
    users: int = 1000


async def grow(path: str, growth: Growth) -> None:
    """Raises: Misconfigured, where somebody has the file or it holds no pattern"""
    lock = ProcessLock(path, "bench")
    handle = await open_handle(path)
    try:
        await handle(multiply, growth, SystemClock().now())
    finally:
        await handle.close()
        lock.release()


def multiply(db: Any, growth: Growth, now: int) -> None:
    db.create_function("moved", 4, _moved, deterministic=True)
    _set(db, FAST)
    _list_copies(db, growth, now)
    for table in TABLES:
        _lay_out(db, table)
    db.execute(ACCOUNTS, (BALANCE, now - YEAR_MS))
    put_back = list(_put_aside(db))
    for table in TABLES:
        _copy(db, table)
    for text in put_back:
        db.execute(text)
    _sum_up(db)
    _set(db, SAFE)


def _set(db: Any, settings: tuple[str, ...]) -> None:
    for setting in settings:
        db.execute(f"PRAGMA {setting}").fetchall()


def _list_copies(db: Any, growth: Growth, now: int) -> None:
    db.execute("CREATE TEMP TABLE owners (place INTEGER PRIMARY KEY, user_id TEXT NOT NULL)")
    many = growth.users
    whose = ((place, int((place / many) ** SKEW * many)) for place in range(many))
    db.executemany("INSERT INTO owners VALUES (?, printf('user-%04d', ?))", whose)
    db.execute(PATTERNS.format(WAITING if growth.waiting else ENDED))
    patterns, timed = db.execute("SELECT count(*), count(due) FROM patterns").fetchone()
    if not patterns:
        raise Misconfigured("no job in the file is a pattern: let the service make some first")
    apart = timed * 1000 / (patterns * growth.per_s)
    span = 0 if growth.waiting else YEAR_MS
    said = structs.asdict(growth) | {"patterns": patterns, "apart": apart, "now": now, "span": span}
    db.execute(COPIES, said)


def _lay_out(db: Any, table: str) -> None:
    """The rows of the patterns, numbered for each job."""
    named_by = NAMED_BY.get(table, "job")
    first = _columns(db, table)[0]
    whose = "p.uid" if named_by == "job_id" else "p.id"
    db.execute(
        f"CREATE TEMP TABLE of_{table} AS SELECT p.id AS pattern, "  # noqa: S608 - names of our own
        f"row_number() OVER (PARTITION BY p.id ORDER BY t.{first}) AS nth, t.* "
        f"FROM patterns p CROSS JOIN main.{table} t ON t.{named_by} = {whose}"
    )
    db.execute(f"CREATE INDEX of_{table}_pattern ON of_{table} (pattern)")


def _put_aside(db: Any) -> Iterator[str]:
    """Indexes are made faster in one go, and what triggers do is done once. How each is made."""
    asked = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name IN "
    found = db.execute(f"{asked} ({', '.join('?' * len(TABLES))}) AND type <> 'table'", TABLES)
    for kind, name, text in found.fetchall():
        db.execute(f"DROP {kind} {name}")
        yield text


def _copy(db: Any, table: str) -> None:
    columns = [name for name in _columns(db, table) if f"{table}.{name}" not in NUMBERED]
    values = [OTHERWISE.get(f"{table}.{name}") or OTHERWISE.get(name) or f't."{name}"'
              for name in columns]  # fmt: skip
    quoted = ", ".join(f'"{name}"' for name in columns)
    db.execute(
        f"INSERT INTO main.{table} ({quoted}) SELECT {', '.join(values)} "  # noqa: S608 - names of our own
        f"FROM copies c CROSS JOIN of_{table} t ON t.pattern = c.pattern {BEHIND.get(table, '')}"
    )


def _columns(db: Any, table: str) -> list[str]:
    return [name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def _sum_up(db: Any) -> None:
    db.execute("""
        UPDATE accounts SET (balance, held) = (SELECT sum(amount), sum(held_change)
        FROM ledger l WHERE l.user_id = accounts.user_id)
        WHERE user_id IN (SELECT user_id FROM owners)
    """)
    db.execute("DELETE FROM tally")
    db.execute("""
        INSERT INTO tally (workflow, status, jobs, in_line)
        SELECT workflow, status, count(*), sum(line_at IS NOT NULL AND stuck IS NULL AND paused = 0)
        FROM jobs GROUP BY workflow, status
    """)


def _moved(stored: str | None, awaited: str | None, job: int, wait: int) -> str | None:
    """A copy awaits what has a name of its own, and its moments are later."""
    if stored is not None and awaited is not None:
        for name in (awaited, awaited.partition(":")[2]):
            stored = stored.replace(f'"{name}"', f'"{name}-{job}"')
    if stored is None or not wait:
        return stored
    rest = msgspec.json.decode(stored)
    for timer in rest["timers"]:
        timer["due_at"] += wait
    rest |= {name: rest[name] + wait for name in ("run_at", "next_attempt_at") if name in rest}
    return msgspec.json.encode(rest).decode()


def main() -> None:
    parser = argparse.ArgumentParser(prog="stored", description="Let a file grow.")
    parser.add_argument("file", help="with jobs that the service made; nobody else has it")
    parser.add_argument("--ended", type=int, default=0, help="so many jobs that have ended")
    parser.add_argument("--waiting", type=int, default=0, help="so many that wait")
    parser.add_argument("--due-in", type=float, default=3600, help="seconds until the first is due")
    parser.add_argument("--per-s", type=float, default=1000, help="so many are due in a second")
    given = parser.parse_args()
    due_from = SystemClock().now() + int(given.due_in * 1000)
    if given.ended:
        anyio.run(grow, given.file, Growth(given.ended))
    if given.waiting:
        anyio.run(grow, given.file, Growth(given.waiting, True, due_from, given.per_s))


if __name__ == "__main__":
    main()
