"""Where lines go: a file that is renamed, a disk that is full, a reader who does not read."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jobrunner import preflight
from jobrunner.config.settings import Config, LogSection
from jobrunner.errors import Misconfigured
from jobrunner.log import Log, open_log
from jobrunner.ports import ErrorOutput, LineThread, RotatedFile
from jobrunner.ports.lines import BACKLOG_MAX
from tests.served import clean

PIPE_HOLDS = 1024 * 1024


def lines(*paths: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def numbers(*paths: Path) -> list[int]:
    return [line["number"] for line in lines(*paths) if "number" in line]


class Nowhere:
    """Takes what the file does not, and keeps it."""

    descriptors = ()

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> str:
        self.data += data
        return ""


def in_file(path: Path, max_bytes: int = 0, keep: int = 1) -> tuple[Log, Nowhere]:
    other = Nowhere()
    return Log(lines=LineThread(RotatedFile(str(path), max_bytes, keep, other))), other


def test_a_full_file_is_put_aside_and_so_many_stay(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "jobs.log"
    log, _ = in_file(path, 400, 3)
    with closing(log):
        for number in range(40):
            log("tick", number=number)
    aside = [path.with_name(f"jobs.log.{number}") for number in (3, 2, 1)]
    assert sorted(path.parent.iterdir()) == sorted([path, *aside])
    assert all(0 < one.stat().st_size <= 400 for one in (path, *aside))
    kept = numbers(*aside, path)
    assert kept == list(range(kept[0], 40))
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_limit_it_grows(tmp_path: Path) -> None:
    log, _ = in_file(tmp_path / "jobs.log")
    with closing(log):
        for number in range(40):
            log("tick", number=number)
    assert numbers(tmp_path / "jobs.log") == list(range(40))


def test_a_file_that_somebody_moved_is_made_anew(tmp_path: Path) -> None:
    """Nobody has to send a signal, and the last words go to the new one."""
    path, moved = tmp_path / "jobs.log", tmp_path / "moved"
    log, _ = in_file(path)
    with closing(log):
        log("tick", number=1)
        path.rename(moved)
        log("tick", number=2)
        os.write(log.descriptors[0], log.last("service.cut", number=3))
    assert (numbers(moved), numbers(path)) == ([1], [2, 3])


def test_a_file_that_cannot_be_written_stops_nothing_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "there" / "jobs.log"
    log, other = in_file(path)
    with closing(log):
        log("tick", number=1)
        path.parent.rename(tmp_path / "gone")
        path.parent.write_text("a file where the folder was")
        log("tick", number=2)
        log("tick", number=3)
        elsewhere = [json.loads(line) for line in other.data.splitlines()]
        path.parent.unlink()
        log("tick", number=4)
    assert [line["event"] for line in elsewhere] == ["tick", "log.fault", "tick"]
    assert str(path) in elsewhere[1]["detail"]
    assert elsewhere[1]["lost"] == 0
    assert numbers(path) == [4]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_full_disk_stops_nothing(tmp_path: Path) -> None:
    """Here even what is to be written instead finds no room: it is counted."""
    path = tmp_path / "jobs.log"
    full = os.open("/dev/full", os.O_WRONLY)
    thread = LineThread(RotatedFile(str(path), 0, 1, ErrorOutput(full)))
    os.dup2(full, thread.descriptors[0])
    path.unlink()
    path.symlink_to("/dev/full")
    log = Log(lines=thread)
    log("tick", number=1)
    log("tick", number=2)
    path.unlink()
    log("tick", number=3)
    log("tick", number=4)
    log.close()
    os.close(full)
    told = [line for line in lines(path) if line["event"] == "log.fault"]
    assert numbers(path) == [3, 4]
    assert max(line["lost"] for line in told) >= 2


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        os.close(end)


def drained(reader: int, until: bytes) -> bytes:
    """Up to the end of that line: a writer in the middle of one would go on to write where the
    number of the closed pipe is given anew."""
    data = b""
    while until not in data or not data.endswith(b"\n"):
        data += os.read(reader, PIPE_HOLDS)
    return data


def test_a_reader_who_does_not_read_holds_up_nobody(pipe: tuple[int, int]) -> None:
    """Each of these would wait for ever, were it written by whoever announces it."""
    reader, writer = pipe
    log = Log(lines=LineThread(ErrorOutput(writer)))
    for number in range(40):
        log("tick", level="error", number=number, text="x" * 8192)
    found = drained(reader, b'"number":39')
    assert [json.loads(line)["number"] for line in found.splitlines()] == list(range(40))


def test_a_pipe_that_others_made_impatient_loses_nothing(pipe: tuple[int, int]) -> None:
    """Whoever shares it may have set it so that a write to a full one fails."""
    reader, writer = pipe
    os.set_blocking(writer, False)
    log = Log(lines=LineThread(ErrorOutput(writer)))
    for number in range(40):
        log("tick", number=number, text="x" * 8192)
    found = drained(reader, b'"number":39')
    assert [json.loads(line)["number"] for line in found.splitlines()] == list(range(40))


def test_what_is_kept_for_him_is_bounded_and_what_is_lost_is_told(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    log = Log(lines=LineThread(ErrorOutput(writer)))
    count = 2 * BACKLOG_MAX // 65536
    for number in range(count):
        log("tick", number=number, text="x" * 65536)
    read: list[bytes] = []
    reading = threading.Thread(target=lambda: read.append(drained(reader, b'"number":-1')))
    reading.start()
    log.close()
    log("tick", number=-1)
    reading.join()
    told = [json.loads(line) for line in read[0].splitlines()]
    lost = max(line["lost"] for line in told if line["event"] == "log.fault")
    ticks = [line["number"] for line in told if line["event"] == "tick"]
    assert 0 < count + 1 - len(ticks) <= lost
    assert ticks == [*range(len(ticks) - 1), -1]


def test_last_words_have_what_nobody_wrote_yet(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    log = Log(lines=LineThread(ErrorOutput(writer)))
    log("stuck", level="error", text="x" * PIPE_HOLDS)
    log("waits", level="error")
    words = [json.loads(line)["event"] for line in log.last("service.cut").splitlines()]
    assert words[-2:] == ["waits", "service.cut"]
    drained(reader, b'"event":"stuck"')


def test_an_error_that_was_told_outlives_a_kill(tmp_path: Path) -> None:
    """Whoever announces it has gone on only when it was written."""
    path = tmp_path / "jobs.log"
    code = (
        "import os, sys; from jobrunner.config.settings import LogSection;"
        "from jobrunner.log import open_log;"
        "log = open_log(LogSection(file=sys.argv[1]), {});"
        "log('tick', number=1); log('tick', level='error', number=2);"
        "os.kill(os.getpid(), 9)"
    )
    for _ in range(5):
        subprocess.run([sys.executable, "-c", code, str(path)], env=clean(), check=False)
    assert numbers(path) == [1, 2] * 5


def test_a_check_of_the_settings_says_so_before_a_start(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    config = Config(log=LogSection(file=str(tmp_path / "plain" / "jobs.log")))
    [fault] = [one for one in preflight.folders(config) if one.startswith("log.file")]
    assert "plain is no folder" in fault


def test_a_file_that_cannot_be_had_is_refused_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    for path in (tmp_path, tmp_path / "plain" / "jobs.log"):
        with pytest.raises(Misconfigured, match=r"log\.file = .*name a file in a folder"):
            open_log(LogSection(file=str(path)), {})
