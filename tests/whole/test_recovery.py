"""What a stop, a death, a deaf stage and a bug leave behind, and how the work goes on."""

import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.whole.process import Place, event, place, until

pytestmark = pytest.mark.anyio


def gated(home: Place, does: str = "wait", gate: str = "gate") -> dict[str, str]:
    return {
        "does": does,
        "gate": str(home.folder / gate),
        "diary": str(home.folder / "diary"),
    }


def open_gate(home: Place, gate: str = "gate") -> None:
    (home.folder / gate).touch()


def diary(home: Place) -> list[list[str]]:
    """A line for each execution: job, attempt, idempotency key."""
    file = home.folder / "diary"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


async def at_work(home: Place, job: Any, times: int = 1) -> None:
    """The stage itself has begun, as often as that."""
    await home.at(job["id"], "working")
    await until(lambda: len([row for row in diary(home) if row[0] == job["id"]]) >= times)


async def attempts(home: Place, job: Any) -> list[tuple[int, str, str]]:
    found = (await home.get(f"/jobs/{job['id']}/attempts"))["attempts"]
    return [(one["attempt"], one["status"], one["outcome"] or "") for one in found]


# ---------------------------------------------------------------- drain


async def test_a_drain_waits_for_what_is_nearly_done(tmp_path: Path) -> None:
    """R13: a stage that ends within the time is not interrupted; meanwhile nothing new comes in."""
    async with place(tmp_path, drain_s=600) as home:
        await home.start()
        job = await home.submit("trial", params=gated(home), idempotency_key="known")
        await at_work(home, job)
        home.signal(signal.SIGTERM)
        await until(lambda: bool(home.log("service.stopping")))
        again = {"workflow": "trial", "params": gated(home), "idempotency_key": "known"}
        assert (await home.ask("GET", "/readyz")).status == 503
        assert (await home.post("/jobs", {"workflow": "howera"})).code == "DRAINING"
        assert (await home.post("/jobs", again)).body["replayed"] is True
        open_gate(home)
        assert await home.ended() == 0
        assert home.faults() == ()
        await home.start()
        assert (await home.get(f"/jobs/{job['id']}"))["status"] == "done"
        assert await attempts(home, job) == [(1, "ended", "done")]


async def test_what_a_drain_interrupts_goes_on_at_the_next_start(tmp_path: Path) -> None:
    """R13: no attempt is spent, no retry, no edge is taken; the provider sees the same key."""
    async with place(tmp_path, drain_s=0.2) as home:
        await home.start()
        job = await home.submit("trial", params=gated(home))
        await at_work(home, job)
        assert await home.stop() == 0
        assert home.faults() == ()
        await home.start()
        await at_work(home, job, times=2)
        now = await home.get(f"/jobs/{job['id']}")
        assert (now["status"], now["retry_count"]) == ("working", 0)
        open_gate(home)
        await home.at(job["id"], "done")
        assert [move["to_status"] for move in await home.moves(job["id"])] == [
            "queued",
            "working",
            "done",
        ]
        assert await attempts(home, job) == [(1, "ended", "interrupted"), (2, "ended", "done")]
        assert len({row[2] for row in diary(home)}) == 1


@pytest.mark.long
async def test_a_deaf_stage_cannot_hold_up_a_stop_for_ever(tmp_path: Path) -> None:
    """R13: it refuses to be cancelled; the service ends all the same, and the job goes on later.
    The process that had to be ended is no death that anybody is suspected of."""
    async with place(tmp_path, drain_s=0.1) as home:
        await home.start()
        job = await home.submit("trial", params=gated(home, "hang"))
        await at_work(home, job)
        assert await home.stop() == 1
        assert "would not stop" in home.said()
        assert home.faults() == ()
        await home.start()
        open_gate(home)
        await home.at(job["id"], "done")
        assert await attempts(home, job) == [(1, "ended", "interrupted"), (2, "ended", "done")]
        assert not home.log("service.recovered")


