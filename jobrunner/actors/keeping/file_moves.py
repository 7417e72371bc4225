"""Moves files between disk and store, beside everything else, and clears what was left behind.

A file is put there, then its row is written, then its copy goes: whoever is killed in between
leaves one more copy and never one less. An order is a row that says how far it is, so it is gone on
with after any end. Without an order files go where the settings say.

A store that does not answer costs nothing but time: it is asked again, less and less often, and
when it answers those who waited for it go on.
"""

import asyncio
import re
from collections.abc import Mapping
from functools import partial

import anyio
from msgspec import Struct

from jobrunner.actors.keeping.object_clearing import clear_copies, clear_keys, sweep
from jobrunner.actors.keeping.objects import BROUGHT_MS
from jobrunner.actors.shared import World
from jobrunner.core.job import Actor
from jobrunner.core.keeping.objects import (
    CopiesHere,
    FarFile,
    FileHere,
    FileMove,
    FilesMoved,
    MoveTurned,
    NewMove,
    Standing,
    Target,
)
from jobrunner.errors import FilesUnreachable, Refused, RetryableFailure, StorageError
from jobrunner.files.library import Kept, inside
from jobrunner.files.objects.bucket import ObjectStore

PAGE = 200
IDLE_S = 2.0
AGAIN_S, AGAIN_MOST_S = 1.0, 30.0
ANEW_S = 3600.0
DAY_S = 86_400.0
BY_ITSELF = "jobrunner"
LAST = 2**63 - 1


class MoveTerms(Struct, frozen=True, kw_only=True):
    """``place`` is where files go by themselves; ``keep_local_s`` how long a copy stays on the disk
    and ``keep_deleted_s`` how long an object outlives its file; ``presign_s`` how long an address
    is good that a download is sent to (0: it is not)."""

    place: Target = "disk"
    at_once: int = 4
    keep_local_s: float = 3600
    keep_deleted_s: float = 7 * 86_400
    presign_s: float = 0


class MoveForecast(Struct, frozen=True):
    """An order, if it were given."""

    files: int
    bytes: int


