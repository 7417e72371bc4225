"""A running service for each test that wants one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.whole.process import Place, place


@pytest.fixture
async def home(tmp_path: Path, anyio_backend: str) -> AsyncIterator[Place]:
    """Where nobody lives yet."""
    async with place(tmp_path, outside=True) as here:
        yield here


@pytest.fixture
async def service(home: Place) -> Place:
    """A service that answers, with an outside worker and a user."""
    await home.start()
    await home.user("worker", "workflow")
    await home.user("ada")
    return home
