"""One running service for each module of tests."""

from collections.abc import AsyncIterator

import pytest

from tests.http.serving import House, opened


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("http")) as house:
        yield house
