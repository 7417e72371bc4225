"""Questions of stages, under crashes at every step: answered once, whoever answers and when."""

from collections import Counter
from itertools import count
from typing import Any

import pytest

from jobrunner import Context, Done, stage
from jobrunner.testing import Faults, prove
from tests.stages.asking import Params, Verdict, definition_of, terms

SEEN: Counter[str] = Counter()
CRASHING = Faults(crashes=6, restarts=2)
PARAMS: dict[str, list[dict[str, Any]]] = {
    "any": [
        {"timeout_s": 0, "text": "for as long as it takes"},
        {"timeout_s": 40, "default": True},
        {"timeout_s": 3, "default": False},
        {"timeout_s": 5},
    ]
}


@stage("press.ask", asks=[Verdict])
async def asks(ctx: Context[Params]) -> Done:
    question = await ctx.question("approval", Verdict, **terms(ctx.params))
    url = question.url

    async def tell() -> str:
        return url

    told = await ctx.once("told", tell)
    assert told == url, f"asked at {told}, and now at {url}"
    answer = await question.answer()
    assert isinstance(answer, Verdict)
    SEEN["defaulted" if answer.note == "nobody said so" else "answered"] += 1
    return Done(result={"answer": answer})


press = definition_of("press", "press.ask")


def proved(seeds: int) -> Any:
    SEEN.clear()
    return prove(press, [asks], seeds=range(seeds), params=PARAMS, faults=CRASHING)


def test_questions_are_answered_once_whatever_crashes() -> None:
    proof = proved(25)
    assert proof.lives > proof.seeds, "nothing ever crashed"
    assert proof.jobs["done"] > 0
    assert SEEN["answered"] > 0
    assert SEEN["defaulted"] > 0
    assert not proof.aside


@pytest.mark.long
def test_questions_are_answered_once_in_a_thousand_worlds() -> None:
    proof = proved(1_000)
    assert not proof.aside
    assert SEEN["answered"] > 100
    assert SEEN["defaulted"] > 100


def test_an_address_that_changes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted defect: a token that does not come back when the stage runs again."""
    numbers = count()

    def changing(key: bytes, job_id: str, name: str, nonce: str) -> str:
        return f"jr_{job_id}{nonce}{next(numbers)}"

    monkeypatch.setattr("jobrunner.actors.features.answers.token_of", changing)
    with pytest.raises(AssertionError, match=r"press\.ask.*never came to done.*NO_PUBLIC_URL"):
        proved(25)
