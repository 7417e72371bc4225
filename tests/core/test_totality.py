"""Every message in every kind of state of seven lifecycles, each with its stages in the house and
outside: it moves, is a no-op with a name, or is refused with a known code, and breaks no law. And
from every such state a job that nobody looks after any more comes to rest.

The short run looks at some states of every status; the long one at all there are.
"""

from collections import Counter
from typing import Any

import pytest

from jobrunner.check.checking import check
from jobrunner.core.decision import NoOp
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.facts import Facts
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Message, Move
from jobrunner.errors import Refused
from tests.core.explore import ask, births_of, explore
from tests.core.homeward import MOODS, Mood, homeward
from tests.core.laws import lawful, standing
from tests.core.workshop import RELAY, WORKSHOP
from tests.driving import bound
from tests.standing import LIFECYCLES

A_FEW, ALL = 70, 8_000

PARAMS: dict[str, dict[str, Any]] = {
    "image": {"prompt": "a lighthouse"},
    "copy": {"product_id": "lamp-7"},
    "static_ad": {"product_id": "lamp-7"},
    "ugc_video": {"product_id": "lamp-7"},
    "scrape": {"url": "https://example.org"},
    "tts": {"text": "Buy this lamp."},
}
SHIPPED = {name: lifecycle.definition for name, lifecycle in LIFECYCLES.items()}
DEFINITIONS: dict[str, Definition] = {
    "workshop": WORKSHOP,
    "relay": RELAY,
    "relay, in house": bound(RELAY),
    **{f"{name}, outside": definition for name, definition in SHIPPED.items()},
    **{f"{name}, in house": bound(definition) for name, definition in SHIPPED.items()},
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_message_in_every_status(name: str) -> None:
    """S15 S20 P8 P14 H20 H66: nothing is left undefined, in any status."""
    definition = DEFINITIONS[name]
    looked = look_around(definition, A_FEW)
    assert definition.states.keys() - looked.keys() <= passed(definition)


def passed(definition: Definition) -> set[str]:
    """Where a job hardly ever stands: the engine takes it on in the commit that it comes in."""
    return {
        state.name
        for state in definition.workflow.states
        if state.kind == "waiting"
        and state.onward
        and all(definition.in_house(target, "*") for target in state.onward.values())
    }


@pytest.mark.parametrize("name", DEFINITIONS)
def test_what_is_looked_at_could_be_loaded(name: str) -> None:
    assert check(DEFINITIONS[name]) == ()


@pytest.mark.long
@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_message_in_every_kind_of_state(name: str) -> None:
    told = look_around(DEFINITIONS[name], ALL)
    print(f"{name}: {told.total()} kinds of state")


def look_around(definition: Definition, most: int) -> Counter[str]:
    """How many kinds were looked at in each status."""

    def visit(job: Snapshot, message: Message, facts: Facts, said: Any) -> None:
        try:
            lawful(definition, job, message, said)
            heard_before(message, facts, said)
        except AssertionError as broken:
            told = f"{broken}\n  told {message}\n  knowing {facts}\n  in {job}\n  said {said!r}"
            raise AssertionError(told) from None

    looked = Counter[str]()
    births = births_of(definition, PARAMS)
    for job in explore(definition, births, most, visit):
        looked[job.status] += 1
        for mood in MOODS:
            comes_home(definition, job, mood)
    return looked


def heard_before(message: Message, facts: Facts, said: Any) -> None:
    """An event id that is known: its replay is told so, other words under it are refused."""
    if not isinstance(message, Move) or message.event is None or facts.event is None:
        return
    if isinstance(said, NoOp):
        assert (said.name, facts.event.digest) == ("event_replayed", message.event.digest)
    else:
        assert isinstance(said, Refused), "an event had its effect twice"


def comes_home(definition: Definition, job: Snapshot, mood: Mood) -> None:
    """C12 C16 I8 I32 H24: with only clocks, slots and outcomes it ends, or waits for a person."""
    stands = [job]

    def tell(message: Message) -> tuple[Snapshot, object]:
        said = ask(definition, stands[-1], message)
        if not isinstance(said, NoOp | Refused):
            standing(definition, said.after)
            stands.append(said.after)
        return stands[-1], said

    for _ in homeward(definition, job, mood, tell):
        pass
