"""``answer``: what stages wait to be told, and telling it."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from jobrunner.cli.commands import body_of, resolved
from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.options import Listing, Many, Told, positive
from jobrunner.cli.frame.prefixes import whole
from jobrunner.cli.frame.service import RunningService, part, service
from jobrunner.errors import Refused

app = App(name="answer", help="Questions of stages, and their answers.")

COLUMNS = ("job_id", "workflow", "name", "text", "may_give", "asked_at", "expires_at")


@app.command(name="list", help_epilogue=examples("jobrunner answer list"))
async def list_(
    job_id: str | None = None,
    /,
    *,
    limit: Annotated[int, Parameter(validator=positive)] = 20,
    listing: Listing = Listing(),
) -> None:
    """List the answers that stages wait for, newest first; of one job, where that is named.

    Parameters
    ----------
    limit
        How many at most, up to 100.
    """
    async with service(listing) as running:
        of_job = None if job_id is None else await whole(running, job_id)
        rows = await _wanted(running, of_job, limit)
    printing.rows(rows, COLUMNS, listing, key="job_id")


@app.command(
    help_epilogue=examples(
        "jobrunner answer give 01a1f22d-61f8 approval --field approved=true",
        "jobrunner answer give 01a1f22d-61f8 approval --file answer.json",
    )
)
async def give(
    job_id: str,
    name: str,
    /,
    *,
    field: Many = None,
    file: Told = None,
    listing: Listing = Listing(),
) -> None:
    """Give the answer that a stage of this job waits for, under its name.

    Parameters
    ----------
    field
        A field of the answer as NAME=VALUE; repeat for more.
    file
        The answer as a JSON object; `-` for stdin. Each --field overrides it.
    """
    async with service(listing) as running:
        found = await whole(running, job_id)
        asked = {one["name"]: one for one in await _wanted(running, found, 100)}
        schema = resolved(asked[name]["asks"]) if name in asked else {}
        try:
            body = body_of(name, schema, file, field)
            told = await running.post(f"/jobs/{part(found)}/answers/{part(name)}", body)
        except Refused as refused:
            if refused.status != 404 or name in asked:
                raise
            known = ", ".join(asked) or "nothing"
            detail = f"{refused.detail}; it asks: {known}"
            raise Refused(refused.code, detail, status=refused.status) from None
    printing.record({"id": found} | told, listing)


async def _wanted(running: RunningService, job_id: str | None, limit: int) -> list[dict[str, Any]]:
    query = {"limit": limit} | ({} if job_id is None else {"job_id": job_id})
    found: list[dict[str, Any]] = (await running.get("/answers", query))["answers"]
    return found
