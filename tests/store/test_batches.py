"""Written together or one by one, the file is the same, and it always adds up."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from jobrunner.core.decision import EventRow, KeyRow, QuotaAssert, Unit
from jobrunner.core.job import HeldLock, Snapshot, Timer
from jobrunner.core.units import Forget
from jobrunner.store import jobs
from jobrunner.store.batch import Verdict, sets, write_batch
from jobrunner.store.compiling import Work, compiled
from jobrunner.store.fsck import check
from jobrunner.store.opening import prepare_writer
from tests.store.factory import (
    DECLARED,
    KINDS,
    NOON,
    beaten,
    birth,
    counted,
    grant,
    job,
    keyed,
    moved,
    priced,
)

INITIAL = 10
USERS = ("ada", "eve")
SETTLEMENT = {"done": ("capture", "captured"), "broken": ("release", "released")}
IN_ORDER = {"ledger": "user_id, id", "history": "seq", "audit": "id"}


@cache
def newborn() -> bytes:
    """A file as the store makes it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            assert prepare_writer(db, str(path), NOON) == (1, 1)
        return path.read_bytes()


class Pair:
    """Two files that get the same units: one as batches, one unit by unit."""

    def __init__(self, folder: Path) -> None:
        self._rows = count(1)
        self._numbers = count(1)
        self._files = [self._open(folder / name) for name in ("batched", "single")]
        self.known: list[Snapshot] = []
        self.apply([DECLARED])

    def _open(self, path: Path) -> sqlite3.Connection:
        path.write_bytes(newborn())
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA synchronous = OFF")
        return db

    def apply(self, units: list[Unit]) -> list[Verdict]:
        works = [compiled(unit, self._rows, INITIAL) for unit in units]
        batched, single = self._files
        verdicts = write_batch(batched, 1, works)
        one_by_one = [verdict for work in works for verdict in write_batch(single, 1, [work])]
        assert [self._told(one) for one in verdicts] == [self._told(one) for one in one_by_one]
        assert self._content(batched) == self._content(single)
        assert check(batched) == ()
        batched.execute("PRAGMA query_only = 0")
        self.known = self._jobs(batched)
        return verdicts

    def _told(self, verdict: Verdict) -> str:
        return str(verdict) if isinstance(verdict, Exception) else repr(verdict)

    def _content(self, db: sqlite3.Connection) -> dict[str, list[object]]:
        """Everything, but for the numbers of ledger rows: those of different users interleave."""
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        found: dict[str, list[object]] = {}
        for (name,) in db.execute(tables).fetchall():
            order = IN_ORDER.get(name)
            rows = db.execute(f"SELECT * FROM {name} {f'ORDER BY {order}' if order else ''}")
            content: list[object] = [row[1:] if name == "ledger" else row for row in rows]
            found[name] = content if order else sorted(content, key=repr)
        return found

    def _jobs(self, db: sqlite3.Connection) -> list[Snapshot]:
        uids = [uid for (uid,) in db.execute("SELECT uid FROM jobs ORDER BY id")]
        return [found for uid in uids if (found := jobs.job(db, uid)) is not None]

    def number(self) -> int:
        return next(self._numbers)

    def spent(self) -> int:
        (row,) = self._files[0].execute(
            "SELECT coalesce(sum(-held_change), 0) FROM ledger WHERE kind = 'capture'"
        )
        return int(row[0])

    def granted(self) -> int:
        (row,) = self._files[0].execute(
            "SELECT coalesce(sum(amount), 0) FROM ledger WHERE kind = 'grant'"
        )
        return int(row[0])

    def owned(self) -> int:
        (row,) = self._files[0].execute("SELECT coalesce(sum(balance + held), 0) FROM accounts")
        return int(row[0])

    def close(self) -> None:
        for db in self._files:
            db.close()


def births(pair: Pair, draw: st.DataObject) -> Unit:
    number, user = pair.number(), draw.draw(st.sampled_from(USERS))
    match draw.draw(st.sampled_from(["plain", "priced", "keyed", "counted", "in line"])):
        case "priced":
            return priced(number, draw.draw(st.integers(1, 6)), user_id=user)
        case "keyed":
            return keyed(number, draw.draw(st.sampled_from("abc")), user_id=user)
        case "counted":
            limits = QuotaAssert(draw.draw(st.integers(0, 2)), draw.draw(st.integers(0, 3)))
            return counted(number, limits, user_id=user)
        case "in line":
            return birth(job(number, user_id=user, line_at=NOON + number))
        case _:
            return birth(job(number, user_id=user))


