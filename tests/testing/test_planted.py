"""Defects as authors plant them are found by the proof as authors use it, each with its stage and
its line."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from jobrunner_hello import definition, greet

from jobrunner.testing import prove
from tests.testing import planted
from tests.testing.planted import PLANTED, Planted

SOURCE = Path(planted.__file__)


def proved(one: Planted, whatever_happens: Any) -> str:
    """What the proof says about a stage, as its author would ask for one."""
    with pytest.raises(AssertionError) as broken:
        whatever_happens(
            definition, [planted.stage_of(one)], http=planted.studio, answers=answer,
            seeds=range(30),
        )  # fmt: skip
    return str(broken.value)


def answer(name: str) -> Any:
    return {"url": "one"}


def place(one: Planted) -> str:
    """The line that must be named."""
    lines = SOURCE.read_text().split("PLANTED: dict")[0].splitlines()
    first = one.run.__code__.co_firstlineno
    if not one.line:
        return f"planted.py:{first}"
    found = [number for number, line in enumerate(lines, 1) if one.line in line]
    return f"planted.py:{next((n for n in found if n > first), found[0])}"


@pytest.fixture(autouse=True)
def _tidy(tmp_path: Path) -> Any:
    planted.OVER.clear()
    planted.WHERE[:] = [str(tmp_path)]
    yield
    planted.OVER.set()


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_kind_is_found(kind: str, whatever_happens: Any) -> None:
    one = PLANTED[kind]
    began = time.perf_counter()
    said = proved(one, whatever_happens)
    print(f"{kind}: {time.perf_counter() - began:.1f} s")
    found = [line for line in said.splitlines() if re.search(one.told, line)]
    assert found, said
    assert f"stage hello.greet (tests/testing/planted.py:{one.run.__code__.co_firstlineno})" in said
    assert place(one) in said, (place(one), found)


def test_there_are_twenty_kinds_and_more() -> None:
    assert len(PLANTED) >= 20


def test_a_forgotten_refund_is_found_with_its_path() -> None:
    with pytest.raises(AssertionError, match="refused") as broken:
        prove(planted.forgetful(), [greet], seeds=range(1))
    assert "failed" in str(broken.value)
    assert "the hold of this run is not settled" in str(broken.value)
