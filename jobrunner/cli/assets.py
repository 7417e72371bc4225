"""``asset``: files that lie with the service, and the way of files to it and back."""

import hashlib
import os
from pathlib import Path
from typing import Literal

from cyclopts import App

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.options import Ids, Listing, spelled_out
from jobrunner.cli.frame.paging import Limit, Since, paged
from jobrunner.cli.frame.service import RunningService, part, service
from jobrunner.cli.frame.transfers import fetched, sent
from jobrunner.errors import Refused

app = App(name="asset", help="Files that the service keeps.")

PATIENCE_S = 30
COLUMNS = ("id", "job_id", "asset_type", "file_size", "storage_path", "created_at")
MOVES = ("id", "to", "status", "moved", "bytes", "skipped", "by", "created_at", "ended_at")


@app.command(name="list", help_epilogue=examples("jobrunner asset list --since 2h"))
async def list_(
    *,
    user: str | None = None,
    limit: Limit = None,
    since: Since = None,
    listing: Listing = Listing(),
) -> None:
    """List files over all jobs, newest first.

    Parameters
    ----------
    user
        Only files of this user.
    """
    async with service(listing) as running:
        found = await paged(running, "/assets", [("user_id", user)], limit, since)
    printing.rows(found, COLUMNS, listing)


@app.command(help_epilogue=examples("jobrunner asset show 01a1f22d-61f8-737c-a752-e80009a9121f"))
async def show(asset_id: str, /, *, listing: Listing = Listing()) -> None:
    """Print what is known of a file."""
    async with service(listing) as running:
        printing.record(await running.get(f"/assets/{part(asset_id)}"), listing)


@app.command(help_epilogue=examples("jobrunner asset put film.mp4 -o ids"))
async def put(file: Path, /, *, listing: Listing = Listing()) -> None:
    """Send a file before its job and print the asset; with `-o ids` its id."""
    async with service(listing) as running:
        asset_id = await sent(running, file)
        printing.record(await running.get(f"/assets/{part(asset_id)}"), listing)


@app.command(
    help_epilogue=examples("jobrunner asset get 01a1f22d-61f8-737c-a752-e80009a9121f film.mp4")
)
async def get(asset_id: str, file: Path | None = None, /, *, listing: Listing = Listing()) -> None:
    """Fetch a file into FILE, or under the name that it has there.

    A fetch that broke off goes on where it stood. What is there already is not replaced.
    """
    async with service(listing) as running:
        printing.record(await kept(running, asset_id, file), listing)


@app.command(help_epilogue=examples("jobrunner asset delete 01a1f22d-61f8-737c-a752-e80009a9121f"))
async def delete(asset_ids: Ids, /, *, listing: Listing = Listing()) -> None:
    """Delete files that belong to no job; `-` reads ids from stdin."""
    async with service(listing) as running:
        for one in spelled_out(asset_ids):
            await running.ask("DELETE", f"/assets/{part(one)}")
            printing.record({"id": one, "deleted": True}, listing)


@app.command(
    help_epilogue=examples(
        "jobrunner asset move --to s3 --dry-run", "jobrunner asset move --to disk"
    )
)
async def move(
    *, to: Literal["s3", "disk"], dry_run: bool = False, listing: Listing = Listing()
) -> int:
    """Move all files to the store of objects, or back to the disk, while everything goes on.

    Whatever is cut off goes on by itself: the order is the service's, not this command's.

    Parameters
    ----------
    to
        Where to move them.
    dry_run
        Only say how many files it would be.
    """
    async with service(listing) as running:
        told = await running.post("/admin/file-moves", {"to": to, "dry_run": dry_run})
        while told.get("status") == "running":
            path = f"/admin/file-moves/{part(told['id'])}"
            told = await running.get(path, {"wait": PATIENCE_S})
        printing.record(told, listing)
    return 0 if told.get("status", "done") == "done" and not told.get("skipped") else 1


@app.command(help_epilogue=examples("jobrunner asset moves", "jobrunner asset moves --since 7d"))
async def moves(*, limit: Limit = None, since: Since = None, listing: Listing = Listing()) -> None:
    """List the orders to move files, newest first."""
    async with service(listing) as running:
        found = await paged(running, "/admin/file-moves", [], limit, since)
    printing.rows(found, MOVES, listing)


async def kept(running: RunningService, asset_id: str, file: Path | None) -> dict[str, str]:
    """Fetch a file, and look whether it is the one that was stored."""
    entry = await running.get(f"/assets/{part(asset_id)}")
    place = file or Path(os.path.basename(entry["storage_path"] or "") or entry["id"])
    if place.exists():
        raise Refused("ALREADY_EXISTS", f"{place} is there already; name another file")
    draft = place.with_name(f"{place.name}.part")
    try:
        await fetched(running, asset_id, draft, entry["file_size"])
    except Refused:
        _discard_if_empty(draft)
        raise
    with draft.open("rb") as data:
        found = hashlib.file_digest(data, "sha256").hexdigest()
    if entry["sha256"] not in (None, found):
        draft.unlink()
        raise Refused("DIGEST_MISMATCH", f"what came is not asset {asset_id}; fetch it again")
    draft.rename(place)
    return {"id": entry["id"], "file": str(place), "sha256": found}


def _discard_if_empty(draft: Path) -> None:
    """Remove what a refusal left behind: it is no beginning to go on from."""
    if draft.stat().st_size == 0:
        draft.unlink()
