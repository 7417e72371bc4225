"""The providers as fixtures for pytest, installed with the package. They are for tests that await,
with ``pytestmark = pytest.mark.anyio``:

async def test_it_draws(openai_like):
    openai_like.script("images", Status(500))
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jobrunner.testing.providers import OpenAILike, ReplicateLike


@pytest.fixture
async def openai_like(anyio_backend: object) -> "AsyncIterator[OpenAILike]":
    """A provider of pictures, chat and transcripts on loopback, where nothing goes wrong yet."""
    from jobrunner.testing.providers import OpenAILike

    async with OpenAILike() as provider:
        yield provider


@pytest.fixture
async def replicate_like(anyio_backend: object) -> "AsyncIterator[ReplicateLike]":
    """A provider of predictions on loopback, which calls back."""
    from jobrunner.testing.providers import ReplicateLike

    async with ReplicateLike() as provider:
        yield provider
