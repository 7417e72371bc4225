"""The host of a stage on a worker of the cluster: what the stage says goes to the service, and
files go along with the first word that speaks of them."""

import asyncio
import os
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from typing import Any, TypeVar

from msgspec.structs import replace

from jobrunner.cluster.frame_line import FrameLine, LineLost
from jobrunner.cluster.frames import (
    PIECE,
    FetchPiece,
    Piece,
    Saying,
    SeatOrder,
    SendPiece,
    Telling,
    ToldWord,
    WordFrame,
)
from jobrunner.core.job import Asset
from jobrunner.core.messages import Ended, Report
from jobrunner.errors import PermanentFailure
from jobrunner.files.lent import coming_in, digest_of, going_out, is_here
from jobrunner.files.library import Kept, is_sound, made_empty
from jobrunner.files.space import Room
from jobrunner.outgoing.calls import Fetched
from jobrunner.ports import Ports
from jobrunner.stages import Given, Stage, run_attempt
from jobrunner.stages.outcomes import crashed, raised
from jobrunner.stages.process.child import found_at
from jobrunner.stages.process.wire import Keeping, Line, Making, Over, ProgressSaid
from jobrunner.stages.requests import Answer, CarriedFault, Find, Held, Question
from jobrunner.work.words import assets_in, is_ours

T = TypeVar("T")
BETWEEN_S = 0.1
LINES_MAX = 1_000
ARTIFACT = "artifact:"