async def test_an_end_that_was_asked_for_is_no_death(tmp_path: Path) -> None:
    """R15: however often an operator insists, and whatever runs then alone: nobody did it."""
    async with place(tmp_path, drain_s=600) as home:
        await home.start()
        job = await home.submit("trial", params=gated(home, "hang"))
        for time in range(1, 5):
            await at_work(home, job, time)
            home.signal(signal.SIGTERM)
            while (await home.ask("GET", "/readyz")).status != 503:
                await anyio.sleep(0.01)
            home.signal(signal.SIGTERM)
            assert await home.ended() == 128 + signal.SIGTERM
            await home.start()
            await until(lambda: bool(home.log("service.recovered")))
            assert [line["one_at_a_time"] for line in home.log("service.recovered")] == [False]
        open_gate(home)
        await home.at(job["id"], "done")
        assert [outcome for *_, outcome in await attempts(home, job)][:4] == ["interrupted"] * 4


# ---------------------------------------------------------------- death


async def test_what_died_with_the_process_is_taken_up_again(service: Place) -> None:
    """R1 R7: the attempt is interrupted, the next one follows in place, no retry is spent."""
    job = await service.submit("trial", params=gated(service))
    await at_work(service, job)
    await service.kill()
    assert service.faults() == ()
    await service.start()
    await until(lambda: bool(service.log("service.recovered")))
    assert service.log("service.recovered")[0]["attempts"] == 1
    await at_work(service, job, times=2)
    assert await attempts(service, job) == [(1, "ended", "interrupted"), (2, "running", "")]
    now = await service.get(f"/jobs/{job['id']}")
    assert (now["status"], now["attempt"], now["retry_count"]) == ("working", 2, 0)
    open_gate(service)
    await service.at(job["id"], "done")
    assert len(await service.moves(job["id"])) == 3
    assert len({row[2] for row in diary(service)}) == 1


async def test_waiting_jobs_and_outside_work_are_untouched_by_a_death(service: Place) -> None:
    """R2: a claim survives the service; so do its run, its lease and a timer not yet due."""
    job = await service.submit("cutx", job_type="static_ad", params={"product_id": "shoe"})
    claimed = await service.post(f"/jobs/{job['id']}/claim", who="worker")
    before = await service.get(f"/jobs/{job['id']}")
    later = await service.submit("hello", run_at="2100-01-01T00:00:00Z")
    await service.kill()
    await service.start()
    assert not service.log("service.recovered")
    assert await service.get(f"/jobs/{job['id']}") == before
    second = await service.post(f"/jobs/{job['id']}/claim", who="worker")
    assert (second.status, second.code) == (409, "JOB_ALREADY_RUNNING")
    done = {"to": "completed", "result": {"text": "done"}, "run_id": claimed.body["run_id"]}
    assert (await service.post(f"/jobs/{job['id']}/transitions", done, "worker")).status == 200
    assert (await service.get(f"/jobs/{later['id']}"))["status"] == "queued"


async def test_a_job_that_kills_the_service_is_stopped(service: Place) -> None:
    """R15: three deaths with it alone at work, and it is the job that ends; the others finish."""
    poison = await service.submit("trial", params={"does": "die", **diary_only(service)})
    for _ in range(2):
        assert await service.ended() == -signal.SIGKILL
        service.spawn()
    assert await service.ended() == -signal.SIGKILL
    await service.start()
    ended = await service.get(f"/jobs/{poison['id']}")
    assert (ended["status"], ended["failure_code"]) == ("failed", "STAGE_KILLED_SERVICE")
    assert len(diary(service)) == 3
    assert service.faults() == ()


async def test_who_stands_in_line_behind_a_dead_suspect_is_served(tmp_path: Path) -> None:
    """R6 R15: the one slot is the poison's until it has ended; then the next in line has it,
    without anybody having to come by."""
    async with place(tmp_path, active=1) as home:
        await home.start()
        first = await home.submit("trial", params=gated(home))
        await at_work(home, first)
        poison = await home.submit("trial", params={"does": "die"})
        behind = await home.submit("trial")
        open_gate(home)
        for _ in range(2):
            assert await home.ended() == -signal.SIGKILL
            home.spawn()
        assert await home.ended() == -signal.SIGKILL
        await home.start()
        await home.at(behind["id"], "done")
        assert (await home.get(f"/jobs/{poison['id']}"))["failure_code"] == "STAGE_KILLED_SERVICE"


