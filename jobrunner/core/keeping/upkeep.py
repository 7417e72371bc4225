"""The store's file as an operator sees it: what takes room, and what could be given back."""

from msgspec import Struct


class TableSize(Struct, frozen=True):
    """A table with its indexes."""

    name: str
    bytes: int


class JobAge(Struct, frozen=True):
    """``at`` is when it was made, or last changed."""

    job_id: str
    at: int


class FileInfo(Struct, frozen=True, kw_only=True):
    """``estimated``: this SQLite cannot tell where each page belongs, so sizes of tables follow
    from some of their rows. ``last_backup_at`` is as of when it is. ``flush_ms`` is how long the
    disk takes to keep what it is given. ``far_files``, of ``far_bytes``, are in a store of objects.
    """

    path: str
    file_bytes: int
    wal_bytes: int
    wal_max_bytes: int
    page_bytes: int
    pages: int
    free_pages: int
    schema: int
    sqlite_version: str
    jobs: int
    tables: tuple[TableSize, ...]
    estimated: bool
    oldest_job: JobAge | None
    oldest_ended: JobAge | None
    last_backup_at: int | None
    flush_ms: float
    far_files: int = 0
    far_bytes: int = 0
