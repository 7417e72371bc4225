"""Every way out of the process: a reason, a limit, a last line."""

import asyncio
import json
import signal
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest

from jobrunner.actors.tasks import Crew
from jobrunner.core.job import Actor
from jobrunner.core.messages import Beat
from jobrunner.ending import Ending
from jobrunner.errors import Misconfigured, OutcomeUnknown, StorageError
from jobrunner.log import Log
from jobrunner.ports import SystemClock
from jobrunner.watchdog import SystemWatchdog
from tests.whole.living import living

pytestmark = pytest.mark.anyio

WORKER = Actor("worker", "workflow")


class Dogs:
    """Watchdogs that bark when the test says so."""

    def __init__(self) -> None:
        self.barks: list[tuple[float, Callable[[], None]]] = []
        self.ticks = 0

    def watchdog(self, silence_s: float, on_silence: Callable[[], None]) -> "Dogs":
        self.barks.append((silence_s, on_silence))
        return self

    def tick(self) -> None:
        self.ticks += 1


class Process:
    """What would be ended, and with which words."""

    def __init__(self) -> None:
        self.dogs, self.ends = Dogs(), list[tuple[int, list[dict[str, Any]]]]()
        self.text = StringIO()
        log, clock = Log(self.text), SystemClock()
        self.ending = Ending(log, self.dogs, clock, self._end)  # type: ignore[arg-type]

    def _end(self, code: int, words: bytes) -> None:
        self.ends.append((code, [json.loads(line) for line in words.splitlines()]))


async def test_the_first_reason_counts_and_has_a_limit() -> None:
    process = Process()
    process.ending.begin("the disk is gone", 20)
    process.ending.begin("something that followed from it", 50)
    [(limit_s, bark)] = process.dogs.barks
    assert limit_s == 20
    bark()
    [(code, lines)] = process.ends
    assert code == 1
    assert [line["event"] for line in lines] == ["service.stopping", "service.cut"]
    assert "the disk is gone" in lines[-1]["reason"]
    assert lines[-1]["level"] == "error"


async def test_a_loop_that_hangs_is_ended_with_the_place_where_it_does() -> None:
    process = Process()
    async with anyio.create_task_group() as group:
        group.start_soon(process.ending.watch)
        await anyio.wait_all_tasks_blocked()
        assert process.dogs.ticks == 1
        group.cancel_scope.cancel()
    [(_, bark)] = process.dogs.barks
    bark()
    [(code, [line])] = process.ends
    assert code == 70
    assert line["event"] == "service.cut"
    assert any("test_a_loop_that_hangs" in frame for frame in line["stack"])


async def test_the_second_request_to_stop_is_an_order() -> None:
    process = Process()
    sent, stops = anyio.create_memory_object_stream[signal.Signals](2)
    async with sent, stops, anyio.create_task_group() as group:
        group.start_soon(process.ending.listen, stops, 50)
        await sent.send(signal.SIGTERM)
        await process.ending.asked.wait()
        assert process.ends == []
        await sent.send(signal.SIGTERM)
    [(code, lines)] = process.ends
    assert code == 128 + signal.SIGTERM
    assert "a second time" in lines[-1]["reason"]


async def test_what_ends_the_process_is_a_line_of_the_log() -> None:
    for error in (Misconfigured("no such folder"), ZeroDivisionError("a bug")):
        process = Process()
        with pytest.raises(type(error)), process.ending.told():
            raise error
        line = json.loads(process.text.getvalue())
        assert (line["event"], line["level"]) == ("service.failed", "error")
        assert line["reason"].endswith(str(error))
        assert bool(line["traceback"]) == isinstance(error, ZeroDivisionError)


async def test_a_watchdog_that_slept_too_long_itself_asks_again() -> None:
    """A stopped process is no loop that hangs."""
    dog = SystemWatchdog(1000, lambda: None)
    try:
        dog._seen = monotonic() - 2000
        assert not dog._is_silent(late_s=2000)
        assert not dog._is_silent(late_s=0), "the loop has had no time yet"
        dog._seen = monotonic() - 2000
        assert dog._is_silent(late_s=0)
    finally:
        dog.close()


async def test_no_task_of_a_crew_ends_the_others() -> None:
    told, lost = list[tuple[str, dict[str, Any]]](), list[OutcomeUnknown]()
    errors = [ZeroDivisionError("a bug"), StorageError("a read"), OutcomeUnknown("a write")]

    async def fails(error: Exception) -> None:
        raise error

    def say(event: str, level: str = "info", **fields: Any) -> None:
        told.append((event, fields))

    crew = Crew(SystemClock(), say, lost.append)
    for error in errors:
        crew.start_soon(fails, error)
    await crew.gone()
    assert sorted(event for event, _ in told) == ["service.fault", "storage.fault"]
    fault = dict(told)["service.fault"]
    assert "fails" in fault["task"]
    assert fault["error"] == "ZeroDivisionError"
    assert "in fails" in fault["traceback"]
    assert lost == errors[2:]


async def test_a_caller_that_is_cancelled_leaves_the_turn_to_the_next(tmp_path: Path) -> None:
    """While its letter is dealt with, and while it waits; the others are answered as ever."""
    async with living(tmp_path) as here:
        job = await here.ada.submit("image-generation", params={"prompt": "a quiet harbour"})
        facade, read = here.service.facade, anyio.Event()
        actor = facade.supervisor._actor(job["id"])
        actor.forget()

        async def stands_still() -> Any:
            read.set()
            await anyio.sleep_forever()

        actor._read = stands_still  # type: ignore[method-assign]
        asked = [asyncio.ensure_future(facade.ask(job["id"], Beat(WORKER))) for _ in range(4)]
        await read.wait()
        await anyio.wait_all_tasks_blocked()
        del actor._read
        asked[2].cancel()
        asked[0].cancel()
        said = await asyncio.gather(*asked, return_exceptions=True)
        cancelled = [isinstance(one, asyncio.CancelledError) for one in said]
        assert cancelled == [True, False, True, False]
        assert facade.stats()["letters"] == facade.stats()["actors"] == 0


async def test_no_error_that_leaves_the_door_is_its_own_cause(tmp_path: Path) -> None:
    """Whoever walks along the causes would never come to an end, and neither would the service."""
    left, open_for_all = list[BaseException](), anyio.Event()

    async def served() -> None:
        try:
            async with living(tmp_path):
                open_for_all.set()
                await anyio.sleep_forever()
        except BaseException as error:
            left.append(error)
            raise

    async with anyio.create_task_group() as group:
        group.start_soon(served)
        await open_for_all.wait()
        group.cancel_scope.cancel()
    seen, error = list[BaseException](), left[0].__context__
    while error is not None:
        assert not any(error is one for one in seen), "round in a circle"
        seen.append(error)
        error = error.__context__
