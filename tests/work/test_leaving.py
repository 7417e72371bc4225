"""A worker elsewhere that leaves, or comes beside another: nobody keeps it, and it keeps nobody."""

import fcntl
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobrunner.config.settings import Config
from jobrunner.core.messages import Ended
from jobrunner.equipping import surroundings
from jobrunner.files import lent
from jobrunner.ports import system_ports
from jobrunner.work.far_host import FarHost
from tests.work.living import serving, until, work_process
from tests.work.test_losses import has_lines

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("signals", "reason"),
    [(1, "in time"), pytest.param(2, "a second time", marks=pytest.mark.long)],
)
async def test_a_stage_that_hears_nothing_does_not_keep_its_worker(
    tmp_path: Path, signals: int, reason: str
) -> None:
    """The process ends without it, some seconds after all others had their time, or at once when it
    is told again. Before that it says why."""
    notes = tmp_path / "notes"
    params = {"does": "deaf", "gate": str(tmp_path / "never"), "diary": str(notes)}
    async with serving(tmp_path / "service") as house:
        await house.ada.submit("far", params=params)
        token = house.worker.token or ""
        with work_process(tmp_path / "work", house.service.url, token) as process:
            await until(partial(has_lines, notes, 1))
            for _ in range(signals):
                process.terminate()
                await until(lambda: "work.stopping" in process.output.read_text())
            await until(process.dead)
            last = json.loads(process.output.read_text().splitlines()[-1])
    assert last["event"] == "work.cut"
    assert reason in last["reason"]


async def test_what_is_said_with_the_end_is_not_said_again() -> None:
    """A sign of life that brought it once more came to a job that had gone on."""
    ports, heard = system_ports(), list[dict[str, Any]]()
    around = surroundings(Config(), ports)

    async def hold(talk: Any, limits: Any) -> None:
        heard.append(dict(host.late))

    claimed: Any = SimpleNamespace(job=SimpleNamespace(id="job"), claim=1)
    given: Any = SimpleNamespace(root="", job_id="job")
    client: Any = SimpleNamespace(hold=hold)
    host = FarHost(client, ports, around, claimed, given, lambda: None)
    await host.progress(50, "singing")
    await host.tell(Ended(0, "done"))
    assert heard == [{}]


def test_who_comes_at_the_same_moment_takes_no_folder_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that start in one folder: the second looks between the first one's file and its lock."""
    hold, looks = fcntl.flock, list[int]()

    def seen(lock: int, how: int) -> None:
        if not looks:
            looks.append(lock)
            lent._remove_if_left(tmp_path / "mine")
        hold(lock, how)

    monkeypatch.setattr(fcntl, "flock", seen)
    with lent.own_folder(str(tmp_path), "mine") as mine:
        assert (Path(mine) / lent.LOCK).exists()
        lent._remove_if_left(Path(mine))
        assert (Path(mine) / lent.LOCK).exists(), "it is in use"
