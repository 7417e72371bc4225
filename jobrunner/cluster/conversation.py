"""The service's end of the line to one stage on the cluster: what the stage says goes to the host
of its attempt, as if it ran here."""

import asyncio
import os
from functools import partial
from typing import Any

from msgspec.structs import replace

from jobrunner.cluster.frame_line import FrameLine, LineLost
from jobrunner.cluster.frames import (
    PIECE,
    FetchPiece,
    Piece,
    SendPiece,
    Telling,
    ToldWord,
    WordFrame,
)
from jobrunner.core.messages import Ended
from jobrunner.errors import RetryableFailure, StageFault
from jobrunner.files.lent import PiecedFile, piece_of
from jobrunner.outgoing.calls import Exchange, Fetched
from jobrunner.stages import Given, Host
from jobrunner.stages.process.wire import (
    Acknowledged,
    Keeping,
    Line,
    Making,
    Over,
    ProgressSaid,
)
from jobrunner.stages.requests import CarriedFault, Held, carried

EXCHANGE_MAX = 16 * 1024 * 1024


class Conversation:
    def __init__(self, line: FrameLine, host: Host, given: Given) -> None:
        self._line = line
        self._host = host
        self._given = given
        self._lent = {
            kept.path: os.path.join(given.root, kept.path) for kept in given.files.values()
        }
        self._coming: dict[str, PiecedFile] = {}
        self._answers: set[asyncio.Task[None]] = set()

    async def held(self) -> Ended:
        """Listen until the stage is over. Raises: LineLost."""
        signs = asyncio.ensure_future(self._line.keep())
        try:
            async for frame in self._line.heard():
                if not isinstance(frame, WordFrame):
                    raise LineLost(f"it said {type(frame).__name__} out of turn")
                if isinstance(frame.said, Over):
                    await self._line.say(ToldWord(frame.number, Acknowledged()))
                    return frame.said.ended
                await self._hear(frame)
        finally:
            signs.cancel()
            for task in self._answers:
                task.cancel()
            for part in self._coming.values():
                await self._host.block(part.drop)
        raise AssertionError("a line is heard until it is lost")

    async def _hear(self, frame: WordFrame) -> None:
        match frame.said:
            case ProgressSaid(percent, text):
                await self._host.progress(percent, text)
            case Line(text):
                self._host.log(text)
            case Keeping() | Making() | SendPiece() | FetchPiece():
                await self._answer(frame)
            case _:
                task = asyncio.ensure_future(self._answer(frame))
                self._answers.add(task)
                task.add_done_callback(self._answers.discard)

    async def _answer(self, frame: WordFrame) -> None:
        try:
            told = await self._told(frame.said)
        except StageFault as fault:
            told = carried(fault)
        except OSError as fault:
            told = carried(RetryableFailure("STORAGE_FAILED", str(fault)))
        try:
            await self._line.say(ToldWord(frame.number, told))
        except LineLost:
            return

    async def _told(self, said: Any) -> Telling:
        match said:
            case Keeping(name, value):
                await self._host.keep(name, value)
            case Making(made):
                await self._host.checkpoint(made)
            case SendPiece():
                return await self._taken(said)
            case FetchPiece(path, at):
                known = self._lent.get(path)
                if known is None:
                    return CarriedFault("permanent", "BAD_REQUEST", f"{path!r} was not lent")
                return Piece(await self._host.block(partial(piece_of, known, at, PIECE)))
            case question:
                return await self._asked(question)
        return Acknowledged()

    async def _asked(self, question: Any) -> Telling:
        if isinstance(question, Exchange):
            question = replace(question, max_size=min(question.max_size, EXCHANGE_MAX))
        answer = await self._host.ask(question)
        if isinstance(answer, Held):
            self._lent[answer.asset.storage_path] = answer.path
        if isinstance(answer, Fetched):
            self._lent[answer.path] = answer.path
        return answer

    async def _taken(self, said: SendPiece) -> Telling:
        """A piece of a file, which goes where the same stage would have put it here."""
        if not said.path.startswith(f"{self._given.folder}/"):
            return CarriedFault("permanent", "BAD_FILE_NAME", f"{said.path!r} is not of this job")
        self._host.room(len(said.data))
        try:
            await self._host.block(partial(self._write, said))
        except (ValueError, FileExistsError) as fault:
            return CarriedFault("retryable", "STORAGE_FAILED", f"a file was not taken: {fault}")
        return Acknowledged()

    def _write(self, said: SendPiece) -> None:
        if said.at == 0:
            self._coming[said.path] = PiecedFile(self._given.root, said.path)
        part = self._coming[said.path]
        part.write(said.data)
        if said.sha256:
            del self._coming[said.path]
            part.finish(said.sha256)
