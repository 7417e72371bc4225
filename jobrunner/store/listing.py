"""Pages of jobs. A page looks at a bounded number of rows, whatever is asked for; so it may hold
fewer jobs than it could and still say where to go on. A job that cannot be read is left out."""

import sqlite3
from contextlib import closing
from typing import Any

from msgspec import structs

from jobrunner.core.questions import JobFilter, JobPage
from jobrunner.store.rows import SELECT_BRIEF, brief_job, text

ROWS_MAX = 10_000
LETTERS_MAX = 8 * 1024**2
LAST = 2**63 - 1
# An id is made a moment before its job is written, and others may be written meanwhile.
SLACK_MS = 60_000


# The condition of each field of a filter. A field that has its default asks for nothing.
NARROW = {
    "workflow": "j.workflow = :workflow",
    "workflows": "j.workflow IN (SELECT value FROM json_each(:workflows))",
    "job_type": "j.job_type = :job_type",
    "stuck": "j.stuck IS NOT NULL",
    "paused": "j.paused = 1",
    "schedule": "j.id IN (SELECT job FROM scheduled WHERE schedule = :schedule)",
    "created_from": "j.created_at >= :created_from",
    "created_before": "j.created_at < :created_before",
}
ALL = JobFilter()
CHILD_OF = """j.id IN (SELECT c.job FROM children c
    WHERE c.parent = (SELECT p.id FROM jobs p WHERE p.uid = :parent))"""
LABEL = """EXISTS
    (SELECT 1 FROM json_each(p.labels) l WHERE l.key = :key_{0} AND l.value = :value_{0})"""

# A text is looked for in the id, whose end is what pages show of it, the parameters, the result,
# the labels and what went wrong. LIKE would take as long as both texts multiplied where they nearly
# agree, as somebody may write them.
SAYS = """(instr(j.uid, lower(:said)) OR instr(lower(p.params), lower(:text))
    OR instr(lower(p.result), lower(:text)) OR instr(lower(p.labels), lower(:text))
    OR CASE WHEN json_valid(j.rest) THEN
        instr(lower(json_extract(j.rest, '$.failure_message')), lower(:said)) END)"""
LETTERS = "ifnull(length(p.params), 0) + ifnull(length(p.result), 0)"
PARAM = """EXISTS (SELECT 1
    FROM json_each(CASE WHEN json_valid(p.params) THEN p.params END) l
    WHERE l.key = :param_{0} AND :wanted_{0} =
    CASE l.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE CAST(l.value AS TEXT) END)"""

SENT_IN = """j.id IN (SELECT i.job FROM batch_items i
    WHERE i.batch = (SELECT b.id FROM batches b WHERE b.uid = :batch))"""


def jobs(db: sqlite3.Connection, which: JobFilter) -> JobPage:
    walk, narrow, asked = _walk(which), _narrow(which), _asked(which)
    if _is_nowhere(db, which, asked):
        return JobPage((), None)
    edge = None
    if which.text or which.param_values:
        edge = _edge_of_letters(db, which, [*walk, *_rare(which)], asked)
    elif narrow and not _rare(which):
        edge = _edge(db, which, walk, asked)
    if edge is not None:
        walk = [*walk, f"{_hidden(which)}j.id {'<=' if which.oldest_first else '>='} :edge"]
        asked["edge"] = edge
    page = f"{_where([*walk, *narrow])} {_order(which)} LIMIT :limit + 1 OFFSET :offset"
    found = db.execute(f"{SELECT_BRIEF} {page}", asked).fetchall()
    looked = tuple(map(brief_job, found[: which.limit]))
    readable = tuple(job for job in looked if not job.unreadable)
    return JobPage(readable, looked[-1].row if len(found) > which.limit else edge)


def matching(db: sqlite3.Connection, which: JobFilter) -> tuple[tuple[int, str], ...]:
    """List only the rows and ids of the jobs that a filter finds, a page of them, oldest first. The
    caller goes on behind the last one until a page is empty."""
    found = db.execute(
        "SELECT j.id, j.uid FROM jobs j LEFT JOIN payloads p ON p.job = j.id "  # noqa: S608
        f"{_where([*_walk(which), *_narrow(which)])} ORDER BY j.id LIMIT :limit",
        _asked(which),
    )
    return tuple(found)


def _walk(which: JobFilter) -> list[str]:
    """Conditions that an index walks along."""
    hidden = _hidden(which)
    few = "+" if hidden or which.stuck or which.paused else ""  # these have an index of their own
    whose = [f"{few}j.user_id = :user_id"] if which.user_id is not None else []
    behind = [f"{hidden}j.id {'>' if which.oldest_first else '<'} :after"]
    called = ["j.uid >= :id_begins", "j.uid < :id_begins || 'g'"] if which.id_begins else []
    whose += [CHILD_OF] if which.parent else []
    whose += [SENT_IN] if which.batch else []
    return whose + called + _between(which) + (behind if which.after is not None else [])


