"""The machine that is measured: its cores, its file system, and what a flush to its disk costs."""

import os
import platform
import sqlite3
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from jobrunner.bench.clients import name as name_of_client
from jobrunner.bench.load import at_share
from jobrunner.ports import SystemFiles

FLUSHES = 200
MOUNTS = Path("/proc/mounts")
MEMORY_MS = 0.02


class Flush(Struct, frozen=True):
    """Appending a page to a file and waiting until it is on the disk, in ms."""

    p50_ms: float
    p99_ms: float

    def __str__(self) -> str:
        told = f"{self.p50_ms:.2f} ms, p99 {self.p99_ms:.2f} ms"
        memory = ": no disk is that quick, so nothing is safe there"
        return told + memory * (self.p50_ms < MEMORY_MS)


class Machine(Struct, frozen=True):
    cores: int
    memory_gib: float
    system: str
    python: str
    sqlite: str
    uvloop: str
    disk: str
    flush: Flush
    client: str

    def lines(self) -> list[str]:
        return [
            f"{self.cores} cores, {self.memory_gib:.0f} GiB, {self.system}",
            f"Python {self.python}, SQLite {self.sqlite}, {self.uvloop}",
            f"data on {self.disk}, a flush takes {self.flush}",
            f"asked by {self.client}",
        ]


def look_at(disk: Path) -> Machine:
    """``disk`` is a folder on it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cores=os.cpu_count() or 1,
        memory_gib=memory / 2**30,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        uvloop=f"uvloop {version('uvloop')}" if find_spec("uvloop") else "no uvloop",
        disk=f"{file_system(disk)} ({disk})",
        flush=flush(disk),
        client=name_of_client(),
    )


def flush(folder: Path) -> Flush:
    delays_ms = sorted(1000 * one for one in SystemFiles().flushes_s(str(folder), FLUSHES))
    return Flush(at_share(delays_ms, 0.5), at_share(delays_ms, 0.99))


def file_system(folder: Path) -> str:
    """The kind of the innermost mount that the folder lies on."""
    place = folder.resolve()
    try:
        mounts = [line.split() for line in MOUNTS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "an unknown file system"
    over = [(Path(mount[1]), mount[2]) for mount in mounts if place.is_relative_to(mount[1])]
    return max(over, key=lambda one: len(one[0].parts), default=(place, "unknown"))[1]
