"""The figures of all rounds: medians with their spread, ratios within one run, and doubts."""

import statistics
from collections.abc import Iterable, Iterator

from msgspec import Struct

from jobrunner.bench.clients import BUSY_MAX
from jobrunner.bench.measuring import Sample, Values

CROWDED = 0.3
OTHERS = ("R", "restate", "empty file")
FIGURES = {
    "per_s": "a second",
    "ended_per_s": "ended/s",
    "accepted_per_s": "accepted/s",
    "parked_per_s": "parked/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "cpu_ms": "CPU ms",
    "loop_ms": "of it loop",
    "ready_s": "ready s",
    "first_job_s": "first job s",
    "kib_each": "KiB each",
    "mib_after": "MiB after",
    "file_mib": "file MiB",
    "late_p99_ms": "late p99 ms",
    "late_mean_ms": "late mean ms",
    "cores": "cores",
    "flood_per_s": "flood/s",
    "flood_refused": "flood refused",
    "refused": "refused",
    "broken": "broken",
    "early": "early",
    "client": "client busy",
    "others": "others",
}


class Range(Struct, frozen=True):
    """One figure over the rounds."""

    median: float
    least: float
    most: float

    def __str__(self) -> str:
        if self.least == self.most:
            return short(self.median)
        return f"{short(self.median)} ({short(self.least)}-{short(self.most)})"


class Medians(Struct, frozen=True):
    """All rounds of one work by one server for so many clients."""

    work: str
    who: str
    clients: int
    rounds: int
    figures: dict[str, Range]


def lines_of(samples: Iterable[Sample]) -> list[Medians]:
    """Join the rounds of each work, server and number of clients, in the order in which they came
    first."""
    every: dict[tuple[str, str, int], list[Values]] = {}
    for one in samples:
        every.setdefault((one.work, one.who, one.clients), []).append(one.values)
    return [
        Medians(*key, len(found), {name: _spread(found, name) for name in found[0]})
        for key, found in every.items()
    ]


def _spread(found: list[Values], name: str) -> Range:
    values = [one[name] for one in found]
    return Range(statistics.median(values), min(values), max(values))


def ratios(lines: list[Medians]) -> dict[str, float]:
    """Our rates by those of R, of a peer or of an empty file, for the same work and as many
    clients."""
    rates = {(one.work, one.clients, one.who): one.figures["per_s"].median
             for one in lines if "per_s" in one.figures}  # fmt: skip
    return {
        f"{work}, {clients} clients: {who} / {other}": round(rate / rates[work, clients, other], 3)
        for (work, clients, who), rate in rates.items()
        for other in OTHERS
        if who not in OTHERS and who != "bare" and rates.get((work, clients, other))
    }


def doubts(lines: list[Medians]) -> Iterator[str]:
    """Why some lines may not say what they seem to."""
    crowded = [line.figures["others"].median for line in lines if "others" in line.figures]
    crowded = [cores for cores in crowded if cores > CROWDED]
    if crowded:
        cores = f"{min(crowded):.1f} to {max(crowded):.1f}"
        yield f"others had taken {cores} cores in {len(crowded)} lines: rates are too low there"
    for line in lines:
        name, busy = f"{line.work}, {line.who}, {line.clients} clients", line.figures.get("client")
        if busy and busy.most > BUSY_MAX:
            yield f"{name}: the client was {100 * busy.most:.0f} % busy: the server may do more"
        for figure in ("refused", "broken", "early"):
            if figure in line.figures and line.figures[figure].most:
                yield f"{name}: {line.figures[figure].most:.0f} {figure}"


def table(lines: list[Medians]) -> Iterator[str]:
    """A table for each work, with the figures that it has."""
    for work in dict.fromkeys(_group(line) for line in lines):
        rows = [line for line in lines if _group(line) == work]
        yield from _aligned(list(_cells(rows)))
        yield ""


def _group(line: Medians) -> tuple[str, ...]:
    """Works of several words are many and short: one table for those with the same figures."""
    first, more, _ = line.work.partition(" ")
    return (first, *line.figures) if more else (first,)


def _cells(rows: list[Medians]) -> Iterator[list[str]]:
    names = [name for name in FIGURES if any(name in row.figures for row in rows)]
    yield ["work", "who", "clients", *(FIGURES[name] for name in names)]
    for row in rows:
        figures = (str(row.figures.get(name, "-")) for name in names)
        yield [row.work, row.who, str(row.clients), *figures]


def _aligned(cells: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def short(value: float) -> str:
    """Three figures that count."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"
