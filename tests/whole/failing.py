"""A disk that fails on order, for a service that runs as a process of its own."""

import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("failing_disk.c")
SIZE = 4096
ORDERS = struct.Struct("iiii64s")
READS, WRITES, SYNCS, OPENS, MAKES = 1, 2, 4, 8, 16


class Disk:
    """``before`` is the command that becomes a service which has this disk."""

    def __init__(self, library: Path, orders: mmap.mmap, path: Path) -> None:
        self.before = ("env", f"LD_PRELOAD={library}", f"FAILING_DISK={path}")
        self._orders = orders

    def fail(self, calls: int, error: int, part: str = "", every: int = 1) -> None:
        """From now on. Calls on files whose path has this in it; of these one in ``every``. An
        error of 0
        is a read that finds nothing."""
        self._orders[: ORDERS.size] = ORDERS.pack(calls, error, every, 0, part.encode())

    def mend(self) -> None:
        self._orders[:4] = bytes(4)

    @property
    def failed(self) -> int:
        """How many calls have failed since the last order."""
        return int(ORDERS.unpack(self._orders[: ORDERS.size])[3])


@contextmanager
def failing_disk(folder: Path) -> Iterator[Disk]:
    """Skips the test where there is no compiler to make it with."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no failing disk: there is no C compiler here")
    library, path = folder / "failing_disk.so", folder / "orders"
    path.write_bytes(bytes(SIZE))
    flags = ("-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl")
    subprocess.run([compiler, *flags], check=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as orders:
        yield Disk(library, orders, path)
