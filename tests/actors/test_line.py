"""Who waits for a slot, known by heart: a short line is told from memory as the table has it."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.actors.features.turns import known_line, searching
from jobrunner.actors.features.turns.known_line import InLine
from jobrunner.core.features.turns.in_line import Waiting
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Pause, Resume
from tests.actors.test_slots import Stand, standing, waiting
from tests.stages.house import until

pytestmark = pytest.mark.anyio


def test_a_short_line_is_known_whole_and_in_order() -> None:
    line = InLine()
    for name, priority, line_at in (("c", 0, 3), ("a", 0, 1), ("d", -1, 0), ("b", 0, 1)):
        line.came(waiting("ada", name, priority, line_at))
    assert [one.job_id for one in line.known()] == ["a", "b", "c", "d"]
    line.left(waiting("ada", "a"))
    assert [one.job_id for one in line.known()] == ["b", "c", "d"]


def test_of_those_who_came_at_once_the_older_row_is_first() -> None:
    """As in the table, also when the older one was away meanwhile."""
    line = InLine()
    for name, row in (("younger", 2), ("older", 1)):
        line.came(replace(waiting("ada", name), row=row))
    assert [one.job_id for one in line.known()] == ["older", "younger"]


def test_of_a_line_that_was_there_before_only_the_table_knows() -> None:
    line = InLine([(0, "ada", 1)])
    line.came(waiting("eve"))
    assert line.strangers() == {"ada"}
    line.left(waiting("ada", "the-old-one"))
    assert not line.strangers()
    assert [one.job_id for one in line.known()] == ["eve"]


def test_of_a_long_line_only_the_table_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_line, "KNOWN_MAX", 2)
    line, jobs = InLine(), [waiting("ada", name) for name in "abc"]
    for job in jobs:
        line.came(job)
    line.came(waiting("eve", line_at=2))
    assert line.strangers() == {"ada"}
    assert [one.job_id for one in line.known()] == ["a", "b", "eve"], "those who are first"
    for job in jobs[:2]:
        line.left(job)
    line.came(jobs[0])
    assert [one.job_id for one in line.known()] == ["eve"], "who came before comes first"
    assert line.strangers() == {"ada"}
    line.left(jobs[0])
    line.left(jobs[2])
    line.came(jobs[0])
    assert [one.job_id for one in line.known()] == ["a", "eve"], "anew, when none was left"


def of_table(*jobs: Snapshot) -> list[Waiting]:
    return [
        Waiting(one.id, one.user_id, "plain", "", "", one.priority, one.line_at or 0, "", one.row)
        for one in jobs
    ]


def heads(line: InLine) -> list[str]:
    return [one.job_id for one in line.known()]


def test_the_head_of_a_long_line_is_learned_from_the_table() -> None:
    """With those who came and left while it was read; who comes behind it is not in it, and who
    comes before it is."""
    line = InLine([(0, "ada", 9)])
    first, second, third = (waiting("ada", name, 0, at) for at, name in enumerate("abc", 1))
    line.ask()
    line.left(first)
    line.came(waiting("ada", "urgent", 5, 7))
    line.came(waiting("ada", "late", 0, 8))
    line.learn(of_table(first, second, third))
    assert heads(line) == ["urgent", "b", "c"]
    line.came(second)  # as its commit is heard of later than the table has told
    line.came(waiting("ada", "later", 0, 9))
    line.came(waiting("ada", "more-urgent", 6, 9))
    assert heads(line) == ["more-urgent", "urgent", "b", "c"]
    assert line.strangers() == {"ada"}


def test_who_is_no_longer_in_line_when_the_table_has_told_is_not_learned() -> None:
    line = InLine([(0, "ada", 1)])
    line.ask()
    line.left(waiting("ada", "gone"))
    line.learn(of_table(waiting("ada", "gone")))
    assert heads(line) == []
    assert not line.users()


def test_who_has_another_place_when_the_table_has_told_is_learned_there() -> None:
    line, jobs = InLine([(0, "ada", 3)]), [waiting("ada", name, 0, 1) for name in "abc"]
    line.ask()
    line.left(jobs[0])
    line.came(waiting("ada", "a", 0, 9))
    line.learn(of_table(*jobs))
    assert heads(line) == ["b", "c"]
    for job in (*jobs[1:], waiting("ada", "a", 0, 9)):
        line.left(job)
    assert heads(line) == []


def test_heads_are_forgotten_when_the_table_is_asked_for_others() -> None:
    """Those who may not run now were left out; a line that is known whole has them all."""
    line = InLine([(0, "ada", 9)])
    line.came(waiting("eve"))
    line.look("all")
    line.ask()
    line.learn(of_table(waiting("ada", "a", line_at=0)))
    line.look("all")
    assert heads(line) == ["a", "eve"]
    line.look("some")
    assert heads(line) == ["eve"]


def test_of_all_together_no_more_are_known_than_memory_is_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_line, "ALL_KNOWN_MAX", 2)
    line = InLine()
    for user in ("ada", "eve", "bob"):
        line.came(waiting(user))
    assert line.strangers() == {"bob"}
    line.left(waiting("ada"))
    line.came(waiting("kim"))
    assert [one.user_id for one in line.known()] == ["eve", "kim"]


def test_a_look_at_the_heads_leaves_out_whoever_is_not_meant() -> None:
    line = InLine()
    for user, name in (("ada", "a1"), ("ada", "a2"), ("eve", "e1"), ("eve", "e2"), ("bob", "b1")):
        line.came(waiting(user, name, line_at=ord(name[1])))
    assert [one.job_id for one in line.known({"bob"}, 1)] == ["a1", "e1"]


def test_of_one_who_was_called_in_vain_only_the_table_knows() -> None:
    line = InLine()
    line.came(waiting("ada"))
    line.came(waiting("eve"))
    line.doubt("ada")
    assert line.strangers() == {"ada"}
    assert [one.job_id for one in line.known()] == ["eve"]


async def one_by_one(stand: Stand, workflow: str = "") -> None:
    """End one of these, and wait until another one begins."""
    before = len(stand.began)
    await stand.end(next(one for one in stand.going if one.startswith(workflow)))
    await until(lambda: len(stand.began) > before)


async def test_who_may_run_again_comes_before_the_rest_of_a_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head was learned while the stage of those with the higher priority had no turn left."""
    monkeypatch.setattr(known_line, "KNOWN_MAX", 8)
    async with standing(tmp_path, active_jobs=2, per_user_active=0) as stand:
        await stand.submit("single", "ada", 0, priority=5)
        for number in range(40):
            await stand.submit("plain", "ada", number)
        await until(lambda: len(stand.going) == 2)
        for number in range(1, 6):
            await stand.submit("single", "ada", number, priority=5)
        for workflow in ("plain",) * 5 + ("single",):
            await one_by_one(stand, workflow)
        assert stand.began[-1] == "single-ada-1"


