"""``python -m tests.cluster``: ten, a hundred, a thousand workers, and stages that get shorter."""

import argparse
import tempfile
from functools import partial
from pathlib import Path

import anyio

from tests.cluster.simulated import Demand, measure

DEMANDS = (
    Demand(1000, 10),
    Demand(1000, 1),
    Demand(1000, 0.5),
    Demand(1000, 0.1),
    Demand(100, 0.1),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--warm", type=float, default=5)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--stage", type=float)
    asked = parser.parse_args()
    demands = [Demand(asked.workers, asked.stage)] if asked.workers else DEMANDS
    for demand in demands:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            told = partial(measure, Path(folder), demand, asked.seconds, asked.warm)
            print(anyio.run(told, backend_options={"use_uvloop": True}).told(), flush=True)


main()
