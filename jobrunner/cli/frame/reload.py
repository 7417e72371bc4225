"""``serve --reload``: restarts the service whenever a file of a plugin has changed and everything
loads; while something does not, the old one goes on, and says so.

Files are looked at by their times, now and then: a few folders of sources cost nothing to speak of.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import anyio
import msgspec

from jobrunner.config.settings import Config
from jobrunner.ports import system_ports
from jobrunner.ports.restarts import RestartedProgram, output_of
from jobrunner.stages.distributions import brought

POLL_S = 0.5
REMIND_S = 30.0
SHOWN_MAX = 3
SKIPPED = {"__pycache__", "node_modules", "build", "dist"}
ENDINGS = (".py", ".toml", ".txt", ".json")
Stamps = dict[str, tuple[int, int]]


async def serve_anew(config: Config, words: Sequence[str]) -> int:
    """Serve and restart until a signal says stop. ``words`` are those of the command line."""
    program = (sys.executable, "-m", "jobrunner")
    loop = ReloadLoop(config, RestartedProgram((*program, "serve", *words)),
                      (*program, "plugin", "list", "-o", "json", *words))  # fmt: skip
    async with system_ports().signals.stops() as stops, anyio.create_task_group() as group:
        group.start_soon(loop.run)
        async for _ in stops:
            break
        group.cancel_scope.cancel()
    return await loop.service.stop()


class ReloadLoop:
    """``service`` is what is started anew, ``asking`` the command that lists what plugins bring."""

    def __init__(self, config: Config, service: RestartedProgram, asking: Sequence[str]) -> None:
        self.service = service
        self._config = config
        self._asking = asking
        self._known: set[str] = set()
        self._pending: set[str] = set()
        self._said_s = 0.0
        self._told_of_end = False

    async def run(self) -> None:
        seen = self._stamps()
        await self.service.start()
        self._known = await self._faults()
        self._say(*sorted(self._known))
        while True:
            await anyio.sleep(POLL_S)
            now = self._stamps()
            if now == seen:
                self._remind()
                continue
            seen = await self._settled(now, seen)
            await self._again()

    async def _settled(self, now: Stamps, seen: Stamps) -> Stamps:
        """An installer writes many files; wait until it has done so."""
        changed = set(now.items()) ^ set(seen.items())
        while True:
            await anyio.sleep(POLL_S)
            later = self._stamps()
            if later == now:
                break
            changed |= set(now.items()) ^ set(later.items())
            now = later
        self._say(f"changed: {_brief(sorted({path for path, _ in changed}))}")
        return now

    async def _again(self) -> None:
        faults = await self._faults()
        self._say(*sorted(faults))
        if faults - self._known:
            self._say("the service goes on as it was; it starts anew when this is mended")
            self._pending = faults - self._known
            return
        self._pending, self._known, self._told_of_end = set(), faults, False
        self._say("starting anew")
        await self.service.stop()
        await self.service.start()

    def _remind(self) -> None:
        if self.service.code is not None and not self._told_of_end:
            self._told_of_end = True
            code = self.service.code
            self._say(f"the service has ended ({code}); it starts anew when a file changes")
        wrong = self._pending | self._known
        if wrong and anyio.current_time() - self._said_s > REMIND_S:
            self._say(*sorted(wrong))

    def _say(self, *lines: str) -> None:
        for line in lines:
            print(f"reload: {line}", file=sys.stderr, flush=True)
        if lines:
            self._said_s = anyio.current_time()

    async def _faults(self) -> set[str]:
        """List the faults that the service would find now."""
        told = msgspec.json.decode(await output_of(self._asking) or b"[]")
        return {f"{one['name']}: {fault}" for one in told for fault in one["faults"]}

    def _stamps(self) -> Stamps:
        return dict(_stamped(_folders(self._config)))


def _folders(config: Config) -> list[str]:
    """The sources of plugins that are installed in place, and the folder that others are put in."""
    own = {one.folder for one in brought() if one.editable}
    return sorted(own | {os.path.abspath(config.plugins.path)})


def _stamped(folders: Iterable[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    for folder in folders:
        for place, inner, files in os.walk(folder):
            inner[:] = [name for name in inner if name not in SKIPPED and name[0] != "."]
            for name in files:
                if name.endswith(ENDINGS):
                    yield from _stamp(os.path.join(place, name))


def _stamp(path: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        found = os.stat(path)
    except OSError:
        return  # it has just gone
    yield path, (found.st_mtime_ns, found.st_size)


def _brief(paths: Sequence[str]) -> str:
    shown = [str(Path(os.path.relpath(path))) for path in paths[:SHOWN_MAX]]
    more = f" and {len(paths) - SHOWN_MAX} more" if len(paths) > SHOWN_MAX else ""
    return ", ".join(shown) + more
