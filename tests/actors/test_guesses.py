"""Most submissions are decided without a question; whatever a guess gets wrong is asked about."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from jobrunner_asset_pattern import definition as asset_pattern
from jobrunner_cutx import definition as cutx
from jobrunner_image_generation import definition as image_generation
from msgspec.structs import replace

from jobrunner.actors.features import guesses
from jobrunner.actors.features.guesses import Guesses, as_guessed
from jobrunner.config.settings import CreditsSection
from jobrunner.core.decision import Clash, KeyRow
from jobrunner.core.declaration.workflow import Call, Guard, Quota
from jobrunner.core.features.asserted import is_asserted
from jobrunner.core.job import Actor
from jobrunner.core.messages import Singleton, Submit
from jobrunner.core.questions import DoorFacts, DoorQuestion
from jobrunner.errors import Refused
from jobrunner.store.reader import StoreReader
from jobrunner.store.writer import StoreWriter
from tests.driving import varied
from tests.http.serving import House, opened
from tests.store.factory import birth, job

pytestmark = pytest.mark.anyio
SUBMIT = Submit(Actor("ada", "user"), "cutx", "copy", {}, "job")


class Traffic:
    """Counts the questions at the door, and the units that a commit refused."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked = self.refused = 0
        door, commit = StoreReader.door, StoreWriter.commit

        async def counted(reader: StoreReader, question: DoorQuestion) -> DoorFacts:
            self.asked += 1
            return await door(reader, question)

        async def committed(writer: StoreWriter, *parts: Any) -> Any:
            outcome = await commit(writer, *parts)
            self.refused += isinstance(outcome, Clash)
            return outcome

        patch.setattr(StoreReader, "door", counted)
        patch.setattr(StoreWriter, "commit", committed)


