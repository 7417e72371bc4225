"""``asset``: files that lie with the service, and the way of files to it and back."""

import hashlib
import os
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.options import Listing, positive
from jobrunner.cli.frame.service import part, service
from jobrunner.cli.frame.transfers import fetched, sent
from jobrunner.errors import Refused

app = App(name="asset", help="Files that lie with the service.")

COLUMNS = ("id", "job_id", "asset_type", "file_size", "storage_path", "created_at")


@app.command(name="list")
async def list_(
    *,
    user: str | None = None,
    limit: Annotated[int, Parameter(validator=positive)] = 20,
    listing: Listing = Listing(),
) -> None:
    """List files over all jobs, newest first."""
    found: list[dict[str, object]] = []
    cursor = None
    async with service(listing) as running:
        while len(found) < limit:
            size = min(100, limit - len(found))
            query = [("user_id", user), ("limit", size), ("cursor", cursor)]
            page = await running.get("/assets", query)
            found += page["assets"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
    printing.rows(found, COLUMNS, listing.output)


@app.command
async def show(asset_id: str, /, *, listing: Listing = Listing()) -> None:
    """Print what is known of a file."""
    async with service(listing) as running:
        printing.record(await running.get(f"/assets/{part(asset_id)}"), listing.output)


@app.command
async def put(file: Path, /, *, listing: Listing = Listing()) -> None:
    """Send a file before its job; what is printed is the asset, with `-o ids` its id."""
    async with service(listing) as running:
        asset_id = await sent(running, "/uploads", file)
        printing.record(await running.get(f"/assets/{part(asset_id)}"), listing.output)


@app.command
async def get(asset_id: str, file: Path | None = None, /, *, listing: Listing = Listing()) -> None:
    """Fetch a file into FILE, or under the name that it has there.

    A fetch that broke off goes on where it stood. What is there already is not replaced.
    """
    async with service(listing) as running:
        entry = await running.get(f"/assets/{part(asset_id)}")
        place = file or Path(os.path.basename(entry["storage_path"] or "") or entry["id"])
        if place.exists():
            raise Refused("ALREADY_EXISTS", f"{place} is there already; name another file")
        draft = place.with_name(f"{place.name}.part")
        try:
            await fetched(running, f"/assets/{part(asset_id)}/content", draft, entry["file_size"])
        except Refused:
            _discard_if_empty(draft)
            raise
    with draft.open("rb") as data:
        found = hashlib.file_digest(data, "sha256").hexdigest()
    if entry["sha256"] not in (None, found):
        draft.unlink()
        raise Refused("DIGEST_MISMATCH", f"what came is not asset {asset_id}; fetch it again")
    draft.rename(place)
    printing.record({"id": entry["id"], "file": str(place), "sha256": found}, listing.output)


def _discard_if_empty(draft: Path) -> None:
    """Remove what a refusal left behind: it is no beginning to go on from."""
    if draft.stat().st_size == 0:
        draft.unlink()
