"""A stage in a process of its own: what runs there once its limits are set. It reads what it is
told from one pipe, and says how it goes on another; both are frames of data.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

from jobrunner.core.declaration.params import Stale, decoded
from jobrunner.core.messages import Ended, Report
from jobrunner.errors import PermanentFailure
from jobrunner.files.space import Room
from jobrunner.outgoing.calls import BAD_REQUEST
from jobrunner.ports import SystemClock, SystemFiles, SystemIds, one_at_a_time
from jobrunner.stages.api import Stage, is_async
from jobrunner.stages.context import Context, PlainContext
from jobrunner.stages.outcomes import failed, raised, returned
from jobrunner.stages.process.wire import (
    FRAME_MAX,
    HEAD,
    Acknowledged,
    Keeping,
    Line,
    Loaded,
    Making,
    Over,
    ProgressSaid,
    Said,
    Task,
    Told,
    framed,
    length,
    told,
)
from jobrunner.stages.requests import Answer, CarriedFault, Question

T = TypeVar("T")
BETWEEN_S = 0.1
LINES_MAX = 1_000


def perform(heard: int, out: int) -> None:
    """Run one attempt: everything that happens in it becomes its last frame."""
    pipe = Pipe(heard, out)
    task = pipe.hear()
    assert isinstance(task, Task), "a stage is told its task first"
    host = PipeHost(pipe, Room(SystemFiles(), task.given.root, task.given.floor))
    ended = _attempt(task, host)
    host.flush()
    pipe.say(Over(ended))


def _attempt(task: Task, host: "PipeHost") -> Ended:
    context: Context[Any] | PlainContext[Any]
    try:
        run = found_at(task.run)
        run = run.run if isinstance(run, Stage) else run
        kind = found_at(task.params) if task.params else None
        params = decoded(task.given.params, kind) if kind else task.given.params
        host.begin()
        if is_async(run):
            context = Context(task.given, host, params)
            outcome = asyncio.run(run(context))
        else:
            context = PlainContext(task.given, host, params, _at_once)
            outcome = run(context)
    except Stale as stale:
        return failed("PARAMS_STALE", str(stale))
    except BaseException as fault:
        return raised(fault)
    return returned(outcome, context.saved)


def found_at(where: str) -> Any:
    """Import what stands at ``module:name``."""
    module, _, name = where.partition(":")
    found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _at_once(doing: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits: what blocks here, blocks only this process."""
    try:
        doing.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a pipe does not wait")


class Pipe:
    """Both directions, blocking."""

    def __init__(self, heard: int, out: int) -> None:
        self._heard = heard
        self._out = out
        self._pen = one_at_a_time()

    def say(self, message: Said) -> None:
        self.write(framed(message))

    def write(self, frame: bytes) -> None:
        data = memoryview(frame)
        with self._pen:
            while data:
                data = data[os.write(self._out, data) :]

    def hear(self) -> Told:
        return told(self._read(length(self._read(HEAD))))

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = os.read(self._heard, size - len(parts))
            if not part:
                raise EOFError("the service is gone")
            parts += part
        return bytes(parts)


class PipeHost:
    """The host as a stage in a process sees it. Progress is thinned out here already, so that one
    that is reported a thousand times a second costs the service ten frames."""

    def __init__(self, pipe: Pipe, room: Room) -> None:
        self._pipe = pipe
        self._turn = one_at_a_time()
        self.room = room
        self._clock = SystemClock()
        self._ids = SystemIds(self._clock)
        self._last = float("-inf")
        self._late: ProgressSaid | None = None
        self._lines = 0

    def begin(self) -> None:
        """Wait for the word: the service looks at the code that was imported."""
        self._told(Loaded())

    async def progress(self, percent: int | None, message: str | None) -> None:
        now = self._clock.monotonic()
        self._late = ProgressSaid(percent, message)
        if now - self._last >= BETWEEN_S:
            self._last = now
            self.flush()

    async def keep(self, name: str, value: Any) -> None:
        self._told(Keeping(name, value))

    async def checkpoint(self, made: Report) -> None:
        self._told(Making(made))

    async def ask(self, question: Question) -> Answer:
        """Ask the service; what another thread of the stage wants meanwhile waits for its turn."""
        self.flush()
        answer = self._told(question, _sendable(question))
        if isinstance(answer, CarriedFault):
            raise answer.fault()
        assert not isinstance(answer, Task | Acknowledged), (
            f"{answer!r} is no answer to {question!r}"
        )
        return answer

    async def block(self, function: Callable[[], T]) -> T:
        return function()

    def log(self, line: str) -> None:
        self._lines += 1
        if self._lines <= LINES_MAX:
            self._pipe.say(Line(line))

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def fresh(self) -> str:
        return self._ids.fresh()

    def _told(self, message: Said, frame: bytes = b"") -> Told:
        with self._turn:
            self._pipe.write(frame or framed(message))
            return self._pipe.hear()

    def flush(self) -> None:
        if self._late is not None:
            self._pipe.say(self._late)
            self._late = None


def _sendable(question: Question) -> bytes:
    """Frame a question, or refuse one that a pipe does not carry: it is data, and not too much."""
    try:
        frame = framed(question)
    except (TypeError, ValueError) as error:
        text = "a stage in a process sends bytes, texts and forms of texts"
        raise PermanentFailure(BAD_REQUEST, text) from error
    if len(frame) > FRAME_MAX:
        text = f"a stage in a process sends at most {FRAME_MAX} bytes, and this is {len(frame)}"
        raise PermanentFailure(BAD_REQUEST, text)
    return frame
