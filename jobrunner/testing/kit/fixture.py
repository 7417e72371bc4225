"""The plugin for pytest: installed with the package, so a test only has to name the fixture.

def test_it_ends(whatever_happens):
    whatever_happens(definition, [my_stage])
"""

import os
import shlex
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jobrunner.testing.kit.prove import Proof

OPTION = "--jobrunner-seed"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("jobrunner")
    text = "whatever_happens simulates this seed alone, and prints everything that happened in it"
    group.addoption(OPTION, type=int, default=None, metavar="SEED", help=text)


@pytest.fixture
def whatever_happens(request: pytest.FixtureRequest) -> "Callable[..., Proof]":
    """``prove``: many seeded simulations of a workflow, in which everything goes wrong."""
    from jobrunner.testing.kit.prove import prove
    from jobrunner.testing.simulation.simulation import Broken

    seed = request.config.getoption(OPTION, None)

    @wraps(prove)
    def proved(*arguments: Any, **more: Any) -> "Proof":
        __tracebackhide__ = True
        if seed is not None:
            more |= {"seeds": (seed,), "whole": False}
        try:
            return prove(*arguments, **more)
        except Broken as broken:
            broken.replay = f"pytest {_test(request)} {OPTION} {broken.trace.seed}"
            if seed is not None:
                print("\n".join(broken.trace.lines))
            raise broken.with_traceback(None) from None

    return proved


def _test(request: pytest.FixtureRequest) -> str:
    """Name this test as one names it where pytest was started."""
    path = os.path.relpath(request.path, request.config.invocation_params.dir)
    return shlex.quote("::".join([path, *request.node.nodeid.split("::")[1:]]))
