"""``db``: the file that holds everything."""

from cyclopts import App

from jobrunner.cli.file import file_or_none
from jobrunner.cli.options import Asking

app = App(name="db", help="The file that holds everything.")


@app.command
async def check(*, asking: Asking = Asking()) -> int:
    """Examine the file: its structure, its references, and that the ledger adds up."""
    async with file_or_none(asking) as store:
        if store is not None:
            faults = list(await store.check())
        else:
            from jobrunner.cli.service import service

            async with service(asking) as running:
                faults = (await running.post("/admin/db/check", {}))["faults"]
    print("\n".join(faults) or "ok")
    return 1 if faults else 0
