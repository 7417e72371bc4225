"""The client for loops with the face of the one that waits: a test of one is a test of both."""

import asyncio
from collections.abc import Iterator
from typing import Any, Self

from jobrunner.client import AsyncClient


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
