"""One pass of a stage: from its first line until it returns, raises or is cut off. Who is at work
now, and at which line, is known here to everybody who looks on."""

import functools
import inspect
import os
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType, FrameType, TracebackType
from typing import Any

from jobrunner.stages.api import Stage, is_async

OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Pass:
    """``plain``: a plain function, which may wait and start programs; nobody else is held up.
    ``acts`` is everything that it was seen to do, in order."""

    def __init__(self, stage: Stage, job_id: str, fault: Callable[[str], None]) -> None:
        self.stage = stage
        self.job_id = job_id
        self.plain = not is_async(stage.run)
        self.acts: list[str] = []
        self.tasks: list[tuple[Any, str]] = []
        self.programs: list[tuple[Any, str]] = []
        self.threads: list[tuple[Any, str]] = []
        self.files: dict[str, str] = {}
        self.parked_at = ""
        self._code = code_of(stage.run)
        self._fault = fault

    def __str__(self) -> str:
        return named(self.stage)

    def fault(self, text: str, where: str = "") -> None:
        """Report something that a stage may not do, with its job, its name and its line."""
        place = f" at {where}" if where and where not in str(self) else ""
        self._fault(f"job {self.job_id}: {self} {text}{place}")

    def here(self, trace: TracebackType | None = None) -> str:
        """The line that the stage has come to; by a traceback, where it was left."""
        frames: list[tuple[CodeType, int]] = []
        while trace is not None:
            frames.insert(0, (trace.tb_frame.f_code, trace.tb_lineno))
            trace = trace.tb_next
        return self._line(frames or _frames(inspect.currentframe()))

    def _line(self, frames: list[tuple[CodeType, int]]) -> str:
        """The innermost of its author's own: beside the stage, or in a folder below."""
        if self._code is None:
            return ""
        folder = os.path.dirname(os.path.abspath(self._code.co_filename))
        for code, line in frames:
            path = os.path.abspath(code.co_filename)
            if path.startswith(folder + os.sep) and not path.startswith(OURS + os.sep + "testing"):
                return f"{shown(path)}:{line}"
        return ""


AT_WORK: ContextVar[Pass | None] = ContextVar("at_work", default=None)


def named(stage: Stage) -> str:
    """A stage by its name and its first line."""
    code = code_of(stage.run)
    if code is None:
        return f"stage {stage.name}"
    return f"stage {stage.name} ({shown(os.path.abspath(code.co_filename))}:{code.co_firstlineno})"


def code_of(run: Any) -> CodeType | None:
    """The code behind a function, whatever it is wrapped in."""
    while isinstance(run, functools.partial):
        run = run.func
    run = inspect.unwrap(run)
    called = run if hasattr(run, "__code__") else getattr(type(run), "__call__", None)  # noqa: B004
    return getattr(getattr(called, "__func__", called), "__code__", None)


def shown(path: str) -> str:
    """Show a path as one would type it from here."""
    beside = os.path.relpath(path)
    return path if beside.startswith(os.pardir) else beside


def _frames(frame: FrameType | None) -> list[tuple[CodeType, int]]:
    found = []
    while frame is not None:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return found
