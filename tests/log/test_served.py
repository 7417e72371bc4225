"""The log of a real process: on a terminal, in a file, before somebody who does not read."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.served import PATIENCE_S, clean

SMALL = 4096
GREETING = b"jobrunner answers on "


@contextmanager
def serve(
    folder: Path, stderr: int, **environ: str
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Where it answers, and the process, which ends whatever happens. Without a buffer, and by a
    pipe that keeps writes apart: the greeting is one, for no line of the log to fall into it."""
    settings = clean() | {"JOBRUNNER_SERVER__PORT": "0", "TERM": "xterm", "PYTHONUNBUFFERED": "1"}
    settings |= environ
    settings.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "jobrunner", "serve"]
    reader, writer = os.pipe2(os.O_DIRECT)
    process = subprocess.Popen(command, cwd=folder, env=settings, stdout=writer, stderr=stderr)
    os.close(writer)
    try:
        said = os.read(reader, SMALL)
        assert said.startswith(GREETING), said
        assert said.endswith(b" to sign in with\n"), said
        yield said.removeprefix(GREETING).decode().partition("\n")[0], process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(reader)


def submit(url: str, folder: Path, name: str) -> int:
    token = (folder / "data" / "admin.token").read_text().strip()
    body = json.dumps({"workflow": "hello", "params": {"name": name}}).encode()
    head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"{url}/jobs", body, head)
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        return int(answer.status)


def test_a_terminal_shows_words(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    shown = b""
    with serve(tmp_path, slave):
        os.close(slave)
        while b"service.ready" not in shown:
            shown += os.read(master, SMALL)
    os.close(master)
    ready = next(line for line in shown.decode().splitlines() if "service.ready" in line)
    assert "\x1b[2minfo" in ready
    assert "url=http://127.0.0.1:" in ready
    assert "{" not in ready


def test_a_file_has_all_of_it_as_json_and_the_terminal_none(tmp_path: Path) -> None:
    with (
        (tmp_path / "stderr").open("wb") as stderr,
        serve(tmp_path, stderr.fileno(), JOBRUNNER_LOG__FILE="log/jobs.log") as (url, _),
    ):
        assert submit(url, tmp_path, "a") == 201
    told = (tmp_path / "log" / "jobs.log").read_text().splitlines()
    events = [json.loads(line)["event"] for line in told]
    assert {"service.ready", "job.created", "service.stopping", "service.stopped"} <= {*events}
    assert events[-1] == "service.stopped"
    assert (tmp_path / "stderr").read_bytes() == b""


def test_who_does_not_read_the_log_stops_no_work(tmp_path: Path) -> None:
    """Its pipe is full long before the last job. Written by the loop itself, a line would hold up
    everything for ever."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, SMALL)
    with serve(tmp_path, writer) as (url, process):
        os.close(writer)
        for number in range(60):
            assert submit(url, tmp_path, f"{number:0200d}") == 201
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    os.close(reader)


def test_a_log_that_cannot_be_written_is_seen_from_outside(tmp_path: Path) -> None:
    """Its folder is gone, and a file is where it was."""
    folder = tmp_path / "log"
    with (
        (tmp_path / "stderr").open("wb") as stderr,
        serve(tmp_path, stderr.fileno(), JOBRUNNER_LOG__FILE="log/jobs.log") as (url, _),
    ):
        assert "\njobrunner_log_faulty 0.0\n" in metrics(url)
        folder.rename(tmp_path / "gone")
        folder.write_text("")
        assert submit(url, tmp_path, "a") == 201
        until = time.monotonic() + PATIENCE_S
        while "\njobrunner_log_faulty 1.0\n" not in (told := metrics(url)):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert "\njobrunner_log_lost_lines_total 0.0\n" in told
    assert b"job.created" in (tmp_path / "stderr").read_bytes()


def metrics(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def test_last_words_go_wherever_the_log_does(tmp_path: Path) -> None:
    code = (
        "import os, sys; from jobrunner.watchdog import end_process;"
        "f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT);"
        "end_process(7, b'gone\\n', (f, 2))"
    )
    path = tmp_path / "jobs.log"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=clean(), capture_output=True, check=False
    )
    assert (ended.returncode, ended.stderr, path.read_bytes()) == (7, b"gone\n", b"gone\n")
