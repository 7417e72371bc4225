"""Who waits for a slot, known by heart: a short line is told from memory as the table has it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrunner.actors.features.turns import known_line
from jobrunner.actors.features.turns.known_line import InLine
from jobrunner.core.job import Actor
from jobrunner.core.messages import Pause, Resume
from tests.actors.test_slots import standing, waiting
from tests.stages.house import until

pytestmark = pytest.mark.anyio


def test_a_short_line_is_known_whole_and_in_order() -> None:
    line = InLine()
    for name, priority, line_at in (("c", 0, 3), ("a", 0, 1), ("d", -1, 0), ("b", 0, 1)):
        line.came(waiting("ada", name, priority, line_at))
    assert [one.job_id for one in line.whole() or ()] == ["a", "b", "c", "d"]
    line.left(waiting("ada", "a"))
    assert [one.job_id for one in line.whole() or ()] == ["b", "c", "d"]


def test_of_those_who_came_at_once_the_older_row_is_first() -> None:
    """As in the table, also when the older one was away meanwhile."""
    line = InLine()
    for name, row in (("younger", 2), ("older", 1)):
        line.came(replace(waiting("ada", name), row=row))
    assert [one.job_id for one in line.whole() or ()] == ["older", "younger"]


def test_of_a_line_that_was_there_before_only_the_table_knows() -> None:
    line = InLine([(0, "ada", 1)])
    line.came(waiting("eve"))
    assert line.whole() is None
    line.left(waiting("ada", "the-old-one"))
    assert [one.job_id for one in line.whole() or ()] == ["eve"]


def test_of_a_long_line_only_the_table_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_line, "KNOWN_MAX", 2)
    line, jobs = InLine(), [waiting("ada", name) for name in "abc"]
    for job in jobs:
        line.came(job)
    assert line.whole() is None
    line.left(jobs[0])
    assert line.whole() is None, "the third is not known"
    line.left(jobs[2])
    assert [one.job_id for one in line.whole() or ()] == ["b"]


def test_of_one_who_was_called_in_vain_only_the_table_knows() -> None:
    line = InLine()
    line.came(waiting("ada"))
    line.came(waiting("eve"))
    line.doubt("ada")
    assert line.whole() is None


async def test_memory_and_table_tell_the_same_line(tmp_path: Path) -> None:
    """Whoever comes, is paused, goes on, or gets a slot; of whatever priority."""
    async with standing(tmp_path, active_jobs=1) as stand:
        facade, reader = stand.service.facade, stand.service.store.reader
        line = facade.dispatcher._line

        async def told() -> list[str]:
            in_table = await reader.line(100, ("plain", "relay"))
            in_memory = [one.job_id for one in line.whole()]
            assert in_memory == [one.job_id for one in in_table]
            return in_memory

        first = await stand.submit("plain", "ada", 0)
        await until(lambda: first in stand.going)
        for number, (user, priority) in enumerate([("ada", 0), ("eve", 5), ("bob", 5), ("ada", 5)]):
            await stand.submit("relay", user, number, priority=priority)
        names = ["relay-eve-1", "relay-bob-2", "relay-ada-3", "relay-ada-0"]
        assert await told() == names
        bob = Actor("bob", "user")
        await facade.ask("relay-bob-2", Pause(bob))
        assert await told() == [name for name in names if name != "relay-bob-2"]
        await facade.ask("relay-bob-2", Resume(bob))
        assert sorted(await told()) == sorted(names)
        await stand.end(first)
        await until(lambda: len(stand.going) == 1)
        assert len(await told()) == len(names) - 1


async def test_who_is_called_in_vain_is_struck_off(tmp_path: Path) -> None:
    """Nobody is called again and again by heart; the table decides, and others go on."""
    async with standing(tmp_path, active_jobs=1) as stand:
        dispatcher = stand.service.facade.dispatcher
        dispatcher.line_changed(1, waiting("ada", "there-is-no-such-job"))
        await until(lambda: dispatcher._line.whole() is None)
        job = await stand.submit("plain", "eve", 0)
        await until(lambda: job in stand.going)
