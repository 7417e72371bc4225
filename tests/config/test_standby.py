"""Settings of a stand-by that make no sense are named."""

from typing import Any

import pytest

from jobrunner.config.contradictions import contradictions
from jobrunner.config.settings import Config, ObjectsSection, StandbySection, StoreSection

STORE = StoreSection(assets="/srv/assets")
OBJECTS = ObjectsSection(bucket="files", prefix="jobs/")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"path": "/srv/assets/copy"}, "standby.path = '/srv/assets/copy': must not be in"),
        ({"path": "/srv/copy", "lease": 0.5}, "standby.lease = 0.5: must be at least 1 s"),
        ({"path": "s3://"}, "standby.path = 's3://': must name a bucket and a prefix"),
        ({"path": "s3://copies/a b"}, "standby.path = 's3://copies/a b': must name a bucket"),
        ({"path": "s3://files/jobs/copy"}, "standby.path = 's3://files/jobs/copy': must not be"),
        ({"path": "s3://files"}, "standby.path = 's3://files': must not be where objects.prefix"),
    ],
)
def test_what_makes_no_sense_is_told(given: dict[str, Any], told: str) -> None:
    config = Config(store=STORE, objects=OBJECTS, standby=StandbySection(**given))
    [fault] = contradictions(config)
    assert fault.startswith(told)


@pytest.mark.parametrize("path", ["/srv/copy", "s3://files/copy", "s3://copies"])
def test_what_makes_sense_is_not(path: str) -> None:
    standby = StandbySection(path, 0, 1)
    assert contradictions(Config(store=STORE, objects=OBJECTS, standby=standby)) == []
