"""The host of a stage that runs here for a service elsewhere: its words go over HTTP, thinned out,
and files go along with the first word that speaks of them."""

import os
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, BinaryIO, TypeVar

import anyio
from msgspec.structs import replace

from jobrunner.client import AsyncClient, CallerError, ClaimRecord, FileRecord, NotThere, TryLater
from jobrunner.client.talk import ONCE
from jobrunner.client.talks import asking, remote
from jobrunner.core.engine_events import LOG_LINES_MAX
from jobrunner.core.features.redaction import Redaction
from jobrunner.core.job import Asset
from jobrunner.core.keeping.objects import LACKS_FILES
from jobrunner.core.messages import Ended, Report
from jobrunner.errors import PermanentFailure, RetryableFailure, Unreachable
from jobrunner.files.lent import coming_in, going_out, is_here
from jobrunner.files.library import Kept, is_sound
from jobrunner.outgoing.calls import Download, Exchange
from jobrunner.ports import Ports
from jobrunner.stages import Given
from jobrunner.stages.equipment import Surroundings
from jobrunner.stages.outcomes import plain
from jobrunner.stages.requests import Answer, Browse, Find, Found, Held, Question, Recall, Recalled
from jobrunner.stages.way_out import WayOut
from jobrunner.work.line import REST_S, REST_S_MAX, ClaimLost, insistent
from jobrunner.work.words import assets_in, checkpoint_of, is_ours, outcome_of, own_name

T = TypeVar("T")


