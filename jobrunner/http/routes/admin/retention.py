"""Retention on an admin's order: at once, or only counted."""

from jobrunner.actors.keeping.retention import Taken
from jobrunner.http.frame.endpoint import ADMINS, Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.views import reply

WITHIN_S = 20.0


class PruneOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dry_run: bool = False


class PrunedJobs(View, frozen=True, kw_only=True):
    """``status`` null: beyond the number of ended jobs that the workflow keeps."""

    workflow: str
    status: str | None
    jobs: int


class PruneView(View, frozen=True, kw_only=True):
    """Counts of what went, or would go. ``done``: nothing more is due; else the rest goes by
    itself, and asking again tells of it."""

    dry_run: bool
    done: bool
    jobs: list[PrunedJobs]
    files: int
    keys: int
    audit: int
    dead_letters: int
    firings: int
    batches: int


@Endpoint("POST", "/admin/db/prune", {200: PruneView}, ADMINS, body=PruneOrder, empty=True)
async def prune_database(call: HttpCall) -> HttpReply:
    """Let go what is older than it is kept, or count it."""
    body: PruneOrder = call.body
    retention = call.door.facade.retention
    if body.dry_run:
        return reply(prune_view(await retention.foresee(), dry_run=True))
    taken = await retention.order(call.actor.name, WITHIN_S)
    return reply(prune_view(taken, dry_run=False))


def prune_view(taken: Taken, *, dry_run: bool) -> PruneView:
    jobs = [
        PrunedJobs(workflow=workflow, status=status, jobs=count)
        for (workflow, status), count in taken.jobs.items()
        if count
    ]
    of = taken.others.get
    return PruneView(
        dry_run=dry_run,
        done=taken.done,
        jobs=sorted(jobs, key=lambda one: (one.workflow, one.status or "")),
        files=of("files", 0),
        keys=of("keys", 0),
        audit=of("audit", 0),
        dead_letters=of("dead_letters", 0),
        firings=of("firings", 0),
        batches=of("batches", 0),
    )
