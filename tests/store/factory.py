"""Decisions made by hand: a lifecycle just large enough to store every kind of row."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import structs

from jobrunner.core.decision import (
    Clash,
    CreditEntry,
    Decision,
    EdgeTaken,
    KeyRow,
    QuotaAssert,
    Unit,
)
from jobrunner.core.job import Artifact, Attempt, Failure, HeldLock, Run, Snapshot, Timer
from jobrunner.core.units import Grant, Remember
from jobrunner.ports import SystemClock
from jobrunner.store.store import Store, open_store

T = TypeVar("T")

NOON = 1_767_225_600_000
DIGEST = "d" * 64
KINDS = {
    "resting": "waiting",
    "queued": "queued",
    "working": "active",
    "broken": "settled",
    "done": "final",
}
DECLARED = Remember(DIGEST, "toy", "1", b"{}", tuple(KINDS.items()), NOON)


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[Store]:
    """A store that knows the lifecycle of this file."""
    usual = {"initial_credits": 25, "clock": SystemClock()}
    store = await open_store(str(folder / "jobs.db"), **{**usual, **options})
    try:
        await store.commit(DECLARED)
        yield store
    finally:
        await store.close()


def raw(folder: Path) -> closing[sqlite3.Connection]:
    """The file, without any of our code in between."""
    connection = sqlite3.connect(folder / "jobs.db", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    return closing(connection)


async def stored(store: Store, unit: Unit) -> Snapshot:
    """Commit, and expect that it goes well."""
    outcome = await store.commit(unit)
    assert not isinstance(outcome, Clash), outcome
    assert outcome.snapshot is not None
    return outcome.snapshot


async def refused(store: Store, unit: Unit) -> str:
    """Commit, and expect a clash; its reason."""
    outcome = await store.commit(unit)
    assert isinstance(outcome, Clash), outcome
    return outcome.reason


def job(number: int, **changes: Any) -> Snapshot:
    status = changes.get("status", "queued")
    return structs.replace(
        Snapshot(
            id=f"job-{number:06d}",
            workflow="toy",
            digest=DIGEST,
            job_type="plain",
            user_id="ada",
            status=status,
            kind=KINDS[status],  # type: ignore[arg-type]
            created_at=NOON + number,
            updated_at=NOON + number,
            params={"n": number},
            run=Run(f"run-{number}", "birth", NOON + number),
        ),
        **changes,
    )


def birth(after: Snapshot, **parts: Any) -> Decision:
    run_id = after.run_id
    hops = (EdgeTaken(None, after.status, "user", after.user_id, run_id=run_id),)
    return Decision(before=None, after=after, **{"hops": hops, **parts})


def priced(number: int, cost: int = 3, **changes: Any) -> Decision:
    """A birth that holds credits."""
    after = job(number, cost=cost, credits="held", **changes)
    entry = CreditEntry("hold", cost, after.user_id, after.run_id)
    return birth(after, ledger=(entry,))


def keyed(number: int, key: str, **changes: Any) -> Decision:
    return birth(job(number, **changes), keys=(KeyRow(key, f"body-{key}", key),))


def counted(number: int, limits: QuotaAssert, **changes: Any) -> Decision:
    return birth(job(number, **changes), quota=limits)


def moved(before: Snapshot, status: str, money: str = "", **changes: Any) -> Decision:
    """The next version, in another state."""
    after = structs.replace(
        before,
        status=status,
        kind=KINDS[status],
        version=before.version + 1,
        beat=0,
        updated_at=before.updated_at + 1000,
        **changes,
    )
    ledger: tuple[CreditEntry, ...] = ()
    if money:
        ledger = (CreditEntry(money, before.cost, before.user_id, before.run_id),)
    hop = EdgeTaken(before.status, status, "engine", "engine", run_id=before.run_id)
    return Decision(before=before, after=after, hops=(hop,), ledger=ledger)


def beaten(before: Snapshot, progress: int) -> Decision:
    """A report of progress."""
    after = structs.replace(before, progress=progress, beat=before.beat + 1)
    return Decision(before=before, after=after)


def attempt(serial: int = 1, **changes: Any) -> Attempt:
    plain = Attempt(serial, "working", "toy.work", "run", serial, "due", NOON)
    return structs.replace(plain, **changes)


def everything(number: int) -> Decision:
    """A birth with every field of the snapshot filled, and every kind of row."""
    held = Artifact("draft", 1, {"text": ["ä", None, 1.5]}, NOON, "ada", f"run-{number}", "asset-1")
    opened = attempt(1, status="running", holder="stage", epoch=1, started_at=NOON)
    after = job(
        number,
        status="working",
        result={"ok": True},
        artifacts={"draft": held},
        asset_types={"image": 1},
        attempt=opened,
        serial=1,
        tries={"working": (1, 0)},
        worked="working",
        locks=(HeldLock("job", f"run-{number}", "stage", 1, NOON + 60_000),),
        timers=(Timer("limit", NOON + 120_000), Timer("heartbeat", NOON + 60_000)),
        progress=40,
        progress_message="half",
        failure_code="OLD",
        failure_message="before",
        failed_stage="working",
        correlation_id="c-1",
        idempotency_key="k",
        priority=7,
        labels={"team": "blue", "tier": "1"},
        notify_url="https://example.org",
        cost=3,
        credits="held",
        entered_at=NOON,
        started_at=NOON,
        completed_at=NOON,
        scheduled_at=NOON,
        heartbeat_at=NOON,
        next_attempt_at=NOON,
        deadline_at=NOON,
        run_at=NOON,
        last_event_at=NOON,
        deaths=1,
        marks={"plan": {"id": 1}},
    )
    return birth(
        after,
        artifacts=(held,),
        attempts=(opened,),
        ledger=(CreditEntry("hold", 3, "ada", f"run-{number}"),),
        keys=(KeyRow(f"key-{number}", "body", "parts"),),
    )


def failure(code: str = "BOOM") -> Failure:
    return Failure(code, "it went wrong", "working")


def grant(user_id: str, amount: int, once: bool = False) -> Grant:
    return Grant(user_id, amount, "gift", "root", NOON, once)


class PlainHop:
    """The seam as a simulation uses it: the same functions, on a connection of the test's own,
    when the test lets them. ``commits`` counts transactions that were committed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.gate = anyio.Event()
        self.gate.set()
        self.ran = 0
        self.commits = 0
        self.statements: list[str] = []
        connection.set_trace_callback(self._note)

    async def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        self.ran += 1
        await self.gate.wait()
        return function(self.connection, *arguments)

    def _note(self, statement: str) -> None:
        self.statements.append(statement)
        self.commits += statement == "COMMIT"


class Planted(sqlite3.Connection):
    """A connection that fails when a statement starts with ``at``, ``times`` times, with ``code``;
    with ``gone`` SQLite has rolled back by itself before it says so."""

    at = ""
    code = sqlite3.SQLITE_FULL
    gone = True
    times = 1

    def plant(self, at: str, code: int, gone: bool = True, times: int = 1) -> None:
        self.at, self.code, self.gone, self.times = at, code, gone, times

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self._perhaps_fail(sql)
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        self._perhaps_fail(sql)
        return super().executemany(sql, parameters)

    def _perhaps_fail(self, sql: str) -> None:
        if not self.at or not sql.strip().startswith(self.at) or not self.times:
            return
        self.times -= 1
        if self.gone and self.in_transaction:
            super().execute("ROLLBACK")
        error = sqlite3.OperationalError("planted")
        error.sqlite_errorcode = self.code
        error.sqlite_errorname = "PLANTED"
        raise error


def plain_hop(folder: Path) -> PlainHop:
    connection = sqlite3.connect(
        folder / "jobs.db", isolation_level=None, factory=Planted, check_same_thread=False
    )
    return PlainHop(connection)
