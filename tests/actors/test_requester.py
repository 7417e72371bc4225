"""What the engine begins on the occasion of a request is not that request's."""

from typing import Any

import pytest

from jobrunner.actors.requester import ADDRESS, REQUEST, asked
from jobrunner.actors.tasks import Crew
from jobrunner.core.decision import Addressed
from jobrunner.core.units import Cleared
from jobrunner.ports import SystemClock

pytestmark = pytest.mark.anyio


def say(event: str, **fields: Any) -> None:
    raise AssertionError(f"{event}: {fields}")


async def test_a_task_of_the_engine_begins_without_request_and_address() -> None:
    seen: list[tuple[str, str]] = []

    async def look() -> None:
        seen.append((REQUEST.get(), ADDRESS.get()))

    REQUEST.set("01a")
    ADDRESS.set("198.51.100.7")
    crew = Crew(SystemClock(), say, lambda error: None)
    crew.start_soon(look)
    await crew.gone()
    assert seen == [("", "")]
    assert asked(Cleared(("a",))) == Addressed(Cleared(("a",)), "198.51.100.7")


def test_what_nobody_asked_for_is_written_as_it_is() -> None:
    assert asked(Cleared(("a",))) == Cleared(("a",))