@asynccontextmanager
async def counting(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[tuple[House, Traffic]]:
    traffic = Traffic(patch)
    async with opened(folder, credits=CreditsSection(initial=0)) as house:
        traffic.asked = traffic.refused = 0  # a start writes what may be there already
        yield house, traffic


async def made(house: House, count: int, prefix: str, status: int) -> list[str]:
    """Submit jobs under so many keys, and say which they are."""
    jobs = []
    for number in range(count):
        key = f"{prefix}-{number}"
        said = await house.ada.post("/jobs", {"workflow": "asset-pattern", "idempotency_key": key})
        assert (said.status, said.json["replayed"]) == (status, status == 200)
        jobs.append(said.json["id"])
    return jobs


async def test_a_new_key_is_not_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counting(tmp_path, monkeypatch) as (house, traffic):
        await made(house, 5, "new", 201)
        assert (traffic.asked, traffic.refused) == (0, 0)


async def test_a_key_of_lately_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeats that were expected cost nobody a guess."""
    async with counting(tmp_path, monkeypatch) as (house, traffic):
        first = await made(house, 5, "key", 201)
        assert await made(house, 5, "key", 200) == first
        assert (traffic.asked, traffic.refused) == (5, 0)
        await made(house, 5, "new", 201)
        assert (traffic.asked, traffic.refused) == (5, 0)


async def test_many_old_keys_are_refused_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that began anew knows none of them; the first one teaches it."""
    async with opened(tmp_path) as house:
        first = await made(house, 20, "old", 201)
    async with counting(tmp_path, monkeypatch) as (house, traffic):
        assert await made(house, 20, "old", 200) == first
        assert (traffic.asked, traffic.refused) == (20, 1)
        before = traffic.asked
        await made(house, guesses.DOUBTS_OF_OWNER + 3, "new", 201)
        assert (traffic.asked - before, traffic.refused) == (guesses.DOUBTS_OF_OWNER, 1)


async def test_who_cannot_pay_is_told_by_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit refuses once; from then on it is asked, also when the owner can pay again."""
    async with counting(tmp_path, monkeypatch) as (house, traffic):
        body = {"workflow": "cutx", "job_type": "copy", "params": {"product_id": "lamp"}}
        for _ in range(3):
            said = await house.eve.post("/jobs", body)
            assert (said.status, said.code) == (402, "INSUFFICIENT_CREDITS"), said.raw
            assert (said.json["balance"], said.json["required"]) == (0, 1)
        assert (traffic.asked, traffic.refused) == (3, 1)
        grant = await house.admin.post("/admin/credits/eve/grant", {"amount": 1, "reason": "more"})
        assert grant.status in (200, 201), grant.raw
        assert (await house.eve.post("/jobs", body)).status == 201
        assert (await house.eve.get("/credits")).json["balance"] == 0
        assert (await house.eve.post("/jobs", body)).status == 402
        assert traffic.refused == 1


async def test_the_key_of_a_deleted_job_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as house:
        (job_id,) = await made(house, 1, "gone", 201)
        for status in ("processing", "failed"):
            report = (
                {"to": status, "failure_message": "no"} if status == "failed" else {"to": status}
            )
            moved = await house.admin.post(f"/jobs/{job_id}/transitions", report)
            assert moved.status == 200, moved.raw
        assert (await house.ada.delete(f"/jobs/{job_id}")).status == 204
    async with counting(tmp_path, monkeypatch) as (house, traffic):
        body = {"workflow": "asset-pattern", "idempotency_key": "gone-0"}
        said = await house.ada.post("/jobs", body)
        assert (said.status, said.code, said.json["job_id"]) == (410, "JOB_GONE", job_id)
        assert traffic.refused == 1


def test_guesses_are_made_only_where_the_commit_looks_at_all() -> None:
    assert is_asserted(cutx, SUBMIT)
    assert is_asserted(asset_pattern, SUBMIT)
    assert not is_asserted(image_generation, SUBMIT), "a guard is asked at its birth"
    assert not is_asserted(varied(cutx, quota=Quota(open_jobs=1)), SUBMIT)
    for more in ({"draining": True}, {"overloaded": True}, {"singleton": Singleton("key")}):
        assert not is_asserted(cutx, replace(SUBMIT, **more))
    edges = cutx.workflow.edges
    guard = Guard(Call("stranger.guard"))
    ahead = {one.name: one.onward.values() for one in cutx.workflow.states}
    born = [edge for edge in edges if edge.target in ahead.get(edge.source, ())]
    assert born
    for edge in born:
        guarded = replace(edge, guards=(guard,))
        others = tuple(guarded if one is edge else one for one in edges)
        assert not is_asserted(varied(cutx, edges=others), SUBMIT), edge


class Owners:
    """Lets owners submit, each truly new or a repeat, and counts guesses that were wrong."""

    def __init__(self) -> None:
        self.guesses = Guesses()
        self.asked = self.wrong = 0

    def submit(self, owner: str, key: str, *, repeat: bool = False) -> None:
        new = self.guesses.is_new(owner, (KeyRow(key, "body", "parts"),))
        if new and self.guesses.trust(owner):
            self.wrong += repeat
            if repeat:
                self.guesses.learn(owner, right=False)
            return
        self.asked += 1
        verdict = Refused("ANY", "no") if repeat else birth(job(1))
        if new:
            self.guesses.learn(owner, right=as_guessed(verdict))


def test_one_owner_with_old_keys_costs_the_others_little() -> None:
    owners = Owners()
    for number in range(1000):
        owners.submit("old", f"{number:016}", repeat=True)
        owners.submit("new", f"{number:016}")
    assert owners.wrong == 1
    assert owners.asked == 999 + guesses.DOUBTS_OF_ALL


def test_many_owners_with_an_old_key_each_are_asked_about() -> None:
    owners = Owners()
    for number in range(1000):
        owners.submit(f"owner-{number}", "1", repeat=True)
    assert owners.wrong == 1


def test_it_forgets_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guesses, "KEYS_MAX", 10)
    monkeypatch.setattr(guesses, "OWNERS_MAX", 3)
    owners = Owners()
    for number in range(100):
        owners.submit("ada", f"{number:016}")
    assert owners.asked == 0
    owners.submit("ada", f"{99:016}")
    assert owners.asked == 1
    owners.submit("ada", f"{0:016}")
    assert owners.asked == 1
    assert len(owners.guesses._keys | owners.guesses._older) <= 20
    for number in range(10):
        owners.guesses.learn(f"owner-{number}", right=False)
    assert list(owners.guesses._owners) == ["owner-7", "owner-8", "owner-9"]
