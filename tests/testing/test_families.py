"""Families in the simulator: whatever crashes and repeats, each key makes one child, every parent
that waits is woken, holds are settled once, and the rows of ``db check`` agree."""

from typing import Any

import pytest

from jobrunner import ChildWorkflow
from jobrunner.testing import prove
from tests.whole.clan.jobrunner_clan import clan, fan_stage

FANS: list[dict[str, Any]] = [
    {"leaves": 3},
    {"leaves": 2, "at_least": 1},
    {"leaves": 3, "until": "first_failure"},
    {"leaves": 3, "at_least": 2, "until": "succeeded"},
    {"leaves": 2, "awaits": False},
    {"leaves": 1, "deep": 1},
    {"leaves": 2, "timeout_s": 20.0},
]
PARAMS: Any = {"fan": FANS, "leaf": [{"leaves": 0}]}
TIES = {
    "cancel": ChildWorkflow("clan"),
    "leave": ChildWorkflow("clan", at_end="leave"),
    "wait": ChildWorkflow("clan", at_end="wait"),
    "covered": ChildWorkflow("clan", covered=True),
}


def proved(tie: str, seeds: range, steps: int = 60) -> None:
    """Leaves are played by a stage that does anything: it fails, hangs, ends the process."""
    family = clan(TIES[tie], kinds=("fan", "leaf"))
    proof = prove(family, [fan_stage], seeds=seeds, steps=steps, params=PARAMS)
    assert proof.lives > proof.seeds, "nothing ever crashed"
    assert not proof.aside
    assert not proof.untaken


@pytest.mark.parametrize("tie", TIES)
def test_whatever_happens_families_come_to_rest(tie: str) -> None:
    proved(tie, range(16))


@pytest.mark.long
@pytest.mark.parametrize("tie", TIES)
def test_long(tie: str) -> None:
    proved(tie, range(20_000, 20_500), steps=90)
