"""Questions of stages in the file, by the digests of their tokens. Rows going in, answers out."""

import sqlite3
from collections.abc import Iterator

import msgspec
from msgspec.structs import asdict, replace

from jobrunner.core.decision import Decision
from jobrunner.core.features.answers.giving import AnswerFilter, PendingAnswer, open_in
from jobrunner.core.features.answers.posed import MARK, Posed
from jobrunner.core.job import Snapshot
from jobrunner.store.columns import Columns
from jobrunner.store.jobs import LAST
from jobrunner.store.rows import text
from jobrunner.store.statements import Row, Statement, insert

Db = sqlite3.Connection

QUESTION = Statement(
    insert(
        "questions",
        "digest job user_id name standing asked_at posed",
        "ON CONFLICT (digest) DO UPDATE SET standing = excluded.standing, posed = excluded.posed",
    )
)


def answer_rows(decision: Decision, after: Snapshot) -> Iterator[Row]:
    """Make a row of every question that was asked, was answered or is over now. Those of an
    attempt that has ended are over, unless the next one has them."""
    before = decision.before.attempt if decision.before else None
    standing = after.attempt.questions if after.attempt is not None else {}
    known = before.questions if before is not None else {}
    for name, posed in standing.items():
        if known.get(name) != posed:
            yield _row(after, name, posed)
    for name, posed in open_in(before).items():
        if name not in standing or standing[name].digest != posed.digest:
            yield _row(after, name, replace(posed, standing="over"))


def _row(job: Snapshot, name: str, posed: Posed) -> Row:
    return QUESTION.row(
        digest=posed.digest, job=job.row, user_id=job.user_id, name=name,
        standing=posed.standing, asked_at=posed.asked_at, posed=text(posed),
    )  # fmt: skip


# ---------------------------------------------------------------- answers


PENDING = Columns(
    PendingAnswer,
    "questions t JOIN jobs j ON j.id = t.job",
    elsewhere={"job_id": "j.uid", "workflow": "j.workflow"},
    read={"posed": msgspec.json.Decoder(Posed).decode},
)
# Where pages of callbacks begin: no question has so high a key.
CALLBACKS_FROM = 1 << 56
LOOKED_AT = 10_000
PARKED = f"""
    SELECT j.id, j.uid, j.workflow, j.user_id, json_extract(a.attempt, '$.awaits') AS name,
        json_extract(a.attempt, '$.stage'), j.updated_at,
        (SELECT due_at FROM timers WHERE job = j.id AND purpose = 'deadline')
    FROM (
        SELECT job, attempt FROM attempts INDEXED BY attempts_parked
        WHERE status = 'parked' AND job < :row {{of_job}} ORDER BY job DESC LIMIT :looked_at
    ) a CROSS JOIN jobs j ON j.id = a.job
    WHERE name <> '' AND substr(name, 1, 1) <> '{MARK}'
        AND coalesce(json_extract(a.attempt, '$.source'), '') = '' {{whose}}
    ORDER BY j.id DESC LIMIT :limit
"""  # noqa: S608 - texts of our own
NARROW = {
    "user_id": "t.user_id = :user_id",
    "job_id": "t.job = (SELECT id FROM jobs WHERE uid = :job_id)",
    "workflows": "j.workflow IN (SELECT value FROM json_each(:workflows))",
}


def question_of(db: Db, digest: str) -> PendingAnswer | None:
    """Find what a token is for, also when it is over."""
    return PENDING.one(db, "WHERE t.digest = :digest", digest=digest)


def question_named(db: Db, job_id: str, name: str) -> PendingAnswer | None:
    """Find the last question of this name that the job has asked, also when it is over."""
    of_name = f"WHERE {NARROW['job_id']} AND t.name = :name ORDER BY t.id DESC LIMIT 1"
    return PENDING.one(db, of_name, job_id=job_id, name=name)


def pending_answers(db: Db, which: AnswerFilter) -> tuple[PendingAnswer, ...]:
    """Questions, newest first; behind them callbacks of no source, of the newest jobs first."""
    questions = _questions(db, which)
    if len(questions) == which.limit:
        return questions
    return questions + _callbacks(db, which, which.limit - len(questions))


def _questions(db: Db, which: AnswerFilter) -> tuple[PendingAnswer, ...]:
    if which.after is not None and which.after >= CALLBACKS_FROM:
        return ()
    asked = asdict(which) | {"after": which.after or LAST, "workflows": text(which.workflows)}
    narrow = " ".join(f"AND {asks}" for name, asks in NARROW.items() if getattr(which, name))
    newest = f"WHERE t.standing = 'open' AND t.id < :after {narrow} ORDER BY t.id DESC LIMIT :limit"
    return PENDING.all(db, newest, **asked)


def _callbacks(db: Db, which: AnswerFilter, limit: int) -> tuple[PendingAnswer, ...]:
    """Find callbacks that are awaited. They have no rows of their own: the newest parked attempts
    are looked at."""
    after = which.after if which.after is not None and which.after >= CALLBACKS_FROM else None
    asked = asdict(which) | {
        "row": LAST if after is None else after - CALLBACKS_FROM,
        "limit": limit, "looked_at": LOOKED_AT, "workflows": text(which.workflows),
    }  # fmt: skip
    narrow = {
        "user_id": "AND j.user_id = :user_id",
        "workflows": f"AND {NARROW['workflows']}",
    }
    of_job = "AND job = (SELECT id FROM jobs WHERE uid = :job_id)" if which.job_id else ""
    whose = " ".join(asks for name, asks in narrow.items() if getattr(which, name))
    found = db.execute(PARKED.format(of_job=of_job, whose=whose), asked)
    return tuple(_callback(*row) for row in found)


def _callback(
    row: int, job_id: str, workflow: str, user_id: str, name: str, stage: str, at: int,
    expires_at: int | None,
) -> PendingAnswer:  # fmt: skip
    """Show a callback as a question that asks nothing in words, which role workflow may answer."""
    posed = Posed("", "", stage, at, by=("workflow",), expires_at=expires_at)
    return PendingAnswer(CALLBACKS_FROM + row, job_id, workflow, user_id, name, "open", posed)
