"""An author's own stage in a simulation: it works as ever, somebody looks on, and now and then the
service dies or its job is stopped at the worst moment for it."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, Protocol, Self, TypeVar

import anyio
from msgspec.structs import replace

from jobrunner.core.messages import Ended, Report
from jobrunner.errors import StageFault
from jobrunner.outgoing.calls import Exchange, Reply
from jobrunner.stages import Context
from jobrunner.stages.api import Stage, is_async
from jobrunner.stages.context import PlainContext, given_of
from jobrunner.stages.given import Host
from jobrunner.stages.in_loop import CALLED_OFF
from jobrunner.stages.outcomes import Parked, raised, returned
from jobrunner.stages.requests import Answer, Question
from jobrunner.testing.kit.attempt import at_once
from jobrunner.testing.simulation.effects import Effect, EffectLedger
from jobrunner.testing.simulation.fences import HeldUp, aside, left_behind, lent_folder
from jobrunner.testing.simulation.loop import LIFE, RealWorld
from jobrunner.testing.simulation.measured import as_decided
from jobrunner.testing.simulation.passes import AT_WORK, Pass
from jobrunner.testing.simulation.process import Life
from jobrunner.testing.simulation.scripted import SCENE, TAKES_S, Scene

T = TypeVar("T")
WITHIN: ContextVar[str] = ContextVar("within", default="")
GIVES_UP_S = 30.0
UNSURE = ("NETWORK_ERROR", "NETWORK_TIMEOUT")
BUG = "STAGE_CRASHED"


class WatchingScene(Scene, Protocol):
    """The simulation, as who looks on sees it."""

    ledger: EffectLedger
    folder: str

    def fault(self, text: str) -> None:
        """End the simulation: something does not hold."""
        ...

    def strikes(self, share: float) -> bool:
        """Draw whether it happens, as long as anything goes wrong."""
        ...

    def meddle(self, job_id: str) -> None:
        """Perhaps stop this job soon."""
        ...

    def parks(self, job_id: str, key: str, source: str) -> None: ...

    def ended(self, stage: str, outcome: str, acts: str) -> None: ...

    def answers_at_once(self, ctx: Any, question: Question) -> Answer: ...


def watched(stage: Stage) -> Stage:
    """The same stage in the loop, wherever else it runs, with somebody who looks on."""

    async def run(ctx: Context[Any]) -> Any:
        life, scene = LIFE.get(), SCENE.get()
        assert isinstance(life, Life), "a stage runs in a process"
        scene.meddle(ctx.job_id)
        with scene.witness.working(life.number, ctx.job_id, ctx.state):
            return await OnePass(stage, ctx, scene).run()

    return replace(stage, run=run, how="loop")


class OnePass:
    def __init__(self, stage: Stage, ctx: Context[Any], scene: WatchingScene) -> None:
        self.work = Pass(stage, ctx.job_id, scene.fault)
        self.scene = scene
        self._stage = stage
        self._ctx = ctx
        self._task = asyncio.current_task()
        self._over = False
        self._called_off = False
        step = (ctx.job_id, ctx.state, ctx.run_id)
        self.page = scene.ledger.page(step, self.work)
        self.page.begin(ctx.kept, ctx.artifacts)

    async def run(self) -> Any:
        token = AT_WORK.set(self.work)
        try:
            outcome = await Stepped(self._perform(), self._told_to_stop)
        except BaseException as fault:
            self._raised(fault)
            raise
        else:
            self._ended(returned(outcome, self._ctx.saved), None)
            return outcome
        finally:
            self._over = True
            AT_WORK.reset(token)
            left_behind(self.work, self.scene.folder)

    async def cut(self, share: float = 0.06) -> None:
        """Here, of all places, the service may die."""
        where = f"while {self._stage.name} was at work"
        if self.scene.strikes(share) and self.scene.take_down(where):
            self.page.cut_off()
            await anyio.Event().wait()

    def acted(self, what: str) -> None:
        self.work.acts.append(what)

    async def _perform(self) -> Any:
        given, host = given_of(self._ctx), OverlookedHost(self._ctx._host, self)
        if is_async(self._stage.run):
            context = WatchedContext(given, host, self._ctx.params)
            context.saved, context.one_pass = self._ctx.saved, self
            return await self._stage.run(context)
        return await self._at_once()

    async def _at_once(self) -> Any:
        """A plain function does everything in one moment; somewhere before or after it may be cut
        off. What it said is told in its order, when it has ended."""
        later = Later(self._ctx._host, self)
        plain = WatchedPlainContext(given_of(self._ctx), later, self._ctx.params, at_once)
        plain.one_pass = self
        await anyio.sleep(self.scene.draw.choice(TAKES_S))
        try:
            with lent_folder(self._stage, plain.scratch):
                outcome = self._stage.run(plain)
            await self.cut()
            return outcome
        finally:
            self._ctx.saved += plain.saved
            for tell in later.said:
                await ours(tell())

    # ------------------------------------------------------------ how it ended

    @property
    def _is_cancelled(self) -> bool:
        """Say whether the attempt is cancelled, not a scope within the stage: that one takes its
        cancellation back when it is left."""
        return self._task is not None and self._task.cancelling() > 0

    def _told_to_stop(self, why: asyncio.CancelledError) -> None:
        """A task group cancels the task that waits for it, and may leave that on its count."""
        if CALLED_OFF in why.args:
            self._called_off = True
            asyncio.get_running_loop().call_later(GIVES_UP_S, self._goes_on)

    def _goes_on(self) -> None:
        if not self._over:
            self.work.fault(
                f"goes on {GIVES_UP_S:.0f} s after it was cancelled: what must be cleaned up may "
                "not wait for others"
            )

    def _raised(self, fault: BaseException) -> None:
        if isinstance(fault, asyncio.CancelledError) and self._is_cancelled:
            self.page.cut_off()
            self.scene.ended(self._stage.name, "cut off", self._acts("cut off"))
            return
        self._ended(raised(fault), fault)

    def _ended(self, ended: Ended, fault: BaseException | None) -> None:
        work, failure = self.work, ended.failure
        outcome = failure.code if failure and ended.outcome == "failed" else ended.outcome
        if self._called_off:
            work.fault("swallows its cancellation: let CancelledError pass")
        if work.parked_at and not isinstance(fault, Parked):
            text = "swallows what parks it: ctx.await_callback leaves by an exception; let it pass"
            work.fault(text, work.parked_at)
        elif outcome == BUG and not isinstance(fault, RealWorld | HeldUp) and failure:
            self._buggy(failure.message, fault)
        self.page.ends(ended.outcome)
        if ended.outcome == "parked":
            key = ended.awaits.removeprefix(f"{ended.source}:") if ended.source else ended.awaits
            self.scene.parks(self._ctx.job_id, key, ended.source)
        self.scene.ended(self._stage.name, outcome, self._acts(ended))

    def _buggy(self, message: str, fault: BaseException | None) -> None:
        if fault is None:
            self.work.fault(f"ends as no stage may: {message}")
            return
        if isinstance(fault, BaseExceptionGroup):
            fault = fault.exceptions[0]
        said = f"{type(fault).__name__}: {fault}"[:300]
        self.work.fault(f"has a bug: it raises {said}", self.work.here(fault.__traceback__))

    def _acts(self, ended: object) -> str:
        """Digest all that it did; where files lie is another place each time."""
        if isinstance(ended, Ended):
            made = ended.report
            ended = as_decided(ended.outcome, made.result, made.artifacts, ended.awaits)
        told = "\n".join([*self.work.acts, repr(ended)]).replace(self.scene.folder, "")
        return hashlib.blake2b(told.encode("utf-8", "replace"), digest_size=8).hexdigest()


class Stepped:
    """Runs a coroutine as it is; ``on_cancel`` is told why its task is being cancelled."""

    def __init__(self, coro: Any, on_cancel: Callable[[asyncio.CancelledError], None]) -> None:
        self._coro = coro
        self._on_cancel = on_cancel

    def __await__(self) -> Any:
        step, given = self._coro.send, None
        while True:
            try:
                awaited = step(given)
            except StopIteration as done:
                return done.value
            try:
                step, given = self._coro.send, (yield awaited)
            except GeneratorExit:
                self._coro.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is passed on
                if isinstance(thrown, asyncio.CancelledError):
                    self._on_cancel(thrown)
                step, given = self._coro.throw, thrown


class _Noting:
    """The notes that both forms of the context take."""

    one_pass: OnePass

    def idempotency_key(self, name: str = "") -> str:
        key: str = super().idempotency_key(name)  # type: ignore[misc]
        self.one_pass.page.issued(key)
        return key

    def _answer(self, key: str, timeout_s: float, source: str) -> Any:
        try:
            return super()._answer(key, timeout_s, source)  # type: ignore[misc]
        except Parked:
            self.one_pass.work.parked_at = self.one_pass.work.here()
            raise

    def _asked_once(self, name: str) -> None:
        self.one_pass.page.asks_once(name)
        self.one_pass.acted(f"once {name}")


class WatchedContext(_Noting, Context[Any]):
    async def once(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        self._asked_once(name)
        fresh = name not in self.kept

        async def within() -> T:
            token = WITHIN.set(name)
            try:
                return await work()
            finally:
                WITHIN.reset(token)

        value = await super().once(name, within)
        if fresh:
            self.one_pass.page.keeps(name)
            await self.one_pass.cut()
        return value

    async def checkpoint(self, **artifacts: Any) -> None:
        await super().checkpoint(**artifacts)
        self.one_pass.page.checkpoints()
        await self.one_pass.cut()


class WatchedPlainContext(_Noting, PlainContext[Any]):
    def once(self, name: str, work: Callable[[], T]) -> T:
        self._asked_once(name)
        token = WITHIN.set(name)
        try:
            return super().once(name, work)
        finally:
            WITHIN.reset(token)


class OverlookedHost:
    """The host of a stage in the loop. What it does itself is not held against the stage."""

    def __init__(self, host: Host, one_pass: OnePass) -> None:
        self._host = host
        self._pass = one_pass
        self.log, self.fresh = host.log, host.fresh
        self.room, self.monotonic = host.room, host.monotonic

    async def progress(self, percent: int | None, message: str | None) -> None:
        await ours(self._host.progress(percent, message))

    async def keep(self, name: str, value: Any) -> None:
        await ours(self._host.keep(name, value))

    async def checkpoint(self, made: Report) -> None:
        await ours(self._host.checkpoint(made))

    async def block(self, function: Callable[[], T]) -> T:
        return await ours(self._host.block(function))

    async def ask(self, question: Question) -> Answer:
        with AskedQuestion(self._pass, question) as asking:
            answer = await ours(self._host.ask(question))
            asking.heard(answer)
        await self._pass.cut()
        return answer


class AskedQuestion:
    """One question of a stage, and what became of it."""

    def __init__(self, one_pass: OnePass, question: Question) -> None:
        one_pass.acted(_told(question))
        self._page = one_pass.page
        self._effect: Effect | None = None
        if isinstance(question, Exchange):
            self._effect = self._page.sends(question, WITHIN.get())

    def __enter__(self) -> Self:
        return self

    def heard(self, answer: Answer) -> None:
        if isinstance(answer, Reply) and answer.status >= 400:
            self._page.refused(self._effect)

    def __exit__(self, kind: object, fault: BaseException | None, trace: object) -> None:
        if isinstance(fault, StageFault):
            known = self._page.lost if fault.code in UNSURE else self._page.refused
            known(self._effect)


class Later:
    """The host of a plain function: takes what it says, and keeps it."""

    def __init__(self, host: Host, one_pass: OnePass) -> None:
        self._host = host
        self._pass = one_pass
        self.said: list[Callable[[], Awaitable[None]]] = []
        self.log, self.fresh = host.log, host.fresh
        self.room, self.monotonic = host.room, host.monotonic

    async def progress(self, percent: int | None, message: str | None) -> None:
        self.said.append(lambda: self._host.progress(percent, message))

    async def keep(self, name: str, value: Any) -> None:
        async def keep() -> None:
            await self._host.keep(name, value)
            self._pass.page.keeps(name)

        self.said.append(keep)

    async def checkpoint(self, made: Report) -> None:
        async def checkpoint() -> None:
            await self._host.checkpoint(made)
            self._pass.page.checkpoints()

        self.said.append(checkpoint)

    async def block(self, function: Callable[[], T]) -> T:
        return aside(function)  # type: ignore[no-any-return]

    async def ask(self, question: Question) -> Answer:
        with AskedQuestion(self._pass, question) as asking:
            answer = self._pass.scene.answers_at_once(self._pass._ctx, question)
            asking.heard(answer)
        return answer


async def ours(doing: Awaitable[T]) -> T:
    """The service at work on behalf of a stage."""
    token = AT_WORK.set(None)
    try:
        return await doing
    finally:
        AT_WORK.reset(token)


def _told(question: Question) -> str:
    if isinstance(question, Exchange):
        return f"{question.method} {question.url} {question.data!r} {sorted(question.headers)}"
    return repr(question)
