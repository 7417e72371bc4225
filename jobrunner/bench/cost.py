"""The CPU and the memory of a process, out of /proc. Where there is none (macOS) they are 0."""

import os
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """Seconds of CPU: of a process with all its threads, and of its first thread, the loop's."""

    all_s: float = 0.0
    loop_s: float = 0.0

    def since(self, before: "Used") -> "Used":
        return Used(self.all_s - before.all_s, self.loop_s - before.loop_s)


def used(*pids: int) -> Used:
    """The sum of some processes."""
    every = [Used(_cpu_s(f"{pid}"), _cpu_s(f"{pid}/task/{pid}")) for pid in pids]
    return Used(sum(one.all_s for one in every), sum(one.loop_s for one in every))


def resident_kib(*pids: int) -> int:
    """Memory that is taken up in fact."""
    lines = (line for pid in pids for line in _read(f"{pid}/status").splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def machine_busy_s() -> float:
    """Seconds of CPU that everybody used on this machine since it started."""
    fields = _read("stat").partition("\n")[0].split()[1:]
    ticks = [int(field) for field in fields[:8]]  # idle and waiting for disks are the 4th and 5th
    return (sum(ticks) - sum(ticks[3:5])) / TICKS if ticks else 0.0


def _cpu_s(place: str) -> float:
    fields = _read(f"{place}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def _read(place: str) -> str:
    try:
        return Path("/proc", place).read_text(encoding="utf-8")
    except OSError:
        return ""
