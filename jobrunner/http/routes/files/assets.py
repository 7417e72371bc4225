"""The library: files over all jobs, those of one, and one by itself."""

from typing import Annotated

from msgspec import Meta

from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.questions import AssetRow, JobFilter
from jobrunner.core.units import Unshelve
from jobrunner.errors import Refused
from jobrunner.http.frame import inputs
from jobrunner.http.frame.endpoint import OWNERS, Endpoint, HttpCall, HttpReply, Query, View
from jobrunner.http.frame.views import AssetEntry, asset_entries, asset_entry, reply

CLAIMS_MAX = 100


class FilesQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=100)] = 100
    cursor: inputs.Cursor | None = None


class RecordQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``job_id``: only if it is a file of that job's owner."""

    job_id: Annotated[str, Meta(max_length=64)] | None = None


class Assets(View, frozen=True, kw_only=True):
    assets: list[AssetEntry]
    next_cursor: str | None


class Library(View, frozen=True, kw_only=True):
    assets: list[AssetEntry]
    next_cursor: str | None


@Endpoint("GET", "/assets", {200: Library}, query=inputs.OwnedPageQuery)
async def list_assets(call: HttpCall) -> HttpReply:
    """List the caller's files over all jobs, newest first; an admin sees everybody's.

    A worker sees those of whose job it holds, where the stage that it stands in for would."""
    query: inputs.OwnedPageQuery = call.query
    everybody = call.actor.oversees and query.user_id is None
    if query.user_id is not None and await works_with_library(call, query.user_id):
        owner: str | None = query.user_id
    else:
        owner = None if everybody else inputs.owner_of(call, query)
    rows = await call.door.reader.library(owner, query.limit, inputs.key_of(query.cursor))
    following = inputs.following_cursor([row.row for row in rows], query)
    return reply(Library(assets=asset_entries(call, rows), next_cursor=following))


@Endpoint("GET", "/assets/{id}", {200: AssetEntry}, query=RecordQuery)
async def get_asset(call: HttpCall) -> HttpReply:
    """Show the record of a file."""
    query: RecordQuery = call.query
    row = await own_asset(call)
    if query.job_id is not None:
        job = await inputs.visible_job(call._replace(path={"id": query.job_id}))
        if job.user_id != row.user_id:
            raise Refused("NOT_FOUND", f"the owner of job {job.id} has no asset {row.asset.id}")
    return reply(asset_entry(call, row.asset, row.job_id))


@Endpoint("GET", "/jobs/{id}/assets", {200: Assets}, query=FilesQuery)
async def get_job_assets(call: HttpCall) -> HttpReply:
    """List the files of a job, newest first."""
    query: FilesQuery = call.query
    job = await inputs.visible_job(call)
    rows = await call.door.reader.job_assets(job.id, query.limit, inputs.key_of(query.cursor))
    following = inputs.cursor_of(rows[-1].row) if len(rows) == query.limit else None
    return reply(Assets(assets=asset_entries(call, rows), next_cursor=following))


async def own_asset(call: HttpCall) -> AssetRow:
    """The asset that the path names, if it is the caller's.

    Raises: Refused NOT_FOUND, also for a stranger's."""
    asset_id = call.path["id"]
    row = await call.door.reader.asset(asset_id)
    if row is None or not await _readable(call, row):
        raise Refused("NOT_FOUND", f"there is no asset {asset_id}")
    return row


async def _readable(call: HttpCall, row: AssetRow) -> bool:
    """A user reads its own; a token for some workflows the files of their jobs, and those that such
    a job names."""
    if call.actor.role == "user":
        return row.user_id == call.actor.name
    if not call.actor.workflows:
        return True
    job = await call.door.reader.job(row.job_id) if row.job_id else None
    if job is not None and call.actor.serves(job.workflow):
        return True
    if await call.door.reader.named_by(row, call.actor.workflows):
        return True
    return await works_with_library(call, row.user_id)


async def works_with_library(call: HttpCall, owner: str) -> bool:
    """Tell whether the caller has claimed a job of the owner that may use their library."""
    definitions, actor = call.door.facade.definitions, call.actor
    if actor.role != "workflow":
        return False
    loaded = [found for name in definitions.names() if (found := definitions.current(name))]
    states = {
        state.name
        for definition in loaded
        if actor.serves(definition.workflow.name)
        for state in definition.workflow.states
        if state.library
    }
    if not states:
        return False
    theirs = JobFilter(
        user_id=owner, workflows=actor.workflows, statuses=tuple(sorted(states)), limit=CLAIMS_MAX
    )
    page = await call.door.reader.jobs(theirs)
    return any(_is_claimed_by(job, definitions.of(job), actor) for job in page.jobs)


def _is_claimed_by(job: Snapshot, definition: Definition | None, actor: Actor) -> bool:
    claimant = job.attempt.claimant if job.attempt else ""
    if definition is None or not claimant or not actor.stands_for(claimant):
        return False
    return definition.states[job.status].library


@Endpoint("DELETE", "/assets/{id}", {204: None}, OWNERS, codes=("ASSET_ATTACHED",))
async def delete_asset(call: HttpCall) -> HttpReply:
    """Delete a file that belongs to no job."""
    row = await own_asset(call)
    if not (call.actor.role == "admin" or row.user_id == call.actor.name):
        raise Refused("FORBIDDEN", "deleting a file is for its owner or an admin")
    if row.job_id is not None:
        detail = f"the file belongs to job {row.job_id} and goes with it"
        raise Refused("ASSET_ATTACHED", detail, job_id=row.job_id)
    folder = row.asset.storage_path.rpartition("/")[0]
    now = call.door.clock.now()
    await call.door.facade.deletions.unshelve(Unshelve(row.asset.id, folder, now, call.actor.name))
    return HttpReply(204)