class FarHost:
    """``on_lost`` is called when the service says that the claim is over. ``heard_at`` is when the
    stage gave its last sign of life."""

    def __init__(
        self,
        client: AsyncClient,
        ports: Ports,
        around: Surroundings,
        claimed: ClaimRecord,
        given: Given,
        on_lost: Callable[[], None],
    ) -> None:
        self._client = client
        self._ports = ports
        self._around = around
        self._claimed = claimed
        self._given = given
        self._on_lost = on_lost
        self._way_out = WayOut(around.outlets, given)
        self._clean: Redaction = around.redaction
        self._lines = deque[str](maxlen=LOG_LINES_MAX)
        self._sent: set[str] = set()
        self._asking = 0
        self._lacked_files = False
        self.late: dict[str, Any] = {}
        self.heard_at = self.monotonic()

    async def progress(self, percent: int | None, message: str | None) -> None:
        """Keep the last word; it goes with the next sign of life, once a second at most."""
        self.heard_at = self.monotonic()
        if isinstance(percent, int) and 0 <= percent <= 100:
            self.late["progress"] = int(percent)
        if message is not None:
            self.late["message"] = self._clean(plain(message))

    async def keep(self, name: str, value: Any) -> None:
        self.heard_at = self.monotonic()
        await self._guarded(self._keep(name, self._clean.within(value)))

    async def checkpoint(self, made: Report) -> None:
        self.heard_at = self.monotonic()
        await self._guarded(self._checkpoint(made))

    async def ask(self, question: Question) -> Answer:
        self._asking += 1
        try:
            return await self._answer(question)
        finally:
            self._asking -= 1
            self.heard_at = self.monotonic()

    def room(self, size: int) -> None:
        self._around.room(size)

    async def block(self, function: Callable[[], T]) -> T:
        result: T = await self._ports.children.in_thread(function)
        return result

    def log(self, line: str) -> None:
        self._lines.append(line)

    def monotonic(self) -> float:
        return self._ports.clock.monotonic()

    def fresh(self) -> str:
        return self._ports.ids.fresh()

    @property
    def silent_s(self) -> float:
        """A stage that waits for an answer is as alive as its host."""
        return 0.0 if self._asking else self.monotonic() - self.heard_at

    async def beat(self) -> None:
        """Tell what is new, or just that it goes on. Raises: what the line raises."""
        late, self.late = self.late, {}
        await self._client.hold(remote.beat(*self._claim, **late))

    async def tell(self, ended: Ended) -> None:
        """Say how it ended, with its files; returns when the service knows, or wants to hear no
        more. Raises: CallerError, for an end that is not taken."""
        await self._send_all(ended.report.assets)
        late, self.late = self.late, {}  # or the next sign of life says it to a job that went on
        lines = [self._clean(plain(one)) for one in self._lines]
        said = {**late, **outcome_of(ended, self.fresh()), "log": lines}
        await insistent(self._client, partial(remote.outcome, *self._claim, said))

    def judged(self, ended: Ended) -> Ended:
        """An attempt that failed for want of a file was none: it gives the work back. A stage that
        went on without it has said what became of it."""
        why = ended.failure
        lacks = why is not None and why.retryable and why.code == LACKS_FILES
        return replace(ended, outcome="interrupted") if lacks and self._lacked_files else ended

    @property
    def _claim(self) -> tuple[str, int]:
        return self._claimed.job.id, self._claimed.claim

    async def _guarded(self, saying: Coroutine[Any, Any, None]) -> None:
        """Returns when it is on the service's disk; never, when the claim is over: then the stage
        is about to be stopped."""
        try:
            await saying
        except ClaimLost:
            self._on_lost()
            await anyio.sleep_forever()
        except CallerError as refused:
            text = f"the service does not take what the stage wants kept: {refused.code}"
            raise PermanentFailure("CANNOT_KEEP", text, excerpt=refused.detail) from refused

    async def _keep(self, name: str, value: Any) -> None:
        await self._send_all(assets_in(value))
        await insistent(self._client, partial(remote.keep, *self._claim, name, value))

    async def _checkpoint(self, made: Report) -> None:
        await self._send_all(made.assets)
        said = self._clean.within(checkpoint_of(made, self.fresh()))
        await insistent(self._client, partial(remote.checkpoint, *self._claim, said))

    async def _send_all(self, assets: Iterable[Asset]) -> None:
        for asset in assets:
            if is_ours(asset) and asset.storage_path and asset.id not in self._sent:
                await self._send(asset)
                self._sent.add(asset.id)

    async def _send(self, asset: Asset) -> None:
        """One that is not here was sent before, by who had this attempt then."""
        with going_out(self._given.root, asset.storage_path) as file:
            if file is not None:
                talk = partial(
                    remote.send,
                    *self._claim,
                    file,
                    asset_id=asset.id,
                    name=own_name(asset.storage_path),
                    asset_type=asset.asset_type,
                )
                await insistent(self._client, partial(_unless_there, talk))

    async def _answer(self, question: Question) -> Answer:
        match question:
            case Exchange():
                return await self._way_out.exchange(question)
            case Download():
                return await self._way_out.download(question)
            case Find(asset_id):
                return await self._find(asset_id)
            case Browse(asset_type, limit):
                return Found(tuple(await self._browse(asset_type, limit)))
            case Recall(name, version):
                talk = partial(asking.artifact, self._given.job_id, name, version=version)
                gone = f"the job has no artifact {name!r} in version {version}"
                record = await self._read(talk, "ARTIFACT_NOT_FOUND", gone)
                return Recalled(record.value)
            case _:
                text = "a stage that runs elsewhere asks nobody, and submits no jobs; bind it here"
                raise PermanentFailure("NOT_FROM_ELSEWHERE", text)

    async def _find(self, asset_id: str) -> Held:
        gone = f"the job's owner has no file {asset_id[:80]!r}"
        talk = partial(remote.file_for, asset_id, self._given.job_id)
        record = await self._read(talk, "ASSET_NOT_FOUND", gone)
        folder = os.path.join(self._given.root, ".inputs")
        kept = Kept(f"{record.id}-{_name(record)}", record.file_size or 0, record.sha256 or "")
        path = os.path.join(folder, kept.path)
        if not is_here(path):
            self.room(kept.size)
            await self._fetch(record.id, path)
        if not await self.block(partial(is_sound, folder, kept)):
            text = f"the file of asset {record.id} is missing, or is not what was recorded"
            raise PermanentFailure("CORRUPT_INPUT", text)
        return Held(_asset(record), path)

    async def _fetch(self, asset_id: str, path: str) -> None:
        """Fetch it as soon as the service answers: that it is away costs nobody an attempt."""
        rest_s = REST_S
        with coming_in(path) as file:
            while (asked_s := await self._fetched(asset_id, file)) is not None:
                await anyio.sleep(max(rest_s, asked_s))
                rest_s = min(rest_s * 2, REST_S_MAX)

    async def _fetched(self, asset_id: str, file: BinaryIO) -> float | None:
        """Go on where it stands; None when all of it is here, else when to ask again."""
        try:
            await self._client.download(asset_id, file, start=file.tell(), limits=ONCE)
            return None
        except CallerError as refused:
            text = f"asset {asset_id} cannot be fetched: {refused.code}"
            raise PermanentFailure("CORRUPT_INPUT", text, excerpt=refused.detail) from refused
        except TryLater as busy:
            if busy.code == LACKS_FILES:
                raise self._without(busy) from busy
            return busy.retry_after_s
        except Unreachable:
            return 0.0

    def _without(self, busy: TryLater) -> RetryableFailure:
        self._lacked_files = True
        text = "the store that holds a file of the job does not answer"
        return RetryableFailure(LACKS_FILES, text, excerpt=busy.detail)

    async def _browse(self, asset_type: str | None, limit: int) -> list[Asset]:
        found: list[Asset] = []
        try:
            async for record in self._client.files(user_id=self._given.user_id):
                if asset_type in (None, record.asset_type):
                    found.append(_asset(record))
                if len(found) >= limit:
                    break
        except CallerError as refused:
            text = f"the library is closed to this token: {refused.code}"
            raise PermanentFailure("FORBIDDEN", text, excerpt=refused.detail) from refused
        return found

    async def _read(self, talk: Callable[[], Any], code: str, gone: str) -> Any:
        try:
            return await insistent_reading(self._client, talk)
        except NotThere as refused:
            raise PermanentFailure(code, gone) from refused
        except CallerError as refused:
            raise RetryableFailure("NETWORK_ERROR", f"the service says {refused.code}") from refused


async def insistent_reading(client: AsyncClient, talk: Callable[[], Any]) -> Any:
    """Read until there is an answer, also that there is nothing.

    Raises: CallerError."""
    try:
        return await insistent(client, talk)
    except ClaimLost as none:
        raise none.__cause__ or none from None


def _unless_there(talk: Callable[[], Any]) -> Any:
    """Send a file, unless one of its id has become the job's: it was sent before."""
    try:
        yield from talk()
    except CallerError as refused:
        if refused.code != "ALREADY_EXISTS":
            raise


def _name(record: FileRecord) -> str:
    return os.path.basename(record.storage_path or record.id)


def _asset(record: FileRecord) -> Asset:
    return Asset(
        record.id,
        record.asset_type,
        f"/assets/{record.id}/content",
        record.storage_path or "",
        record.file_size,
        record.sha256 or "",
        int(record.created_at.timestamp() * 1000),
    )
