"""Hooks around all stages: told of each attempt, fenced like stages, refusing where declared."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner import (
    Context,
    Done,
    Hook,
    HookCall,
    PermanentFailure,
    RetryableFailure,
    stage,
)
from jobrunner.stages import Registry
from tests.stages.asking import Params, definition_of
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio


@stage("press.quick")
async def quick(ctx: Context[Params]) -> Done:
    if ctx.params.text == "broken":
        raise PermanentFailure("BROKEN", "the press is broken")
    return Done(result={"printed": ctx.params.text})


def registry(*hooks: Hook) -> Registry:
    made = Registry()
    made.add(quick)
    made.add(definition_of("press", "press.quick"))
    for hook in hooks:
        made.add(hook)
    assert not any(made.refused.values()), made.refused
    return made


@asynccontextmanager
async def pressing(folder: Path, *hooks: Hook) -> AsyncIterator[Living]:
    async with living(folder, registry(*hooks)) as here:
        yield here


async def ended(here: Living, text: str = "fine") -> dict[str, Any]:
    made = await here.ada.post("/jobs", {"workflow": "press", "params": {"text": text}})
    job: dict[str, Any] = await here.at(made.json["id"], "done", "failed")
    return job


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while not condition():
            await anyio.sleep(0.01)


def raising(fault: BaseException) -> Any:
    async def told(call: HookCall) -> None:
        raise fault

    return told


async def hangs(call: HookCall) -> None:
    await asyncio.Event().wait()


async def test_hooks_are_told_what_begins_and_how_it_ends(tmp_path: Path) -> None:
    told: list[tuple[str, HookCall]] = []

    def teller(word: str) -> Any:
        async def tell(call: HookCall) -> None:
            told.append((word, call))

        return tell

    every = {word: teller(word) for word in ("before", "after", "failed")}
    elsewhere = Hook("elsewhere", stages=("other.stage",), before=teller("never"))
    async with pressing(tmp_path, Hook("diary", **every), elsewhere) as here:
        job = await ended(here)
        await until(lambda: len(told) == 2)
        await ended(here, "broken")
        await until(lambda: len(told) == 4)
    assert sorted(word for word, _ in told) == ["after", "before", "before", "failed"]
    by_word = {(word, call.job_id): call for word, call in told}
    after = by_word["after", job["id"]]
    assert (after.stage, after.user_id, after.outcome) == ("press.quick", "ada", "done")
    assert after.params["text"] == "fine"
    (failed,) = (call for word, call in told if word == "failed")
    assert (failed.failure_code, failed.failure_message) == ("BROKEN", "the press is broken")


@pytest.mark.parametrize(
    "hook",
    [
        Hook("bug", before=raising(ZeroDivisionError()), after=raising(KeyError("x"))),
        Hook("says no", before=raising(PermanentFailure("NO", "not asked"))),
        Hook("leaves", before=raising(SystemExit(3)), after=raising(KeyboardInterrupt())),
        Hook("hangs", before=hangs, after=hangs, seconds=0.05),
    ],
    ids=lambda hook: hook.name.replace(" ", "-"),
)
async def test_a_hook_that_misbehaves_costs_no_job_anything(tmp_path: Path, hook: Hook) -> None:
    named = Hook("odd", hook.before, hook.after, seconds=hook.seconds)
    async with pressing(tmp_path, named) as here:
        for _ in range(3):
            job = await ended(here)
            assert (job["status"], job["attempt"]) == ("done", 1)
        await until(lambda: bool(here.lines(event="hook.failed")))
        (line,) = here.lines(event="hook.failed")
        assert (line["hook"], line["stage"]) == ("odd", "press.quick")


async def test_a_hook_that_may_refuse_ends_the_attempt_as_its_stage_would(tmp_path: Path) -> None:
    closed = Hook("hours", raising(PermanentFailure("CLOSED", "come tomorrow")), refuses=True)
    async with pressing(tmp_path, closed) as here:
        job = await ended(here)
    assert (job["status"], job["failure_code"]) == ("failed", "CLOSED")
    assert (job["failure_message"], job["result"]) == ("come tomorrow", None)


async def test_what_a_hook_refuses_for_now_is_tried_again(tmp_path: Path) -> None:
    calls: list[int] = []

    async def busy(call: HookCall) -> None:
        calls.append(call.attempt)
        if len(calls) == 1:
            raise RetryableFailure("BUSY", "in a moment")

    async with pressing(tmp_path, Hook("gate", busy, refuses=True)) as here:
        job = await ended(here)
    assert (job["status"], calls) == ("done", [1, 2])


@pytest.mark.parametrize("told", [hangs, raising(SystemExit(3)), raising(ZeroDivisionError())])
async def test_one_that_may_refuse_and_cannot_be_asked_refuses(tmp_path: Path, told: Any) -> None:
    async with pressing(tmp_path, Hook("gate", told, refuses=True, seconds=0.05)) as here:
        job = await ended(here)
    assert (job["status"], job["failure_code"], job["attempt"]) == ("failed", "HOOK_FAILED", 2)
    assert "gate" in job["failure_message"]


def plain(call: HookCall) -> None:
    """Not awaited by anybody."""


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (Hook("h", plain), "before is a plain function, and must be an async def"),  # type: ignore[arg-type]
        (Hook("h"), "has nothing to call; give it before="),
        (Hook("h", after=hangs, refuses=True), "refuses without a before="),
        (Hook("h", hangs, seconds=0), "from above 0 to 60"),
        (Hook("h", hangs, seconds="5"), "seconds is '5', and must be a number"),  # type: ignore[arg-type]
    ],
)
async def test_a_hook_that_cannot_be_called_is_refused_by_name(hook: Hook, words: str) -> None:
    made = Registry()
    made.add(hook)
    assert words in made.refused["hooks"]["h"][0]
    assert not made.hooks
