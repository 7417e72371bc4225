"""Jobs under way, moved to the declaration of today: tried out, begun under a handle, aborted."""

from typing import ClassVar

from jobrunner.core.features.upgrades.upgrades import Turn, UnderWay, Upgrade
from jobrunner.core.instants import text_of
from jobrunner.http.frame import inputs
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import (
    ADMINS,
    Body,
    Endpoint,
    FromWorkflows,
    HttpCall,
    HttpReply,
    View,
)
from jobrunner.http.frame.views import encode, reply, view_of

AT_ONCE_S = 5.0


class UpgradeOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``dry_run``: go through all jobs, and only say what would become of each."""

    from_workflows: ClassVar[dict[str, FromWorkflows]] = {"workflow": "workflows"}
    workflow: inputs.Name
    dry_run: bool = False
    reason: inputs.Prose | None = None


class StayView(View, frozen=True, kw_only=True):
    """Jobs that stay under their declaration for one reason, and the first of them."""

    why: str
    jobs: int
    examples: list[str]


class UpgradeView(View, frozen=True, kw_only=True):
    """``moved`` jobs are under the declaration ``digest``, or would be after a dry run."""

    id: str
    workflow: str
    digest: str
    version: str
    by: str
    reason: str | None
    dry_run: bool
    status: Turn
    moved: int
    stay: int
    stays: list[StayView]
    created_at: str
    ended_at: str | None


class UpgradeList(View, frozen=True, kw_only=True):
    upgrades: list[UpgradeView]
    next_cursor: str | None


@Endpoint(
    "POST",
    "/admin/upgrades",
    {201: UpgradeView, 202: UpgradeView},
    ADMINS,
    body=UpgradeOrder,
    codes=("NOT_FOUND",),
)
async def order_upgrade(call: HttpCall) -> HttpReply:
    """Move the jobs of a workflow that are under way to its declaration of today.

    A few are moved when this answers; more are begun, and are moved whatever happens."""
    body: UpgradeOrder = call.body
    upgrades = call.door.facade.upgrades
    ordered = await upgrades.order(body.workflow, call.actor, body.reason, body.dry_run)
    upgrade = await upgrades.ended(ordered.id, AT_ONCE_S)
    status = 202 if upgrade.status == "running" else 201
    where = link(call, f"/admin/upgrades/{upgrade.id}")
    return HttpReply(status, encode(_shown(upgrade)), {"Location": where})


@Endpoint("GET", "/admin/upgrades", {200: UpgradeList}, ADMINS, query=inputs.PageQuery)
async def list_upgrades(call: HttpCall) -> HttpReply:
    """List the orders to move jobs, the newest first."""
    query: inputs.PageQuery = call.query
    found = await call.door.reader.upgrades(query.limit, after=inputs.key_of(query.cursor))
    following = inputs.following_cursor([one.row for one in found], query)
    return reply(UpgradeList(upgrades=[_shown(one) for one in found], next_cursor=following))


@Endpoint("GET", "/admin/upgrades/{id}", {200: UpgradeView}, ADMINS, query=inputs.WaitQuery)
async def get_upgrade(call: HttpCall) -> HttpReply:
    """Show how many jobs were moved, and why others stay."""
    query: inputs.WaitQuery = call.query
    call.leave()
    return reply(_shown(await call.door.facade.upgrades.ended(call.path["id"], query.wait)))


@Endpoint("DELETE", "/admin/upgrades/{id}", {200: UpgradeView}, ADMINS)
async def abort_upgrade(call: HttpCall) -> HttpReply:
    """Move nobody more; whoever was moved stays where it is."""
    return reply(_shown(await call.door.facade.upgrades.abort(call.path["id"], call.actor)))


def _shown(upgrade: Upgrade) -> UpgradeView:
    return view_of(
        UpgradeView,
        upgrade,
        by=upgrade.actor,
        dry_run=upgrade.dry,
        stay=sum(stay.jobs for stay in upgrade.stays),
        stays=[view_of(StayView, stay) for stay in upgrade.stays],
        created_at=text_of(upgrade.at),
    )


class PlaceView(View, frozen=True, kw_only=True):
    status: str
    job_type: str
    jobs: int


class DeclarationView(View, frozen=True, kw_only=True):
    """A declaration that jobs under way are under, or that is ``today``'s. ``lacks`` is what it
    names and no plugin brings any more."""

    workflow: str
    version: str
    digest: str
    today: bool
    jobs: int
    places: list[PlaceView]
    lacks: list[str]


class DeclarationList(View, frozen=True, kw_only=True):
    declarations: list[DeclarationView]


@Endpoint("GET", "/admin/declarations", {200: DeclarationList}, ADMINS)
async def list_declarations(call: HttpCall) -> HttpReply:
    """List the declarations in use, and how many jobs that have not ended are under each."""
    definitions = call.door.facade.definitions
    found: dict[tuple[str, str, str], list[UnderWay]] = {}
    for name in sorted(definitions.names()):
        if today := definitions.current(name):
            found[name, today.workflow.version, today.digest] = []
    for one in await call.door.facade.census.under_way():
        found.setdefault((one.workflow, one.version, one.digest), []).append(one)
    shown = [_declaration(call, *key, places) for key, places in found.items()]
    shown.sort(key=lambda one: (one.workflow, not one.today))
    return reply(DeclarationList(declarations=shown))


def _declaration(
    call: HttpCall, workflow: str, version: str, digest: str, places: list[UnderWay]
) -> DeclarationView:
    definitions = call.door.facade.definitions
    return DeclarationView(
        workflow=workflow,
        version=version,
        digest=digest,
        today=definitions.is_current(workflow, digest),
        jobs=sum(one.jobs for one in places),
        places=[view_of(PlaceView, one) for one in places],
        lacks=list(definitions.outdated.get((workflow, digest), ())),
    )
