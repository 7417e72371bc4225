"""Settings of a stand-by that make no sense are named."""

from typing import Any

import pytest

from jobrunner.config.contradictions import contradictions
from jobrunner.config.settings import Config, StandbySection, StoreSection

STORE = StoreSection(assets="/srv/assets")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"path": "/srv/assets/copy"}, "standby.path = '/srv/assets/copy': must not be in"),
        ({"path": "/srv/copy", "lease": 0.5}, "standby.lease = 0.5: must be at least 1 s"),
    ],
)
def test_what_makes_no_sense_is_told(given: dict[str, Any], told: str) -> None:
    [fault] = contradictions(Config(store=STORE, standby=StandbySection(**given)))
    assert fault.startswith(told)


def test_what_makes_sense_is_not() -> None:
    assert contradictions(Config(store=STORE, standby=StandbySection("/srv/copy", 0, 1))) == []
