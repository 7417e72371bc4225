"""A webhook finds its job by a guess; where the guess does not hold, the store says whose it is."""

from pathlib import Path
from typing import Any

import pytest

from jobrunner import Context, Done, RetryableFailure
from jobrunner.actors.features.awaited import NAMES_MAX, AwaitedNames
from jobrunner.actors.features.webhooks import Hearing
from jobrunner.core.job import Attempt
from jobrunner.core.messages import Told
from tests.actors.test_loans import bells, listen, parked, rung
from tests.actors.test_one_at_a_time import standing as standing_with
from tests.actors.test_slots import Stand
from tests.stages.house import until
from tests.stages.unruly import definition_of

pytestmark = pytest.mark.anyio


def questions(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the id of each webhook that the store is asked about from now on."""
    reader, asked = stand.service.store.reader, list[str]()
    answer = type(reader).webhook

    async def webhook(self: Any, source: str, webhook_id: str, name: str, since: int) -> Any:
        asked.append(webhook_id)
        return await answer(self, source, webhook_id, name, since)

    monkeypatch.setattr(type(reader), "webhook", webhook)
    return asked


async def test_nobody_is_asked_about_the_first_of_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with standing_with(tmp_path, bells(), bells=listen) as stand:
        job_id = await parked(stand, "ada", 0)
        asked = questions(stand, monkeypatch)
        assert await rung(stand, job_id) == Hearing(True, job_id=job_id)
        assert not asked
        assert await rung(stand, job_id) == Hearing(False, "replayed")
        assert await rung(stand, job_id, 2) == Hearing(False, "over", job_id)
        assert asked == ["ring-1", "ring-2"]


async def ring_twice(ctx: Context[Any]) -> Done:
    """Fail at what comes first, and await the same name again."""
    told = await ctx.await_callback(ctx.job_id, 60, source="bell")
    if ctx.attempt == 1:
        raise RetryableFailure("AGAIN", "it is awaited once more")
    return Done(result=told)


async def test_one_that_came_before_has_no_second_effect(tmp_path: Path) -> None:
    """Its job awaits the name once more, so it is guessed; the commit knows the id."""
    twice = definition_of("bells", "s.bells", limit_s=60, tries=2)
    async with standing_with(tmp_path, twice, bells=ring_twice) as stand:
        job_id = await parked(stand, "ada", 0)
        assert (await rung(stand, job_id)).applied
        kept = stand.service.facade.supervisor.kept
        await until(
            lambda: (now := kept(job_id).attempt) and (now.number, now.status) == (2, "parked")
        )
        again = await rung(stand, job_id)
        assert (again.applied, again.reason) == (False, "replayed")
        assert kept(job_id).attempt.status == "parked"
        assert await rung(stand, job_id, 2) == Hearing(True, job_id=job_id)
        await until(lambda: kept(job_id) is None)
        assert (await stand.service.store.reader.job(job_id)).status == "done"
        await until(lambda: not stand.service.facade.dispatcher.running)


async def test_a_name_of_another_source_is_another_name(tmp_path: Path) -> None:
    async with standing_with(tmp_path, bells(), bells=listen) as stand:
        job_id = await parked(stand, "ada", 0)
        foreign = Told("gong", "ring-1", job_id, "dong")
        assert await stand.service.facade.hear(foreign) == Hearing(False, "kept")
        assert (await rung(stand, job_id)).applied


def test_names_are_bounded_and_guessed_once() -> None:
    names = AwaitedNames()
    for number in range(NAMES_MAX + 1):
        awaits = f"bell:{number}"
        names.note(str(number), Attempt(1, "s", "stage", "", 1, "parked", 0, awaits=awaits))
    assert [names.guess("bell:0"), names.guess("bell:1"), names.guess("bell:1")] == ["", "1", ""]
