"""The rows of files that lie in a store of objects."""

import sqlite3
from collections.abc import Iterator

from msgspec import structs

from jobrunner.core.keeping.objects import (
    CopiesHere,
    FarFile,
    FileHere,
    FileMove,
    FilesHere,
    FilesMoved,
    KeysCleared,
    KeysSeen,
    MoveTurned,
    NewMove,
    ObjectUnit,
)
from jobrunner.core.units import AuditRecord
from jobrunner.store.columns import Columns
from jobrunner.store.features.audit import audit_row
from jobrunner.store.keeping import object_statements as sql
from jobrunner.store.statements import Row

Db = sqlite3.Connection
DAY_MS = 86_400_000
KEPT_MS = 30 * DAY_MS
HERE = """
    SELECT t.id, t.storage_path, t.file_size, t.sha256
    FROM (SELECT * FROM assets WHERE id > :after AND id <= :up_to ORDER BY id LIMIT :limit) t
    WHERE t.storage_path <> '' AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.asset = t.id)
"""
REACHED = """
    SELECT max(id) FROM
        (SELECT id FROM assets WHERE id > :after AND id <= :up_to ORDER BY id LIMIT :limit)
"""
ORPHANED = """
    SELECT NOT EXISTS (SELECT 1 FROM objects WHERE key = :key)
        AND NOT EXISTS (SELECT 1 FROM objects_left WHERE key = :key)
        AND (EXISTS (SELECT 1 FROM jobs WHERE uid = :job)
            OR EXISTS (SELECT 1 FROM tombstones WHERE uid = :job))
        AND NOT EXISTS (SELECT 1 FROM restorations WHERE since <= :changed_at + :day)
"""
FAR = Columns(FarFile, "objects t", elsewhere={"row": "t.asset"})
MOVES = Columns(FileMove, "file_moves t", elsewhere={"id": "t.uid", "row": "t.id"})


def object_rows(unit: ObjectUnit) -> Iterator[Row]:
    match unit:
        case FilesMoved():
            yield from _moved(unit)
        case CopiesHere(paths, until):
            yield from (sql.COPY_HERE.row(path=path, until=until) for path in paths)
        case KeysSeen(keys, at):
            yield from (sql.KEY_SEEN.row(key=key, at=at) for key in keys)
        case KeysCleared(keys):
            yield from (sql.KEY_CLEARED.row(key=key) for key in keys)
        case NewMove(move):
            yield sql.MOVES_OLD.row(before=move.at - KEPT_MS)
            said = structs.asdict(move)
            del said["row"]
            yield sql.MOVE.row(uid=said.pop("id"), **said)
            told = {"move": move.id, "to": move.target}
            yield audit_row(AuditRecord("file_move.ordered", move.actor, told), move.at)
        case MoveTurned(id_, status, actor, at):
            yield sql.MOVE_TURNED.row(id=id_, status=status, at=at)
            yield audit_row(AuditRecord(f"file_move.{status}", actor, {"move": id_}), at)


def _moved(unit: FilesMoved) -> Iterator[Row]:
    for one in unit.there:
        yield sql.FILE_THERE.row(
            row=one.row, path=one.path, key=one.key, size=one.size, at=unit.at,
            here_until=unit.here_until,
        )  # fmt: skip
        yield sql.FILE_FOR_NOBODY.row(key=one.key)
    for one in unit.back:
        yield sql.FILE_BACK.row(row=one.row, key=one.key)
    if unit.order:
        every = (*unit.there, *unit.back)
        yield sql.MOVE_REACHED.row(
            id=unit.order, reached=unit.reached, skipped=unit.skipped, moved=len(every),
            bytes=sum(one.size for one in every),
        )  # fmt: skip


def files_here(db: Db, after: int, up_to: int, limit: int) -> FilesHere:
    """Find the files on the disk among so many assets behind ``after``."""
    page = {"after": after, "up_to": up_to, "limit": limit}
    found = tuple(FileHere(*row) for row in db.execute(HERE, page))
    return FilesHere(found, db.execute(REACHED, page).fetchone()[0])


def files_there(db: Db, after: int, up_to: int, limit: int) -> tuple[FarFile, ...]:
    where = "WHERE t.asset > :after AND t.asset <= :up_to ORDER BY t.asset LIMIT :limit"
    return FAR.all(db, where, after=after, up_to=up_to, limit=limit)


def far_file(db: Db, path: str) -> FarFile | None:
    return FAR.one(db, "WHERE t.path = :path", path=path)


def last_asset(db: Db) -> int:
    return int(db.execute("SELECT coalesce(max(id), 0) FROM assets").fetchone()[0])


def copies_over(db: Db, now: int, limit: int) -> tuple[str, ...]:
    """Paths of copies that need not lie on the disk any more."""
    asked = "SELECT path FROM objects WHERE here_until <= ? ORDER BY here_until LIMIT ?"
    return tuple(path for (path,) in db.execute(asked, (now, limit)))


def keys_unseen(db: Db, limit: int) -> tuple[str, ...]:
    asked = "SELECT key FROM objects_left WHERE left_at IS NULL LIMIT ?"
    return tuple(key for (key,) in db.execute(asked, (limit,)))


def keys_left(db: Db, before: int, limit: int) -> tuple[str, ...]:
    """Keys that were left before then, and that no row names."""
    asked = (
        "SELECT key FROM objects_left l WHERE left_at <= ? "
        "AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.key = l.key) ORDER BY left_at LIMIT ?"
    )
    return tuple(key for (key,) in db.execute(asked, (before, limit)))


def keys_orphaned(db: Db, keys: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """A key stands in a folder that is called like its job."""
    asked = (
        {"key": key, "job": key.split("/")[-3], "changed_at": changed_at, "day": DAY_MS}
        for key, changed_at in keys
    )
    return tuple(str(one["key"]) for one in asked if db.execute(ORPHANED, one).fetchone()[0])


def file_moves(
    db: Db,
    limit: int,
    move_id: str | None = None,
    running: bool = False,
    after: int | None = None,
) -> tuple[FileMove, ...]:
    """Newest first; only this one, or only those that are not over, or from behind this row."""
    which = "WHERE t.uid = :move_id" if move_id is not None else ""
    which = "WHERE t.status = 'running'" if running else which
    which = "WHERE t.id < :after" if after is not None else which
    newest = f"{which} ORDER BY t.id DESC LIMIT :limit"
    return MOVES.all(db, newest, limit=limit, move_id=move_id, after=after)
