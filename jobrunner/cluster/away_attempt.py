"""One attempt on the cluster: its order, the call that comes back, and its end."""

import asyncio
from contextlib import suppress
from typing import Any

import anyio
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.cluster.connection import DaskConnection, SchedulerLost
from jobrunner.cluster.conversation import Conversation
from jobrunner.cluster.door import ClusterDoor
from jobrunner.cluster.frame_line import FrameLine, LineLost
from jobrunner.cluster.frames import HaltFrame, SeatOrder, packed
from jobrunner.cluster.seats import Seat
from jobrunner.config.settings import ClusterSection
from jobrunner.core.failures import WORKER_LOST
from jobrunner.core.job import Failure
from jobrunner.core.messages import Ended
from jobrunner.files.lent import last_number
from jobrunner.ports import Ports
from jobrunner.stages import Given, Host
from jobrunner.stages.away import AwayStage
from jobrunner.stages.outcomes import failed
from jobrunner.stages.process.host import address

MARK = 12


class AwayLost(Exception):
    """The attempt did not come to its end there. ``unfit`` is what is wrong with its worker."""

    def __init__(self, code: str, text: str, unfit: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.unfit = unfit

    def ended(self) -> Ended:
        return Ended(0, "interrupted", failure=Failure(self.code, str(self)))


class AwayAttempt:
    """``is_over``: nothing of it is left in its seat."""

    def __init__(
        self, settings: ClusterSection, door: ClusterDoor, ports: Ports, floor: int, seat: Seat
    ) -> None:
        self._settings = settings
        self._door = door
        self._ports = ports
        self._floor = floor
        self._seat = seat
        self._token = ports.ids.secret()
        self.key = ""
        self.is_over = True

    async def run(
        self,
        connection: DaskConnection | None,
        stage: AwayStage,
        given: Given,
        kind: type[Struct] | None,
        host: Host,
    ) -> Ended:
        """Returns how it ended. Raises: AwayLost."""
        if kind is not None and not address(kind):
            return failed("STAGE_UNAVAILABLE", "params of stages on a cluster stand in a module")
        order = await self._order(stage, given, kind, host)
        call = self._door.expect(self._token)
        try:
            if connection is None:
                raise SchedulerLost("it was lost just now")
            labels = {name: n for name, n in stage.labels.items() if name in self._seat.labels}
            self.is_over = False
            future = connection.submit(packed(order), self.key, self._seat.address, labels)
        except SchedulerLost as lost:
            self.is_over = True
            self._door.forget(self._token)
            raise AwayLost("CLUSTER_LOST", str(lost)) from lost
        try:
            line = await self._called(call, future)
            return await self._held(line, host, given)
        finally:
            self._door.forget(self._token)
            future.release()

    async def _order(
        self, stage: AwayStage, given: Given, kind: type[Struct] | None, host: Host
    ) -> SeatOrder:
        self.key = f"{given.job_id}/{stage.plain_name}/{given.attempt}-{self._token[:MARK]}"
        number = await host.block(lambda: last_number(given.root, given.folder))
        return SeatOrder(
            host=self._door.host,
            port=self._door.port,
            token=self._token,
            key=self.key,
            stage=stage.plain_name,
            params=address(kind) if kind else "",
            given=replace(given, number=max(given.number, number), root="", scratch=""),
            silence_s=self._settings.silence,
            floor=self._floor,
        )

    async def _called(self, call: "asyncio.Future[FrameLine]", future: Any) -> FrameLine:
        """Wait for the call of the worker. Raises: AwayLost, where none comes."""
        done = asyncio.ensure_future(_outcome(future))
        try:
            waits: set[asyncio.Future[Any]] = {call, done}
            patience_s = self._settings.silence
            await asyncio.wait(waits, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                return call.result()
            if not done.done():
                raise AwayLost("CLUSTER_SILENT", f"{self._seat.name} did not begin in time")
            raise self._why(done.result())
        finally:
            done.cancel()

    def _why(self, outcome: object) -> AwayLost:
        """Tell a worker that died from one that cannot do it, and both from a lost scheduler."""
        if isinstance(outcome, str):
            text = f"{self._seat.name} {outcome or 'came too late'}"
            return AwayLost("WORKER_UNFIT", text, unfit=outcome)
        kind = type(outcome).__name__
        if kind == "KilledWorker":
            return AwayLost(WORKER_LOST, f"{self._seat.name} was lost before the stage began")
        if "Cancelled" in kind or isinstance(outcome, SchedulerLost):
            return AwayLost("CLUSTER_LOST", "the scheduler of the cluster was lost")
        text = f"cannot run stages ({kind}: {outcome})"
        return AwayLost("WORKER_UNFIT", f"{self._seat.name} {text}", unfit=text)

    async def _held(self, line: FrameLine, host: Host, given: Given) -> Ended:
        talk = asyncio.ensure_future(Conversation(line, host, given).held())
        try:
            ended = await asyncio.shield(talk)
            self.is_over = True
            return ended
        except LineLost as lost:
            text = f"{self._seat.name} was lost while it ran the stage: {lost}"
            raise AwayLost(WORKER_LOST, text) from lost
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                await self._stopped(line, talk)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await line.close()

    async def _stopped(self, line: FrameLine, talk: "asyncio.Future[Ended]") -> None:
        """Tell it to stop, and hear what it still has to say."""
        with suppress(LineLost, TimeoutError):
            await line.say(HaltFrame())
            async with asyncio.timeout(self._settings.patience):
                await talk
                self.is_over = True
        talk.cancel()


async def _outcome(future: Any) -> object:
    try:
        return await future
    except Exception as fault:  # noqa: BLE001 - whatever it is, it is told to who judges
        return fault
