"""The plugin for pytest: installed with the package, so a test only has to name the fixture.

def test_it_ends(whatever_happens):
    whatever_happens(definition, [my_stage])
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jobrunner.testing.prove import Proof


@pytest.fixture
def whatever_happens() -> "Callable[..., Proof]":
    """``prove``: many seeded simulations of a workflow, in which everything goes wrong."""
    from jobrunner.testing.prove import prove

    return prove
