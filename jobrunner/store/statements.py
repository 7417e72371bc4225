"""Every statement that writes, and what a hit that is missing or a row that is taken means.

The order in which they stand is the order in which a set of units is written: what a foreign key
points at comes first, and what most often refuses a unit (version, key, event, money) comes
before the bulk. A statement runs once per row; a row that it should have hit and did not is a
clash of kind ``missed``, a unique constraint in its way is one of kind ``taken``. Where a reason
is empty, such a thing would be a bug of ours.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from jobrunner.store.rows import FIXED, MOVING, PLACE

Row = tuple["Statement", tuple[Any, ...]]
PARAMETER = re.compile(r":([a-z_][a-z_0-9]*)")
NUMBER = re.compile(r"\?(\d+)")
ONE_ROW = re.compile(
    r"\s*(INSERT .+?)VALUES (\(.+?\))\s*((?:ON CONFLICT|\) CROSS JOIN) [^?]+)?", re.DOTALL
)
BLOCK = 32


class Statement:
    """SQL whose parameters have names. ``row`` takes a value for each by its name and gives a row
    to write. SQLite gets them by number: it would look up each name once more for each row.
    ``blocks``: ``several`` inserts many rows in one step. Each step opens the table and its indexes
    anew, and between two the thread gives the interpreter away, and has to win it back from a loop
    at work."""

    def __init__(self, sql: str, missed: str = "", taken: str = "") -> None:
        self.names = tuple(dict.fromkeys(PARAMETER.findall(sql)))
        self.sql = PARAMETER.sub(lambda found: f"?{self.names.index(found[1]) + 1}", sql)
        self._one_row = ONE_ROW.fullmatch(self.sql)
        self.blocks = self._one_row is not None
        self._several: dict[int, str] = {}
        self.missed = missed
        self.taken = taken
        self.row: Callable[..., Row] = self._maker()

    def several(self, rows: int) -> str:
        """The same for so many rows at once; made when first asked for, by the writer's thread."""
        if rows not in self._several:
            assert self._one_row is not None, "no plain insertion"
            head, row, tail = self._one_row.groups("")
            others = (NUMBER.sub(partial(self._shifted, at), row) for at in range(rows))
            self._several[rows] = f"{head}VALUES {', '.join(others)} {tail}"
        return self._several[rows]

    def _shifted(self, at: int, number: re.Match[str]) -> str:
        return f"?{int(number[1]) + at * len(self.names)}"

    def _maker(self) -> Callable[..., Row]:
        """A function of these names is made as ``namedtuple`` makes one: it is called for each row
        of each unit, and nothing else that checks names is as fast."""
        names = ", ".join(self.names)
        source = f"lambda *, {names}: (statement, ({names},))"
        maker: Callable[..., Row] = eval(source, {"statement": self})  # noqa: S307 - names of ours
        return maker

    def named(self, values: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self.names, values, strict=True))


def insert(table: str, columns: str, otherwise: str = "") -> str:
    """``columns`` are words; each gets the value of its name."""
    names = columns.split()
    quoted = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(f":{name}" for name in names)
    return f"INSERT INTO {table} ({quoted}) VALUES ({values}) {otherwise}"  # noqa: S608 - names of our own


def upsert(table: str, columns: str, key: str) -> str:
    """``key`` are those of the columns that tell which row it is."""
    others = [name for name in columns.split() if name not in key.split()]
    news = ", ".join(f'"{name}" = excluded."{name}"' for name in others)
    return insert(table, columns, f"ON CONFLICT ({', '.join(key.split())}) DO UPDATE SET {news}")


def _changed_job(columns: Iterable[str]) -> str:
    """Refused when the job has moved on since it was read."""
    news = ", ".join(f"{name} = :{name}" for name in columns)
    return f"UPDATE jobs SET {news} WHERE id = :id AND version = :was_at AND beat = :was_beat"  # noqa: S608 - names of our own