def _between(which: JobFilter) -> list[str]:
    """Jobs are numbered as they come and ids begin with the moment at which they were made, so two
    looks into the index of ids tell between which numbers a time lies."""
    found = []
    for bound, edge in (("created_from", ">="), ("created_before", "<")):
        if getattr(which, bound) is not None:
            first = f"SELECT id FROM jobs WHERE uid >= :{bound}_uid ORDER BY uid LIMIT 1"  # noqa: S608 - names of our own
            found.append(f"{_hidden(which)}j.id {edge} coalesce(({first}), {LAST})")
    return found


def _narrow(which: JobFilter) -> list[str]:
    """Conditions that have to be looked at row by row."""
    given = [asks for name, asks in NARROW.items() if getattr(which, name) != getattr(ALL, name)]
    statuses = ", ".join(f":status_{place}" for place in range(len(which.statuses)))
    given += [f"j.status IN ({statuses})"] if which.statuses else []
    given += ["j.kind IN (SELECT value FROM json_each(:kinds))"] if which.kinds else []
    given += [LABEL.format(place) for place in range(len(which.labels))]
    given += [SAYS] if which.text else []
    return given + [PARAM.format(place) for place in range(len(which.param_values))]


def _asked(which: JobFilter) -> dict[str, Any]:
    asked = structs.asdict(which)
    asked |= {"workflows": text(which.workflows), "kinds": text(which.kinds)}
    asked["created_from_uid"] = _id_at((which.created_from or 0) - SLACK_MS)
    asked["created_before_uid"] = _id_at((which.created_before or 0) + SLACK_MS)
    del asked["statuses"], asked["labels"], asked["param_values"]
    asked["text"], asked["said"] = text(which.text)[1:-1], which.text
    asked |= {f"status_{place}": status for place, status in enumerate(which.statuses)}
    for place, (key, value) in enumerate(which.labels):
        asked |= {f"key_{place}": key, f"value_{place}": value}
    for place, (name, value) in enumerate(which.param_values):
        asked |= {f"param_{place}": name, f"wanted_{place}": value}
    return asked


def _id_at(ms: int) -> str:
    """How the ids begin that were made at this moment."""
    digits = f"{min(max(ms, 0), 2**48 - 1):012x}"
    return f"{digits[:8]}-{digits[8:]}"


def _is_nowhere(db: sqlite3.Connection, which: JobFilter, asked: dict[str, Any]) -> bool:
    """Say whether no job at all has one of these statuses: those are counted, so nobody need look
    at all jobs to find that out."""
    if not which.statuses:
        return False
    statuses = ", ".join(f":status_{place}" for place in range(len(which.statuses)))
    there = f"SELECT 1 FROM tally j WHERE j.jobs > 0 AND j.status IN ({statuses})"  # noqa: S608
    if which.workflow is not None:
        there += f" AND {NARROW['workflow']}"
    return db.execute(f"{there} LIMIT 1", asked).fetchone() is None


def _edge(
    db: sqlite3.Connection, which: JobFilter, walk: list[str], asked: dict[str, Any]
) -> int | None:
    """The last row this page may look at; None when the walk ends before it gets that far."""
    found = db.execute(
        f"SELECT j.id FROM jobs j {_where(walk)} {_order(which)} LIMIT 1 OFFSET :most",  # noqa: S608
        asked | {"most": ROWS_MAX - 1},
    ).fetchone()
    return int(found[0]) if found else None


def _edge_of_letters(
    db: sqlite3.Connection, which: JobFilter, walk: list[str], asked: dict[str, Any]
) -> int | None:
    """The same, where payloads are looked through: no more of them than so many letters, since
    everybody else's questions wait for this one."""
    letters = looked = 0
    sizes = db.execute(
        f"SELECT j.id, {LETTERS} FROM jobs j LEFT JOIN payloads p ON p.job = j.id "  # noqa: S608
        f"{_where(walk)} {_order(which)} LIMIT :most",
        asked | {"most": ROWS_MAX},
    )
    with closing(sizes):
        for row, size in sizes:
            letters, looked = letters + size, looked + 1
            if letters >= LETTERS_MAX or looked == ROWS_MAX:
                return int(row)
    return None


def _rare(which: JobFilter) -> list[str]:
    """The conditions of the few jobs that have an index of their own."""
    return [NARROW[name] for name in ("stuck", "paused") if getattr(which, name)]


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _order(which: JobFilter) -> str:
    return f"ORDER BY {_hidden(which)}j.id {'ASC' if which.oldest_first else 'DESC'}"


def _hidden(which: JobFilter) -> str:
    """A plus hides a column from the planner: the few jobs with such ids, parents or batches
    are found by their own index, and not by a walk through all jobs of a user or in the wanted
    order."""
    return "+" if which.id_begins or which.parent or which.batch else ""
