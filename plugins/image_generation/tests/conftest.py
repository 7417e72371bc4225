"""Tests that await run on one loop; where the whole project is tested, it is the same one."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
