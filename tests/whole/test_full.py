"""The disk fills up under a running service: a plain no, and everything else goes on."""

import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.whole.process import PATIENCE_S, Place, Said, at_once, place

pytestmark = pytest.mark.anyio

SIZE_KIB = 16 * 1024
LEFT_KIB = 7 * 1024
FULL = (503, "STORAGE_FULL")
OWN_MOUNTS = ("unshare", "--user", "--map-root-user", "--mount", "--")


def small_disk() -> tuple[str, ...]:
    """A command that becomes the service, with a small disk where its data is. It needs no rights
    that a user does not have, where the kernel gives users name spaces of their own."""
    mount = f'mount -t tmpfs -o size={SIZE_KIB}k tmpfs data && exec "$@"'
    return (*OWN_MOUNTS, "sh", "-c", mount, "sh")


def can_mount(folder: Path) -> bool:
    command = [*small_disk(), "true"]
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
async def cramped(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    """A service with little room left."""
    (tmp_path / "data").mkdir()
    if not can_mount(tmp_path):
        pytest.skip("no small disk: this kernel lets nobody mount one in a name space of their own")
    async with place(tmp_path, credits=10_000, outside=True) as home:
        await home.start(*small_disk())
        await home.user("worker", "workflow")
        home.seen("data/filler").write_bytes(b"\0" * (SIZE_KIB - LEFT_KIB) * 1024)
        yield home


def order(number: int, length: int) -> dict[str, Any]:
    product = {"description": "x" * length}
    params = {"product_id": f"shoe-{number}", "product": product}
    key = f"{number}-{length}"
    return {"workflow": "cutx", "job_type": "static_ad", "params": params, "idempotency_key": key}


async def fill(home: Place) -> list[str]:
    """Submit until nothing more goes in, not even a little; the ids of what went in."""
    made = []
    for length in (4000, 400, 1):
        for number in range(2000):
            said = await home.post("/jobs", order(number, length))
            if said.status != 201:
                assert (said.status, said.code) == FULL, said
                break
            made.append(said.body["id"])
    assert len(made) > 20
    return made


async def test_a_full_disk_is_a_no_and_not_an_end(cramped: Place) -> None:
    """R17: no false yes; reads go on; with room again, writes go on, in the same process. (What
    changes only a few pages may still fit: each write is judged by what it was answered.)"""
    home = cramped
    gate = home.folder / "gate"
    job = await home.submit("trial", params={"does": "wait", "gate": str(gate)})
    flow = await home.submit("howera")
    await home.at(job["id"], "working")
    made = await fill(home)
    pid, version, answers, in_house = home.pid, 1, Counter[int](), [job["id"]]
    for number in range(1, 60):
        wanted = await at_once([partial(home.post, "/jobs", order(number, 2 + number))])
        wanted += await at_once([partial(home.post, "/jobs", {"workflow": "trial"})])
        in_house += [said.body["id"] for said in wanted[1:] if said.status == 201]
        told = await told_about(home, flow["id"], version)
        made += [said.body["id"] for said in wanted if said.status == 201]
        version += told.status == 204
        for said in (*wanted, told):
            answers[said.status] += 1
            assert said.status in (201, 204) or (said.status, said.code) == FULL, said
    gate.touch()
    assert answers[503] > 50, answers
    assert (await home.get(f"/jobs/{flow['id']}"))["version"] == version
    assert (await home.post("/admin/db/check")).body["faults"] == []
    assert (await home.ask("GET", "/healthz")).status == 200
    assert await everything(home) == {*made, job["id"], flow["id"]}

    home.seen("data/filler").unlink()
    assert (await accepted(partial(home.post, "/jobs", order(1, 4001)))).status == 201
    for job_id in in_house:
        await home.at(job_id, "done")
    assert (await told_about(home, flow["id"], version)).status == 204
    assert (await home.post("/admin/db/check")).body["faults"] == []
    assert not home.dead()
    assert home.pid == pid
    assert await home.stop() == 0


async def told_about(home: Place, job_id: str, version: int) -> Said:
    """The next callback of a job that has had this many before."""
    status = ("UPLOADED", "AUDIO_EXTRACTING")[version > 1]
    return await home.event(job_id, status, version)


async def accepted(write: Any) -> Said:
    with anyio.move_on_after(PATIENCE_S):
        while True:
            said: Said = await write()
            if said.status != 503:
                return said
            await anyio.sleep(0.02)
    raise AssertionError("there is room, and still nothing is written")


async def everything(home: Place) -> set[str]:
    found: set[str] = set()
    cursor = ""
    while True:
        page = await home.get(f"/jobs?limit=100{cursor}")
        found |= {job["id"] for job in page["jobs"]}
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


async def test_no_room_to_start_is_said(home: Place) -> None:
    (home.folder / "data").mkdir()
    if not can_mount(home.folder):
        pytest.skip("no small disk: this kernel lets nobody mount one in a name space of their own")
    home.spawn(*(part.replace(f"size={SIZE_KIB}k", "size=128k") for part in small_disk()))
    assert await home.ended() == 1
    assert "Traceback" not in home.said()
    assert "free some space" in home.said()


async def test_a_write_that_fails_otherwise_ends_the_process(home: Place) -> None:
    """R18: what the disk holds then is not known; the next start tells, and keys make it safe to
    ask again."""
    home.configure(home.config.replace("initial = 25", "initial = 100000"))
    await home.start("sh", "-c", 'ulimit -f 6000 && exec "$@"', "sh")
    made, unknown = {}, 0
    for number in range(2000):
        said = await home.try_to("POST", "/jobs", order(number, 4000))
        if said.status != 201:
            assert (said.status, said.body and said.code) in ((0, None), (503, "OUTCOME_UNKNOWN"))
            unknown = number
            break
        made[number] = said.body["id"]
    assert unknown > 20
    assert await home.ended() == 1
    assert "Traceback" not in home.said()
    assert home.faults() == ()
    await home.start()
    for number, job_id in made.items():
        said = await home.post("/jobs", order(number, 4000))
        assert (said.status, said.body["id"]) == (200, job_id)
    assert (await home.post("/jobs", order(unknown, 4000))).status in (200, 201)
    assert len(await everything(home)) == len(made) + 1
    purse = await home.get("/credits")
    assert purse["balance"] == 100_000 - 3 * (len(made) + 1)
