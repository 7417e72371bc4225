"""``bench``: measures this machine, with a service and a file of its own."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from cyclopts import CycloptsError, Parameter

from jobrunner.cli.frame.options import Where, positive

if TYPE_CHECKING:
    from jobrunner.bench.measuring import Sample, Wanted

Count = Annotated[int, Parameter(validator=positive)]


@Parameter(name="*")
@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: Count = 3
    "How often each work is measured; the medians are reported."

    seconds: Count = 4
    "How long each is measured."

    clients: str = "1,32,256"
    "How many clients ask at a time."

    batch: Count = 4_000
    "Jobs that are run at once in W2t."

    parked: Count = 100_000
    "Jobs that wait in W4, parked by the service."

    waiting: Count = 1_000_000
    "Jobs that wait in W4s, out of a file that was made so."

    ended: Count = 1_000_000
    "Jobs that have ended in W5."

    telling: Count = 10_000
    "Stages at a time in tell."

    def plan(self, disk: Path, *, plain: bool) -> "Wanted":
        from jobrunner.bench.measuring import Wanted

        return Wanted(disk, self.rounds, self.seconds, _numbers(self.clients), plain, self.batch,
                    self.parked, self.waiting, self.ended, self.telling)  # fmt: skip


def bench(
    *,
    only: str = "",
    disk: Path | None = None,
    plain: bool = False,
    peer: Literal["restate"] | None = None,
    json: Path | None = None,
    flame: Path | None = None,
    sizes: Sizes = Sizes(),
    where: Where = Where(),
) -> None:
    """Measure what this machine can do, on a service and a file of its own: yours is not touched.

    Parameters
    ----------
    only
        The names of works, like W1,W2; else all.
    disk
        Measure the disk of this folder; else that of your database. Nothing stays there.
    plain
        Submissions have no key and no price.
    peer
        Measure this one too, whose programs are here; submissions are plain then.
    json
        A file for all figures.
    flame
        A file for a flame graph of the service while it runs jobs.
    """
    from jobrunner.bench import suite

    plan = sizes.plan(
        suite.nearest(disk or Path(where.load().store.path).parent), plain=plain or peer is not None
    )
    if flame is not None:
        suite.profiler()
    result = suite.measure(plan, _works(only), beside_peer=peer is not None, tell=_tell)
    for line in result.text():
        print(line)
    if json is not None:
        json.write_bytes(msgspec.json.format(msgspec.json.encode(result, enc_hook=str)))
    if flame is not None:
        suite.flame(plan, flame)


def _tell(sample: "Sample") -> None:
    """One line while it goes on."""
    from jobrunner.bench.report import short

    said = ", ".join(f"{name} {short(value)}" for name, value in sample.values.items())
    print(f"{sample.work}, {sample.who}, {sample.clients}: {said}", file=sys.stderr)


def _works(only: str) -> list[str]:
    from jobrunner.bench.suite import WORKS

    wanted = only.split(",") if only else list(WORKS)
    if unknown := [name for name in wanted if name not in WORKS]:
        raise CycloptsError(msg=f"--only {unknown[0]}: one or more of {','.join(WORKS)}")
    return wanted


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise CycloptsError(msg=f"--clients {text}: numbers like 1,32,256") from None
