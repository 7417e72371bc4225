"""A stage in a process of its own, seen from the service: started clean, talked to in frames, and
ended with everything that it started, whatever the reason.
"""

import os
import sys
from collections.abc import Mapping
from functools import partial
from inspect import ismethod
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.messages import Ended
from jobrunner.errors import StageFault
from jobrunner.outgoing.calls import Exchange
from jobrunner.ports import Child, Children
from jobrunner.stages.api import Stage
from jobrunner.stages.given import Given, Host
from jobrunner.stages.outcomes import crashed, failed
from jobrunner.stages.process import launcher
from jobrunner.stages.process.code import changed, interrupted
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
    framed,
    length,
    said,
)
from jobrunner.stages.requests import Answer, CarriedFault, Question, carried

LAUNCHER = str(Path(launcher.__file__).resolve())
PATIENCE_S = 10.0
LAST_WORDS_S = 2.0
TAIL = 16 * 1024
CPU_SIGNAL, SIGNAL = 24, 128
TOO_MUCH = (
    f"the answer does not fit into the {FRAME_MAX} bytes that a stage in a process is handed at a "
    "time; fetch it as a file with ctx.download"
)


async def run_in_process(
    stage: Stage, given: Given, kind: type[Struct] | None, host: Host, children: Children
) -> Ended:
    run = address(stage.run)
    if not run or (kind is not None and not address(kind)):
        text = f"a process cannot find {stage.run!r}; stages and params stand in a module"
        return failed("STAGE_UNAVAILABLE", text)
    if where := await children.in_thread(partial(changed, stage)):
        return interrupted(stage, where, host.log)
    program = (sys.executable, "-I", LAUNCHER)
    child = await children.spawn(program, _orders(stage), given.scratch, lent(given.settings))
    attempt = ProcessAttempt(stage, child, host)
    try:
        return await attempt.until_over(Task(run, address(kind) if kind else "", given))
    finally:
        with anyio.CancelScope(shield=True):
            await attempt.clear_away()


def address(thing: object) -> str:
    """``module:name`` of what stands in a module by its own name; else empty."""
    module = getattr(thing, "__module__", "") or ""
    name = getattr(thing, "__qualname__", "") or ""
    hidden = not name or "<" in name or module == "__main__" or ismethod(thing)
    return "" if hidden else f"{module}:{name}"


def lent(settings: Mapping[str, Any]) -> list[str]:
    """The variables that a process sees: those that the settings list, and those in which they say
    that a key is."""
    keys = [value for name, value in settings.items() if name.endswith("key_env") and value]
    return [str(name) for name in (*settings.get("environment", ()), *keys)]


def _orders(stage: Stage) -> dict[str, object]:
    limits = ("memory", "cpu_s", "file_size", "open_files", "processes")
    return {
        "path": [os.path.abspath(path) for path in sys.path],
        "limits": {name: getattr(stage, name) for name in limits},
    }


class ProcessAttempt:
    """A process under way, and what it has said and printed so far."""

    def __init__(self, stage: Stage, child: Child, host: Host) -> None:
        self._stage = stage
        self._child = child
        self._host = host
        self._ended: Ended | None = None
        self._printed = 0
        self._tail = b""
        self._silent = anyio.Event()
        self._asking = False
        self._group: TaskGroup | None = None

    async def until_over(self, task: Task) -> Ended:
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self._drain)
            await self._child.send(framed(task))
            await self._converse()
            code = await self._gone()
            with anyio.move_on_after(LAST_WORDS_S):
                await self._silent.wait()
            group.cancel_scope.cancel()
        return self._verdict(code)

    async def clear_away(self) -> None:
        """Asked, then told, then made to."""
        for order in (self._child.stop, self._child.cut, self._child.kill):
            order()
            with anyio.move_on_after(PATIENCE_S):
                await self._child.wait()
                break
        for line in self._tail.decode("utf-8", "replace").splitlines()[-50:]:
            self._host.log(line)
        self._tail = b""

    async def _converse(self) -> None:
        while self._ended is None:
            try:
                head = await self._child.receive(HEAD)
                if not head:
                    return
                message = said(await self._child.receive(length(head)))
            except ValueError as error:
                self._ended = crashed(f"the stage said what is no message: {error}")
                self._child.cut()
                return
            await self._hear(message)

    async def _hear(self, message: Said) -> None:
        match message:
            case ProgressSaid(percent, text):
                await self._host.progress(percent, text)
            case Line(text):
                self._host.log(text)
            case Keeping(name, value):
                await self._host.keep(name, value)
                await self._child.send(framed(Acknowledged()))
            case Making(made):
                await self._host.checkpoint(made)
                await self._child.send(framed(Acknowledged()))
            case Loaded():
                if where := await self._host.block(partial(changed, self._stage)):
                    self._ended = interrupted(self._stage, where, self._host.log)
                    self._child.cut()
                else:
                    await self._child.send(framed(Acknowledged()))
            case Over(ended):
                self._ended = ended
            case question:
                self._hear_question(question)

    def _hear_question(self, question: Question) -> None:
        """Answered beside the conversation, which goes on: its end calls off the answer."""
        if self._asking:
            self._ended = crashed("the stage asked a second time before it was answered")
            self._child.cut()
            return
        assert self._group is not None, "a stage asks while it is listened to"
        if isinstance(question, Exchange):
            question = replace(question, max_size=min(question.max_size, FRAME_MAX))
        self._asking = True
        self._group.start_soon(self._answer, question)

    async def _answer(self, question: Question) -> None:
        try:
            answer: Answer | CarriedFault = await self._host.ask(question)
        except StageFault as fault:
            answer = carried(fault)
        frame = framed(answer)
        if len(frame) > FRAME_MAX:
            frame = framed(CarriedFault("permanent", "DOWNLOAD_TOO_LARGE", TOO_MUCH))
        self._asking = False
        await self._child.send(frame)

    async def _drain(self) -> None:
        """Read what it prints for as long as anything of it lives, so that it never waits."""
        while data := await self._child.printed():
            self._printed += len(data)
            self._tail = (self._tail + data)[-TAIL:]
            if self._stage.output and self._printed > self._stage.output:
                self._child.cut()
        self._silent.set()

    async def _gone(self) -> int:
        """A process that has said its last word, or closed its pipe, has a moment to go."""
        with anyio.move_on_after(PATIENCE_S):
            return await self._child.wait()
        self._child.cut()
        return await self._child.wait()

    def _verdict(self, code: int) -> Ended:
        """The first reason counts: a process that was ended for its output did not crash."""
        if self._stage.output and self._printed > self._stage.output:
            return failed("OUTPUT_LIMIT", f"the stage printed over {self._stage.output} bytes")
        if code == launcher.TOO_MANY:
            return failed("PROCESS_LIMIT", f"the stage started over {self._stage.processes}")
        if self._ended is not None:
            return self._ended
        if code == SIGNAL + CPU_SIGNAL:
            return failed("CPU_LIMIT", f"the stage computed for over {self._stage.cpu_s} s")
        if code > SIGNAL:
            return crashed(f"the stage's process was ended by signal {code - SIGNAL}")
        return crashed(f"the stage's process ended with code {code} and said nothing")
