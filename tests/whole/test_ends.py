"""The process on its way out: what it says, to its clients and to its log, and that it goes."""

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import pytest

from tests.whole.failing import SYNCS, WRITES, failing_disk
from tests.whole.process import Place, Said, at_once, place, until

pytestmark = pytest.mark.anyio

TOGETHER = 40


def order(key: str = "") -> dict[str, Any]:
    named = {"idempotency_key": key} if key else {}
    return {"workflow": "trial", "params": {"does": "work"}, **named}


def submitting(home: Place, number: int) -> Callable[[], Any]:
    return lambda: home.try_to("POST", "/jobs", order(f"k-{number}"))


async def submitted_together(home: Place) -> list[Said]:
    return await at_once([submitting(home, number) for number in range(TOGETHER)])


def last_word(home: Place) -> dict[str, Any]:
    """The line of the log that says why the process is gone."""
    [line] = [*home.log("service.failed"), *home.log("service.cut")]
    assert line["level"] == "error"
    return line


def unlinked(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


@pytest.mark.parametrize("lose", [unlinked, replaced])
async def test_nothing_is_acknowledged_into_a_file_that_is_gone(
    service: Place, lose: Callable[[Path], None]
) -> None:
    """R1: everybody is answered, nobody by a success, and the process ends."""
    lose(service.database)
    said = await submitted_together(service)
    assert {(one.status, one.code) for one in said if one.status} <= {
        (503, "OUTCOME_UNKNOWN"),
        (503, "DRAINING"),
    }
    assert any(one.status for one in said)
    assert await service.ended() == 1
    assert "jobs.db" in last_word(service)["reason"]
    assert service.log("storage.lost")


async def test_a_file_that_is_gone_ends_a_service_that_is_at_rest(service: Place) -> None:
    service.database.unlink()
    assert await service.ended() == 1
    assert "is gone" in last_word(service)["reason"]


async def test_a_file_that_was_overwritten_fails_readiness_and_then_the_service(
    service: Place,
) -> None:
    """R18: with the reason, and without the lock in the hand of somebody who serves nothing."""
    size = service.database.stat().st_size
    with service.database.open("r+b") as file:
        file.write(b"\x11" * size)
    with Path(f"{service.database}-wal").open("r+b") as log:
        log.write(b"\x11" * 4096)
    said = Said(200)
    began = monotonic()
    while said.status == 200 and monotonic() - began < 120:
        said = await service.try_to("GET", "/readyz")
        await anyio.lowlevel.checkpoint()
    assert said.status in (0, 503)
    assert await service.ended() == 1
    assert last_word(service)["reason"]


@pytest.mark.parametrize(
    ("calls", "error"), [(WRITES, errno.EIO), (SYNCS, errno.EIO), (WRITES, errno.EDQUOT)]
)
async def test_everybody_is_answered_when_writes_fail(
    tmp_path: Path, calls: int, error: int
) -> None:
    """R18: that nobody knows is said, and not left to a connection that closes. A quota that is
    used up is a full disk: a plain no, and the service lives."""
    with failing_disk(tmp_path) as disk:
        async with place(tmp_path / "home", credits=10_000) as home:
            await home.start(*disk.before)
            disk.fail(calls, error, "jobs.db")
            said = await submitted_together(home)
            disk.mend()
            assert disk.failed > 0
            codes = {(one.status, one.body and one.body.get("error_code")) for one in said}
            if error == errno.EDQUOT:
                assert codes == {(503, "STORAGE_FULL")}
                assert (await home.post("/jobs", order())).status == 201
                assert await home.stop() == 0
                return
            assert (503, "OUTCOME_UNKNOWN") in codes
            assert codes <= {(503, "OUTCOME_UNKNOWN"), (503, "DRAINING")}
            assert await home.ended() == 1
            assert "I/O error" in last_word(home)["reason"]
            await home.start()
            assert {one.status for one in await submitted_together(home)} <= {200, 201}
            assert home.faults() == ()


async def test_a_second_request_to_stop_ends_the_process(home: Place, tmp_path: Path) -> None:
    """A stage that is deaf to the first one holds nobody up who insists."""
    home.configure(home.config.replace("drain_seconds = 2", "drain_seconds = 600"))
    await home.start()
    deaf = {"does": "hang", "gate": str(tmp_path / "never")}
    job = await home.submit("trial", params=deaf)
    await home.at(job["id"], "working")
    home.signal(signal.SIGTERM)
    await until(lambda: bool(home.log("service.stopping")))
    home.signal(signal.SIGTERM)
    assert await home.ended() == 128 + signal.SIGTERM
    assert "a second time" in last_word(home)["reason"]


@pytest.mark.long
async def test_a_process_that_stood_still_goes_on(service: Place) -> None:
    """Stopped for longer than the watchdog waits for a loop that hangs."""
    for _ in range(3):
        service.signal(signal.SIGSTOP)
        await passed(12)
        os.kill(service.pid, signal.SIGCONT)
        await served_again(service)
    assert await service.stop() == 0


async def served_again(service: Place) -> None:
    """At first it finds that everybody has waited too long, and says so."""
    said = await service.post("/jobs", {"workflow": "howera"})
    while said.status == 503:
        assert said.code == "OVERLOADED"
        said = await service.post("/jobs", {"workflow": "howera"})
    assert said.status == 201


async def passed(seconds: float) -> None:
    over_at = monotonic() + seconds
    await until(lambda: monotonic() > over_at)
