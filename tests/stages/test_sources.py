"""A stage that awaits a webhook of a source, and the sources that plugins bring."""

from typing import Any

import pytest

from jobrunner import AwaitCallback, Heard, Source
from jobrunner.stages import Registry
from jobrunner.stages.outcomes import Parked, raised, returned


def test_what_is_awaited_has_the_name_of_its_source() -> None:
    for ended in (
        raised(Parked("p-1", 5, "replicate")),
        returned(AwaitCallback("p-1", 5, "replicate")),
    ):
        assert (ended.outcome, ended.awaits, ended.source, ended.await_s) == (
            "parked",
            "replicate:p-1",
            "replicate",
            5,
        )


def test_without_a_source_a_key_is_as_it_was_given() -> None:
    ended = raised(Parked("replicate:p-1", 5))
    assert (ended.outcome, ended.awaits, ended.source) == ("parked", "replicate:p-1", "")


@pytest.mark.parametrize("source", ["Replicate", "a:b", " ", "1", "x" * 65, 7, "é", "a\n"])
def test_a_source_of_another_shape_is_a_bug_of_the_stage(source: Any) -> None:
    ended = raised(Parked("p-1", 5, source))
    assert ended.outcome == "failed"
    assert ended.failure is not None
    assert ended.failure.code == "STAGE_CRASHED"


@pytest.mark.parametrize("name", ["", "Replicate", "a:b", "a b", "x" * 65, "../x"])
def test_a_source_with_a_name_that_is_none_is_not_heard(name: str) -> None:
    registry = Registry()
    registry.add(Source(name, lambda body, headers: Heard("k")))
    assert registry.sources == {}
    assert "is no name for a source" in registry.refused["sources"][name][0]


def test_a_third_of_one_name_does_not_bring_it_back() -> None:
    registry = Registry()
    for _ in range(3):
        registry.add(Source("twice", lambda body, headers: Heard("k")))
    assert registry.sources == {}