def changes(pair: Pair, draw: st.DataObject) -> Unit:
    """Of a job as it was before the batch: the second one in a batch is stale."""
    before = draw.draw(st.sampled_from(pair.known))
    if before.kind in {"final", "settled"} and draw.draw(st.booleans()):
        return Forget(before, NOON, "root")
    if before.kind == "final" or draw.draw(st.integers(0, 3)) == 0:
        return beaten(before, draw.draw(st.integers(0, 100)))
    to = draw.draw(st.sampled_from(sorted(KINDS)))
    decision = moved(
        before,
        to,
        locks=(HeldLock("job", "r", "stage", 1),) if to == "working" else (),
        timers=(Timer("deadline", NOON),) if to == "resting" else (),
        line_at=NOON if to == "queued" else None,
    )
    if to in SETTLEMENT and before.credits == "held":
        kind, credits = SETTLEMENT[to]
        return moved(before, to, kind, credits=credits, line_at=None, locks=(), timers=())
    if to == "resting":
        heard = EventRow(draw.draw(st.sampled_from("xy")), "d", NOON)
        return structs.replace(decision, event=heard)
    return decision


def supersedes(pair: Pair, draw: st.DataObject) -> Unit:
    old = draw.draw(st.sampled_from(pair.known))
    number = pair.number()
    new = birth(
        job(number, user_id=old.user_id),
        keys=(KeyRow(draw.draw(st.sampled_from("abc")), "b", "", takes_from=old.id),),
    )
    money = ("release", "released") if old.credits == "held" else ("", old.credits)
    step = moved(old, "broken", money[0], credits=money[1], line_at=None, locks=(), timers=())
    return structs.replace(new, also=(step,))


def units(pair: Pair, draw: st.DataObject) -> Iterator[Unit]:
    kinds = ["birth", "birth", "grant"] + (["change"] * 4 + ["supersede"] if pair.known else [])
    for kind in draw.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=12)):
        match kind:
            case "birth":
                yield births(pair, draw)
            case "change":
                yield changes(pair, draw)
            case "supersede":
                yield supersedes(pair, draw)
            case _:
                yield grant(draw.draw(st.sampled_from(USERS)), draw.draw(st.integers(-3, 3)) or 1)


@settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.data())
def test_a_batch_does_what_its_units_would_do_in_turn(draw: st.DataObject) -> None:
    """R3: and after every commit, credits are neither made nor lost."""
    with TemporaryDirectory() as folder:
        pair = Pair(Path(folder))
        try:
            for _ in range(draw.draw(st.integers(1, 4))):
                pair.apply(list(units(pair, draw)))
                assert pair.owned() + pair.spent() == pair.granted()
        finally:
            pair.close()


def cut(*given_units: Unit) -> list[int]:
    rows = count(1)
    return [len(works) for works in sets([compiled(unit, rows, 0) for unit in given_units])]


def test_where_a_batch_is_cut() -> None:
    """A job that comes twice, and units that ask or change what others of the set are asked."""
    limits = QuotaAssert(open_jobs=1)
    one, two = structs.replace(job(1), row=1), structs.replace(job(2), row=2)
    assert cut(birth(one), birth(two), birth(job(3))) == [3]
    assert cut(moved(one, "working"), moved(two, "working"), beaten(one, 3)) == [2, 1]
    assert cut(birth(two), grant("ada", 1), birth(job(3)), birth(job(4))) == [1, 1, 2]
    assert cut(counted(3, limits), counted(4, limits), moved(one, "working")) == [3]
    assert cut(counted(3, limits), moved(one, "done"), counted(4, limits)) == [1, 1, 1]
    assert cut(moved(one, "done"), counted(4, limits, user_id="eve"), moved(two, "done")) == [3]
    ending = structs.replace(birth(job(5)), also=(moved(two, "done"),))
    assert cut(counted(3, limits), ending, counted(4, limits)) == [1, 1, 1]
    assert cut() == []


def test_a_work_is_data() -> None:
    """Compiling looks at nothing but its arguments."""
    again = [compiled(priced(7), count(5), 25) for _ in range(2)]
    assert repr(again[0]) == repr(again[1])
    assert isinstance(again[0], Work)