SEEN = Statement("UPDATE lives SET seen_at = :now WHERE epoch = :epoch")
ENDED = Statement("UPDATE lives SET seen_at = :now, ended_at = :now WHERE epoch = :epoch")
DEFINITION = Statement(
    insert("definitions", "digest name version data stored_at", "ON CONFLICT (digest) DO NOTHING")
)
STATE = Statement("""
    INSERT INTO states (definition, name, kind)
    SELECT id, :name, :kind FROM definitions WHERE digest = :digest
    ON CONFLICT (definition, name) DO NOTHING
""")
JOB_BORN = Statement(
    insert("jobs", " ".join(("id", "uid", "definition", "quota", *FIXED, *PLACE, *MOVING))).replace(
        ":definition", "(SELECT id FROM definitions WHERE digest = :digest)"
    ),
    taken="exists",
)
JOB_MOVED = Statement(_changed_job((*PLACE, *MOVING)), missed="version")
JOB_OUT_OF_LINE = Statement("""
    UPDATE tally SET in_line = in_line - 1 WHERE (workflow, status) = (SELECT workflow, status
    FROM jobs WHERE uid = :job_id AND line_at IS NOT NULL AND stuck IS NULL AND paused = 0)
""")
JOB_UNREADABLE = Statement(
    "UPDATE jobs SET stuck = :why, claim_at = NULL WHERE uid = :job_id AND stuck IS NULL",
    missed="version",
)
# A report of progress: none of the columns that indexes and triggers watch.
JOB_TOUCHED = Statement(_changed_job(MOVING), missed="version")
TOMBSTONE = Statement(
    """
    INSERT INTO tombstones (uid, user_id, workflow, status, created_at, deleted_at)
    SELECT uid, user_id, workflow, status, created_at, :at FROM jobs
    WHERE id = :job AND version = :version AND kind IN ('settled', 'final')
    """,
    missed="version",
)
EVENTS_KEPT = Statement("""
    INSERT INTO kept_events (tombstone, event_id, digest, occurred_at)
    SELECT t.id, e.event_id, e.digest, e.occurred_at
    FROM events e JOIN jobs j ON j.id = e.job JOIN tombstones t ON t.uid = j.uid WHERE j.id = :job
""")
CLEARING = Statement(insert("clearings", "folder at", "ON CONFLICT (folder) DO NOTHING"))
CLEARED = Statement("DELETE FROM clearings WHERE folder = :folder")
JOB_GONE = Statement("DELETE FROM jobs WHERE id = :job")
# Before schema 10 a key was kept under a digest of its text: such a row is in the way, too.
KEY = Statement(
    insert("keys", "user_id workflow digest job_id body_digest parts").replace(
        ":digest",
        """coalesce((SELECT k.digest FROM keys k WHERE k.user_id = :user_id
        AND k.workflow = :workflow AND k.digest = :digest_before), :digest)""",
    ),
    taken="key",
)
KEY_MOVED = Statement(
    """
    UPDATE keys SET job_id = :job_id, body_digest = :body_digest, parts = :parts
    WHERE user_id = :user_id AND workflow = :workflow AND digest IN (:digest, :digest_before)
        AND job_id = :takes_from
    """,
    missed="key",
)
EVENT = Statement(insert("events", "job event_id digest occurred_at"), taken="event")
ACCOUNT = Statement(
    insert("accounts", "user_id initial opened_at", "ON CONFLICT (user_id) DO NOTHING")
)
ACCOUNT_NEW = Statement(
    "INSERT INTO accounts (user_id, initial, opened_at) VALUES (:user_id, 0, :opened_at)",
    taken="exists",
)
# Too little held is no clash but a bug, left to the CHECK: who captures or releases must have held.
# A step reads the account before its first entry changes it: so each entry is told what those
# before it in the step have ``moved``.
LEDGER = Statement(
    """
    INSERT INTO ledger (user_id, kind, amount, held_change, job_id, run_id, reason, created_at,
        balance_after, held_after)
    SELECT column1, column2, column3, column4, column5, column6, column7, column8,
        balance + column3 + column9, held + column4 + column10 FROM (VALUES (:user_id, :kind,
        :amount, :held_change, :job_id, :run_id, :reason, :at, :moved, :held_moved)
    ) CROSS JOIN accounts WHERE user_id = column1 AND balance + column3 + column9 >= 0
    """,
    missed="balance",
    taken="ledger",
)
HISTORY = Statement(
    insert(
        "history", "job version hop from_status to_status trigger actor reason run_id event_id at"
    )
)
PAYLOAD = Statement(upsert("payloads", "job labels params result", "job"))
LOCK_FREED = Statement("DELETE FROM locks WHERE job = :job AND scope = :scope")
LOCK = Statement(upsert("locks", "job scope run_id holder epoch lease_until", "job scope"))
TIMER_GONE = Statement("DELETE FROM timers WHERE job = :job AND purpose = :purpose")
TIMER = Statement(upsert("timers", "job purpose due_at", "job purpose"))
ATTEMPT = Statement(upsert("attempts", "job serial status holder epoch attempt", "job serial"))
LINES = Statement("""
    UPDATE attempts SET attempt = json_set(attempt, '$.log', json(:lines))
    WHERE job = (SELECT id FROM jobs WHERE uid = :job_id) AND serial = :serial AND status = 'ended'
""")
ARTIFACT_RETIRED = Statement(
    "UPDATE artifacts SET current = 0 WHERE job = :job AND name = :name AND version = :version"
)
ARTIFACT = Statement(
    insert("artifacts", "job name version current created_at by run_id asset value")
)
ASSET = Statement(
    """
    INSERT INTO assets (uid, job, user_id, asset_type, url, storage_path, file_size, sha256,
        created_at)
    VALUES (:id, :job, :user_id, :asset_type, :url, :storage_path, :file_size, :sha256,
        :created_at)
    """,
    taken="exists",
)
ASSET_GONE = Statement("DELETE FROM assets WHERE uid = :id AND job IS NULL", missed="missing")
# Before a job is touched: an act that was done, or a bulk that was aborted, touches none.
TICK = Statement(
    """
    UPDATE bulk_items SET outcome = :outcome, code = :code, detail = :detail
    WHERE bulk = (SELECT id FROM bulks WHERE uid = :bulk AND status = 'running')
        AND place = :place AND outcome IS NULL
    """,
    missed="tick",
)
DEAD_LETTER = Statement(
    insert(
        "dead_letters",
        "at job_id workflow user_id reason failure_code failure_message failed_stage hidden",
    )
)
TALLY = Statement("""
    INSERT INTO tally (workflow, status, jobs, in_line)
    VALUES (:workflow, :status, max(:jobs, 0), max(:in_line, 0))
    ON CONFLICT (workflow, status) DO UPDATE SET jobs = jobs + :jobs, in_line = in_line + :in_line
""")
IN_ORDER = (
    SEEN, ENDED, TICK, DEFINITION, STATE, JOB_BORN, JOB_MOVED, JOB_TOUCHED, JOB_OUT_OF_LINE,
    JOB_UNREADABLE, TOMBSTONE, EVENTS_KEPT, JOB_GONE, KEY, KEY_MOVED, EVENT, ACCOUNT, ACCOUNT_NEW,
    LEDGER, HISTORY, PAYLOAD, LOCK_FREED, LOCK, TIMER_GONE, TIMER, ATTEMPT, LINES,
    ARTIFACT_RETIRED, ARTIFACT, ASSET, ASSET_GONE, CLEARING, CLEARED, DEAD_LETTER, TALLY,
)  # fmt: skip
