"""Jobs under way moved to another declaration by a service that is killed in the middle: a state
renamed, one removed, credits held meanwhile."""

import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.whole.process import PATIENCE_S, Place, at_once, place, until

pytestmark = pytest.mark.anyio

AT_ONCE = 32
SOURCE = """
from msgspec import Struct
from jobrunner import Birth, Command, Definition, Edge, JobType, State, Workflow

class Params(Struct, frozen=True):
    number: int = 0

TODAY = {today!r}
SHELF = {shelf!r}
rests = (TODAY,) + ((SHELF,) if SHELF else ())
definition = Definition(
    Workflow(
        name="parcel",
        version={version!r},
        initial=TODAY,
        states=(
            State(TODAY, "waiting", was={was!r}),
            *((State(SHELF, "waiting"),) if SHELF else ()),
            State("sent", "final", ends="completed"),
            State("canceled", "final", ends="canceled"),
        ),
        edges=(
            *((Edge(TODAY, SHELF, by=("user",)),) if SHELF else ()),
            *(Edge(name, "sent", by=("user",), money="charge") for name in rests),
            *(Edge(name, "canceled", by=("user",)) for name in rests),
        ),
        job_types=(JobType("parcel", params="parcel", price=1),),
        commands=(
            *((Command("shelve", {{TODAY: (SHELF,)}}),) if SHELF else ()),
            Command("send", {{name: ("sent",) for name in rests}}),
            Command("cancel", {{name: ("canceled",) for name in rests}}),
        ),
    ),
    structs={{"parcel": Params}},
)
"""
FIRST = {"version": "1", "today": "draft", "shelf": "shelf", "was": ()}
SECOND = {"version": "2", "today": "sketch", "shelf": "", "was": "draft"}


def publish(folder: Path, said: dict[str, Any]) -> None:
    about = folder / "jobrunner_parcel-1.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: jobrunner-parcel\nVersion: 1.0\n")
    entry = "[jobrunner.workflows]\nparcel = jobrunner_parcel:definition\n"
    (about / "entry_points.txt").write_text(entry)
    (folder / "jobrunner_parcel.py").write_text(SOURCE.format(**said))


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    publish(tmp_path / "brought", FIRST)
    fast = "[limits]\nactive_jobs = 64\nfree_disk = 0\nlag = 0\nbulk_per_second = PACE\n"
    async with place(tmp_path, plugins=tmp_path / "brought") as here:
        head, rest = here.config.split("[limits]")
        here.configure(head + fast + "[workflows" + rest.partition("[workflows")[2])
        yield here


async def parcels(home: Place, many: int) -> tuple[list[str], list[str]]:
    """Jobs that rest where a state will be renamed, and where one will be gone: every tenth."""
    made: list[Any] = []
    for first in range(0, many, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, many))
        bodies = [{"workflow": "parcel", "params": {"number": n}} for n in numbers]
        said = await at_once([partial(home.post, "/jobs", body, "ada") for body in bodies])
        made += [one.body for one in said]
    ids = [job["id"] for job in sorted(made, key=lambda job: job["params"]["number"])]
    shelved = ids[::10]
    for first in range(0, len(shelved), AT_ONCE):
        asks = [
            partial(home.post, f"/jobs/{job}/shelve", {}, "ada")
            for job in shelved[first : first + AT_ONCE]
        ]
        assert {one.status for one in await at_once(asks)} == {200}
    return [job for job in ids if job not in set(shelved)], shelved


def checked(home: Place) -> tuple[int, str]:
    """What the terminal says before the start."""
    command = [sys.executable, "-m", "jobrunner", "workflow", "check", "--jobs", "parcel"]
    (home.folder / "config.toml").write_text(home.config)
    done = subprocess.run(command, check=False, cwd=home.folder, capture_output=True, text=True)
    return done.returncode, done.stdout


async def moved(home: Place, order: str, least: int) -> Any:
    with anyio.fail_after(10 * PATIENCE_S):
        while True:
            told = await home.get(f"/admin/upgrades/{order}")
            if told["moved"] >= least or told["status"] != "running":
                return told
            await anyio.sleep(0.005)


@pytest.mark.parametrize(
    ("many", "kills"),
    [(400, 3), pytest.param(10_000, 50, marks=pytest.mark.long)],
    ids=["short", "long"],
)
async def test_a_killed_migration_goes_on_and_moves_each_job_once(
    home: Place, many: int, kills: int
) -> None:
    pace = home.config
    home.configure(pace.replace("PACE", "0"))
    await home.start()
    await home.user("ada", credits=many)
    rests, shelved = await parcels(home, many)
    await home.stop()
    publish(home.folder / "brought", SECOND)
    code, out = checked(home)
    assert code == 0, out
    assert f"jobs under way: 0 go on, {many} under the old one, 0 stuck" in out
    home.configure(pace.replace("PACE", str(max(400, many // 20))))
    await home.start()
    await until(lambda: bool(home.log("workflow.upgraded")))
    (told,) = home.log("workflow.upgraded")
    assert (told["go_on"], told["under_older"], told["stuck"]) == (0, many, 0)
    dry = (await home.post("/admin/upgrades", {"workflow": "parcel", "dry_run": True})).body
    dry = await moved(home, dry["id"], many)
    assert (dry["moved"], dry["stay"]) == (len(rests), len(shelved))
    order = (await home.post("/admin/upgrades", {"workflow": "parcel"})).body["id"]
    for number in range(1, kills + 1):
        await moved(home, order, number * len(rests) // (kills + 2))
        await home.kill()
        assert home.faults() == ()
        await home.start()
    told = await moved(home, order, many)
    assert (told["status"], told["moved"], told["stay"]) == ("done", len(rests), len(shelved))
    (stay,) = told["stays"]
    assert stay["why"] == "no state of today is shelf, or was; give one `was`"
    for job in (*rests[:40], *rests[-40:]):
        assert [one["to_status"] for one in await home.moves(job)] == ["draft", "sketch"]
    for job in (rests[0], shelved[0]):
        assert (await home.post(f"/jobs/{job}/send", {}, "ada")).status == 200
    assert await home.stop() == 0
    assert home.faults() == ()
