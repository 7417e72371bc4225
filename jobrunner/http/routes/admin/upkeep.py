"""The stored file: what is in it, and that it gives back what it does not use."""

from jobrunner.core.instants import text_or_none
from jobrunner.core.keeping.standby import StandbyState
from jobrunner.core.keeping.upkeep import FileInfo, JobAge
from jobrunner.http.frame.endpoint import ADMINS, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import NoFields
from jobrunner.http.frame.views import reply, view_of
from jobrunner.http.routes.admin.retention import PruneView, prune_view

WITHIN_S = 20.0


class TableView(View, frozen=True, kw_only=True):
    name: str
    bytes: int


class JobAgeView(View, frozen=True, kw_only=True):
    job_id: str
    at: str


class StandbyView(View, frozen=True, kw_only=True):
    """The copy from which another machine can take over. ``behind_s`` is the age of the oldest
    commit that is not in it, ``lease_s`` how long this service may still serve; ``fault`` is empty
    while all is well."""

    path: str
    epoch: int
    copied_at: str | None
    behind_s: float
    lease_s: float
    changes: int
    bytes: int
    files_behind: int
    fault: str


class FileView(View, frozen=True, kw_only=True):
    """``tables`` have their indexes with them, the largest first; ``estimated`` where SQLite cannot
    tell exactly. ``oldest_ended`` is the ended job that was changed last longest ago. ``retention``
    is what would go now. ``flush_ms`` is how long the disk takes to keep a page. ``standby`` is
    there where [standby] path is set and the service runs. ``far_files`` lie in a store of
    objects."""

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
    tables: list[TableView]
    estimated: bool
    oldest_job: JobAgeView | None
    oldest_ended: JobAgeView | None
    last_backup_at: str | None
    flush_ms: float
    standby: StandbyView | None
    far_files: int
    far_bytes: int
    retention: PruneView


class Compacted(View, frozen=True, kw_only=True):
    """``free_pages`` are left; ``done``: none that could be given back."""

    done: bool
    free_pages: int


@Endpoint("GET", "/admin/db", {200: FileView}, ADMINS)
async def describe_database(call: HttpCall) -> HttpReply:
    """Show what is in the stored file, and what takes the room."""
    facade = call.door.facade
    info = await facade.upkeep.info()
    foreseen = prune_view(await facade.retention.foresee(), dry_run=True)
    return reply(file_view(info, foreseen, call.door.standby()))


@Endpoint("POST", "/admin/db/compact", {200: Compacted}, ADMINS, body=NoFields, empty=True)
async def compact_database(call: HttpCall) -> HttpReply:
    """Give back the room in the stored file that nothing uses."""
    left = await call.door.facade.upkeep.compact(call.actor.name, WITHIN_S)
    return reply(Compacted(done=not left, free_pages=left))


def file_view(
    info: FileInfo, retention: PruneView, standby: StandbyState | None = None
) -> FileView:
    return view_of(
        FileView,
        info,
        tables=[view_of(TableView, one) for one in info.tables],
        oldest_job=_age(info.oldest_job),
        oldest_ended=_age(info.oldest_ended),
        standby=_standby(standby) if standby else None,
        retention=retention,
    )


def _standby(state: StandbyState) -> StandbyView:
    return view_of(
        StandbyView,
        state,
        copied_at=text_or_none(state.copied_at or None),
        behind_s=round(state.behind_s, 3),
        lease_s=round(state.lease_s, 3),
    )


def _age(job: JobAge | None) -> JobAgeView | None:
    return None if job is None else view_of(JobAgeView, job)
