"""Defects to plant into the real rooms, each as somebody might have written it. What looks for
such things has to find these."""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.actors.attempts import RunningAttempts
from jobrunner.core.decide import decide
from jobrunner.core.decision import Clash, Decision, EdgeTaken, Unit
from jobrunner.core.messages import Move
from jobrunner.errors import Refused
from jobrunner.stages.context import Context
from jobrunner.store import statements as sql
from jobrunner.store.batch import Written, write_batch
from jobrunner.store.compiling import Work, compiled
from jobrunner.store.statements import Row, Statement
from jobrunner.store.writer import StoreWriter
from jobrunner.testing.simulation.world import WatchedConnection, empty_database

Plant = Callable[[pytest.MonkeyPatch], None]


def ack_before_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A submission is answered when it is in line for the disk, not when it is there."""
    behind: set[asyncio.Task[Any]] = set()

    def over(task: asyncio.Task[Any]) -> None:
        behind.discard(task)
        if not task.cancelled():
            task.exception()

    honest = StoreWriter.commit

    async def commit(self: StoreWriter, unit: Unit, then: Any = None) -> Written | Clash:
        if not isinstance(unit, Decision) or unit.before is not None:
            return await honest(self, unit, then)
        work = compiled(unit, self._fresh_rows, self._initial_credits)
        task = asyncio.create_task(self._write(work))
        behind.add(task)
        task.add_done_callback(over)
        then(work.snapshot)
        return Written(work.snapshot)

    monkeypatch.setattr(StoreWriter, "commit", commit)


def double_spawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are looked up first, and nobody looks again inside the transaction."""

    honest = WatchedConnection.execute

    def execute(self: WatchedConnection, text: str, *parameters: Any) -> sqlite3.Cursor:
        text = text.replace("INSERT INTO keys", "INSERT OR REPLACE INTO keys")
        return honest(self, text, *parameters)

    monkeypatch.setattr(WatchedConnection, "execute", execute)


def stage_started_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """An effect that is performed again when its job had an attempt before."""
    start = RunningAttempts.start

    def again(self: RunningAttempts, job: Any, attempt: Any) -> None:
        start(self, job, attempt)
        if attempt.serial > 1:
            start(self, job, attempt)

    monkeypatch.setattr(RunningAttempts, "start", again)


def refund_in_two_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job ends in one, its credits come back in the next."""
    _torn(
        monkeypatch,
        sql.LEDGER,
        lambda values: sql.LEDGER.named(values)["kind"] in ("refund", "release"),
    )


def event_id_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a callback does is committed, then that it was here."""
    _torn(monkeypatch, sql.EVENT, lambda values: True)


def no_idempotency_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt calls its provider under a name of its own."""

    def key(self: Context[Any], name: str = "") -> str:
        return f"{self.job_id}:{self.state}:{self.attempt}:{name}"

    monkeypatch.setattr(Context, "idempotency_key", key)


def terminal_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late callback is believed though the job has ended; and the file has lost its trigger."""

    def believing(definition: Any, job: Any, message: Any, facts: Any, moment: Any) -> Any:
        verdict = decide(definition, job, message, facts, moment)
        late = isinstance(verdict, Refused) and verdict.code == "TERMINAL_STATE"
        if not late or not isinstance(message, Move) or message.event is None:
            return verdict
        kind = definition.states[message.to].kind
        after = replace(job, status=message.to, kind=kind, version=job.version + 1)
        return Decision(
            job, after, (EdgeTaken(job.status, message.to, "workflow", message.actor.name),)
        )

    def without_trigger(path: Path) -> None:
        empty_database(path)
        connection = sqlite3.connect(path)
        connection.execute("DROP TRIGGER final_is_final")
        connection.close()

    monkeypatch.setattr("jobrunner.actors.actor.decide", believing)
    monkeypatch.setattr("jobrunner.testing.simulation.simulation.empty_database", without_trigger)


def _torn(
    monkeypatch: pytest.MonkeyPatch, statement: Statement, apart: Callable[[Any], bool]
) -> None:
    """Rows of this statement are written in a transaction of their own, right after the other."""

    def is_apart(row: Row) -> bool:
        return row[0] is statement and apart(row[1])

    def write(
        connection: sqlite3.Connection, epoch: int, batch: list[Work], *more: Any
    ) -> list[Any]:
        first = [replace(work, rows=[r for r in work.rows if not is_apart(r)]) for work in batch]
        verdicts = write_batch(connection, epoch, first)
        for work, verdict in zip(batch, verdicts, strict=True):
            rest = [row for row in work.rows if is_apart(row)]
            if rest and isinstance(verdict, Written):
                write_batch(connection, epoch, [Work(rest)])
        return verdicts

    monkeypatch.setattr("jobrunner.store.writer.write_batch", write)


# What to plant, and how it is told when it was found.
DEFECTS: dict[str, tuple[Plant, str]] = {
    "ack before commit": (ack_before_commit, "was acknowledged, and is not there"),
    "double spawn": (double_spawn, r"made \d+ jobs"),
    "stage started twice": (stage_started_twice, "2 stages work on it at once"),
    "refund in two transactions": (refund_in_two_transactions, "ledger"),
    "no idempotency key": (no_idempotency_key, "a provider saw"),
    "event id outside the transaction": (event_id_outside, "would be taken again"),
    "terminal overwritten": (terminal_overwritten, "leaves the final state"),
}


def called_by_its_name(name: str, faults: Iterable[str]) -> bool:
    """Not only that something was wrong: that it is told as what it is."""
    return any(re.search(DEFECTS[name][1], fault) for fault in faults)
