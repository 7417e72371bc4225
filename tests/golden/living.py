"""A file of today with a job in every state of every workflow, as a start of tomorrow finds it."""

import gzip
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jobrunner.ports import Ports, SystemClock, SystemIds, system_ports
from tests.http.serving import House, Said, opened
from tests.standing import LIFECYCLES, every_pair
from tests.whole.placing import outside, stand

FILE, TOKEN = "jobs.db", "admin.token"


async def keep(kept: Path) -> None:
    """Write such a file, packed, and beside it the token that its admin has."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with opened(folder, registry=outside()) as house:
            for workflow, lifecycle in LIFECYCLES.items():
                for state in lifecycle.steps:
                    await stand(house, house.admin, workflow, state)
        with closing(sqlite3.connect(folder / FILE)) as db:
            db.execute("PRAGMA journal_mode = DELETE")
        with (
            (folder / FILE).open("rb") as file,
            gzip.GzipFile(kept / f"{FILE}.gz", "wb", mtime=0) as to,
        ):
            shutil.copyfileobj(file, to)
        shutil.copy(folder / TOKEN, kept / TOKEN)


def unpack(kept: Path, folder: Path) -> None:
    with gzip.open(kept / f"{FILE}.gz") as packed, (folder / FILE).open("wb") as file:
        shutil.copyfileobj(packed, file)
    shutil.copy(kept / TOKEN, folder / TOKEN)


def then(folder: Path) -> Ports:
    """The world in which the last thing that is in the file has just happened: no lease has lapsed
    meanwhile, and no deadline has passed."""
    with closing(sqlite3.connect(folder / FILE)) as db:
        (last_ms,) = db.execute("SELECT max(updated_at) FROM jobs").fetchone()
    clock = Then(last_ms)
    return replace(system_ports(), clock=clock, ids=SystemIds(clock))


class Then(SystemClock):
    """As late as it was, and going on from there."""

    def __init__(self, at_ms: int) -> None:
        super().__init__()
        self._behind_ms = super().now() - at_ms

    def now(self) -> int:
        return super().now() - self._behind_ms


async def standing(house: House) -> dict[tuple[str, str], Any]:
    """The jobs by workflow and status."""
    found: dict[tuple[str, str], Any] = {}
    cursor = ""
    while True:
        page = (await house.admin.get(f"/jobs?limit=100{cursor}")).json
        found |= {(job["workflow"], job["status"]): job for job in page["jobs"]}
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def goes_on(house: House, job: Any) -> Said | None:
    """Ask for a declared move of this job; None where there is none."""
    workflow, status = job["workflow"], job["status"]
    lifecycle = LIFECYCLES[workflow]
    targets = [to for name, source, to in every_pair() if (name, source) == (workflow, status)]
    moves = [to for to in targets if lifecycle.outcome(status, to) == "moves"]
    if not moves:
        return None
    order = {"to": moves[0], **lifecycle.reports.get(moves[0], {})}
    return await house.admin.post(f"/jobs/{job['id']}/transitions", order)
