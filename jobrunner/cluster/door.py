"""Where workers of the cluster call this service: a port that opens to whoever has the token of an
attempt that is waited for, and to nobody else.

Whoever has said nothing yet is a stranger: what it may make us keep is a few bytes, and when there
are many strangers, the one who has waited longest goes."""

import asyncio
import ssl
from contextlib import suppress
from functools import partial
from typing import Any

from jobrunner.cluster.frame_line import FrameLine, LineLost
from jobrunner.cluster.frames import CallFrame

HELLO_MAX = 1024
STRANGERS_MAX = 128


class ClusterDoor:
    def __init__(self, silence_s: float) -> None:
        self._silence_s = silence_s
        self._awaited: dict[str, asyncio.Future[FrameLine]] = {}
        self._strangers: dict[FrameLine, None] = {}
        self._server: asyncio.Server | None = None
        self.host, self.port = "", 0
        self.lines: set[FrameLine] = set()

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Listen there. Raises: OSError."""
        await self.close()
        self._server = await asyncio.start_server(self._called, host, port, ssl=context)
        self.host, self.port = host, self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for stranger in self._strangers:
            stranger.cut()

    def expect(self, token: str) -> "asyncio.Future[FrameLine]":
        """The line of whoever comes with this token; the first one alone."""
        found = self._awaited[token] = asyncio.get_running_loop().create_future()
        return found

    def forget(self, token: str) -> None:
        self._awaited.pop(token, None)

    async def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = FrameLine(reader, writer, self._silence_s)
        with suppress(LineLost):
            hello = await self._hello(line)
            known = self._awaited.pop(hello.token, None) if isinstance(hello, CallFrame) else None
            if known is not None and not known.done():
                known.set_result(line)
                self.lines.add(line)
                line.on_close = partial(self.lines.discard, line)
                return
        await line.close()

    async def _hello(self, line: FrameLine) -> Any:
        """Raises: LineLost."""
        if len(self._strangers) >= STRANGERS_MAX:
            next(iter(self._strangers)).cut()
        self._strangers[line] = None
        try:
            return await line.hear(HELLO_MAX)
        finally:
            del self._strangers[line]
