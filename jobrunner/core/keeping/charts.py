"""Charts: how much work came, how it ended, how long it took and how long it waited, over an hour,
a day and a week.

What happens is counted in memory, and a few rows are written every ten seconds: for each span one
for each workflow to which something happened. A row is a bucket of time; longer spans have longer
buckets, and each span has so many of them and no more. So the file holds a few hundred small rows a
workflow, however long the service runs and however much it does.

How long jobs took is a histogram whose buckets grow by a quarter of an octave. Two of them are
added like two numbers, so the percentile of a day is that of its jobs and not one of percentiles;
it is right to a fifth at the worst.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from math import log2
from operator import attrgetter
from typing import Literal

from msgspec import Struct, field

FLUSH_S = 10
PER_OCTAVE = 4
EVERYTHING = ""
Span = Literal["hour", "day", "week"]


class ChartSpan(Struct, frozen=True):
    """``count`` buckets of ``step_s`` each."""

    step_s: int
    count: int

    def bucket(self, moment: int) -> int:
        """Say when the bucket of a moment begins."""
        return moment - moment % self.step_ms

    def begins_at(self, now: int) -> int:
        """Say when the first of the buckets begins of which the last one is now."""
        return self.bucket(now) - self.long_ms + self.step_ms

    @property
    def step_ms(self) -> int:
        return self.step_s * 1000

    @property
    def long_ms(self) -> int:
        return self.step_ms * self.count


SPANS: dict[Span, ChartSpan] = {
    "hour": ChartSpan(30, 120),
    "day": ChartSpan(600, 144),
    "week": ChartSpan(3600, 168),
}


class Counted(Struct, omit_defaults=True):
    """The counts of one bucket of time: jobs that were made, jobs that ended by their outcome,
    and how long those took from their submission on, as a histogram. Of the line, which is
    everybody's, the worst that was seen: how long the first had waited, and how many stood there.
    """

    made: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    took: dict[int, int] = field(default_factory=dict)
    waits_ms: int = 0
    in_line: int = 0

    def end(self, outcome: str, took_ms: int) -> None:
        self.ended[outcome] = self.ended.get(outcome, 0) + 1
        notch = notch_of(took_ms)
        self.took[notch] = self.took.get(notch, 0) + 1

    def add(self, other: "Counted") -> None:
        self.made += other.made
        for outcome, count in other.ended.items():
            self.ended[outcome] = self.ended.get(outcome, 0) + count
        for notch, count in other.took.items():
            self.took[notch] = self.took.get(notch, 0) + count
        self.waits_ms = max(self.waits_ms, other.waits_ms)
        self.in_line = max(self.in_line, other.in_line)


class Counting:
    """Counts while work goes on: a look into a dictionary and an addition."""

    def __init__(self) -> None:
        self._of: dict[str, Counted] = {}

    def submitted(self, workflow: str) -> None:
        self._counted(workflow).made += 1

    def ended(self, workflow: str, outcome: str, took_ms: int) -> None:
        self._counted(workflow).end(outcome, took_ms)

    def take(self) -> dict[str, Counted]:
        """Hand over what was counted, by workflow, and begin anew."""
        taken, self._of = self._of, {}
        return taken

    def give_back(self, taken: dict[str, Counted]) -> None:
        """Take back counts that could not be written, so that they are written with the next
        ones."""
        for workflow, counted in taken.items():
            self._counted(workflow).add(counted)

    def _counted(self, workflow: str) -> Counted:
        return self._of.get(workflow) or self._of.setdefault(workflow, Counted())


class ChartRow(Struct, frozen=True):
    """A bucket of a workflow, or of the line, which is nobody's (``EVERYTHING``)."""

    step_s: int
    at: int
    workflow: str
    counted: Counted


class Charted(Struct, frozen=True, tag=True):
    """Rows to stand from now on; those of the same span that are too old go, and so do those of a
    future that a clock once showed."""

    rows: tuple[ChartRow, ...]
    now: int


def notch_of(took_ms: int) -> int:
    return int(log2(took_ms) * PER_OCTAVE) if took_ms > 1 else 0


def percentile_ms(took: dict[int, int], share: float) -> float | None:
    """Say how long it took at the most for this share of the jobs; None where there was none."""
    left = share * sum(took.values())
    for notch in sorted(took):
        if left <= took[notch]:
            return round(float(2 ** ((notch + left / took[notch]) / PER_OCTAVE)), 1)
        left -= took[notch]
    return None


def merged(
    stored: Iterable[ChartRow], counted: dict[str, Counted], moment: int
) -> Iterator[ChartRow]:
    """The rows as they stand with what was counted at this moment, for each span."""
    known = {(row.step_s, row.workflow): row.counted for row in stored}
    for span in SPANS.values():
        for workflow, news in counted.items():
            whole = Counted()
            whole.add(known.get((span.step_s, workflow), whole))
            whole.add(news)
            yield ChartRow(span.step_s, span.bucket(moment), workflow, whole)


class Series(Struct, frozen=True):
    """A workflow over a span (or all of them): for each bucket what was counted, and all of it."""

    workflow: str
    buckets: list[Counted]
    whole: Counted


def series(rows: Iterable[ChartRow], span: ChartSpan, begins_at: int) -> list[Series]:
    """Make one series for each workflow in these rows, by name; ``EVERYTHING`` comes first, with
    the sum of all. A bucket in which nothing happened is empty."""
    by_name = attrgetter("workflow")
    named = groupby(sorted(rows, key=by_name), by_name)
    found = {workflow: _laid_out(few, span, begins_at) for workflow, few in named}
    everything = found.pop(EVERYTHING, None) or _laid_out((), span, begins_at)
    for buckets in found.values():
        for bucket, one in zip(everything, buckets, strict=True):
            bucket.add(one)
    lines = {EVERYTHING: everything, **found}
    return [Series(name, buckets, _sum(buckets)) for name, buckets in lines.items()]


def _laid_out(rows: Iterable[ChartRow], span: ChartSpan, begins_at: int) -> list[Counted]:
    """Count into the last bucket also what happened behind it: rows are read a moment after the
    time was, and a clock that is set back leaves some in the future."""
    buckets = [Counted() for _ in range(span.count)]
    for row in rows:
        buckets[min((row.at - begins_at) // span.step_ms, span.count - 1)].add(row.counted)
    return buckets


def _sum(buckets: Iterable[Counted]) -> Counted:
    whole = Counted()
    for bucket in buckets:
        whole.add(bucket)
    return whole
