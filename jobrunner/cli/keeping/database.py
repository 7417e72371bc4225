"""``db``: the file that holds everything."""

from cyclopts import App

from jobrunner.cli.frame import printing
from jobrunner.cli.frame.examples import examples
from jobrunner.cli.frame.file import answers
from jobrunner.cli.frame.options import Asking, Listing
from jobrunner.cli.frame.service import service
from jobrunner.cli.keeping.upkeep import compact, info, prune
from jobrunner.errors import Misconfigured

app = App(name="db", help="The database: check, back up, restore.")
for module, verb, help_text, lines in (
    (
        "keeping.backups",
        "backup",
        "Make a backup, beside a service or without one.",
        ("jobrunner db backup /backups",),
    ),
    (
        "keeping.backups",
        "verify",
        "Examine a backup from end to end.",
        (
            "jobrunner db verify /backups",
            "jobrunner db verify /backups --at 2026-01-31T030000.000Z",
        ),
    ),
    (
        "keeping.restores",
        "restore",
        "Put a backup in the place of the file.",
        ("jobrunner db restore /backups --force",),
    ),
    (
        "keeping.migrate",
        "migrate",
        "Bring the file to the schema of this program.",
        ("jobrunner db migrate --dry-run",),
    ),
):
    where = f"jobrunner.cli.{module}:{verb}"
    app.command(where, help=help_text, help_epilogue=examples(*lines))
app.command(info, help_epilogue=examples("jobrunner db info"))
app.command(prune, help_epilogue=examples("jobrunner db prune --dry-run"))
app.command(compact, help_epilogue=examples("jobrunner db compact"))


@app.command(help_epilogue=examples("jobrunner db check"))
async def check(*, listing: Listing = Listing()) -> int:
    """Examine the file: its structure, its references, and that the ledger adds up."""
    return printing.verdict(await _faults(listing), listing)


async def _faults(asking: Asking) -> list[str]:
    """Of the file itself, which is only looked at; the service answers while it has it."""
    from jobrunner.store.fsck import check_alone

    if asking.url is None:
        try:
            return list(check_alone(asking.load().store.path))
        except Misconfigured:
            if not await answers(asking):
                raise
    async with service(asking) as running:
        return list((await running.post("/admin/db/check", {}))["faults"])