class FarSeat:
    """Runs one attempt; ``root`` is its folder on this machine."""

    def __init__(self, order: SeatOrder, line: FrameLine, ports: Ports, root: str) -> None:
        self._order = order
        self._line = line
        self._ports = ports
        self._files = order.given.files
        self._given = _settled(order.given, root)
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Telling]] = {}
        self._sent: set[str] = set()
        self._late: ProgressSaid | None = None
        self._last = float("-inf")
        self._lines = 0
        self._saying: set[asyncio.Task[None]] = set()
        self.room = Room(ports.files, root, order.floor)

    async def run(self, stage: Stage) -> None:
        """Run the stage, and say how it ended."""
        await self.block(partial(made_empty, self._given.scratch))
        kind = found_at(self._order.params) if self._order.params else None
        try:
            ended = await run_attempt(stage, self._given, kind, self, self._ports.children)
        except Exception as fault:  # noqa: BLE001 - whatever it is, it costs this attempt alone
            ended = raised(fault)
        await self._flush()
        await asyncio.gather(*self._saying)
        await self._tell_end(ended)

    def hear(self, frame: Any) -> None:
        """Hand an answer to whoever asked."""
        if isinstance(frame, ToldWord):
            asked = self._asked.pop(frame.number, None)
            if asked is not None and not asked.done():
                asked.set_result(frame.told)

    async def progress(self, percent: int | None, message: str | None) -> None:
        before = self._late or ProgressSaid(None, None)
        self._late = ProgressSaid(
            before.percent if percent is None else percent,
            before.message if message is None else message,
        )
        if self.monotonic() - self._last >= BETWEEN_S:
            await self._flush()

    async def keep(self, name: str, value: Any) -> None:
        await self._send_all(assets_in(value))
        await self._ask(Keeping(name, value))

    async def checkpoint(self, made: Report) -> None:
        await self._send_all(made.assets)
        await self._ask(Making(made))

    async def ask(self, question: Question) -> Answer:
        await self._flush()
        if isinstance(question, Find) and question.asset_id.startswith(ARTIFACT):
            return await self._artifact(question.asset_id.removeprefix(ARTIFACT))
        answer = await self._ask(question)
        if isinstance(answer, Held):
            return await self._held(answer.asset)
        if isinstance(answer, Fetched):
            return await self._fetched(answer)
        return answer  # type: ignore[return-value]

    async def block(self, function: Callable[[], T]) -> T:
        result: T = await self._ports.children.in_thread(function)
        return result

    def log(self, line: str) -> None:
        self._lines += 1
        if self._lines <= LINES_MAX:
            task = asyncio.ensure_future(self._said(Line(line)))
            self._saying.add(task)
            task.add_done_callback(self._saying.discard)

    def monotonic(self) -> float:
        return self._ports.clock.monotonic()

    def fresh(self) -> str:
        return self._ports.ids.fresh()

    async def _tell_end(self, ended: Ended) -> None:
        try:
            await self._send_all(ended.report.assets)
        except PermanentFailure as refused:
            ended = crashed(f"what the stage saved is not taken: {refused.detail}")
        await self._ask(Over(ended))

    async def _flush(self) -> None:
        late, self._late = self._late, None
        if late is not None:
            self._last = self.monotonic()
            await self._said(late)

    async def _said(self, word: Saying) -> None:
        await self._line.say(WordFrame(0, word))

    async def _ask(self, word: Saying) -> Telling:
        """Returns the answer; never, when nobody answers any more: then the stage is about to be
        stopped."""
        number = next(self._numbers)
        told = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self._line.say(WordFrame(number, word))
        except LineLost:
            await asyncio.Event().wait()
        answer: Telling = await told
        if isinstance(answer, CarriedFault):
            raise answer.fault()
        return answer

    async def _send_all(self, assets: Iterable[Asset]) -> None:
        for asset in assets:
            if is_ours(asset) and asset.storage_path and asset.storage_path not in self._sent:
                await self._send(asset.storage_path)
                self._sent.add(asset.storage_path)

    async def _send(self, path: str) -> None:
        """One that is not here was sent before, by who had this attempt then."""
        with going_out(self._given.root, path) as file:
            if file is None:
                return
            sha256 = await self.block(partial(digest_of, self._given.root, path))
            at, data = 0, await self.block(partial(file.read, PIECE))
            while data:
                after = await self.block(partial(file.read, PIECE))
                await self._ask(SendPiece(path, data, at, "" if after else sha256))
                at, data = at + len(data), after
            if not at:
                await self._ask(SendPiece(path, b"", 0, sha256))

    async def _artifact(self, name: str) -> Held:
        kept = self._files[name]
        path = await self._brought(kept.path, kept)
        return Held(Asset(name, "file", "", kept.path, kept.size, kept.sha256), path)

    async def _held(self, asset: Asset) -> Held:
        kept = Kept(asset.storage_path, asset.file_size or 0, asset.sha256)
        return Held(asset, await self._brought(asset.storage_path, kept))

    async def _fetched(self, fetched: Fetched) -> Fetched:
        kept = Kept(os.path.basename(fetched.path), fetched.size, fetched.sha256)
        path = await self._brought(fetched.path, kept, self._given.scratch)
        return replace(fetched, path=path)

    async def _brought(self, said: str, kept: Kept, folder: str = "") -> str:
        """Fetch a file that the service has, unless it is here, and look at the whole of it."""
        folder = folder or os.path.join(self._given.root, ".inputs")
        path = os.path.join(folder, kept.path)
        if not is_here(path):
            self.room(kept.size)
            with coming_in(path) as file:
                at = 0
                while at < kept.size:
                    piece = await self._ask(FetchPiece(said, at))
                    assert isinstance(piece, Piece), "what is fetched comes in pieces"
                    if not piece.data:
                        break
                    await self.block(partial(file.write, piece.data))
                    at += len(piece.data)
        if not await self.block(partial(is_sound, folder, kept)):
            raise PermanentFailure("CORRUPT_INPUT", f"{kept.path} is not what was recorded")
        return path


def _settled(given: Given, root: str) -> Given:
    """The same task, in a folder of this machine."""
    away = {name: f"{ARTIFACT}{name}" for name in given.files}
    return replace(given, root=root, scratch=os.path.join(root, ".scratch"), files={}, away=away)