async def test_suspects_run_one_at_a_time(service: Place) -> None:
    """R15: the innocent finish although one among them kills the service again and again."""
    innocent = [await service.submit("trial", params=gated(service)) for _ in range(3)]
    for job in innocent:
        await at_work(service, job)
    await service.submit("trial", params={"does": "die"})
    assert await service.ended() == -signal.SIGKILL
    open_gate(service)
    for _ in range(6):
        service.spawn()
        await until(lambda: service.dead() or "jobrunner answers on" in service.said())
        if not await survives(service):
            continue
        for job in innocent:
            await service.at(job["id"], "done")
        return
    raise AssertionError("the service never came to rest")


async def survives(home: Place) -> bool:
    """Until every suspect has ended, or the service has."""

    def settled() -> bool:
        return home.dead() or home.log("job.failed") != []

    await until(settled)
    if home.dead():
        return False
    await home.ready()
    return True


def diary_only(home: Place) -> dict[str, str]:
    return {"diary": str(home.folder / "diary")}


# ---------------------------------------------------------------- bugs


async def test_a_bug_in_a_stage_costs_its_own_job(service: Place) -> None:
    """R16: the traceback stays with the attempt, for admins; a crash is not tried again."""
    job = await service.submit("trial", params={"does": "crash"})
    ended = await service.at(job["id"], "failed")
    assert ended["failure_code"] == "STAGE_CRASHED"
    found = (await service.get(f"/jobs/{job['id']}/attempts"))["attempts"]
    assert len(found) == 1
    assert "ZeroDivisionError" in found[0]["failure_message"]
    assert "a bug in a plugin" not in found[0]["failure_message"], "its words may be a secret"
    assert any("a bug in a plugin" in line for line in found[0]["log"])
    assert (await service.submit("hello"))["id"]


async def test_a_job_whose_guard_has_a_bug_is_put_aside(service: Place) -> None:
    """R6 R16: at once, with the function named; nobody else notices, and no death changes it. A
    person releases it, and it ends as it should."""
    trap = service.folder / "trap"
    trap.touch()
    job = await service.submit("trial", params={"trap": str(trap)})
    await until(lambda: bool(service.log("job.put_aside")))
    assert service.log("actor.crashed") == []
    aside = await service.get(f"/jobs/{job['id']}")
    assert aside["status"] == "queued"
    explained = await service.get(f"/jobs/{job['id']}/explain")
    assert "trapped" in explained["stuck"]
    others = [await service.submit("trial") for _ in range(3)]
    for other in others:
        await service.at(other["id"], "done")
    await service.kill()
    await service.start()
    assert "trapped" in (await service.get(f"/jobs/{job['id']}/explain"))["stuck"]
    trap.unlink()
    assert (await service.post(f"/admin/jobs/{job['id']}/release")).status == 200
    await service.at(job["id"], "done")
    assert service.faults() == ()


async def test_retries_survive_a_death_and_happen_once(service: Place) -> None:
    """R6 R19: three tries in all, whichever life they fall into."""
    job = await service.submit("trial", params={"does": "retry", **diary_only(service)})
    ended = await service.at(job["id"], "failed")
    assert (ended["failure_code"], ended["retry_count"]) == ("NOT_NOW", 3)
    assert len(diary(service)) == 3
    await service.kill()
    await service.start()
    assert await service.get(f"/jobs/{job['id']}") == ended
    assert len(diary(service)) == 3


async def test_final_is_final_after_every_kind_of_stop(service: Place) -> None:
    """R5: late words of all kinds, before and after a death, leave a cancelled job as it is."""
    job = await service.submit("howera")
    for number, status in enumerate(("UPLOADED", "AUDIO_EXTRACTING")):
        assert (await service.event(job["id"], status, number)).status == 204
    assert (await service.post(f"/jobs/{job['id']}/cancel")).status == 200
    final = await service.get(f"/jobs/{job['id']}")
    path = f"/jobs/{job['id']}"
    for _ in range(2):
        late = event("late", "AUDIO_READY", 9)
        said = await service.post(f"/internal{path}/status", late)
        assert (said.status, said.code) == (409, "TERMINAL_STATE")
        for attempt in (f"{path}/cancel", f"{path}/run"):
            assert (await service.post(attempt)).code == "TERMINAL_STATE"
        assert await service.get(path) == final
        await service.kill()
        await service.start()
