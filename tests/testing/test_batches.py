"""Batches in the simulator: users who send them again and again until they hear, through crashes
at every step, full disks and drains. Each submission makes one job, and each batch ends once."""

import sqlite3
from typing import Any

import pytest

from jobrunner import ChildWorkflow
from jobrunner.actors import Facade
from jobrunner.actors.features.families.batches import Sent, is_unfinished
from jobrunner.core.messages import Submit
from jobrunner.testing import prove
from jobrunner.testing.simulation import laws, simulation
from jobrunner.testing.simulation.callers import TRIES, Callers, UserSubmission
from tests.whole.clan.jobrunner_clan import clan, fan_stage

SIZES = (1, 3, 7)
KEYS = 3
PARAMS: Any = {"fan": [{"leaves": 2}], "leaf": [{"leaves": 0}]}
TOLD = "SELECT count(*), count(DISTINCT uid) FROM deliveries WHERE type = 'batch.ended'"
ENDED = "SELECT count(*) FROM batches WHERE ended_at IS NOT NULL"
made = {"batches": 0, "told": 0}


class BatchCallers(Callers):
    """Everybody sends batches: some open, some under a key that is sent again."""

    async def _submit_until_heard(self, order: UserSubmission, run_at: int | None) -> None:
        size, key = self._draw.choice(SIZES), f"batch-{self._draw.randrange(KEYS)}"
        shut = self._draw.random() < 0.9
        for _ in range(TRIES):
            if await self._send_batch(order, key, size, shut):
                return
            await self._process.up.wait()

    async def _send_batch(self, order: UserSubmission, key: str, size: int, shut: bool) -> bool:
        async def ask(facade: Facade) -> Any:
            batch, _ = await facade.batches.begun(order.actor.name, key, "https://told.invalid/")
            answers = await facade.batches.add(batch, self._items(order, key, size))
            if shut and not is_unfinished(answers):
                await facade.batches.close(batch)
            return answers

        answers = await self._listen("sends a batch", ask)
        for one in answers if isinstance(answers, list) else []:
            if one.job_id and (job := await self._look_at(one.job_id)) is not None:
                self._witness.submitted(order.actor.name, f"{key} {one.key}", key, job)
        return isinstance(answers, list) and not is_unfinished(answers)

    def _items(self, order: UserSubmission, key: str, size: int) -> list[Sent]:
        name = self._definition.workflow.name
        fresh = self._process.ids.fresh
        return [
            Sent(str(number), Submit(order.actor, name, order.job_type, order.params, fresh()))
            for number in range(size)
        ]

    async def _look_at(self, job_id: str) -> Any:
        return await self._listen("looks", lambda one: one.world.reader.job(job_id), job_id)


def told_once(path: Any, definition: Any, witness: Any) -> list[str]:
    """The laws, and that of every batch that ended exactly one notification is there."""
    found = judged(path, definition, witness)
    with sqlite3.connect(path) as db:
        told, ids = db.execute(TOLD).fetchone()
        (ended,) = db.execute(ENDED).fetchone()
    made["batches"], made["told"] = made["batches"] + ended, made["told"] + told
    if told != ids or told > ended:
        found.append(f"{ended} batches ended, and {told} notifications say so")
    return found


judged = laws.faults


def proved(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "Callers", BatchCallers)
    monkeypatch.setattr(laws, "faults", told_once)
    family = clan(ChildWorkflow("clan"), kinds=("fan", "leaf"))
    proof = prove(family, [fan_stage], seeds=seeds, params=PARAMS)
    assert proof.lives > proof.seeds, "nothing ever crashed"
    assert not proof.aside
    assert made["batches"] > proof.seeds / 2, "hardly any batch ever ended"
    assert made["told"] > 0


def test_whatever_happens_batches_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    proved(range(8), monkeypatch)


@pytest.mark.long
def test_long(monkeypatch: pytest.MonkeyPatch) -> None:
    proved(range(30_000, 30_500), monkeypatch)
