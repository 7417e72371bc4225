"""Stages that do everything that stages ever do: they finish, fail in each way, go on for ever,
wait for a callback, are deaf, take the whole process with them. Which of it is drawn from the seed.
"""

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import anyio
from msgspec.structs import replace

from jobrunner.core.declaration.workflow import Definition
from jobrunner.stages import Context, Done, Partial, PermanentFailure, Rejected, RetryableFailure
from jobrunner.stages.api import Stage
from jobrunner.testing.simulation.declared import needed
from jobrunner.testing.simulation.loop import LIFE
from jobrunner.testing.simulation.process import Life
from jobrunner.testing.simulation.witness import Witness

T = TypeVar("T")
Play = Callable[["Scene", Context[Any]], Awaitable[Any]]
TAKES_S = (0.0, 0.01, 0.3, 2.0, 20.0)
FOR_EVER_S = 10.0**7


class Scene(Protocol):
    """The simulation, as its stages see it."""

    definition: Definition
    draw: random.Random
    witness: Witness
    calm: bool

    def take_down(self, why: str) -> bool:
        """The process dies, if it may still do so."""
        ...

    def expects(self, job_id: str, key: str) -> None:
        """A stage awaits a callback under this key."""
        ...


SCENE: ContextVar[Any] = ContextVar("scene")


def observed(stage: Stage) -> Stage:
    """The same stage, with somebody who looks on."""

    async def run(ctx: Context[Any]) -> Any:
        life = LIFE.get()
        assert isinstance(life, Life), "a stage runs in a process"
        witness = SCENE.get().witness
        with witness.working(life.number, ctx.job_id, ctx.state):
            witness.called(ctx.job_id, ctx.state, ctx.run_id, ctx.idempotency_key())
            return await stage.run(ctx)

    return replace(stage, run=run, how="loop")


def scripted(name: str) -> Stage:
    """A stage of this name that does anything."""

    async def run(ctx: Context[Any]) -> Any:
        scene = SCENE.get()
        await anyio.sleep(scene.draw.choice(TAKES_S))
        if scene.draw.random() < 0.3:
            await ctx.progress(scene.draw.randint(0, 100), "going on")
        plays = CALM if scene.calm else PLAYS
        (play,) = scene.draw.choices(list(plays), list(plays.values()))
        return await play(scene, ctx)

    return Stage(name, run)


async def _done(scene: Scene, ctx: Context[Any]) -> Done:
    return Done(result={"total": 12}, artifacts=await _made(scene, ctx))


async def _partial(scene: Scene, ctx: Context[Any]) -> Partial:
    return Partial("the second half is missing", {"total": 6}, await _made(scene, ctx))


async def _retryable(scene: Scene, ctx: Context[Any]) -> Done:
    raise RetryableFailure("NETWORK", "nobody answers", scene.draw.choice((0.0, 7.0)))


async def _permanent(scene: Scene, ctx: Context[Any]) -> Done:
    raise PermanentFailure("BAD_INPUT", "this cannot be read")


async def _rejected(scene: Scene, ctx: Context[Any]) -> Done:
    raise Rejected("SAFETY", "not with us")


async def _stumbles(scene: Scene, ctx: Context[Any]) -> Done:
    raise ZeroDivisionError("a bug of the stage")


async def _nonsense(scene: Scene, ctx: Context[Any]) -> Any:
    return {"done": True}


async def _hangs(scene: Scene, ctx: Context[Any]) -> Done:
    await anyio.sleep(FOR_EVER_S)
    return Done()


async def _is_deaf(scene: Scene, ctx: Context[Any]) -> Done:
    """Asked to stop, it goes on for a while."""
    for _ in range(2):
        with suppress(BaseException):
            await anyio.sleep(scene.draw.choice((5.0, 500.0)))
    return Done(result={"total": 13})


async def _remembers(scene: Scene, ctx: Context[Any]) -> Done:
    """Work out two things once an attempt."""

    async def work() -> int:
        await anyio.sleep(scene.draw.choice(TAKES_S))
        return 7

    await ctx.once("one", work)
    await ctx.once("two", work)
    return await _done(scene, ctx)


async def _waits(scene: Scene, ctx: Context[Any]) -> Done:
    """Wait for a callback under a name that this attempt has of its own."""
    key = f"call-{ctx.run_id}-{ctx.attempt}"
    scene.expects(ctx.job_id, key)
    await ctx.await_callback(key, scene.draw.choice((0.0, 30.0)))
    return await _done(scene, ctx)


async def _kills(scene: Scene, ctx: Context[Any]) -> Done:
    """The whole service, if it may still be killed."""
    if scene.take_down(f"killed by the stage of {ctx.state}"):
        await anyio.Event().wait()
    return await _done(scene, ctx)


async def _made(scene: Scene, ctx: Context[Any]) -> dict[str, Any]:
    """Make what the way out asks for, mostly: as values, or with a file behind them."""
    state = scene.definition.states[ctx.state]
    if scene.draw.random() < 0.5:
        await ctx.save("one.txt", b"one", asset_type="image")
    if not state.done or scene.draw.random() < 0.1:
        return {}
    made: dict[str, Any] = {}
    for name in needed(scene.definition, state.name, state.done):
        if scene.draw.random() < 0.3:
            await ctx.save(f"{name}.txt", b"two", asset_type="text", artifact=name)
        else:
            made[name] = f"{name} of attempt {ctx.attempt}"
    return made


PLAYS: dict[Play, int] = {
    _done: 40, _partial: 5, _retryable: 14, _permanent: 5, _rejected: 5, _stumbles: 3,
    _nonsense: 1, _hangs: 4, _is_deaf: 3, _remembers: 8, _waits: 8, _kills: 4,
}  # fmt: skip
CALM: dict[Play, int] = {_done: 16, _permanent: 2, _retryable: 2}
