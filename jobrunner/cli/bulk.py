"""``job bulk``: one command for many jobs at once."""

import asyncio
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import Examples, examples
from jobrunner.cli.frame.options import (
    Flag,
    Listing,
    Many,
    pairs,
    parameters,
    positive,
    spelled_out,
)
from jobrunner.cli.frame.prefixes import whole
from jobrunner.cli.frame.service import part, service

LOOK_AGAIN_S = 0.5


app = App(name="bulk", help="Commands for many jobs, which the service works through.")


@app.command(help_epilogue=examples("jobrunner bulk show 01a1f22d-61f8-737c-a752-e80009a9121f"))
async def show(
    bulk_id: str,
    /,
    *,
    limit: Annotated[int, Parameter(validator=positive)] = 100,
    listing: Listing = Listing(),
) -> int:
    """Print the progress of an order, and what failed and why.

    Parameters
    ----------
    limit
        How many failures at most, up to 100.
    """
    async with service(listing) as running:
        told = await running.get(f"/admin/bulk/{part(bulk_id)}", {"limit": limit})
    printing.record(told, listing)
    return 1 if told["failed"] else 0


@app.command(help_epilogue=examples("jobrunner bulk stop 01a1f22d-61f8-737c-a752-e80009a9121f"))
async def stop(bulk_id: str, /, *, listing: Listing = Listing()) -> None:
    """Stop an order; what is done stays done."""
    async with service(listing) as running:
        told = await running.ask("DELETE", f"/admin/bulk/{part(bulk_id)}")
    printing.record(told, listing)


async def bulk(
    command: str,
    /,
    *,
    ids: Many = None,
    workflow: str | None = None,
    status: Many = None,
    job_type: Annotated[str | None, Parameter(alias="--type")] = None,
    user: str | None = None,
    label: Many = None,
    stuck: Flag = False,
    paused: Flag = False,
    field: Many = None,
    reason: str | None = None,
    dry_run: Flag = False,
    wait: Flag = False,
    listing: Listing = Listing(),
) -> int:
    """Give many jobs one command: cancel, retry, pause, resume, rerun, delete, …

    Parameters
    ----------
    ids
        Ids of jobs instead of a filter; repeat for more, `-` reads them from stdin.
    field
        A field of the command as NAME=VALUE; repeat for more.
    dry_run
        Only say what would happen.
    wait
        Until all is done; else many jobs are left to the service under a handle.
    """
    which: dict[str, Any] = {"workflow": workflow, "status": status, "job_type": job_type}
    which |= {"user_id": user, "labels": pairs(label or ()), "stuck": stuck, "paused": paused}
    chosen = {name: value for name, value in which.items() if value}
    if bool(ids) == bool(chosen):
        raise CycloptsError(msg="say which jobs are meant: by --ids, or by a filter")
    body: dict[str, Any] = {"command": command, "dry_run": dry_run}
    body |= {"ids": spelled_out(ids)} if ids else {"filter": chosen}
    body |= {"fields": parameters(None, field or ())} if field else {}
    body |= {"reason": reason} if reason else {}
    async with service(listing) as running:
        if ids:
            body["ids"] = [await whole(running, one) for one in body["ids"]]
        told = await running.post("/admin/bulk", body)
        while wait and told.get("status") == "running":
            await asyncio.sleep(LOOK_AGAIN_S)
            told = await running.get(f"/admin/bulk/{part(told['id'])}")
    _print(told, listing)
    return 1 if told.get("failed") else 0


def _print(told: dict[str, Any], listing: Listing) -> None:
    if told.get("dry_run") and listing.output == "ids":
        printing.rows([{"id": one["job_id"]} for one in told["jobs"]], (), listing)
    else:
        printing.record(told, listing)


EXAMPLES: Examples = {
    bulk: examples(
        "jobrunner job bulk cancel --workflow hello --status waiting --dry-run",
        "jobrunner job bulk retry --workflow hello --status failed --wait",
    ),
}
