"""Backups: one is asked for, and followed to its end."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from jobrunner.actors.keeping.backups import BackupState
from jobrunner.core.instants import text_or_none
from jobrunner.http.frame.endpoint import (
    ADMINS,
    Body,
    Endpoint,
    HttpCall,
    HttpReply,
    Query,
    View,
)
from jobrunner.http.frame.views import reply

PATIENCE_S = 20


class BackupOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``folder``: its whole path, on the machine of the service; else that of the settings."""

    folder: str = ""


class BackupQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    wait: Annotated[float, Meta(ge=0, le=60)] = 0


class Backup(View, frozen=True, kw_only=True):
    """One backup. ``bytes`` is database and files, ``new_bytes`` what of that no backup before it
    had. ``absent`` counts files that rows speak of and that were not there; ``detail`` says why it
    failed."""

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


@Endpoint("GET", "/admin/db/backup", {200: Backup, 202: Backup}, ADMINS, query=BackupQuery)
async def get_backup(call: HttpCall) -> HttpReply:
    """Show the backup that is being made, or the last one that was made in this life."""
    query: BackupQuery = call.query
    call.leave()
    return _shown(await call.door.backups.wait(query.wait))


def _shown(found: BackupState) -> HttpReply:
    view = Backup(
        state=found.state,
        folder=found.folder,
        name=found.name,
        began_at=text_or_none(found.began_at),
        detail=found.detail,
        **_of_manifest(found),
    )
    return reply(view, 202 if found.state == "running" else 200)


def _of_manifest(found: BackupState) -> dict[str, Any]:
    made = found.manifest
    if made is None:
        return {}
    return {
        "as_of": text_or_none(made.as_of),
        "ended_at": text_or_none(made.ended_at),
        "jobs": made.jobs,
        "files": made.files,
        "bytes": made.database.size + made.bytes,
        "new_bytes": made.database.size + made.new_bytes,
        "absent": made.absent_count,
    }
