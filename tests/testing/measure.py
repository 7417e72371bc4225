"""How soon the simulation finds what it should find, and how fast it is where there is nothing.

python -m tests.testing.measure [SEEDS]
"""

import sys
import time
from collections.abc import Iterator

import pytest

from jobrunner.testing import Broken, simulate
from jobrunner.testing.simulation.simulation import Kit
from tests.testing.defects import DEFECTS, called_by_its_name
from tests.testing.test_prove import IN_THE_HOUSE, declared

FIRST = 20_000


def found(kit: Kit, name: str, seeds: range) -> Iterator[int]:
    """The seeds under which the defect is told as what it is; others fail otherwise."""
    for seed in seeds:
        try:
            simulate(kit, seed=seed)
        except Broken as broken:
            if called_by_its_name(name, broken.trace.faults):
                yield seed


def measured(name: str, count: int) -> str:
    kit = Kit(declared("cutx", "in the house" if name in IN_THE_HOUSE else "outside"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        DEFECTS[name][0](monkeypatch)
        began = time.process_time()
        seeds = list(found(kit, name, range(FIRST, FIRST + count)))
        speed = count / (time.process_time() - began)
    first = f"{seeds[0] - FIRST + 1:4}" if seeds else "none"
    return f"{name:34} first {first}   share {len(seeds) / count:6.1%}   {speed:5.1f} seeds/s"


def clean(where: str, count: int) -> str:
    kit = Kit(declared("cutx", where))
    began = time.process_time()
    for seed in range(FIRST, FIRST + count):
        simulate(kit, seed=seed)
    speed = count / (time.process_time() - began)
    return f"{f'nothing planted, {where}':34} none in {count}         {speed:5.1f} seeds/s"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for name in DEFECTS:
        print(measured(name, count), flush=True)
    for where in ("in the house", "outside"):
        print(clean(where, count), flush=True)


if __name__ == "__main__":
    main()
