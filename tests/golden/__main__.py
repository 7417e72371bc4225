"""``python -m tests.golden`` keeps today's outsides; with ``--file`` also a file of today, which is
done once for a schema and its declarations and then left alone: it is to be old."""

import sys
from pathlib import Path

import anyio

from tests.golden.living import keep
from tests.golden.outsides import OUTSIDES

KEPT = Path(__file__).parent / "kept"


def main() -> None:
    KEPT.mkdir(exist_ok=True)
    for name, read in OUTSIDES.items():
        (KEPT / name).write_text(read(), encoding="utf-8")
    if "--file" in sys.argv:
        anyio.run(keep, KEPT)


if __name__ == "__main__":
    main()
