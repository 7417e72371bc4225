"""One running service for these tests, and both clients behind one face."""

from collections.abc import Iterator
from typing import Any

import pytest

from jobrunner.client import Client, RetryLimits
from tests.client.in_loop import InLoop
from tests.client.relay import Relay, relayed
from tests.served import Served, serving

QUICK = RetryLimits(first_s=0.01)
OUTSIDE = "JOBRUNNER_WORKFLOWS__ASSET_PATTERN__STAGES__PROCESSING"


KINDS: dict[str, Any] = {"blocking": Client, "in a loop": InLoop}


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    said = {"JOBRUNNER_LIMITS__LAG": "0", OUTSIDE: "external"}
    with serving(tmp_path_factory.mktemp("client"), **said) as served:
        yield served


@pytest.fixture
def relay(served: Served) -> Iterator[Relay]:
    with relayed(served.url) as relay:
        yield relay


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


@pytest.fixture
def client(served: Served, kind: Any) -> Iterator[Any]:
    with kind(served.url, served.token, limits=QUICK) as client:
        yield client


@pytest.fixture
def far(served: Served, relay: Relay, kind: Any) -> Iterator[Any]:
    """The same, behind a line that may break."""
    with kind(relay.url, served.token, limits=QUICK) as client:
        yield client
