"""One attempt of one stage, without a service: what went in, what came out, what it said."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from jobrunner.core.job import Asset, Failure
from jobrunner.core.messages import Ended
from jobrunner.stages.api import Stage, is_async
from jobrunner.stages.context import Context, Given, PlainContext
from jobrunner.stages.outcomes import Parked
from jobrunner.stages.verdict import raised, returned
from jobrunner.testing.loop import RealWorld, SimLoop, simulated
from jobrunner.testing.world import SimClock, SimIds, folder

T = TypeVar("T")


class Attempt(Struct, frozen=True):
    """``outcome`` is ``done``, ``partial``, ``failed`` or ``rejected`` (see ``failure``), or
    ``parked`` (see ``awaits``). ``files`` holds what was saved, by the asset's url; ``kept`` what
    went through ``once``; ``seconds`` the time that passed, none of it real."""

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


def run_stage(
    stage: Stage,
    params: Any = None,
    *,
    artifacts: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    kept: dict[str, Any] | None = None,
    answers: dict[str, Any] | None = None,
    state: str = "working",
    attempt: int = 1,
    seconds: float = 0,
    seed: int = 0,
) -> Attempt:
    """Runs the stage once, on a clock that passes by itself. ``params`` is the struct that it
    expects; ``kept`` and ``answers`` are what it finds when it runs again after a callback."""
    with folder() as root:
        given = Given(
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
            answers=answers or {},
            seconds=seconds,
            root=str(root),
            folder="ada/job-1",
            scratch=str(root),
        )
        return simulated(lambda loop: _attempt(loop, stage, given, seed), seed)


class _Host:
    """Writes down what a stage says."""

    def __init__(self, loop: SimLoop, seed: int) -> None:
        self._loop = loop
        self._ids = SimIds(SimClock(loop), seed)
        self.said: list[tuple[int | None, str | None]] = []
        self.lines: list[str] = []
        self.kept: dict[str, Any] = {}

    async def progress(self, percent: int | None, message: str | None) -> None:
        self.said.append((percent, message))

    async def keep(self, name: str, value: Any) -> None:
        self.kept[name] = value

    async def block(self, function: Callable[[], T]) -> T:
        return function()

    def log(self, line: str) -> None:
        self.lines.append(line)

    def monotonic(self) -> float:
        return self._loop.time()

    def fresh(self) -> str:
        return self._ids.fresh()


async def _attempt(loop: SimLoop, stage: Stage, given: Given, seed: int) -> Attempt:
    host = _Host(loop, seed)
    ended = await _ended(stage, given, host)
    report = ended.report
    files = {
        asset.url: Path(given.root, asset.storage_path).read_bytes() for asset in report.assets
        if asset.storage_path
    }  # fmt: skip
    return Attempt(
        ended.outcome, report.result, report.artifacts, report.assets, ended.failure, ended.awaits,
        files, tuple(host.said), tuple(host.lines), host.kept, loop.time(),
    )  # fmt: skip


async def _ended(stage: Stage, given: Given, host: _Host) -> Ended:
    context: Context[Any] | PlainContext[Any]
    try:
        if is_async(stage.run):
            context = Context(given, host, given.params)
            outcome = await stage.run(context)
        else:
            context = PlainContext(given, host, given.params, _at_once)
            outcome = stage.run(context)
    except (Exception, Parked) as fault:  # noqa: BLE001 - the stage host would catch it too
        return raised(fault)
    return returned(outcome, context.saved)


def _at_once(doing: Coroutine[Any, Any, Any]) -> Any:
    """For a host that never has to wait."""
    try:
        doing.send(None)
    except StopIteration as done:
        return done.value
    raise RealWorld("a plain stage waited for something that is not there")
