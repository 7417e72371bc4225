"""The log: one JSON object a line, cheap, complete, and without secrets."""

import io
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from jobrunner.log import FLUSH_AT_BYTES, WITHHELD, Log, bridge
from jobrunner.ports import SystemClock

pytestmark = pytest.mark.anyio


class Stopped(SystemClock):
    def now(self) -> int:
        return 1_700_000_000_042


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_time_level_event_and_fields_in_this_order() -> None:
    stream = io.StringIO()
    Log(stream, Stopped())("job.created", job_id="j1", credits_cost=2, other=None)
    assert stream.getvalue() == (
        '{"ts":"2023-11-14T22:13:20.042Z","level":"info","event":"job.created",'
        '"job_id":"j1","credits_cost":2,"other":null}\n'
    )


def test_what_json_does_not_know_is_written_as_text() -> None:
    stream = io.StringIO()
    Log(stream)("odd", error=ValueError("x\ny"), place=object)
    assert lines(stream)[0]["error"] == "x\ny"


@pytest.mark.parametrize("name", sorted(WITHHELD))
def test_fields_of_these_names_are_withheld(name: str) -> None:
    stream = io.StringIO()
    Log(stream)("door", **{name: "canary", "job_id": "j1"})
    assert "canary" not in stream.getvalue()
    assert lines(stream)[0][name] == "withheld"
    assert lines(stream)[0]["job_id"] == "j1"


async def test_inside_a_loop_lines_are_kept_and_then_written_together() -> None:
    stream = io.StringIO()
    log = Log(stream)
    for number in range(3):
        log("tick", number=number)
    assert stream.getvalue() == ""
    with anyio.fail_after(120):
        while not stream.getvalue():
            await anyio.sleep(0.01)
    assert [line["number"] for line in lines(stream)] == [0, 1, 2]
    log("tick", number=3)
    log.close()
    assert [line["number"] for line in lines(stream)] == [0, 1, 2, 3]


async def test_an_error_is_written_at_once_with_what_came_before() -> None:
    stream = io.StringIO()
    log = Log(stream)
    log("first")
    log("second", level="error")
    assert [line["event"] for line in lines(stream)] == ["first", "second"]


async def test_the_buffer_is_bounded() -> None:
    stream = io.StringIO()
    log = Log(stream)
    log("big", text="x" * FLUSH_AT_BYTES)
    assert len(lines(stream)) == 1


async def test_lines_of_other_threads_are_not_lost() -> None:
    stream = io.StringIO()
    log = Log(stream)

    def write() -> None:
        for number in range(200):
            log("from a thread", number=number)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    log("from the loop")
    for thread in threads:
        await anyio.to_thread.run_sync(thread.join)
    log.close()
    assert len(lines(stream)) == 801


def test_a_stream_that_is_gone_stops_nothing() -> None:
    stream = io.StringIO()
    log = Log(stream)
    stream.close()
    log("unheard")
    log.close()


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers = []
    yield io.StringIO()
    root.handlers = before
    root.setLevel(level)


def test_what_libraries_warn_about_becomes_lines_with_tracebacks(stream: io.StringIO) -> None:
    bridge(Log(stream))
    logging.getLogger("aiohttp.server").info("not worth a line")
    logging.getLogger("asyncio").warning("slow: %s", "task")
    try:
        raise ValueError("planted")
    except ValueError:
        logging.getLogger("aiohttp.server").exception("failed")
    first, second = lines(stream)
    assert (first["event"], first["level"], first["logger"], first["message"]) == (
        "library.message",
        "warning",
        "asyncio",
        "slow: task",
    )
    assert second["level"] == "error"
    assert "ValueError: planted" in second["traceback"]
