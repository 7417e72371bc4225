"""``batch``: many submissions under one name."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.options import Listing, text_of_file
from jobrunner.cli.frame.paging import Limit, paged
from jobrunner.cli.frame.service import RunningService, part, service

app = App(name="batch", help="Many jobs submitted together.")

AT_ONCE = 1_000
COLUMNS = ("id", "key", "status", "left", "user_id", "created_at", "ended_at")
BATCH = "01a1f22d-61f8-737c-a752-e80009a9121f"


@app.command(
    help_epilogue=examples(
        "jobrunner batch submit jobs.json --key monday",
        "jobrunner batch submit jobs.jsonl --open -o ids",
    )
)
async def submit(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    key: str | None = None,
    notify_url: str | None = None,
    open_: Annotated[bool, Parameter(name="--open", negative="")] = False,
    listing: Listing = Listing(),
) -> int:
    """Submit the jobs of a file; each is accepted or refused by itself.

    Parameters
    ----------
    file
        A JSON array of submissions, or one in each line; `-` for stdin.
    key
        The same key again goes on with the same batch.
    notify_url
        The URL to notify once, when all of them have ended.
    open_
        Let more be added before it can end.
    """
    jobs = _jobs(file)
    body: dict[str, Any] = {"jobs": jobs[:AT_ONCE], "open": open_ or len(jobs) > AT_ONCE}
    body |= {name: text for name, text in (("key", key), ("notify_url", notify_url)) if text}
    async with service(listing) as running:
        made = await running.post("/batches", body)
        results = made["results"]
        for first in range(AT_ONCE, len(jobs), AT_ONCE):
            results += await _add(running, made["id"], jobs[first : first + AT_ONCE], key, first)
        if not open_ and len(jobs) > AT_ONCE:
            await running.post(f"/batches/{part(made['id'])}/close", {})
        told = await running.get(f"/batches/{part(made['id'])}")
    printing.record(told | ({"results": results} if listing.output == "json" else {}), listing)
    return 1 if told["refused"] else 0


@app.command(
    name="list",
    help_epilogue=examples("jobrunner batch list", "jobrunner batch list --user ada -o json"),
)
async def list_(
    *, user: str | None = None, limit: Limit = None, listing: Listing = Listing()
) -> None:
    """List batches, newest first."""
    async with service(listing) as running:
        found = await paged(running, "/batches", [("user_id", user)], limit)
    printing.rows(found, COLUMNS, listing)


@app.command(help_epilogue=examples(f"jobrunner batch show {BATCH}"))
async def show(batch_id: str, /, *, listing: Listing = Listing()) -> None:
    """Print the progress of a batch, and what was refused of it."""
    async with service(listing) as running:
        printing.record(await running.get(f"/batches/{part(batch_id)}"), listing)


@app.command(help_epilogue=examples(f"jobrunner batch close {BATCH}"))
async def close(batch_id: str, /, *, listing: Listing = Listing()) -> None:
    """Take no more jobs into a batch, so that it can end."""
    async with service(listing) as running:
        printing.record(await running.post(f"/batches/{part(batch_id)}/close", {}), listing)


@app.command(help_epilogue=examples(f"jobrunner batch cancel {BATCH}"))
async def cancel(batch_id: str, /, *, listing: Listing = Listing()) -> None:
    """Close a batch, and cancel those of its jobs that go on."""
    async with service(listing) as running:
        printing.record(await running.post(f"/batches/{part(batch_id)}/cancel", {}), listing)


@app.command(help_epilogue=examples(f"jobrunner batch rerun {BATCH} --key again"))
async def rerun(batch_id: str, /, *, key: str | None = None, listing: Listing = Listing()) -> None:
    """Make a new batch of those jobs that did not end well, done again; 1,000 at a time.

    Parameters
    ----------
    key
        The same key again goes on with the same new batch.
    """
    body = {"key": key} if key else {}
    async with service(listing) as running:
        printing.record(await running.post(f"/batches/{part(batch_id)}/rerun", body), listing)


@app.command(help_epilogue=examples(f"jobrunner batch delete {BATCH}"))
async def delete(batch_id: str, /, *, listing: Listing = Listing()) -> None:
    """Delete a batch that has ended; its jobs stay."""
    async with service(listing) as running:
        await running.ask("DELETE", f"/batches/{part(batch_id)}")


async def _add(
    running: RunningService, batch_id: str, jobs: list[Any], key: str | None, first: int
) -> list[Any]:
    body: dict[str, Any] = {"jobs": jobs}
    body |= {"key": f"{key}-{first}"} if key else {}
    told = await running.post(f"/batches/{part(batch_id)}/jobs", body)
    return list(told["results"])


def _jobs(file: str) -> list[Any]:
    """Raises: CycloptsError, for what is no list of submissions."""
    text = text_of_file(Path(file), "submissions")
    lines = [text] if text.lstrip().startswith("[") else text.splitlines()
    try:
        found = [printing.read(line.encode()) for line in lines if line.strip()]
    except ValueError as error:
        raise CycloptsError(msg=f"{file}: {error}") from None
    return list(found[0]) if len(found) == 1 and isinstance(found[0], list) else found
