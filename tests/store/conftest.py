"""A file of its own for every test of the store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jobrunner.store.store import Store
from tests.store.factory import opened


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(tmp_path) as store:
        yield store
