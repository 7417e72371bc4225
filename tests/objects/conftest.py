"""A store for a module of tests, and a line to it that breaks when it is told to."""

from collections.abc import AsyncIterator

import pytest

from tests.objects.buckets import KEYS, Wire, bucket_server, wired


@pytest.fixture(scope="module")
async def wire(anyio_backend: str) -> AsyncIterator[Wire]:
    with pytest.MonkeyPatch.context() as patch, bucket_server() as behind:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        async with wired(behind) as wire:
            yield wire
