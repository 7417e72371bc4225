"""What stands in the way of a start is said, all of it, and nothing else happens."""

import shutil
import socket
import sqlite3
import textwrap
from pathlib import Path

import pytest

from tests.whole.process import PLUGIN, Place, place

pytestmark = pytest.mark.anyio


async def refused(home: Place) -> str:
    """What a start that is refused says: readable, and with exit code 1."""
    home.spawn()
    assert await home.ended() == 1, home.said()
    said = home.said()
    assert "Traceback" not in said, said
    return said


async def test_a_service_starts_serves_and_stops(service: Place) -> None:
    job = await service.submit("hello", params={"name": "Ada"})
    assert (await service.at(job["id"], "greeted"))["result"] == {"greeting": "Hello, Ada!"}
    assert (await service.post("/admin/db/check")).body["faults"] == []
    assert await service.stop() == 0
    assert service.log("service.stopped")
    assert service.faults() == ()


async def test_one_process_per_data_folder(service: Place, tmp_path: Path) -> None:
    """R2: the second process is refused, told by whom, and the first does not notice."""
    async with place(tmp_path / "second") as second:
        second.configure(second.config.replace("data/jobs.db", str(service.database)))
        for _ in range(5):
            assert f"in use by process {service.pid}" in await refused(second)
    assert (await service.submit("howera"))["status"] == "CREATED"
    await service.kill()
    await service.start()
    assert (await service.get("/jobs"))["jobs"][0]["workflow"] == "howera"


async def test_a_busy_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        async with place(tmp_path) as home:
            home.configure(home.config.replace("port = 0", f"port = {port}"))
            said = await refused(home)
    assert str(port) in said
    assert "in use" in said


async def test_a_damaged_file_is_left_alone(home: Place) -> None:
    home.database.parent.mkdir()
    home.database.write_bytes(b"SQLite format 3\0" + b"\x11" * 8192)
    before = home.database.read_bytes()
    said = await refused(home)
    assert "jobs.db" in said
    assert "restore" in said
    assert home.database.read_bytes() == before


async def test_no_database_at_all_is_left_alone(home: Place) -> None:
    home.database.parent.mkdir()
    home.database.write_text("these are my notes, do not delete them\n" * 99)
    before = home.database.read_bytes()
    assert "jobs.db" in await refused(home)
    assert home.database.read_bytes() == before


async def test_the_file_of_another_program_is_left_alone(home: Place) -> None:
    home.database.parent.mkdir()
    with sqlite3.connect(home.database) as other:
        other.execute("CREATE TABLE songs (title TEXT)")
    other.close()
    before = home.database.read_bytes()
    assert "another program" in await refused(home)
    assert home.database.read_bytes() == before


async def test_a_newer_file_is_refused(service: Place) -> None:
    """R20: an older program does not touch a file that a newer one wrote."""
    assert await service.stop() == 0
    with sqlite3.connect(service.database) as newer:
        newer.execute("PRAGMA user_version = 999")
    newer.close()
    said = await refused(service)
    assert "999" in said
    assert "newer" in said


async def test_all_faults_of_a_config_are_told_at_once(home: Place) -> None:
    home.configure(
        textwrap.dedent(
            """
            [server]
            port = 99999
            hots = "127.0.0.1"
            [limits]
            active_jobs = 0
            [store]
            path = 7
            """
        )
    )
    said = await refused(home)
    for fault in (
        "server.port",
        "99999",
        "server.hots",
        "host",
        "limits.active_jobs",
        "store.path",
    ):
        assert fault in said, said
    assert not home.database.exists()


async def test_a_config_that_is_no_toml_is_refused(home: Place) -> None:
    home.configure("[server\nport = 1")
    assert "config.toml" in await refused(home)


async def test_a_folder_that_cannot_be_made_is_named(home: Place) -> None:
    (home.folder / "data").write_text("a file where the folder should be")
    assert "jobs.db" in await refused(home)


async def test_a_faulty_plugin_costs_only_its_own_workflow(home: Place) -> None:
    """The service runs without it and says why; a stranger's typing error is no reason to stop."""
    plugins = home.folder / "plugins"
    shutil.copytree(PLUGIN, plugins)
    for name, text in (
        ("broken", "raise RuntimeError('cannot be imported')"),
        ("unsound", "from jobrunner_trial import unsound as definition"),
    ):
        (plugins / f"jobrunner_{name}.py").write_text(text)
        about = plugins / f"jobrunner_{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: x-{name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(
            f"[jobrunner.workflows]\n{name} = jobrunner_{name}:definition\n"
        )
    home.configure(home.config.replace(str(PLUGIN), str(plugins)))
    await home.start()
    refusals = {line["workflow"]: line["reasons"] for line in home.log("workflow.refused")}
    assert "cannot be imported" in refusals["broken"][0]
    assert "nowhere" in " ".join(refusals["unsound"])
    for name in ("broken", "unsound"):
        said = await home.post("/jobs", {"workflow": name})
        assert (said.status, said.code) == (503, "WORKFLOW_UNAVAILABLE")
    job = await home.submit("trial")
    await home.at(job["id"], "done")


async def test_jobs_of_a_workflow_that_is_gone_wait_for_it(home: Place) -> None:
    """Without their plugin jobs can be read and listed; commands wait, and so do their timers."""
    await home.start()
    job = await home.submit("trial", params={"does": "wait", "gate": str(home.folder / "gate")})
    await home.at(job["id"], "working")
    await home.kill()
    (home.folder / "gate").touch()
    with_plugin = home.config
    home.configure(with_plugin.replace(str(PLUGIN), "nothing-here"))
    await home.start()
    assert (await home.get(f"/jobs/{job['id']}"))["status"] == "working"
    assert [one["id"] for one in (await home.get("/jobs"))["jobs"]] == [job["id"]]
    said = await home.post(f"/jobs/{job['id']}/cancel")
    assert (said.status, said.code) == (503, "WORKFLOW_UNAVAILABLE")
    assert (await home.post("/jobs", {"workflow": "trial"})).code == "UNKNOWN_WORKFLOW"
    assert await home.stop() == 0
    home.configure(with_plugin)
    await home.start()
    assert (await home.at(job["id"], "done"))["result"]


async def test_folders_that_cannot_be_had_are_all_named(home: Place) -> None:
    (home.folder / "data").write_text("a file where a folder should be")
    said = await refused(home)
    assert "store.path" in said
    assert "store.assets" in said


async def test_a_folder_that_cannot_be_made_is_said_in_one_sentence(home: Place) -> None:
    """Whatever the system has against it: nobody can look at all of that beforehand."""
    home.configure(home.config.replace('"data/assets"', f'"data/{"x" * 300}"'))
    said = await refused(home)
    assert "store.assets" in said
    assert "too long" in said
    assert "Traceback" not in said


async def test_an_empty_secret_of_notifications_is_said_at_the_start(home: Place) -> None:
    home.database.parent.mkdir()
    home.database.with_name("notify.secret").touch()
    assert "notify.secret" in await refused(home)
