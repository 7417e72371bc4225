"""``doctor``: what is wrong is found, with its cure, and nothing is changed by looking."""

import json
import os
import shutil
import signal
import socket
import sqlite3
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from jobrunner.cli.doctor import machine_checks as machine
from jobrunner.store.migrations import latest
from jobrunner.store.opening import ProcessLock
from tests.cli.conftest import Command
from tests.ports import free_port
from tests.served import serving

Findings = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service that ran and has stopped."""
    folder = tmp_path_factory.mktemp("used")
    with serving(folder):
        pass
    return folder


@pytest.fixture
def folder(used: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, on a machine whose time is kept."""
    shutil.copytree(used, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(machine, "is_synchronised", lambda: True)
    monkeypatch.setenv("JOBRUNNER_SERVER__PORT", str(free_port()))
    return tmp_path / "here"


def looked(command: Command, *words: str) -> tuple[int, Findings]:
    code, out, err = command("doctor", "-o", "json", *words)
    assert err == ""
    found: Findings = {}
    for one in json.loads(out):
        found.setdefault(one["topic"], []).append(one)
        assert (one["level"] == "ok") == (one["cure"] == ""), one
    return code, found


def worst(found: Findings, topic: str) -> str:
    return max((str(one["level"]) for one in found[topic]), key=["ok", "warn", "bad"].index)


def contents(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file, with when and what was written."""
    return {
        str(file): (file.stat().st_mtime_ns, file.stat().st_mode, file.read_bytes())
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def changed(folder: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(folder / "data/jobrunner.db")) as db:
        db.execute(sql, values)
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def test_looking_changes_nothing(folder: Path, command: Command) -> None:
    before = contents(folder)
    code, found = looked(command)
    assert contents(folder) == before
    assert code == 1
    assert [one["says"] for one in found.pop("backups")] == ["there is none"]
    assert {worst(found, topic) for topic in found} == {"ok"}, found
    topics = "settings file owner tokens disk flush sqlite limits memory ports plugins clock"
    assert set(topics.split()) <= found.keys()


def test_beside_a_running_service(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path) as served:
        monkeypatch.setenv("JOBRUNNER_SERVER__PORT", served.url.rpartition(":")[2])
        names = sorted(os.listdir(tmp_path / "data"))
        _, found = looked(command)
        assert sorted(os.listdir(tmp_path / "data")) == names
        (answered,) = found["ports"]
        assert answered["level"] == "ok"
        assert answered["says"].endswith(", and ready")
        assert worst(found, "file") == "ok"
        assert "log" not in found


class Ailing(BaseHTTPRequestHandler):
    """A service that answers, and is not ready."""

    def do_GET(self) -> None:
        ready = {
            "ready": False,
            "checks": {"store": "it is full", "loop": ""},
            "warnings": {"w": "x"},
        }
        alive = {"status": "ok", "version": "7"}
        told = alive if self.path == "/healthz" else ready
        body = json.dumps(told).encode()
        self.send_response(200 if told is alive else 503)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Stdout is the tests'."""


def test_a_service_that_is_not_ready_says_why(folder: Path, command: Command) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Ailing) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            code, found = looked(command, "--url", f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    assert code == 2
    assert found["ports"][0]["says"].endswith("jobrunner 7, and not ready: store: it is full")
    assert found["service"][0]["says"] == "w: x"


def test_a_table_says_all_of_it_in_lines(folder: Path, command: Command) -> None:
    code, out, _ = command("doctor")
    assert code == 1
    lines = out.splitlines()
    assert all(line.split()[0] in ("ok", "warn", "bad") for line in lines)
    assert any(
        "there is none: set backup.path, or run `jobrunner db backup" in one for one in lines
    )
    assert command("doctor", "-o", "ids")[1].split()[0] == "settings"


def test_before_the_first_start(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "is_synchronised", lambda: True)
    monkeypatch.setenv("JOBRUNNER_SERVER__PORT", str(free_port()))
    code, found = looked(command)
    assert (code, os.listdir(tmp_path)) == (1, [])
    assert found["file"][0]["says"].endswith("is not there")


@pytest.mark.parametrize(
    ("sql", "values", "level", "says"),
    [
        ("PRAGMA application_id = 7", (), "bad", "another program's"),
        (f"PRAGMA user_version = {latest() + 1}", (), "bad", "newer than this program's"),
        (f"PRAGMA user_version = {latest() - 1}", (), "warn", "of"),
    ],
)
def test_whose_file_it_is(
    folder: Path, command: Command, sql: str, values: tuple[Any, ...], level: str, says: str
) -> None:
    changed(folder, sql, *values)
    code, found = looked(command)
    (told,) = found["file"]
    assert (told["level"], says in told["says"]) == (level, True)
    assert code == ["ok", "warn", "bad"].index(level)


def test_a_damaged_file(folder: Path, command: Command) -> None:
    file = folder / "data/jobrunner.db"
    data = bytearray(file.read_bytes())
    data[3 * 4096 : 4 * 4096] = b"\xff" * 4096
    file.write_bytes(data)
    code, found = looked(command)
    assert (code, worst(found, "file")) == (2, "bad")
    assert any("db restore" in one["cure"] for one in found["file"])
    file.write_bytes(b"no database")
    code, found = looked(command)
    assert (code, worst(found, "file")) == (2, "bad")


def test_a_file_that_is_too_large_to_be_examined_in_passing(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobrunner.cli.doctor.doctor.CHECK_S", 0.0)
    monkeypatch.setattr("jobrunner.store.keeping.examination.STEPS", 1)
    _, found = looked(command)
    assert any("`jobrunner db check`" in one["cure"] for one in found["file"])


def test_secrets_that_others_may_read(folder: Path, command: Command) -> None:
    (folder / "data/admin.token").chmod(0o644)
    code, found = looked(command)
    (told,) = found["owner"]
    assert (code, told["level"]) == (1, "warn")
    assert told["cure"] == "chmod 600 data/admin.token"


def test_what_came_of_the_last_service(folder: Path, command: Command) -> None:
    changed(folder, "UPDATE lives SET ended_at = NULL")
    code, found = looked(command)
    assert (code, "without saying why" in found["log"][0]["says"]) == (1, True)
    changed(folder, "UPDATE lives SET seen_at = ?", 4_000_000_000_000)
    code, found = looked(command)
    assert (code, "still to come" in found["clock"][0]["says"]) == (2, True)


def test_a_service_that_was_killed_left_its_log_to_be_read(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path) as served:
        os.kill(served.process.pid, signal.SIGKILL)
        served.process.wait(120)
    before = sorted(os.listdir(tmp_path / "data"))
    _, found = looked(command)
    assert worst(found, "file") == "ok"
    assert found["log"][0]["level"] == "warn"
    assert sorted(os.listdir(tmp_path / "data")) == before


def test_tokens_and_backups(folder: Path, command: Command) -> None:
    soon = 3 * 86_400
    assert command("token", "create", "brief", "--expires", f"{soon}s")[0] == 0
    assert command("db", "backup", "backups")[0] == 0
    _, found = looked(command)
    assert found["tokens"][1]["says"] == "1 end within a week"
    assert found["backups"][0]["level"] == "ok"
    changed(folder, "UPDATE backups SET as_of = as_of - 30 * 86400000")
    changed(folder, "UPDATE tokens SET revoked_at = 1")
    _, found = looked(command)
    assert "30 days ago" in found["backups"][0]["says"]
    assert (found["tokens"][0]["level"], found["tokens"][0]["says"]) == (
        "bad",
        "no admin has a token",
    )


def test_settings_that_are_wrong_and_that_are_unwise(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBRUNNER_SERVER__HOST", "0.0.0.0")
    monkeypatch.setenv("JOBRUNNER_WORKFLOWS__HELO__LEASE", "5m")
    monkeypatch.setenv("JOBRUNNER_NOTIFY__SECRETS_ENV", "NOBODY_SET_IT")
    monkeypatch.setenv("JOBRUNNER_BACKUP__PATH", str(folder / "backups"))
    code, found = looked(command)
    told = " ".join(one["says"] for one in found["settings"] + found["backups"])
    assert code == 2
    for part in ("in the clear", "helo", "NOBODY_SET_IT", "on the disk of the file itself"):
        assert part in told
    (folder / "config.toml").write_text("[sevrer]\nport = 1\n[limits]\nburst = 'x'\n")
    code, found = looked(command)
    assert code == 2
    faults = {one["says"].split(":")[0] for one in found["settings"] if one["level"] == "bad"}
    assert {"sevrer", "limits.burst = 'x'"} <= faults


def test_mode_none(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBRUNNER_AUTH__MODE", "none")
    _, found = looked(command)
    assert (found["tokens"][0]["level"], "everybody" in found["tokens"][0]["says"]) == (
        "warn",
        True,
    )


def test_a_port_that_somebody_else_has(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("JOBRUNNER_SERVER__PORT", str(other.getsockname()[1]))
        _, found = looked(command, "--url", f"http://127.0.0.1:{free_port()}")
        assert (found["ports"][0]["level"], "not to be had" in found["ports"][0]["says"]) == (
            "bad",
            True,
        )


def test_a_file_that_somebody_has_who_does_not_answer(folder: Path, command: Command) -> None:
    lock = ProcessLock("data/jobrunner.db")
    try:
        code, found = looked(command)
    finally:
        lock.release()
    assert code == 2
    assert f"process {os.getpid()} has the file" in found["ports"][0]["says"]


@pytest.mark.parametrize(
    ("kind", "level"), [("nfs4", "bad"), ("tmpfs", "warn"), ("ext4", "ok"), ("fuse.sshfs", "bad")]
)
def test_the_kind_of_disk(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, kind: str, level: str
) -> None:
    mounts = folder.parent / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nb {folder / 'data'} {kind} rw 0 0\nc /x nfs rw 0 0\n")
    monkeypatch.setattr(machine, "MOUNTS", mounts)
    _, found = looked(command)
    assert worst(found, "disk") == level


def test_what_this_machine_lacks(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "is_synchronised", lambda: False)
    monkeypatch.setattr(machine, "open_files_max", lambda: 1024)
    monkeypatch.setattr(machine, "FLUSH_SLOW_MS", 0)
    monkeypatch.setenv("JOBRUNNER_LIMITS__FREE_DISK", "900TiB")
    (folder.parent / "memory").write_text("MemAvailable:   2048 kB\n")
    monkeypatch.setattr(machine, "MEMORY", folder.parent / "memory")
    code, found = looked(command)
    assert code == 2
    levels = {
        topic: worst(found, topic) for topic in ("clock", "limits", "flush", "disk", "memory")
    }
    assert levels == {
        "clock": "warn",
        "limits": "warn",
        "flush": "warn",
        "disk": "bad",
        "memory": "warn",
    }
