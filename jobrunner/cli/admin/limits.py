"""``limit``: what bounds the work of the running service, and how that is changed."""

from typing import Any

from cyclopts import App

from jobrunner.cli.commands import Reason
from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.options import Listing
from jobrunner.cli.frame.service import part, service

app = App(name="limit", help="Limits of the running service.")

COLUMNS = ("key", "value", "configured", "origin", "by", "at", "reason")
NO_LIMIT = "none"


@app.command(name="list", help_epilogue=examples("jobrunner limit list"))
async def list_(*, listing: Listing = Listing()) -> None:
    """List the changeable limits, their values, and where each comes from; for admins."""
    async with service(listing) as running:
        found = (await running.get("/admin/limits"))["limits"]
    printing.rows(found, COLUMNS, listing, key="key")


@app.command(
    name="set",
    help_epilogue=examples(
        "jobrunner limit set limits.active_jobs 128",
        "jobrunner limit set rates.openai '120/min burst 10' --reason 'a larger plan'",
    ),
)
async def set_(
    key: str, value: str, /, *, reason: Reason = None, listing: Listing = Listing()
) -> None:
    """Change a limit from now on; it survives restarts.

    Parameters
    ----------
    value
        A whole number, a rate like 60/min, or none for a rate without a limit.
    """
    number: Any = int(value) if value.isdecimal() else value
    body = {"value": None if value == NO_LIMIT else number}
    body |= {} if reason is None else {"reason": reason}
    async with service(listing) as running:
        told = await running.ask("PUT", f"/admin/limits/{part(key)}", body=body)
    printing.record(told, listing)


@app.command(help_epilogue=examples("jobrunner limit reset limits.active_jobs"))
async def reset(key: str, /, *, listing: Listing = Listing()) -> None:
    """Reset a limit to the settings."""
    async with service(listing) as running:
        await running.ask("DELETE", f"/admin/limits/{part(key)}")
    print(f"{key} is as the settings say")
