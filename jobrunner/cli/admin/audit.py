"""``audit`` and ``dead-letter``: who did what, and work that was given up; for admins."""

from cyclopts import App

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.options import Flag, Listing
from jobrunner.cli.frame.paging import Limit, Since, paged
from jobrunner.cli.frame.service import service

app = App(name="audit", help="Who did what.")
dead_letters = App(name="dead-letter", help="Work that was given up, for a person to look at.")

COLUMNS = ("id", "at", "event", "actor", "job_id", "fields")
LETTERS = ("id", "at", "job_id", "workflow", "user_id", "failed_stage", "failure_code", "reason",
           "failure_message")  # fmt: skip


@app.command(
    name="list",
    help_epilogue=examples("jobrunner audit list --since 1d", "jobrunner audit list -o json"),
)
async def list_audit(
    *, limit: Limit = None, since: Since = None, listing: Listing = Listing()
) -> None:
    """List who did what, newest first."""
    async with service(listing) as running:
        found = await paged(running, "/admin/audit", [], limit, since, at="at")
    printing.rows(found, COLUMNS, listing)


@dead_letters.command(name="list", help_epilogue=examples("jobrunner dead-letter list --since 7d"))
async def list_dead_letters(
    *,
    hidden: Flag = False,
    limit: Limit = None,
    since: Since = None,
    listing: Listing = Listing(),
) -> None:
    """List the jobs that were given up, newest first.

    Parameters
    ----------
    hidden
        Also those that a newer run of the job superseded.
    """
    query = [("hidden", "true" if hidden else None)]
    async with service(listing) as running:
        found = await paged(running, "/admin/dead-letters", query, limit, since, at="at")
    printing.rows(found, LETTERS, listing)
