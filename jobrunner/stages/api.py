"""A stage: a named piece of work, how it runs, and what it needs."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from jobrunner.stages.context import Context, PlainContext
from jobrunner.stages.outcomes import Outcome

How = Literal["loop", "thread", "process"]
Where = Literal["here", "dask"]
Awaiting = Callable[[Context[Any]], Awaitable[Outcome]]
Abandoning = Callable[[Context[Any]], Awaitable[None]]
Plain = Callable[[PlainContext[Any]], Outcome]
MIB = 1024 * 1024


class Stage(Struct, frozen=True, dict=True):
    """An entry point of the group ``jobrunner.stages`` leads to one of these.

    how           ``loop`` (for code that awaits; trusted), ``thread`` (for calls that release the
                  lock of the interpreter; trusted), ``process`` (a process of its own: whatever it
                  does costs one attempt). Left out: ``loop`` for an ``async def``, else ``process``
    resources     how many of the operator's ``[resources]`` an attempt takes
    rates         how much an attempt takes of the operator's ``[rates]`` when it starts, by their
                  names: until there is room it waits in line, without a slot
    pace          the limit of such a rate, as ``{"openai": "60/min"}``, where ``[rates]`` does not
                  name it; a rate that nobody gives a limit is held back by its provider alone
    supply        how many of a resource there are where ``[resources]`` does not say: what this
                  machine has for it
    concurrency   how many attempts of this stage run at a time (0: as many as there are slots)
    abandon       an ``async def`` that is called once when a job has come to its end and this stage
                  was not done: it was cancelled or has expired, say, and a provider is still at
                  work. It has a few seconds, nobody tries it again, and ``ctx.kept`` tells it what
                  ``once`` has stored
    asks          the structs of the answers that it asks for, with ``ctx.question``
    was           names that it had before: older declarations that bind them find it
    where         ``dask``: on a cluster, where the operator does not bind its place to ``here``;
                  ``resources`` are then asked of its worker

    For a process, per attempt; 0 is no limit:

    memory        bytes of address space of each of its processes
    cpu_s         seconds of computing of each of its processes
    file_size     bytes of one file
    open_files    files that are open at a time
    processes     processes it may start, itself included
    output        bytes that it may print; the end of it is kept with the attempt
    """

    name: str
    run: Callable[[Any], Any]
    how: How | None = None
    resources: dict[str, int] = {}
    concurrency: int = 0
    abandon: Abandoning | None = None
    supply: dict[str, int] = {}
    rates: dict[str, int] = {}
    pace: dict[str, str] = {}
    asks: tuple[type[Struct], ...] = ()
    was: tuple[str, ...] = ()
    memory: int = 2048 * MIB
    cpu_s: int = 0
    file_size: int = 2048 * MIB
    open_files: int = 256
    processes: int = 64
    output: int = 16 * MIB
    where: Where = "here"

    @cached_property
    def runs(self) -> How:
        # looked up several times an attempt, and slow to find out
        return self.how or ("loop" if is_async(self.run) else "process")


def is_async(run: Callable[..., Any]) -> bool:
    """An ``async def``, or an object that is called like one."""
    called = getattr(type(run), "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(called)


def stage(
    name: str,
    *,
    how: How | None = None,
    resources: dict[str, int] | None = None,
    concurrency: int = 0,
    abandon: Abandoning | None = None,
    supply: dict[str, int] | None = None,
    rates: dict[str, int] | None = None,
    pace: dict[str, str] | None = None,
    asks: Iterable[type[Struct]] = (),
    was: str | tuple[str, ...] = (),
    memory: int = 2048 * MIB,
    cpu_s: int = 0,
    file_size: int = 2048 * MIB,
    open_files: int = 256,
    processes: int = 64,
    output: int = 16 * MIB,
    run: Where = "here",
) -> Callable[[Awaiting | Plain], Stage]:
    """Makes a function a stage: ``@stage("hello.greet")``. ``run="dask"`` has it run on a cluster.
    The rest is as ``Stage`` has it."""
    limits = memory, cpu_s, file_size, open_files, processes, output

    def made(does: Awaiting | Plain) -> Stage:
        needed, there = resources or {}, supply or {}
        turns, paces, asked = rates or {}, pace or {}, tuple(asks)
        before = (was,) if isinstance(was, str) else was
        own = needed, concurrency, abandon, there, turns, paces, asked, before
        return Stage(name, does, how, *own, *limits, where=run)

    return made
