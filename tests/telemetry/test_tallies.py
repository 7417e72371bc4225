"""What is counted by hand says what the library's own metrics would have said."""

import random

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from jobrunner.core.features.meter import Meter
from jobrunner.telemetry.figures import Figures
from jobrunner.telemetry.tallies import Spread, Tally

BOUNDS = (0.001, 0.5, 1, 2.5)
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Kept:
    """A registry's only member."""

    def __init__(self, one: Spread | Tally) -> None:
        self.collect = lambda: [one.family()]


def samples(registry: CollectorRegistry) -> Samples:
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def of(one: Spread | Tally) -> Samples:
    registry = CollectorRegistry()
    registry.register(Kept(one))
    return samples(registry)


def test_a_spread_is_a_histogram() -> None:
    luck = random.Random(11)
    theirs = CollectorRegistry()
    oracle = Histogram("jobrunner_x", "x", ("a", "b"), registry=theirs, buckets=BOUNDS)
    ours = Spread("x", "x", BOUNDS, ("a", "b"))
    for _ in range(2000):
        value = luck.choice((*BOUNDS, 0.0, -1.0, 1e9, luck.random() * 4))
        labels = luck.choice("pqr"), luck.choice("st")
        oracle.labels(*labels).observe(value)
        ours.add(value, *labels)
    assert of(ours) == samples(theirs)


def test_without_labels_it_is_there_from_the_start() -> None:
    assert of(Spread("y", "y", BOUNDS))["jobrunner_y_count", ()] == 0


def test_a_tally_counts() -> None:
    tally = Tally("z", "z", ("a",))
    for word in ("p", "p", 'quo"te\n'):
        tally.add(word)
    assert of(tally) == {
        ("jobrunner_z_total", (("a", "p"),)): 2,
        ("jobrunner_z_total", (("a", 'quo"te\n'),)): 1,
    }


def test_whatever_is_told_is_counted() -> None:
    """A word that nobody takes up would be said for nothing, and be no figure."""
    told = {name for name in vars(Meter) if not name.startswith("_")}
    assert told <= vars(Figures).keys()
