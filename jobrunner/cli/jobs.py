"""``job``: what is asked of the running service about jobs."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

from jobrunner.cli import bulk, commands, pauses, replays, streams
from jobrunner.cli.admin.notifications import of_job
from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.options import Flag, Ids, Listing, Many, pairs, parameters, spelled_out
from jobrunner.cli.frame.paging import NO_LIMIT, Limit, Since, paged
from jobrunner.cli.frame.prefixes import whole
from jobrunner.cli.frame.service import part, service
from jobrunner.core.declaration.happenings import NAMES

app = App(name="job", help="Jobs of the running service.")
TABLES = (commands, pauses, streams, bulk, replays)
for table in (module.EXAMPLES for module in TABLES):
    for function, shown in table.items():
        app.command(function, help_epilogue=shown)
app.command(of_job, name="deliveries", help_epilogue=examples("jobrunner job deliveries 01a1f22d"))


HAPPENINGS = f"Which events to tell instead: {', '.join(NAMES)}; repeat for more."

COLUMNS = ("id", "workflow", "job_type", "status", "progress", "user_id", "created_at")
FILES = ("id", "asset_type", "file_size", "storage_path", "created_at")
HISTORY = ("version", "hop", "at", "from_status", "to_status", "trigger", "actor", "reason")
ATTEMPTS = ("state", "attempt", "stage", "status", "outcome", "failure_code", "started_at",
            "ended_at", "failure_message")  # fmt: skip


@app.command(
    help_epilogue=examples(
        "jobrunner job submit hello --param name=Ada",
        "jobrunner job submit hello --params @params.json --key monday-1 -o ids",
        "jobrunner job submit hello --param name=Ada --singleton ada --singleton-mode replace",
    )
)
async def submit(
    workflow: str,
    /,
    *,
    job_type: Annotated[str | None, Parameter(alias="--type")] = None,
    params: str | None = None,
    param: Many = None,
    key: str | None = None,
    priority: int = 0,
    run_at: str | None = None,
    label: Many = None,
    notify_url: str | None = None,
    notify_on: Annotated[Many, Parameter(help=HAPPENINGS)] = None,
    singleton: str | None = None,
    singleton_mode: Literal["first", "last", "replace"] | None = None,
    quiet_s: float | None = None,
    listing: Listing = Listing(),
) -> None:
    """Submit a job and print it; with `-o ids` its id.

    Parameters
    ----------
    params
        The parameters as a JSON object, `@FILE`, or `@-` for stdin.
    param
        A parameter as NAME=VALUE; repeat for more.
    key
        The idempotency key: the same key again is the same job.
    label
        NAME=VALUE; repeat for more.
    notify_url
        The URL to notify when it has ended or settled.
    singleton
        A key of which this is the only open job.
    singleton_mode
        Which job stays: the first, the last unless the first has begun, or the last (replace).
    quiet_s
        Begin after so many seconds without another job of that key.
    """
    given: dict[str, Any] = {"job_type": job_type, "idempotency_key": key, "run_at": run_at}
    given |= {"notify_url": notify_url, "notify_on": notify_on or None}
    body: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    body |= {"workflow": workflow, "params": parameters(params, param or ())}
    body |= {"priority": priority, "labels": pairs(label or ())}
    body |= _alone(singleton, singleton_mode, quiet_s)
    async with service(listing) as running:
        printing.record(await running.post("/jobs", body), listing)


@app.command(
    name="list",
    help_epilogue=examples(
        "jobrunner job list --status failed --since 2h",
        "jobrunner job list --workflow hello --label team=blue -o json",
        "jobrunner job list --text lighthouse --param size=large",
    ),
)
async def list_(
    *,
    workflow: str | None = None,
    status: str | None = None,
    job_type: Annotated[str | None, Parameter(alias="--type")] = None,
    user: str | None = None,
    label: Many = None,
    limit: Limit = None,
    since: Since = None,
    oldest: Flag = False,
    paused: Flag = False,
    schedule: str | None = None,
    stuck: Flag = False,
    parent: str | None = None,
    text: str | None = None,
    param: Many = None,
    listing: Listing = Listing(),
) -> None:
    """List jobs, newest first.

    Parameters
    ----------
    label
        NAME=VALUE; repeat for more; all must match.
    oldest
        Oldest first.
    paused
        Only those that are paused.
    schedule
        Only those that this schedule made.
    stuck
        Only those that are stuck; for admins.
    parent
        Only those that a stage of this job submitted.
    text
        Only those with this text in parameters, result, labels or failure.
    param
        A parameter as NAME=VALUE; repeat for more; all must match.
    """
    given = {"workflow": workflow, "status": status, "job_type": job_type, "user_id": user}
    given |= {"schedule": schedule, "text": text}
    given |= {"paused": "true" if paused else None, "stuck": "true" if stuck else None}
    query = [*given.items(), *_named("label", label), *_named("param", param)]
    async with service(listing) as running:
        if parent is not None:
            query.append(("parent", await whole(running, parent)))
        found = await paged(running, "/jobs", query, limit, since, oldest=oldest)
    printing.rows(found, COLUMNS, listing, jobs=("id",))


def _named(field: str, pairs_given: Many) -> list[tuple[str, Any]]:
    return [(field, f"{name}:{value}") for name, value in pairs(pairs_given or ()).items()]


@app.command(help_epilogue=examples("jobrunner job show 01a1f22d-61f8"))
async def show(ids: Ids, /, *, listing: Listing = Listing()) -> None:
    """Print jobs in full."""
    async with service(listing) as running:
        for one in spelled_out(ids):
            job_id = part(await whole(running, one))
            printing.record(await running.get(f"/jobs/{job_id}"), listing)


@app.command(help_epilogue=examples("jobrunner job history 01a1f22d-61f8"))
async def history(job_id: str, /, *, listing: Listing = Listing()) -> None:
    """List the transitions of a job, oldest first."""
    async with service(listing) as running:
        path = f"/jobs/{part(await whole(running, job_id))}/history"
        found = await paged(running, path, [], NO_LIMIT)
    rows = [row | {"id": f"{row['version']}.{row['hop']}"} for row in found]
    printing.rows(rows, HISTORY, listing)


@app.command(help_epilogue=examples("jobrunner job attempts 01a1f22d-61f8 -o json"))
async def attempts(job_id: str, /, *, listing: Listing = Listing()) -> None:
    """List the executions of a job's stages, oldest first; `-o json` has their logs."""
    async with service(listing) as running:
        path = f"/jobs/{part(await whole(running, job_id))}/attempts"
        found = await paged(running, path, [], NO_LIMIT)
    rows = [row | {"id": f"{row['run_id']}.{row['state']}.{row['attempt']}"} for row in found]
    printing.rows(rows, ATTEMPTS, listing)


