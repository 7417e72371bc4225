"""Work for outside workers, read from the table: the highest priority first, users in turn, and of
each user the oldest. Only heads are read: who has a hundred thousand jobs there is in nobody's way.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

Db = sqlite3.Connection
Row = tuple[int, str, int, str]

THERE = """
    FROM jobs WHERE workflow = :workflow AND status = :status
    AND claim_at IS NOT NULL AND claim_at <= :now AND (:job_type IS NULL OR job_type = :job_type)
"""
HIGHEST = f"""
    SELECT priority {THERE} AND (:below IS NULL OR priority < :below)
    ORDER BY priority DESC LIMIT 1
"""
NEXT_USER = f"""
    SELECT user_id {THERE} AND priority = :priority AND user_id > :last
    ORDER BY user_id LIMIT 1
"""
OLDEST = f"""
    SELECT -priority, user_id, id, uid {THERE} AND priority = :priority AND user_id = :user_id
    ORDER BY id LIMIT :limit
"""


def claimable(
    db: Db,
    workflow: str,
    statuses: tuple[str, ...],
    job_type: str | None,
    now: int,
    limit: int,
    last: str = "",
) -> tuple[str, ...]:
    """Find so many. ``last`` is the user who had the turn before; without statuses, in any."""
    place = {"workflow": workflow, "job_type": job_type, "now": now, "limit": limit}
    found = [
        row
        for status in statuses or _statuses(db, workflow)
        for row in _there(db, place | {"status": status}, last)
    ]
    return tuple(uid for *_, uid in sorted(_in_turn(found, last))[:limit])


def _statuses(db: Db, workflow: str) -> Iterator[str]:
    found = db.execute(
        "SELECT status FROM tally WHERE workflow = :of AND jobs > 0", {"of": workflow}
    )
    return (status for (status,) in found.fetchall())


def _there(db: Db, place: dict[str, Any], last: str) -> Iterator[Row]:
    """So many in one status, if there are, and some behind them."""
    left, below = place["limit"], None
    while left > 0 and (highest := db.execute(HIGHEST, place | {"below": below}).fetchone()):
        (below,) = highest
        of_it = place | {"priority": below}
        rows = _heads(db, of_it, [*islice(_users(db, of_it, last), place["limit"])])
        left -= len(rows)
        yield from rows


def _heads(db: Db, of_it: dict[str, Any], users: list[str]) -> list[Row]:
    """As many of each as make so many of all: more, where some of them have too few."""
    each = of_it["limit"] // len(users) + 1
    while True:
        asked = [of_it | {"user_id": user_id, "limit": each} for user_id in users]
        heads = [db.execute(OLDEST, one).fetchall() for one in asked]
        if sum(map(len, heads)) >= of_it["limit"] or max(map(len, heads)) < each:
            return [*chain.from_iterable(heads)]
        each *= 2


def _users(db: Db, of_it: dict[str, Any], last: str) -> Iterator[str]:
    """Those of one priority, from the one behind the last on."""
    for begin, end in ((last, None), ("", last)):
        user = begin
        while row := db.execute(NEXT_USER, of_it | {"last": user}).fetchone():
            (user,) = row
            if end is not None and user > end:
                return
            yield user


def _in_turn(rows: list[Row], last: str) -> Iterator[tuple[int, int, bool, str, int, str]]:
    """Each with its place: nobody has a second turn before everybody had a first."""
    turns = Counter[tuple[int, str]]()
    for priority, user_id, row, uid in sorted(rows):
        turns[priority, user_id] += 1
        yield priority, turns[priority, user_id], user_id <= last, user_id, row, uid
