"""One running service for these tests, and both clients behind one face."""

import asyncio
from collections.abc import Iterator
from typing import Any, Self

import pytest

from jobrunner.client import AsyncClient, Client, RetryLimits
from tests.client.relay import Relay, relayed
from tests.served import Served, serving

QUICK = RetryLimits(first_s=0.01)


class InLoop:
    """The client for loops, asked as if it waited."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def asked(*args: Any, **kwargs: Any) -> Any:
            made = method(*args, **kwargs)
            return self._each(made) if hasattr(made, "__aiter__") else self._runner.run(made)

        return asked

    def _each(self, made: Any) -> Iterator[Any]:
        async def following() -> Any:
            return await anext(made, None)

        while (one := self._runner.run(following())) is not None:
            yield one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


KINDS: dict[str, Any] = {"blocking": Client, "in a loop": InLoop}


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("client"), JOBRUNNER_LIMITS__LAG="0") as served:
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
