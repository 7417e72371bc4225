"""A line between the service and a stage on a cluster. Both ends see that the other is there."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from jobrunner.cluster.frames import FRAME_MAX, AliveFrame, Frame, packed, unpacked

HEAD = 4
SIGNS = 4


class LineLost(Exception):
    """Nothing more comes on this line."""


class FrameLine:
    """``silence_s`` is for how long the other end may say nothing."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence_s: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._silence_s = silence_s
        self._pen = asyncio.Lock()
        self.on_close: Callable[[], None] = lambda: None

    async def say(self, frame: Frame) -> None:
        """Raises: LineLost."""
        data = packed(frame)
        async with self._pen:
            try:
                self._writer.write(len(data).to_bytes(HEAD, "big") + data)
                async with asyncio.timeout(self._silence_s):
                    await self._writer.drain()
            except (OSError, TimeoutError) as lost:
                raise LineLost(_why(lost)) from lost

    async def hear(self, most: int = FRAME_MAX) -> Any:
        """The next frame that says something, in so many bytes. Raises: LineLost."""
        while True:
            try:
                async with asyncio.timeout(self._silence_s):
                    frame = await self._frame(most)
            except (OSError, EOFError, ValueError, TimeoutError) as lost:
                raise LineLost(_why(lost)) from lost
            if not isinstance(frame, AliveFrame):
                return frame

    async def heard(self) -> AsyncIterator[Any]:
        """Yield every frame until the line is lost. Raises: LineLost."""
        while True:
            yield await self.hear()

    async def keep(self) -> None:
        """Say now and then that this end is there, as long as the line lasts."""
        with suppress(LineLost):
            while True:
                await asyncio.sleep(self._silence_s / SIGNS)
                await self.say(AliveFrame())

    def cut(self) -> None:
        """Let whoever hears something on this line hear that it is lost."""
        self._writer.close()

    async def close(self) -> None:
        self.on_close()
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.wait_closed()

    async def _frame(self, most: int) -> Any:
        size = int.from_bytes(await self._reader.readexactly(HEAD), "big")
        if size > most:
            raise ValueError(f"a frame of {size} bytes")
        return unpacked(await self._reader.readexactly(size))


def _why(lost: Exception) -> str:
    if isinstance(lost, TimeoutError):
        return "nothing was heard"
    if isinstance(lost, EOFError):
        return "it was closed"
    return str(lost) or type(lost).__name__
