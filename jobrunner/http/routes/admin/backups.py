"""Backups: one is asked for, and followed to its end; those that there are, and drills of them."""

from typing import Any, Literal

from jobrunner.actors.keeping.backups import BackupState
from jobrunner.actors.keeping.drills import Drill, StoredBackup
from jobrunner.core.instants import text_or_none
from jobrunner.http.frame import inputs
from jobrunner.http.frame.endpoint import ADMINS, Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.views import reply, view_of

PATIENCE_S = 20


class BackupOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``folder``: its whole path, on the machine of the service; else that of the settings."""

    folder: str = ""


class Backup(View, frozen=True, kw_only=True):
    """One backup. ``bytes`` is database and files, ``new_bytes`` what of that no backup before it
    had. ``absent`` counts files that rows speak of and that were not there, ``far_files`` those
    that lie in a store of objects and are not in the backup; ``detail`` says why it failed."""

    state: Literal["idle", "running", "done", "failed"]
    folder: str
    name: str
    began_at: str | None
    as_of: str | None = None
    ended_at: str | None = None
    jobs: int = 0
    files: int = 0
    bytes: int = 0
    new_bytes: int = 0
    absent: int = 0
    far_files: int = 0
    detail: str = ""


@Endpoint(
    "POST",
    "/admin/db/backup",
    {200: Backup, 202: Backup},
    ADMINS,
    body=BackupOrder,
    empty=True,
    codes=("BACKUP_UNDER_WAY",),
)
async def make_backup(call: HttpCall) -> HttpReply:
    """Make a backup of the stored file and of all files."""
    order: BackupOrder = call.body or BackupOrder()
    call.leave()
    await call.door.backups.ask(order.folder, call.actor.name)
    return _shown(await call.door.backups.wait(PATIENCE_S))


class DrillView(View, frozen=True, kw_only=True):
    """A backup that was read from end to end; without ``faults`` it can be put back. ``far_seen``
    says whether its files in a store of objects were looked for there (``listed``; their content is
    not read), or why not (``no: ...``)."""

    began_at: str
    ended_at: str
    faults: list[str]
    far_seen: str | None


class BackupEntry(View, frozen=True, kw_only=True):
    """A whole backup. ``fault`` says why what it says of itself cannot be read; ``drill`` is when
    it was read last in this life of the service."""

    name: str
    as_of: str | None
    version: str | None
    schema: int | None
    jobs: int
    files: int
    bytes: int
    fault: str | None
    drill: DrillView | None


class BackupList(View, frozen=True, kw_only=True):
    backups: list[BackupEntry]


@Endpoint("GET", "/admin/db/backups", {200: BackupList}, ADMINS)
async def list_backups(call: HttpCall) -> HttpReply:
    """List the whole backups in the folder of the settings, newest first."""
    found = await call.door.backups.drills.listed()
    return reply(BackupList(backups=[_entry(one) for one in found]))


@Endpoint(
    "POST",
    "/admin/db/backups/{name}/verify",
    {200: DrillView},
    ADMINS,
    codes=("BACKUP_UNDER_WAY",),
)
async def verify_backup(call: HttpCall) -> HttpReply:
    """Read a backup from end to end: digests, the database, and that nothing is missing.

    It answers when that is done; the list tells of it, too."""
    call.leave()
    return reply(_drilled(await call.door.backups.drills.drill(call.path["name"])))


@Endpoint("GET", "/admin/db/backup", {200: Backup, 202: Backup}, ADMINS, query=inputs.WaitQuery)
async def get_backup(call: HttpCall) -> HttpReply:
    """Show the backup that is being made, or the last one that was made in this life."""
    query: inputs.WaitQuery = call.query
    call.leave()
    return _shown(await call.door.backups.wait(query.wait))


def _shown(found: BackupState) -> HttpReply:
    made = found.manifest
    fields: dict[str, Any] = {}
    if made is not None:
        fields = {
            "as_of": text_or_none(made.as_of),
            "ended_at": text_or_none(made.ended_at),
            "jobs": made.jobs,
            "files": made.files,
            "bytes": made.database.size + made.bytes,
            "new_bytes": made.database.size + made.new_bytes,
            "absent": made.absent_count,
            "far_files": made.far_files,
        }
    view = Backup(
        state=found.state,
        folder=found.folder,
        name=found.name,
        began_at=text_or_none(found.began_at),
        detail=found.detail,
        **fields,
    )
    return reply(view, 202 if found.state == "running" else 200)


def _entry(found: StoredBackup) -> BackupEntry:
    made = found.manifest
    return BackupEntry(
        name=found.name,
        as_of=text_or_none(made.as_of) if made else None,
        version=made.version if made else None,
        schema=made.schema if made else None,
        jobs=made.jobs if made else 0,
        files=made.files if made else 0,
        bytes=made.database.size + made.bytes if made else 0,
        fault=found.fault or None,
        drill=_drilled(found.drill) if found.drill else None,
    )


def _drilled(drill: Drill) -> DrillView:
    return view_of(DrillView, drill, far_seen=drill.far_seen or None)
