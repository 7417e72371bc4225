"""Ends are told once each, by what the declaration of the job calls them."""

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.actors.keeping.measures import measure
from jobrunner.core.features.meter import Meter
from jobrunner.core.job import Snapshot

JOB = Snapshot("j", "w", "d", "t", "u", "working", "active", 1, 1)
STATES = {
    "bad": SimpleNamespace(ends="failed"),
    "over": SimpleNamespace(ends=""),
}


class Told(Meter):
    def __init__(self) -> None:
        super().__init__()
        self.ends: list[tuple[str, str]] = []

    def ended(self, job: Snapshot, outcome: str) -> None:
        self.ends.append((job.workflow, outcome))


def told(before: Snapshot | None, job: Snapshot, *, loaded: bool = True) -> list[tuple[str, str]]:
    meter = Told()
    definition = SimpleNamespace(states=STATES) if loaded else None
    world: Any = SimpleNamespace(meter=meter, registry=SimpleNamespace(of=lambda job: definition))
    measure(world, before, job)
    return meter.ends


BAD = replace(JOB, status="bad", kind="settled")
OVER = replace(JOB, status="over", kind="final")


@pytest.mark.parametrize("before", [None, JOB, OVER])
def test_an_end_is_told_when_it_is_reached(before: Snapshot | None) -> None:
    assert told(before, BAD) == [("w", "failed")]


def test_what_happens_to_an_ended_job_is_no_end() -> None:
    assert told(BAD, replace(BAD, version=2)) == []
    assert told(None, JOB) == []
    assert told(BAD, JOB) == []


def test_an_end_without_a_name_is_one_too() -> None:
    assert told(JOB, OVER) == [("w", "ended")]
    assert told(JOB, BAD, loaded=False) == [("w", "ended")]