class FileMoves:
    def __init__(self, world: World, terms: MoveTerms) -> None:
        self._world = world
        self.terms = terms
        self._open: FileMove | None = None
        self._reached = 0
        self._anew_s = self._sweep_s = 0.0
        self._wake = asyncio.Event()
        self._turned = asyncio.Event()
        self._away_s: float | None = None

    async def run(self) -> None:
        """Move files for as long as the service runs."""
        self._open = next(iter(await self._world.reader.file_moves(1, running=True)), None)
        pause_s = AGAIN_S
        while (bucket := self._world.surroundings.bucket) is not None:
            try:
                busy = await self._step(bucket)
                self._answers(bucket)
                pause_s = AGAIN_S
                await self._rest(0 if busy else IDLE_S)
            except FilesUnreachable as fault:
                self._does_not_answer(fault)
                await self._rest(pause_s)
                pause_s = min(pause_s * 2, AGAIN_MOST_S)

    async def order(self, target: Target, actor: Actor) -> FileMove:
        """Raises: Refused."""
        self._demand(target)
        world = self._world
        up_to = await world.reader.last_asset()
        move = FileMove(world.ids.fresh(), target, actor.name, world.clock.now(), up_to)
        await world.write(NewMove(move))
        self._open = move
        self.nudge()
        world.say("file_move.ordered", move=move.id, to=target, actor=actor.name)
        return move

    def nudge(self) -> None:
        """There is something to do now."""
        self._wake.set()

    async def foresee(self, target: Target) -> MoveForecast:
        """Raises: Refused."""
        self._demand(target)
        files = size = after = 0
        while True:
            sizes, last = await self._page(target, after)
            files, size = files + len(sizes), size + sum(sizes)
            if last is None:
                return MoveForecast(files, size)
            after = last

    async def ended(self, move_id: str, wait_s: float) -> FileMove:
        """The order as it stands, as soon as it is over, or time is up.

        Raises: Refused NOT_FOUND"""
        until_s = self._world.clock.monotonic() + wait_s
        while True:
            turned = self._turned
            found = await self._world.reader.file_moves(1, move_id)
            if not found:
                raise Refused("NOT_FOUND", f"there is no order {move_id} to move files")
            left_s = until_s - self._world.clock.monotonic()
            if found[0].status != "running" or left_s <= 0 or self._world.draining:
                return found[0]
            with anyio.move_on_after(left_s):
                await turned.wait()

    async def abort(self, move_id: str, actor: Actor) -> FileMove:
        """Move nothing more; what was moved stays where it is.

        Raises: Refused NOT_FOUND"""
        await self.ended(move_id, 0)
        await self._turn(move_id, "aborted", actor.name)
        return await self.ended(move_id, 0)

    @property
    def away_s(self) -> float:
        """Say for how long the store has not answered."""
        since = self._away_s
        return 0.0 if since is None else self._world.clock.monotonic() - since

    def warnings(self) -> dict[str, str]:
        """Say what an operator should look at, though all goes on."""
        bucket = self._world.surroundings.bucket
        if bucket is None or bucket.fault is None:
            return {}
        return {"objects": f"files in the store cannot be had: {bucket.fault}"}

    def _demand(self, target: Target) -> None:
        """Raises: Refused."""
        if self._world.surroundings.bucket is None:
            text = "there is no store of objects here: [objects] bucket says which one"
            raise Refused("NOT_FOUND", text)
        if (target, self.terms.place) == ("disk", "s3"):
            text = 'files go to the store by [objects] place = "s3": set it to "disk" and restart'
            raise Refused("PLACE_OF_SETTINGS", text)

    async def _page(self, target: Target, after: int) -> tuple[list[int], int | None]:
        if target == "disk":
            there = await self._world.reader.files_there(after, LAST, PAGE)
            return [one.size for one in there], there[-1].row if there else None
        page = await self._world.reader.files_here(after, LAST, PAGE)
        return [one.size for one in page.files if one.size and one.sha256], page.reached

    async def _step(self, bucket: ObjectStore) -> bool:
        """Do a piece of whatever there is to do; say whether there may be more."""
        if bucket.fault is not None or self._away_s is not None:
            await bucket.check()
        now_s = self._world.clock.monotonic()
        if now_s >= self._sweep_s:
            await sweep(self._world, bucket)
            self._sweep_s = now_s + DAY_S
        busy = await self._moved_some(bucket)
        if self._world.files_wanted:
            return busy
        await clear_copies(self._world, bucket)
        return await clear_keys(self._world, bucket, self.terms.keep_deleted_s) or busy

    async def _moved_some(self, bucket: ObjectStore) -> bool:
        if (order := self._open) is not None:
            if order.target == "s3":
                reached = await self._to_store(bucket, order.reached, order.up_to, order.id)
            else:
                reached = await self._to_disk(bucket, order)
            if reached is None:
                await self._turn(order.id, "done", BY_ITSELF)
            elif self._open is not None and self._open.id == order.id:
                found = await self._world.reader.file_moves(1, order.id)
                self._open = found[0] if found and found[0].status == "running" else None
            return True
        return self.terms.place == "s3" and await self._by_itself(bucket)

    async def _by_itself(self, bucket: ObjectStore) -> bool:
        """Now and then it begins anew: numbers of assets that were deleted come again."""
        now_s = self._world.clock.monotonic()
        if now_s >= self._anew_s:
            self._reached, self._anew_s = 0, now_s + ANEW_S
        reached = await self._to_store(bucket, self._reached, LAST, "")
        self._reached = min(self._reached, await self._world.reader.last_asset())
        if reached is not None:
            self._reached = reached
        return reached is not None

    async def _to_store(
        self, bucket: ObjectStore, after: int, up_to: int, order: str
    ) -> int | None:
        """Put a page of files there; the last one that was looked at, None when that were all.

        Raises: FilesUnreachable, when some could not be put: those that could are written down"""
        page = await self._world.reader.files_here(after, up_to, PAGE)
        if page.reached is None:
            return None
        at_once = self.terms.at_once
        for start in range(0, max(len(page.files), 1), at_once):
            files = page.files[start : start + at_once]
            found = await asyncio.gather(
                *(self._sent(bucket, one) for one in files), return_exceptions=True
            )
            is_last = start + at_once >= len(page.files)
            reached = page.reached if is_last else files[-1].row
            await self._note_there(found, order, after, reached)
            after = reached
        return page.reached

    async def _note_there(
        self, found: list[FarFile | BaseException | None], order: str, before: int, reached: int
    ) -> None:
        """Write which files arrived. Where one could not be put, the order has come no further than
        before."""
        there = tuple(one for one in found if isinstance(one, FarFile))
        faults = [one for one in found if isinstance(one, BaseException)]
        now = self._world.clock.now()
        moved = FilesMoved(
            now,
            there,
            here_until=now + int(self.terms.keep_local_s * 1000),
            order=order,
            reached=before if faults else reached,
            skipped=0 if faults else len(found) - len(there),
        )
        if there or order:
            await self._world.write(moved)
            self._world.meter.files_moved("s3", len(there))
        if faults:
            raise faults[0]

    async def _sent(self, bucket: ObjectStore, one: FileHere) -> FarFile | None:
        """A file that is not here, or not what was recorded, stays where it is and is told of.

        Raises: FilesUnreachable"""
        world = self._world
        if not one.sha256 or not one.size:
            return None
        try:
            if not await world.children.in_thread(
                partial(world.checked, Kept(one.path, one.size, one.sha256))
            ):
                world.say("file_move.skipped", level="warning", path=one.path)
                return None
            key = bucket.key_of(one.path, one.sha256)
            place = inside(world.assets, one.path)
            await bucket.put(place, key, one.size, shown_of(one.path))
        except FilesUnreachable:
            raise
        except (OSError, StorageError) as error:
            world.say("file_move.skipped", level="warning", path=one.path, detail=str(error))
            return None
        return FarFile(one.row, one.path, key, one.size)

    async def _to_disk(self, bucket: ObjectStore, order: FileMove) -> int | None:
        """Bring a few files back. A disk without room holds the order up."""
        few = await self._world.reader.files_there(order.reached, order.up_to, self.terms.at_once)
        back, skipped = list[FarFile](), 0
        try:
            for one in few:
                if await self._brought(bucket, one):
                    back.append(one)
                else:
                    skipped += 1
        finally:
            reached = few[len(back) + skipped - 1].row if back or skipped else order.reached
            now, done = self._world.clock.now(), tuple(back)
            unit = FilesMoved(now, back=done, order=order.id, reached=reached, skipped=skipped)
            await self._world.write(unit)
            self._world.meter.files_moved("disk", len(back))
        return few[-1].row if few else None

    async def _brought(self, bucket: ObjectStore, one: FarFile) -> bool:
        world, kept = self._world, Kept(one.path, one.size, one.sha256)
        async with bucket.turn:
            await world.write(CopiesHere((one.path,), world.clock.now() + BROUGHT_MS))
        if await world.children.in_thread(partial(world.checked, kept)):
            return True
        try:
            world.surroundings.room(one.size)
            place = inside(world.assets, one.path)
            if await bucket.fetch(one.key, one.size, place, world.children.in_thread):
                return True
        except RetryableFailure as full:
            raise FilesUnreachable(f"nothing more is brought back: {full.detail}") from full
        except OSError as fault:
            text = f"nothing more is brought back: the disk says {fault.strerror}"
            raise FilesUnreachable(text) from fault
        world.say("file_move.skipped", level="error", path=one.path, key=one.key)
        return False

    async def _turn(self, move_id: str, status: Standing, actor: str) -> None:
        now = self._world.clock.now()
        if self._open is not None and self._open.id == move_id:
            self._open = None
        try:
            await self._world.write(MoveTurned(move_id, status, actor, now))
        except Refused:
            return  # it was over already
        self._turned.set()
        self._turned = asyncio.Event()
        self._world.say(f"file_move.{status}", move=move_id, actor=actor)

    def _answers(self, bucket: ObjectStore) -> None:
        if bucket.fault is None and self._away_s is not None:
            self._world.say("objects.answers", seconds=round(self.away_s, 1))
            self._away_s = None
        if bucket.fault is None:
            self._world.surroundings.files_are_back()

    def _does_not_answer(self, fault: FilesUnreachable) -> None:
        if self._away_s is None:
            self._away_s = self._world.clock.monotonic()
            level = "error" if fault.lasting else "warning"
            self._world.say(
                "objects.unreachable", level=level, lasting=fault.lasting, detail=str(fault)
            )

    async def _rest(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._wake.wait()
        self._wake.clear()


def shown_of(path: str) -> Mapping[str, str]:
    """How the store hands an object out to whoever was sent there."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", path.rpartition("/")[2]) or "file"
    return {"Content-Disposition": f'attachment; filename="{plain}"'}
