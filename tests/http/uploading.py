"""What the tests of files share: a service with the workflows that take some, and clients that send
as badly as clients can."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jobrunner.config.overrides import laid_over
from jobrunner.config.settings import WorkflowSettings
from jobrunner.core.declaration.workflow import EXTERNAL, Workflow
from jobrunner.files.incoming import Arrivals
from jobrunner.ports import SystemClock
from jobrunner.stages import Registry
from tests.http.serving import House, Said

CSV = b"region,month,sum\nnorth,1,7\n"
PLAIN = {"Content-Type": "text/csv"}
VIDEO = {"Content-Type": "video/mp4"}


def takers() -> Registry:
    """The workflows that take files, driven from outside."""
    from jobrunner_howera import definition as video
    from jobrunner_ss import definition as table

    def overlay(workflow: Workflow) -> tuple[Workflow, tuple[str, ...]]:
        states = [
            replace(state, on_demand=EXTERNAL) if state.on_demand else state
            for state in workflow.states
        ]
        outside = WorkflowSettings(stages={"*": EXTERNAL})
        return laid_over(replace(workflow, states=tuple(states)), outside)

    registry = Registry(overlay)
    for definition in (video, table):
        registry.add(definition)
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


def root(house: House) -> Path:
    return Path(house.service.facade.world.assets)


def parts(house: House) -> list[str]:
    """What is coming in."""
    return sorted(os.listdir(root(house) / ".incoming"))


def files(house: House, below: str = "") -> list[str]:
    """Every file at its place."""
    return sorted(
        path.relative_to(root(house)).as_posix()
        for path in (root(house) / below).rglob("*")
        if path.is_file() and ".incoming" not in path.parts
    )


async def send(
    caller: Any,
    path: str,
    data: Any = CSV,
    headers: dict[str, str] | None = None,
    method: str = "PUT",
) -> Said:
    said: Said = await caller.ask(method, path, data=data, headers={**PLAIN, **(headers or {})})
    return said


@asynccontextmanager
async def line(
    house: House,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection."""
    host, _, port = house.service.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


def head(house: House, method: str, path: str, **headers: str) -> bytes:
    """The lines before a body, as ada would send them."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {house.ada.token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def arrivals_of(house: House) -> Arrivals:
    """The service's own, found among what lives."""
    here = [one for one in gc.get_objects() if isinstance(one, Arrivals)]
    return next(one for one in here if one._root == root(house))


def incoming(what: Any) -> bool:
    """A part, open or by its path."""
    return ".incoming" in (
        os.readlink(f"/proc/self/fd/{what}") if isinstance(what, int) else str(what)
    )


class Leaping(SystemClock):
    """A clock that goes a second further each time somebody looks at it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 1
        return self.now_s


def silent() -> Any:
    """A request whose body never comes."""
    return _Request(asyncio.StreamReader(), 0)


def dripping(seconds: int) -> Any:
    """A request whose body comes byte by byte, for longer than anybody should wait."""
    return _Request(asyncio.StreamReader(), seconds)


class _Request:
    def __init__(self, reader: asyncio.StreamReader, drops: int) -> None:
        self.headers: dict[str, str] = {}
        self.content = self
        self._reader, self._drops = reader, drops

    async def readany(self) -> bytes:
        if not self._drops:
            return await self._reader.read(1)
        self._drops -= 1
        return b"x"


async def until(true: Any) -> None:
    """Wait for a condition; a test that waits in vain is ended from outside."""
    for _ in range(12_000):
        found = true()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")
