"""``db``: the file that holds everything."""

from cyclopts import App

from jobrunner.cli.frame.file import answers
from jobrunner.cli.frame.options import Asking
from jobrunner.cli.upkeep import compact, info, prune
from jobrunner.errors import Misconfigured

app = App(name="db", help="The file that holds everything.")
app.command("jobrunner.cli.backups:backup", help="Make a backup, beside a service or without one.")
app.command("jobrunner.cli.backups:verify", help="Examine a backup from end to end.")
app.command("jobrunner.cli.restores:restore", help="Put a backup in the place of the file.")
app.command("jobrunner.cli.migrate:migrate", help="Bring the file to the schema of this program.")


app.command(info)
app.command(prune)
app.command(compact)


@app.command
async def check(*, asking: Asking = Asking()) -> int:
    """Examine the file: its structure, its references, and that the ledger adds up."""
    faults = await _faults(asking)
    print("\n".join(faults) or "ok")
    return 1 if faults else 0


async def _faults(asking: Asking) -> list[str]:
    """Of the file itself, which is only looked at; the service answers while it has it."""
    from jobrunner.cli.frame.service import service
    from jobrunner.store.fsck import check_alone

    if asking.url is None:
        try:
            return list(check_alone(asking.load().store.path))
        except Misconfigured:
            if not await answers(asking):
                raise
    async with service(asking) as running:
        return list((await running.post("/admin/db/check", {}))["faults"])
