"""The program that minds the service hears that it is ready, that it is well while its writer
answers, and that it stops."""

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

import anyio
import pytest

from jobrunner.errors import OutcomeUnknown, StorageFull
from jobrunner.minding import keep_telling, stopping
from jobrunner.ports import SystemClock, SystemMinder
from jobrunner.store.hop import open_handle
from jobrunner.store.store import Store
from tests.http.uploading import until
from tests.served import serving
from tests.store.factory import opened

pytestmark = pytest.mark.anyio

PATIENCE_S = 120


class Heard:
    """A minder that wants to hear often, and remembers."""

    every_s = 0.001

    def __init__(self) -> None:
        self.words: list[dict[str, str]] = []

    def say(self, **words: str) -> bool:
        self.words.append(words)
        return True


class Way:
    """To the writer's handle; while it is shut, nothing comes back."""

    def __init__(self, handle: Callable[..., Any]) -> None:
        self._handle = handle
        self.open, self.waits = anyio.Event(), anyio.Event()
        self.open.set()

    async def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if not self.open.is_set():
            self.waits.set()
            await self.open.wait()
        return await self._handle(function, *arguments)


@asynccontextmanager
async def stored(folder: Path) -> AsyncIterator[tuple[Store, Way]]:
    (folder / "jobs.db").touch()
    handle = await open_handle(str(folder / "jobs.db"))
    try:
        way = Way(handle)
        async with opened(folder, writer_hop=way) as store:
            yield store, way
    finally:
        await handle.close()


Ear = SimpleQueue[dict[str, str]]


@contextmanager
def listening(address: str) -> Iterator[Ear]:
    """All that is said there, heard at once: a socket holds ten datagrams, and a test that is kept
    from reading for a second would make a service say the rest to nobody."""
    said: Ear = SimpleQueue()

    def hear() -> None:
        while data := ear.recv(4096):
            said.put(dict(line.split("=", 1) for line in data.decode().split("\n")))

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(address)
        thread = Thread(target=hear)
        thread.start()
        try:
            yield said
        finally:
            ear.shutdown(socket.SHUT_RD)
            thread.join()


def words(ear: Ear) -> dict[str, str]:
    return ear.get(timeout=PATIENCE_S)


async def test_it_is_well_while_the_writer_answers_and_no_longer(tmp_path: Path) -> None:
    minder = Heard()
    async with stored(tmp_path) as (store, way), anyio.create_task_group() as group:
        group.start_soon(keep_telling, minder, SystemClock(), store)
        await until(lambda: len(minder.words) > 2)
        way.open = anyio.Event()
        await way.waits.wait()
        told = len(minder.words)
        await anyio.wait_all_tasks_blocked()
        assert len(minder.words) == told
        way.open.set()
        await until(lambda: len(minder.words) > told)
        group.cancel_scope.cancel()
    assert {tuple(one.items()) for one in minder.words} == {(("WATCHDOG", "1"),)}


class Failing:
    """A writer that answers what it was told to."""

    def __init__(self, *answers: Exception | None) -> None:
        self._answers = iter(answers)

    async def mark_alive(self) -> None:
        if (answer := next(self._answers)) is not None:
            raise answer


async def test_a_full_disk_is_an_answer_and_an_unknown_outcome_is_none() -> None:
    """A new start makes no room; what nobody knows only a new start can tell."""
    minder = Heard()
    writer = Failing(None, StorageFull("full"), None, OutcomeUnknown("silent"), None)
    with pytest.raises(OutcomeUnknown):
        await keep_telling(minder, SystemClock(), writer)
    assert len(minder.words) == 3


async def test_who_wants_no_sign_of_life_gets_none() -> None:
    minder = SystemMinder({})
    await keep_telling(minder, SystemClock(), Failing())
    assert minder.say(READY="1")


def test_only_our_own_watchdog_counts(tmp_path: Path) -> None:
    """Variables of the program that started us may be of somebody further up."""
    own = {"NOTIFY_SOCKET": str(tmp_path / "none"), "WATCHDOG_USEC": "30000000"}
    assert SystemMinder(own).every_s == 10
    assert SystemMinder(own | {"WATCHDOG_PID": str(os.getpid())}).every_s == 10
    assert SystemMinder(own | {"WATCHDOG_PID": "1"}).every_s == 0
    assert SystemMinder(own | {"WATCHDOG_USEC": "soon"}).every_s == 0
    assert SystemMinder({"WATCHDOG_USEC": "30000000"}).every_s == 0


def test_nobody_there_costs_nothing(tmp_path: Path) -> None:
    assert not SystemMinder({"NOTIFY_SOCKET": str(tmp_path / "none")}).say(READY="1")


@pytest.mark.parametrize("kind", ["a file", "abstract"])
def test_what_is_said_is_one_datagram(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "notify")
    named, bound = (path, path) if kind == "a file" else (f"@{path}", f"\0{path}")
    with listening(bound) as ear:
        stopping(SystemMinder({"NOTIFY_SOCKET": named}), 50)
        assert words(ear) == {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "50000000"}


def test_a_service_says_how_it_is(tmp_path: Path) -> None:
    """Ready when it answers, well for as long as it runs, and that it stops before it does."""
    path = tmp_path / "notify"
    limits = {"WATCHDOG_USEC": "300000", "JOBRUNNER_SERVER__DRAIN_SECONDS": "1"}
    with listening(str(path)) as ear, serving(tmp_path, NOTIFY_SOCKET=str(path), **limits) as it:
        heard = [words(ear)]
        while "READY" not in heard[-1]:
            heard.append(words(ear))
        assert it.url in heard[-1]["STATUS"]
        assert [words(ear) for _ in range(3)] == [{"WATCHDOG": "1"}] * 3
        assert it.stop() == 0
        heard = [words(ear)]
        while "STOPPING" not in heard[-1]:
            heard.append(words(ear))
        assert heard[-1] == {"STOPPING": "1", "EXTEND_TIMEOUT_USEC": "21000000"}
    assert not [line for line in it.log() if line["event"] == "minder.deaf"]


def test_a_start_that_cannot_be_told_is_logged(tmp_path: Path) -> None:
    with serving(tmp_path, NOTIFY_SOCKET=str(tmp_path / "none")) as it:
        assert it.stop() == 0
        assert [line for line in it.log() if line["event"] == "minder.deaf"]
