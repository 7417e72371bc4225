"""Counts taken while work goes on. One costs a look into a dictionary and an addition: the
library's own metrics take a lock for each bucket, and here there is one thread."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

Labels = tuple[str, ...]


class Tally:
    """How often, by labels."""

    def __init__(self, name: str, text: str, names: Labels) -> None:
        self._about = f"jobrunner_{name}", text, names
        self._counts: dict[Labels, int] = {}

    def add(self, *labels: str, times: int = 1) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + times

    def family(self) -> Metric:
        name, text, names = self._about
        family = CounterMetricFamily(name, text, labels=names)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        return family


class Spread:
    """How often how much, by labels. Without labels it is there from the start."""

    def __init__(self, name: str, text: str, bounds: Sequence[float], names: Labels = ()) -> None:
        self._about = f"jobrunner_{name}", text, names
        self._bounds = tuple(bounds)
        self._seen: dict[Labels, list[float]] = {}
        self._edges = [*map(_edge, self._bounds), "+Inf"]
        if not names:
            self._of(())

    def add(self, value: float, *labels: str) -> None:
        seen = self._seen.get(labels) or self._of(labels)
        seen[bisect_left(self._bounds, value)] += 1
        seen[-1] += value

    def _of(self, labels: Labels) -> list[float]:
        """A count for each bucket, one for what is beyond them, and the sum."""
        return self._seen.setdefault(labels, [0.0] * (len(self._bounds) + 2))

    def family(self) -> Metric:
        name, text, names = self._about
        family = HistogramMetricFamily(name, text, labels=names)
        for labels, (*counts, total) in self._seen.items():
            buckets = list(zip(self._edges, accumulate(counts), strict=True))
            family.add_metric(labels, buckets=buckets, sum_value=total)
        return family


def families(counted: Iterable[Tally | Spread]) -> list[Metric]:
    return [one.family() for one in counted]


def _edge(bound: float) -> str:
    return str(float(bound))
