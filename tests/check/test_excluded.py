"""Counter-examples that edges exclude: each is one of the checker's own."""

from importlib import import_module

import pytest

from jobrunner.check.checking import check
from jobrunner.check.excluded import excluded

SOUND = import_module("jobrunner_image_generation").definition


def test_each_edge_excludes_something_and_the_whole_nothing() -> None:
    assert check(SOUND) == ()
    found = list(excluded(SOUND))
    edges = {(edge.source, edge.target) for edge in SOUND.workflow.edges}
    assert {(one.source, one.target) for one in found} == edges
    for one in found:
        assert one.fault.trace, one
        assert one.fault.trace[0].startswith("born in"), one


@pytest.mark.parametrize("name", ["hello", "howera"])
def test_the_example_is_about_the_edge_that_was_left_out(name: str) -> None:
    found = list(excluded(import_module(f"jobrunner_{name}").definition))
    assert found
    told = [one for one in found if one.fault.rule == "undeclared-edge"]
    assert told
    for one in told:
        assert one.target in one.fault.text