@pytest.mark.parametrize("benches", [3, 12])
async def test_one_whose_head_may_not_run_has_a_turn_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benches: int
) -> None:
    """Whether the line is known whole or not, and though others never leave a slot free."""
    monkeypatch.setattr(known_line, "KNOWN_MAX", 8)
    monkeypatch.setattr(searching, "HEAD", 0)
    async with standing(tmp_path, benches=1, active_jobs=2, per_user_active=0) as stand:
        await stand.submit("bench", "zoe", 0)
        await stand.submit("plain", "zoe", 0)
        await until(lambda: len(stand.going) == 2)
        for number in range(benches):
            await stand.submit("bench", "ada", number)
        await stand.submit("plain", "ada", 0)
        for number in range(4):
            await stand.submit("plain", "eve", number)
            await one_by_one(stand, "plain")
        assert "plain-ada-0" in stand.began


async def test_memory_and_table_tell_the_same_line(tmp_path: Path) -> None:
    """Whoever comes, is paused, goes on, or gets a slot; of whatever priority."""
    async with standing(tmp_path, active_jobs=1) as stand:
        facade, reader = stand.service.facade, stand.service.store.reader
        line = facade.dispatcher._line

        async def told() -> list[str]:
            in_table = await reader.line(100, ("plain", "relay"))
            in_memory = [one.job_id for one in line.known()]
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


async def test_behind_a_long_line_of_one_another_is_found_without_a_look_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is asked for the next of the many, when they have room and nobody is known who is
    first of them, and for nothing else: not while they have all that they may have, and not for the
    only job of somebody else."""
    monkeypatch.setattr(known_line, "KNOWN_MAX", 2)
    async with standing(tmp_path, active_jobs=4, per_user_active=1) as stand:
        turns, asked = stand.service.facade.world.turns, list[tuple[str, ...]]()
        told = turns.line

        async def line(*question: Any) -> Any:
            asked.append(question[2])
            return await told(*question)

        for number in range(6):
            await stand.submit("plain", "ada", number)
        await until(lambda: len(stand.going) == 1)
        monkeypatch.setattr(turns, "line", line)
        only = await stand.submit("plain", "eve", 0)
        await until(lambda: only in stand.going)
        assert asked == [], "ada has all that she may have, and eve is known"
        for number in range(5):
            await stand.end(next(one for one in stand.going if one != only))
            await until(lambda: len(stand.going) == 2)
            assert asked == [("eve",)] * (number // 2), (
                "for two at a time; not for eve, who has one"
            )


async def test_who_is_called_in_vain_is_struck_off(tmp_path: Path) -> None:
    """Nobody is called again and again by heart; the table decides, and others go on."""
    async with standing(tmp_path, active_jobs=1) as stand:
        dispatcher = stand.service.facade.dispatcher
        dispatcher.line_changed(1, waiting("ada", "there-is-no-such-job"))
        await until(lambda: dispatcher._line.strangers() == {"ada"})
        job = await stand.submit("plain", "eve", 0)
        await until(lambda: job in stand.going)
