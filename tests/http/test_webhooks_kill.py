"""A service that is killed between the commit of a webhook's effect and its answer: the source
sends it again, and nothing happens twice."""

import sqlite3
from contextlib import closing
from pathlib import Path

import aiohttp
import anyio
import pytest

from tests.http.posting import KEY, VARIABLE, saying, secret, signed
from tests.whole.process import Place, Said, place, until

pytestmark = pytest.mark.anyio

PLUGIN = Path(__file__).parent / "listener"
HEARS = f"""
[webhooks.postman]
secrets_env = ["{VARIABLE}"]
"""


async def post(here: Place, webhook_id: str, key: str, output: int) -> Said:
    """Status 0 means that nobody answered."""
    body = saying(key, output)
    async with aiohttp.ClientSession() as session:
        try:
            async with session.post(
                f"{here.url}/webhooks/postman", headers=signed(webhook_id, body), data=body
            ) as answer:
                return Said(answer.status, await answer.json())
        except (aiohttp.ClientError, OSError):
            return Said(0)


async def parked(here: Place, job_id: str) -> None:
    with anyio.fail_after(120):
        while True:
            found = (await here.get(f"/jobs/{job_id}/attempts"))["attempts"]
            if found and found[-1]["status"] == "parked":
                return
            await anyio.sleep(0.02)


def remembered(here: Place, webhook_id: str) -> bool:
    """Whether its effect is on the disk."""
    with closing(sqlite3.connect(f"file:{here.database}?mode=ro", uri=True)) as db:
        found = db.execute("SELECT 1 FROM webhooks WHERE webhook_id = ?", (webhook_id,))
        return found.fetchone() is not None


async def test_killed_after_the_commit_and_before_anybody_has_read_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-P4: sent again, it has no second effect; nor has one that was kept for a job to come."""
    monkeypatch.setenv(VARIABLE, secret(KEY))
    diary = tmp_path / "diary"
    async with place(tmp_path / "place", more=HEARS, plugins=PLUGIN) as here:
        await here.start()
        params = {"keys": ["p-1"], "diary": str(diary), "timeout_s": 600}
        job_id = (await here.submit("listener", params=params))["id"]
        await parked(here, job_id)
        port = int(here.url.rpartition(":")[2])
        for webhook_id, key in (("w-1", "p-1"), ("w-2", "p-2")):
            async with await anyio.connect_tcp("127.0.0.1", port) as deaf:
                await deaf.send(request(webhook_id, saying(key, 1)))
                await until(lambda sought=webhook_id: remembered(here, sought))  # type: ignore[misc]
        await here.kill()
        await here.start()
        for webhook_id, key in (("w-1", "p-1"), ("w-2", "p-2")):
            said = await post(here, webhook_id, key, 2)
            assert said.body == {"applied": False, "reason": "replayed"}
        late = (await here.submit("listener", params=params | {"keys": ["p-2"]}))["id"]
        for one in (job_id, late):
            assert (await here.at(one, "done"))["result"] == {"heard": 1}
        await here.stop()
        assert here.faults() == ()


def request(webhook_id: str, body: bytes) -> bytes:
    lines = [f"{name}: {value}" for name, value in signed(webhook_id, body)]
    head = ["POST /webhooks/postman HTTP/1.1", "Host: localhost", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


async def test_killed_at_any_moment_around_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-P1 R-P4: whatever was answered before the death, each job is told once."""
    monkeypatch.setenv(VARIABLE, secret(KEY))
    diary = tmp_path / "diary"
    async with place(tmp_path / "place", more=HEARS, plugins=PLUGIN) as here:
        await here.start()
        jobs: list[str] = []
        for life in range(5):
            for number in range(4):
                params = {"keys": [f"p-{life}-{number}"], "diary": str(diary), "timeout_s": 600}
                jobs.append((await here.submit("listener", params=params))["id"])
                await parked(here, jobs[-1])
            answers: list[Said] = []

            async def send(life: int, number: int, answers: list[Said] = answers) -> None:
                answers.append(await post(here, f"w-{life}-{number}", f"p-{life}-{number}", number))

            async with anyio.create_task_group() as group:
                for number in range(4):
                    group.start_soon(send, life, number)
                await until(lambda seen=answers, most=life: len(seen) >= most % 4)  # type: ignore[misc]
                await here.kill()
            assert here.faults() == ()
            await here.start()
            for number in range(4):
                said = await post(here, f"w-{life}-{number}", f"p-{life}-{number}", 100 + number)
                assert said.status == 200, said
                assert said.body["applied"] or said.body["reason"] == "replayed", said
        for job_id in jobs:
            await here.at(job_id, "done")
        await here.stop()
        assert here.faults() == ()
    told: dict[str, set[str]] = {}
    for line in diary.read_text().splitlines():
        job_id, _, heard = line.split()
        told.setdefault(job_id, set()).add(heard)
    assert sorted(told) == sorted(jobs)
    assert all(len(values) == 1 for values in told.values()), "a job was told two things"