@app.command(help_epilogue=examples("jobrunner job assets 01a1f22d-61f8 -o ids"))
async def assets(job_id: str, /, *, limit: Limit = None, listing: Listing = Listing()) -> None:
    """List the files of a job, newest first."""
    async with service(listing) as running:
        path = f"/jobs/{part(await whole(running, job_id))}/assets"
        found = await paged(running, path, [], limit)
    printing.rows(found, FILES, listing)


@app.command(help_epilogue=examples("jobrunner job explain 01a1f22d-61f8"))
async def explain(job_id: str, /, *, listing: Listing = Listing()) -> None:
    """Say why a job is where it is, and what it waits for."""
    async with service(listing) as running:
        job_id = await whole(running, job_id)
        found = await running.get(f"/jobs/{part(job_id)}/explain")
    printing.record({"id": job_id} | found, listing)


@app.command(
    help_epilogue=examples(
        "jobrunner job rerun 01a1f22d-61f8 --param name=Grace --reason 'a misspelling'"
    )
)
async def rerun(
    job_id: str,
    /,
    *,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    param: Many = None,
    key: str | None = None,
    reason: str | None = None,
    listing: Listing = Listing(),
) -> None:
    """Make a new job from one that has ended, without doing again what still holds.

    Parameters
    ----------
    from_
        The state to begin again from; else where it failed, or after its last file.
    param
        A parameter to correct, as NAME=VALUE; repeat for more.
    key
        The idempotency key: the same key again is the same job.
    """
    given = {"from": from_, "reason": reason, "idempotency_key": key}
    body: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    body["params"] = parameters(None, param or ())
    async with service(listing) as running:
        made = await running.post(f"/jobs/{part(await whole(running, job_id))}/rerun", body)
        printing.record(made, listing)


@app.command(help_epilogue=examples("jobrunner job upload 01a1f22d-61f8 film.mp4"))
async def upload(
    job_id: str,
    file: Path,
    /,
    *,
    upload: Annotated[str, Parameter(name="--as")] = "",
    listing: Listing = Listing(),
) -> None:
    """Send a file for a job; a broken connection resumes where it stopped.

    Parameters
    ----------
    upload
        Which file of the workflow this is; else the first.
    """
    from jobrunner.cli.frame.transfers import sent

    async with service(listing) as running:
        asset_id = await sent(running, file, await whole(running, job_id), upload)
        printing.record(await running.get(f"/assets/{part(asset_id)}"), listing)


def _alone(key: str | None, mode: str | None, quiet_s: float | None) -> dict[str, Any]:
    given = {"key": key, "mode": mode, "quiet_s": quiet_s}
    wish = {name: value for name, value in given.items() if value is not None}
    if wish and key is None:
        raise CycloptsError(msg="--singleton-mode and --quiet-s need the key of a --singleton")
    return {"singleton": wish} if wish else {}
