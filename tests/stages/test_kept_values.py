"""What an attempt keeps is bounded, each value and all of them; its author is told what helps."""

from typing import Any

import pytest
from msgspec import Struct

from jobrunner import Context, Done, PlainContext, stage
from jobrunner.core.features import kept_values
from jobrunner.testing import run_stage


class Wanted(Struct):
    sizes: list[int]


@stage("toy.keeps")
async def keeps(ctx: Context[Wanted]) -> Done:
    for number, size in enumerate(ctx.params.sizes):

        async def work(size: int = size) -> str:
            return "x" * size

        await ctx.once(f"n{number}", work)
    return Done()


@stage("toy.keeps_plainly")
def keeps_plainly(ctx: PlainContext[Wanted]) -> Done:
    for number, size in enumerate(ctx.params.sizes):
        ctx.once(f"n{number}", lambda size=size: "x" * size)  # type: ignore[misc]
    return Done()


@pytest.mark.parametrize("form", [keeps, keeps_plainly], ids=["loop", "thread"])
def test_all_that_an_attempt_keeps_is_bounded(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it has from before; and what it has kept already costs nothing again."""
    monkeypatch.setattr(kept_values, "ALL_MAX", 100)
    before = {"n0": "x" * 36}
    tried = run_stage(form, Wanted([36, 36]), kept=before)
    assert (tried.outcome, sorted(tried.kept)) == ("done", ["n1"])
    tried = run_stage(form, Wanted([36, 36, 17]), kept=before)
    assert tried.outcome == "failed"
    assert tried.failure is not None
    assert (tried.failure.code, tried.failure.retryable) == ("CANNOT_KEEP", False)
    assert tried.failure.message.startswith(
        "with 'n2' the attempt would keep 101 bytes, and 100 is"
    )
    assert "save() large things" in tried.failure.message


@pytest.mark.parametrize("form", [keeps, keeps_plainly], ids=["loop", "thread"])
def test_each_value_is_bounded(form: Any) -> None:
    most = kept_values.EACH_MAX - 2
    assert run_stage(form, Wanted([most])).outcome == "done"
    tried = run_stage(form, Wanted([most + 1]))
    assert tried.failure is not None
    assert tried.failure.message == "'n0' is 65537 bytes; 65536 are kept"
