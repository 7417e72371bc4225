"""The cluster, as the service sees it: knows who is there, and runs attempts in their seats."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from jobrunner.cluster import performing
from jobrunner.cluster.away_attempt import AwayAttempt, AwayLost
from jobrunner.cluster.connection import DaskConnection, Present, SchedulerLost, security_of
from jobrunner.cluster.door import ClusterDoor
from jobrunner.cluster.frame_line import FrameLine
from jobrunner.cluster.seats import Seat, Seats, Skills
from jobrunner.config.settings import ClusterSection
from jobrunner.core.messages import Ended
from jobrunner.ports import Ports
from jobrunner.stages import Given, Host
from jobrunner.stages.away import AwayStage, Elsewhere

LOOK_S = 1.0
REST_S = 2.0
CLEAR_S = 0.2
Log = Callable[..., None]


class Cluster(Elsewhere):
    """``on_change`` is called when somebody may find a seat who found none before."""

    def __init__(
        self,
        settings: ClusterSection,
        brought: Mapping[str, str],
        ports: Ports,
        floor: int,
        log: Log,
    ) -> None:
        security_of(settings)
        self._settings = settings
        self._ports = ports
        self._floor = floor
        self._log = log
        self._seats = Seats(brought)
        self._door = ClusterDoor(settings.silence)
        self._connection: DaskConnection | None = None
        self._group: TaskGroup | None = None
        self._named: dict[str, str] = {}
        self._meeting: set[str] = set()
        self.on_change: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Open the cluster: as long as this lasts, stages may run there."""
        async with anyio.create_task_group() as group:
            self._group = group
            group.start_soon(self._keep)
            try:
                yield
            finally:
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await self._door.close()
                    await self._leave()

    @property
    def free(self) -> int:
        return 0 if self._seats.trouble else self._seats.free

    def lack(self, stage: AwayStage) -> str:
        return self._seats.lack(stage)

    def take(self, job_id: str, stage: AwayStage) -> None:
        self._seats.take(job_id, stage)

    def give_back(self, job_id: str) -> None:
        if (seat := self._seats.of(job_id)) is not None:
            seat.job_id = ""
            self.on_change()

    def where(self, job_id: str) -> str:
        seat = self._seats.of(job_id)
        return f"{seat.name} at {seat.address}" if seat else ""

    def seats(self) -> dict[str, int]:
        return self._seats.counted()

    def lines(self) -> list[FrameLine]:
        """The lines to stages that are at work there."""
        return list(self._door.lines)

    async def run(
        self, stage: AwayStage, given: Given, kind: type[Struct] | None, host: Host
    ) -> Ended:
        seat = self._seats.take(given.job_id, stage)
        if seat is None or self._seats.trouble:
            why = self._seats.trouble or "its seat is gone"
            return AwayLost("CLUSTER_LOST", f"the cluster: {why}").ended()
        attempt = AwayAttempt(self._settings, self._door, self._ports, self._floor, seat)
        host.log(f"runs on {seat.name} at {seat.address}")
        connection = self._connection
        try:
            return await attempt.run(connection, stage, given, kind, host)
        except AwayLost as lost:
            self._clear_later(seat, attempt.key)
            return (await self._judged(seat, lost, connection)).ended()
        except asyncio.CancelledError:
            with anyio.CancelScope(shield=True):
                if not attempt.is_over:
                    await self._clear(seat, attempt.key, patience_s=0)
            raise

    async def _judged(
        self, seat: Seat, lost: AwayLost, connection: DaskConnection | None
    ) -> AwayLost:
        """Judge how an attempt was lost. Nobody is blamed where the scheduler is gone, or was since
        the stage began: it takes its workers with it, some after a while."""

        if lost.unfit:
            self._blame(seat, lost.unfit)
        if lost.code != "WORKER_LOST":
            return lost
        try:
            now = self._connection
            if now is None or connection is None:
                raise SchedulerLost("it was lost before")
            await now.present()
            if now.scheduler_id != connection.scheduler_id:
                raise SchedulerLost("another one has its place")
        except SchedulerLost:
            return AwayLost("CLUSTER_LOST", "the scheduler of the cluster was lost")
        return lost

    def _clear_later(self, seat: Seat, key: str) -> None:
        seat.left()
        assert self._group is not None, "stages run while the cluster is open"
        self._group.start_soon(self._clear, seat, key, self._settings.patience)

    async def _clear(self, seat: Seat, key: str, patience_s: float) -> None:
        """Wait until nothing runs in this seat any more: a while by itself, then by force."""
        seat.left()
        clock = self._ports.clock
        until, is_told = clock.monotonic() + patience_s, False
        while self._seats.get(seat.address) is seat:
            busy = await self._under_way(seat)
            if busy is not None and (not busy or (key and key not in busy)):
                break
            if not is_told and clock.monotonic() >= until:
                is_told = True
                await self._restart(seat)
            await clock.sleep(CLEAR_S)
        seat.is_clearing, seat.job_id = False, ""
        self.on_change()

    async def _under_way(self, seat: Seat) -> list[str] | None:
        connection = self._connection
        if connection is None:
            return None
        try:
            return await connection.under_way(seat.address)
        except SchedulerLost:
            return None

    async def _restart(self, seat: Seat) -> None:
        text = "its stage was told to stop and went on; it is started anew"
        trouble = "the scheduler does not answer"
        with suppress(SchedulerLost):
            trouble = await self._connection.restart(seat.address) if self._connection else trouble
        self._log(
            "cluster.restarts",
            level="warning",
            worker=seat.name,
            address=seat.address,
            detail=trouble or text,
        )

    async def _keep(self) -> None:
        """Look who is there, as long as the service lasts, and come back to a lost scheduler."""
        while True:
            try:
                connection = DaskConnection(self._settings)
                self._connection = connection
                await connection.begin()
                await self._open_door(connection)
                await self._look_on(connection)
            except SchedulerLost as lost:
                await self._lost(str(lost))
            except Exception as fault:  # noqa: BLE001 - whatever Dask does, the service goes on
                await self._lost(f"{type(fault).__name__}: {fault}")
            await self._ports.clock.sleep(REST_S)

    async def _open_door(self, connection: DaskConnection) -> None:
        """Once: those who come back find it where it was."""
        if not self._door.host:
            host, _, port = self._settings.listen.rpartition(":")
            if not port.isdigit():
                host, port = self._settings.listen, "0"
            host = host.strip("[]") or connection.own_host
            await self._door.listen(host, int(port), connection.context)

    async def _look_on(self, connection: DaskConnection) -> None:
        while True:
            await self._look(connection)
            if self._seats.trouble:
                self._seats.trouble = ""
                self._log("cluster.reached", scheduler=self._settings.scheduler, **self.seats())
                self.on_change()
            await self._ports.clock.sleep(LOOK_S)

    async def _look(self, connection: DaskConnection) -> None:
        there = {one.address: one for one in await connection.present()}
        for seat in self._seats.keep(there):
            self._log("cluster.left", worker=seat.name, address=seat.address)
        self._named = {one: why for one, why in self._named.items() if one in there}
        assert self._group is not None, "nobody looks before the cluster is open"
        for address, one in there.items():
            if self._seats.get(address) is None and address not in self._meeting:
                self._meeting.add(address)
                self._group.start_soon(self._approach, connection, one)

    async def _approach(self, connection: DaskConnection, one: Present) -> None:
        """Meet one. Who does not answer holds up nobody else, and is asked again."""
        try:
            await self._meet(connection, one)
        except Exception as fault:  # noqa: BLE001 - whatever Dask does, the others go on
            if self._connection is connection:
                silent = isinstance(fault, SchedulerLost)
                why = "does not answer" if silent else f"({type(fault).__name__}: {fault})"
                self._blame(Seat(one.address, one.name), why)
        finally:
            self._meeting.discard(one.address)

    async def _meet(self, connection: DaskConnection, one: Present) -> None:
        """Give a worker its seat when it is known whether something runs there."""
        seat = Seat(one.address, one.name, one.labels)
        found = await connection.skills(one.address)
        if isinstance(found, str):
            seat.unfit = found
        else:
            seat.skills, seat.unfit = found, unfit(one, found)
        busy = None if seat.unfit else await connection.under_way(one.address)
        self._seats.meet(seat)
        if seat.unfit:
            self._blame(seat, seat.unfit)
            return
        self._log("cluster.joined", worker=one.name, address=one.address, labels=one.labels)
        if busy:
            self._clear_later(seat, "")
        self.on_change()

    def _blame(self, seat: Seat, why: str) -> None:
        """Give it nothing more, and say so once."""
        seat.unfit = why
        if self._named.get(seat.address) != why:
            self._named[seat.address] = why
            about = {"worker": seat.name, "address": seat.address}
            self._log("cluster.unfit", level="error", detail=f"{seat.name} {why}", **about)

    async def _lost(self, why: str) -> None:
        if self._seats.trouble != why:
            self._log("cluster.lost", level="error", detail=why)
        self._seats.trouble = why
        await self._leave()

    async def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def unfit(one: Present, skills: Skills) -> str:
    """Name what makes a worker no good for anything; empty for one that may work."""
    if one.threads != 1:
        return f"has {one.threads} threads; start it with --nthreads 1"
    if not one.has_nanny:
        return "has no nanny that could end it; start it with --nanny"
    ours, theirs = performing.own_version(), skills.jobrunner
    if theirs != ours:
        return f"has {theirs or 'another jobrunner'}, and this service {ours}; install the same"
    if skills.python != performing.python():
        return f"has Python {skills.python}, and this service {performing.python()}"
    return ""
