"""Backups and restores, as the file remembers them and as callers see them."""

from msgspec import Struct


class BackupPart(Struct, frozen=True):
    """A file of a backup, by its name there."""

    name: str
    size: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """A whole backup, by its own words. ``as_of``: whatever was on the disk before that moment is
    in it. ``beside`` are the small files that lie beside the database. ``files`` and ``bytes``
    count the files of jobs, ``new_files`` and ``new_bytes`` those that no backup before had.
    ``absent`` names the first of those (``absent_count``) that a row spoke of and that were not
    there, or were not what the row says. ``far_files``, of ``far_bytes``, lie in the store of
    objects ``far_place``, and only their rows are in the backup."""

    name: str
    version: str
    schema: int
    epoch: int
    began_at: int
    as_of: int
    ended_at: int
    database: BackupPart
    list: BackupPart
    beside: tuple[BackupPart, ...] = ()
    jobs: int = 0
    files: int = 0
    bytes: int = 0
    new_files: int = 0
    new_bytes: int = 0
    absent_count: int = 0
    absent: tuple[str, ...] = ()
    far_files: int = 0
    far_bytes: int = 0
    far_place: str = ""


class CopyFacts(Struct, frozen=True):
    """A copy of the database, by its own rows."""

    schema: int
    epoch: int
    jobs: int


class FileRow(Struct, frozen=True):
    """A file that a copy of the database speaks of; an empty digest says that nothing is known of
    it. One that is not ``due`` may lie elsewhere; one that is ``far`` lies in a store of objects
    and is so large."""

    path: str
    sha256: str
    due: bool
    far: int | None = None


class BackedUp(Struct, frozen=True, tag=True):
    """A backup is whole: ``bytes`` of database and files, of which ``new_bytes`` cost anything."""

    folder: str
    name: str
    as_of: int
    ended_at: int
    bytes: int
    new_bytes: int
    files: int


class BackupFailed(Struct, frozen=True, tag=True):
    """A backup that was not made; the last whole one in this folder stays the last one."""

    folder: str
    failed_at: int
    failure: str


class RestorationTold(Struct, frozen=True, tag=True):
    """The log has said what a restoration means; it is said once."""

    id: int
    told_at: int


BackupEvent = BackedUp | BackupFailed | RestorationTold
NOTES = BackedUp, BackupFailed, RestorationTold


class LastBackup(Struct, frozen=True):
    """The last backup in a folder, and what went wrong since. ``name`` is empty when there never
    was one."""

    folder: str
    name: str
    as_of: int | None
    ended_at: int | None
    bytes: int
    new_bytes: int
    files: int
    failed_at: int | None
    failure: str


class Lost(Struct, frozen=True):
    """The lost time, as far as the file that was replaced could be read: how many
    jobs were made and changed, which webhooks came, which notifications were made or tried. Of
    names the first are here."""

    read: bool = False
    jobs_made: int = 0
    jobs_changed: int = 0
    webhooks: tuple[str, ...] = ()
    notifications: tuple[str, ...] = ()


class Restoration(Struct, frozen=True):
    """A restore: this file came from a backup, and what happened between ``since`` and ``until`` is
    not in it."""

    id: int
    backup: str
    since: int
    until: int
    lost: Lost


class Uncertain(Struct, frozen=True):
    """Things that a restored file cannot know. These notifications may have been delivered already,
    and will be again; webhooks of these names may have come already, and will not come again.
    Counted in full, named as far as was asked for."""

    notifications: tuple[str, ...]
    notification_count: int
    webhooks: tuple[str, ...]
    webhook_count: int
