"""Questions of stages in the file, by the digests of their tokens. Rows going in, answers out."""

import sqlite3
from collections.abc import Iterator

import msgspec
from msgspec.structs import asdict, replace

from jobrunner.core.decision import Decision
from jobrunner.core.features.answers.giving import AnswerFilter, PendingAnswer, open_in
from jobrunner.core.features.answers.posed import Posed
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
    now = after.attempt
    if (before is None or not before.questions) and (now is None or not now.questions):
        return
    standing = now.questions if now is not None else {}
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
    """Newest first."""
    asked = asdict(which) | {"after": which.after or LAST, "workflows": text(which.workflows)}
    narrow = " ".join(f"AND {asks}" for name, asks in NARROW.items() if getattr(which, name))
    newest = f"WHERE t.standing = 'open' AND t.id < :after {narrow} ORDER BY t.id DESC LIMIT :limit"
    return PENDING.all(db, newest, **asked)
