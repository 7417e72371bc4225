"""One attempt of one stage, without a service: what went in, what came out, what it said."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from jobrunner.core.features.answers.posed import answer_key
from jobrunner.core.job import Asset, Failure
from jobrunner.core.messages import Ended, Report
from jobrunner.ports import Clock, Ids, SystemChildren, SystemClock, SystemIds
from jobrunner.stages.api import Stage, is_async
from jobrunner.stages.context import Context, PlainContext
from jobrunner.stages.given import Given
from jobrunner.stages.in_loop import run_in_loop
from jobrunner.stages.in_thread import run_in_thread
from jobrunner.stages.outcomes import failed, raised, returned
from jobrunner.stages.requests import Answer, JobSubmission, Question
from jobrunner.testing.kit import host_answers
from jobrunner.testing.kit.families import Ending, TrialChildren, ends_well
from jobrunner.testing.simulation.loop import Buried, RealWorld, SimLoop, demand_no_loop, simulated
from jobrunner.testing.simulation.passes import named
from jobrunner.testing.simulation.world import SimClock, SimIds, folder

T = TypeVar("T")
FOR_EVER_S = 30 * 86_400.0
ENDS_IN_S = 60.0


class StageTrial(Struct, frozen=True):
    """``outcome`` is ``done``, ``partial``, ``failed`` or ``rejected`` (see ``failure``), or
    ``parked`` (see ``awaits``). ``artifacts`` and ``assets`` hold what it made, by checkpoints
    too; ``files`` what was saved, by the asset's url; ``kept`` what went through ``once``;
    ``seconds`` the time that passed; ``children`` the jobs that it submitted."""

    outcome: str
    result: Any = None
    artifacts: dict[str, Any] = {}
    assets: tuple[Asset, ...] = ()
    failure: Failure | None = None
    awaits: str = ""
    files: dict[str, bytes] = {}
    progress: tuple[tuple[int | None, str | None], ...] = ()
    log: tuple[str, ...] = ()
    kept: dict[str, Any] = {}
    seconds: float = 0
    children: tuple[JobSubmission, ...] = ()


def run_stage(
    stage: Stage,
    params: Any = None,
    *,
    artifacts: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    kept: dict[str, Any] | None = None,
    answers: dict[str, Any] | None = None,
    files: Mapping[str, bytes] | None = None,
    assets: Mapping[str, tuple[str, bytes]] | None = None,
    http: Any = None,
    base_url: str = "http://jobrunner.test",
    state: str = "working",
    attempt: int = 1,
    seconds: float = 0,
    seed: int = 0,
    children: Ending = ends_well,
) -> StageTrial:
    """Runs the stage once, on a clock that passes by itself. ``params`` is the struct that it
    expects; ``kept`` and ``answers`` are what it finds when it runs again after a callback;
    ``files`` what lies behind artifacts; ``assets`` the owner's library, type and content by id;
    ``http`` answers what it asks of the network: a function, a provider, or several by origin;
    ``children`` says how a job that it submits ends, which it does at once (well, unless it says
    otherwise; an empty ``ended_as`` never does). After ``seconds`` it is ended, as an attempt is by
    the limit of its state."""
    demand_no_loop(
        f"a loop is running here already (an async test, a notebook): await "
        f"run_stage_live({stage.name!r}, ...), which takes the same arguments"
    )
    with folder() as root:
        given = _given(
            root, params, artifacts, settings, kept, answers, files, base_url, state, attempt,
            seconds,
        )  # fmt: skip
        network = host_answers.answers_of(http, seed)
        desk = host_answers.HostAnswers(given, assets or {}, network, TrialChildren(children))

        async def alone(loop: SimLoop) -> StageTrial:
            clock = SimClock(loop)
            return await _attempt(stage, _Host(clock, SimIds(clock, seed), desk))

        tried = simulated(alone, seed)
        if desk.reached:
            raise RealWorld(host_answers.NO_NETWORK)
        return tried


async def run_stage_live(
    stage: Stage,
    params: Any = None,
    *,
    origins: Iterable[str] = (),
    artifacts: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    kept: dict[str, Any] | None = None,
    answers: dict[str, Any] | None = None,
    files: Mapping[str, bytes] | None = None,
    assets: Mapping[str, tuple[str, bytes]] | None = None,
    http: Any = None,
    base_url: str = "http://jobrunner.test",
    state: str = "working",
    attempt: int = 1,
    seconds: float = 0,
) -> StageTrial:
    """The same in real time, where a loop is running, in a notebook for one. What it asks of the
    network goes there under the real guard: open are ``origins`` and those in ``settings``, as that
    of a server which the test has started; with ``http`` that answers instead. A plain stage runs
    in a thread."""
    clock = SystemClock()
    with folder() as root:
        given = _given(
            root, params, artifacts, settings, kept, answers, files, base_url, state, attempt,
            seconds,
        )  # fmt: skip
        if http is not None:
            scripted = host_answers.HostAnswers(
                given, assets or {}, host_answers.answers_of(http, 0)
            )
            return await _attempt(stage, _Host(clock, SystemIds(clock), scripted), live=True)
        desk = host_answers.LiveHostAnswers(given, assets or {}, tuple(origins))
        async with desk.closing():
            return await _attempt(stage, _Host(clock, SystemIds(clock), desk), live=True)


def _given(
    root: Path,
    params: Any,
    artifacts: dict[str, Any] | None,
    settings: dict[str, Any] | None,
    kept: dict[str, Any] | None,
    answers: dict[str, Any] | None,
    files: Mapping[str, bytes] | None,
    base_url: str,
    state: str,
    attempt: int,
    seconds: float,
) -> Given:
    return Given(
        job_id="job-1",
        workflow="trial",
        user_id="ada",
        job_type="trial",
        state=state,
        run_id="run-1",
        attempt=attempt,
        params=params,
        artifacts=artifacts or {},
        settings=settings or {},
        kept=kept or {},
        answers=_told(answers or {}),
        files=host_answers.kept_files(str(root), files or {}),
        seconds=seconds,
        root=str(root),
        folder="ada/job-1",
        scratch=str(root),
        base_url=base_url,
    )


def _told(answers: dict[str, Any]) -> dict[str, Any]:
    """Find them under the key of a callback, and under the name of a question."""
    asked = {answer_key(name): msgspec.to_builtins(value) for name, value in answers.items()}
    return {**answers, **asked}


class _Host:
    """Writes down what a stage says."""

    def __init__(self, clock: Clock, ids: Ids, desk: host_answers.HostAnswers) -> None:
        self.given = desk.given
        self.began_s = clock.monotonic()
        self._clock = clock
        self._ids = ids
        self._desk = desk
        self.said: list[tuple[int | None, str | None]] = []
        self.lines: list[str] = []
        self.kept: dict[str, Any] = {}
        self.made: list[Report] = []

    async def progress(self, percent: int | None, message: str | None) -> None:
        self.said.append((percent, message))

    async def keep(self, name: str, value: Any) -> None:
        self.kept[name] = value

    async def checkpoint(self, made: Report) -> None:
        self.made.append(made)

    async def ask(self, question: Question) -> Answer:
        return await self._desk.answer(question)

    @property
    def children(self) -> Iterable[JobSubmission]:
        return self._desk.children.submitted.values()

    def room(self, size: int) -> None:
        """There is always enough."""

    async def block(self, function: Callable[[], T]) -> T:
        return function()

    def log(self, line: str) -> None:
        self.lines.append(line)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def fresh(self) -> str:
        return self._ids.fresh()


async def _attempt(stage: Stage, host: _Host, live: bool = False) -> StageTrial:
    given = host.given
    ended = await _ended_in_time(stage, given, host, live)
    report = ended.report
    made = [*host.made, report]
    artifacts = {name: value for part in made for name, value in part.artifacts.items()}
    assets = tuple(asset for part in made for asset in part.assets)
    files = {
        asset.url: Path(given.root, asset.storage_path).read_bytes() for asset in assets
        if asset.storage_path
    }  # fmt: skip
    return StageTrial(
        ended.outcome, report.result, artifacts, assets, ended.failure, ended.awaits, files,
        tuple(host.said), tuple(host.lines), host.kept, host.monotonic() - host.began_s,
        tuple(host.children),
    )  # fmt: skip


async def _ended_in_time(stage: Stage, given: Given, host: _Host, live: bool) -> Ended:
    """One that has no limit of its own waits for ever when a month of simulated time is over."""
    limit_s = given.seconds or (None if live else FOR_EVER_S)
    doing = asyncio.ensure_future((_ended_live if live else _ended)(stage, given, host))
    try:
        await asyncio.wait({doing}, timeout=limit_s)
        if doing.done():
            return doing.result()
    finally:
        doing.cancel()
    await asyncio.wait({doing}, timeout=ENDS_IN_S)
    assert given.seconds, (
        f"{named(stage)} waits for ever: nobody came within {FOR_EVER_S / 86_400:.0f} days of its "
        "own time; give it what it waits for, or seconds= to see it ended"
    )
    return _late(given)


def _late(given: Given) -> Ended:
    text = f"the stage of {given.state} took longer than it may"
    return failed("STAGE_TIMEOUT", text, retryable=True)


async def _ended_live(stage: Stage, given: Given, host: _Host) -> Ended:
    if is_async(stage.run):
        return await run_in_loop(stage, given, given.params, host)
    return await run_in_thread(stage, given, given.params, host, SystemChildren())


async def _ended(stage: Stage, given: Given, host: _Host) -> Ended:
    context: Context[Any] | PlainContext[Any]
    try:
        if is_async(stage.run):
            context = Context(given, host, given.params)
            outcome = await stage.run(context)
        else:
            context = PlainContext(given, host, given.params, at_once)
            with _alarm(given.seconds):
                outcome = stage.run(context)
    except _Late:
        return _late(given)
    except (asyncio.CancelledError, Buried, KeyboardInterrupt):
        raise
    except BaseException as fault:  # noqa: BLE001 - the stage host would catch it too
        return raised(fault)
    return returned(outcome, context.saved)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """A plain function waits in real time, and only the main thread can be woken."""
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Late(BaseException):
    """Unwinds a plain function whose time is up."""


def at_once(doing: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine of a host that never has to wait."""
    try:
        while doing.send(None) is None:
            pass
    except StopIteration as done:
        return done.value
    raise RealWorld("a plain stage waited for something that is not there")
