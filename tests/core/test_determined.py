"""H1: what follows from a status and an event is always the same; nothing but these two decides."""

from typing import Any

import msgspec
import pytest

from jobrunner.core.decide import decide
from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.facts import Facts
from jobrunner.core.messages import (
    Claim,
    Do,
    Message,
    Moment,
    Move,
)
from jobrunner.errors import Refused
from tests.driving import ADMIN, NOON, WORKER
from tests.standing import LIFECYCLES, only, report_of, stand

MOMENT = Moment(NOON + 60_000, "fresh", 0.5, 1)
FACTS = Facts(balance=25)
FIELDS: dict[str, Any] = {
    "confirmed": True,
    "draft": "another",
    "format": "PDF",
    "note": "seen",
    "video_uri": "s3://videos/other.mp4",
    "failure_code": "X",
    "failure_message": "y",
    "failed_stage": "EXPORTING",
}


def messages(workflow: str) -> list[Message]:
    """Every status asked for, every command, and a claim."""
    life = LIFECYCLES[workflow]
    moves = [Move(ADMIN, to, report_of(life.reports.get(to, {}))) for to in life.steps]
    commands = [Do(ADMIN, name, FIELDS) for name in life.definition.commands]
    return [*moves, *commands, Claim(WORKER)]


def told(said: Decision | NoOp | Refused) -> bytes:
    if isinstance(said, Refused):
        return repr((said, said.status)).encode()
    return msgspec.json.encode(said)


@pytest.mark.parametrize("workflow", LIFECYCLES)
def test_the_same_again_is_the_same(workflow: str) -> None:
    """H1: two worlds that came to a status alike say the same there, twice each, and the status
    that was asked about is left as it was."""
    definition = LIFECYCLES[workflow].definition
    for state in LIFECYCLES[workflow].steps:
        one, other = stand(workflow, state), stand(workflow, state)
        job, twin = one.jobs[only(one)], other.jobs[only(other)]
        assert job == twin
        before = msgspec.json.encode(job)
        for message in messages(workflow):
            said = {
                told(decide(definition, asked, message, FACTS, MOMENT)) for asked in (job, twin)
            }
            said.add(told(decide(definition, job, message, FACTS, MOMENT)))
            assert len(said) == 1, (state, message)
        assert msgspec.json.encode(job) == before
