"""Files that people send, while they come in: each a part in a folder of their own, beside all
other files on the same disk, until it is whole.

A part is opened under a name that nobody else chose and that was not there before. What arrives is
written and digested at once; when it is whole it is flushed, linked to its place under a name that
was free, and the folder flushed. Only then a row may speak of it.

What can be resumed has an order beside its part: a small file that says what was announced. The
size of the part is how far it has come, so nothing can disagree with it, and a service that was
killed in the middle knows as much as before. A part without an order belonged to a request that
died with its process; the next start removes it.
"""

import errno
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from jobrunner.core.job import JOB_ID
from jobrunner.errors import Misconfigured, Refused, StorageFull
from jobrunner.files.folders import flush as flush_folder
from jobrunner.files.folders import made
from jobrunner.files.library import numbered
from jobrunner.ports import Children, Clock, Files

FOLDER = ".incoming"
PART, CHUNK, ORDER = ".part", ".chunk", ".json"
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BLOCK = 1024 * 1024
TRIES = 1000
OPEN_MAX = 256
SHARE_MAX = OPEN_MAX // 4
SWEEP_EVERY_S = 60.0
T = TypeVar("T")
OPEN_PER_USER = 100
ORDERS_MAX = 10_000


class AnnouncedFile(Struct, frozen=True, omit_defaults=True):
    """The announcement of a file that can be resumed. ``job_id`` is empty for one that comes
    before its job; ``upload`` is, too, for a worker's, which then has an ``asset_type``, perhaps an
    ``artifact`` and a ``claim``. ``asset_id`` is set when the whole of it was taken."""

    id: str
    user_id: str
    length: int
    name: str
    media_type: str
    created_at: int
    expires_at: int
    job_id: str = ""
    upload: str = ""
    metadata: str = ""
    asset_id: str = ""
    asset_type: str = ""
    artifact: str = ""
    claim: int | None = None


class Placed(Struct, frozen=True):
    """A whole file at its place; ``path`` is below the folder of all files."""

    path: str
    size: int
    sha256: str


class Arrivals:
    """``root`` is the folder of all files, ``min_free`` how many bytes must stay free beside it."""

    def __init__(
        self, root: str, children: Children, files: Files, clock: Clock, min_free: int = 0
    ) -> None:
        self._root = Path(root).absolute()
        self._folder = self._root / FOLDER
        self._children = children
        self._files = files
        self._clock = clock
        self._min_free = min_free
        self._busy: set[str] = set()
        self._open = 0
        self._shares = Counter[str]()
        self.orders: dict[str, AnnouncedFile] = {}

    async def open(self) -> None:
        """Before anything arrives: what was left is taken up or removed.

        Raises: Misconfigured, where the folder cannot be had."""
        try:
            await self._on_disk(self._take_up)
        except OSError as error:
            reason = f"store.assets: {self._folder} cannot be used: {error.strerror}"
            raise Misconfigured(f"{reason}; name a folder that this user may write") from error

    @property
    def under_way(self) -> int:
        return self._open

    @property
    def busy(self) -> bool:
        """Say whether somebody is sending something."""
        return bool(self._busy)

    @contextmanager
    def alone(self, what: str) -> Iterator[None]:
        """Allow one upload at a time for a job, and one request at a time for a file that is
        resumed.

        Raises: Refused UPLOAD_IN_PROGRESS."""
        if what in self._busy:
            detail = "another request is sending this; wait for it to end"
            raise Refused("UPLOAD_IN_PROGRESS", detail, retry_after_s=1)
        self._busy.add(what)
        try:
            yield
        finally:
            self._busy.discard(what)

    async def check_room(self, size: int) -> None:
        """Raises: StorageFull when the disk would be left with less than must stay free."""
        await self._on_disk(partial(self._keep_free, size))

    async def begin(self, name: str, *, again: bool = False, user_id: str = "") -> "PartFile":
        """Open a part, new or (``again``) as far as it has come. A user has a share of all, so
        that nobody who sends slowly keeps everybody else out.

        Raises: Refused OVERLOADED, when too many files come in already."""
        if self._open >= OPEN_MAX:
            raise Refused("OVERLOADED", f"{self._open} files are coming in already")
        if user_id and self._shares[user_id] >= SHARE_MAX:
            detail = f"{SHARE_MAX} files of {user_id} are coming in already; let some of them end"
            raise Refused("OVERLOADED", detail)
        self._count(user_id, 1)
        try:
            handle = await self._on_disk(partial(_opened, self._part(name), again))
        except BaseException:
            self._count(user_id, -1)
            raise
        return PartFile(self, handle, user_id)

    def _count(self, user_id: str, more: int) -> None:
        self._open += more
        self._shares[user_id] += more
        if not self._shares[user_id]:
            del self._shares[user_id]

    async def size(self, name: str) -> int:
        """How far a part has come."""
        return await self._on_disk(partial(_size, self._part(name)))

    async def digest(self, name: str) -> str:
        return await self._on_disk(partial(_digest, self._part(name)))

    async def append(self, name: str, other: str) -> None:
        """Append another part to this one, which grows by whole blocks only."""
        await self.check_room(await self.size(other))

        await self._on_disk(partial(_append, self._part(name), self._part(other)))

    async def place(self, name: str, folder: str, wanted: str, count: int, sha256: str) -> Placed:
        """Give the part a free name in ``folder``, as its file number ``count`` + 1 or later. The
        part stays until it is dropped, so that this can be done again."""
        done = partial(_placed, self._root, self._part(name), folder, wanted, count)
        path, size = await self._on_disk(done)
        return Placed(path, size, sha256)

    async def drop(self, name: str) -> None:
        """The part goes; nothing remembers it."""
        await self._on_disk(partial(_remove, self._part(name)))

    async def remove(self, path: str) -> None:
        """A file that was placed and then not wanted."""
        await self._on_disk(partial(_remove, self._root / path))

    async def promise(self, order: AnnouncedFile) -> None:
        """Remember what was announced, from now on over every restart.

        Raises: Refused QUOTA_EXCEEDED."""
        own = sum(one.user_id == order.user_id and not one.asset_id for one in self.orders.values())
        if order.id not in self.orders and own >= OPEN_PER_USER:
            detail = f"{own} uploads are open; end some of them, or wait for them to expire"
            raise Refused("QUOTA_EXCEEDED", detail, limit=OPEN_PER_USER, current=own)
        path, data = str(self._order(order.id)), msgspec.json.encode(order)
        before = self.orders.get(order.id)
        self.orders[order.id] = order
        try:
            if len(self.orders) > ORDERS_MAX:
                await self._forget_one_done()
            await self._on_disk(partial(self._files.write_private, path, data))
            await self._on_disk(partial(flush_folder, self._folder))
        except BaseException:
            self.orders.pop(order.id, None)
            if before is not None:
                self.orders[order.id] = before
            raise

    async def _forget_one_done(self) -> None:
        """Forget an upload: later questions find none of this id; its asset stays."""
        done = next((one for one in self.orders.values() if one.asset_id), None)
        if done is not None and done.id not in self._busy:
            await self.forget(done)

    async def forget(self, order: AnnouncedFile) -> None:
        """The order and its part go."""
        self.orders.pop(order.id, None)
        gone = [self._order(order.id), self._part(order.id), self._part(order.id + CHUNK)]
        await self._on_disk(partial(_remove, *gone))

    async def sweep(self) -> int:
        """Remove expired uploads, and count them."""
        now = self._clock.now()
        old = [one for one in self.orders.values() if one.expires_at <= now]
        old = [one for one in old if one.id not in self._busy]
        for order in old:
            await self.forget(order)
        return len(old)

    async def watch(self, log: Callable[..., None]) -> None:
        """Remove abandoned uploads, now and then."""
        while True:
            await self._clock.sleep(SWEEP_EVERY_S)
            try:
                if swept := await self.sweep():
                    log("uploads.expired", uploads=swept)
            except (OSError, StorageFull) as fault:
                log("uploads.not_swept", level="error", detail=str(fault))

    async def _on_disk(self, act: Callable[[], T]) -> T:
        """Run this in a thread: a slow disk delays this file and nothing else."""
        try:
            return await self._children.in_thread(act)
        except OSError as error:
            if error.errno in FULL:
                raise StorageFull(f"a file that comes in cannot be stored: {error}") from error
            raise

    def _part(self, name: str) -> Path:
        return self._folder / f"{name}{PART}"

    def _order(self, name: str) -> Path:
        return self._folder / f"{name}{ORDER}"

    def _keep_free(self, size: int) -> None:
        """Ask for room, for each block again: nobody knows before how long a body in chunks is,
        and many files come in beside each other.

        Raises: StorageFull."""
        if not self._min_free:
            return
        free = self._files.free(str(self._folder))
        if free - size < self._min_free:
            raise StorageFull(f"{free} bytes are free, {size} are to come")

    def _take_up(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in sorted(self._folder.glob(f"*{ORDER}")):
            order = _read(path)
            if order is not None and (order.asset_id or self._part(order.id).exists()):
                self.orders[order.id] = order
        for path in self._folder.iterdir():
            known = path.name.partition(".")[0] in self.orders
            if not known or CHUNK in path.name or path.suffix == ".new":
                _remove(path)


class PartFile:
    """A file that is being written. Leave it with ``close``, whatever happened."""

    def __init__(self, arrivals: Arrivals, handle: int, user_id: str = "") -> None:
        self._arrivals = arrivals
        self._user_id = user_id
        self._handle = handle
        self._sum = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """Return the digest of what was written here, not of what was there before."""
        return self._sum.hexdigest()

    async def write(self, data: bytes) -> None:
        await self._arrivals._on_disk(partial(self._write, data))
        self.size += len(data)

    async def flush(self) -> None:
        """Flush to the disk."""
        await self._arrivals._on_disk(partial(os.fsync, self._handle))

    def close(self) -> None:
        self._arrivals._count(self._user_id, -1)
        os.close(self._handle)

    def _write(self, data: bytes) -> None:
        self._arrivals._keep_free(len(data))
        self._sum.update(data)
        left = memoryview(data)
        while left:
            left = left[os.write(self._handle, left) :]


def cleared(root: str, folders: Iterable[str]) -> None:
    """Remove everything in these folders, which are below ``root`` and two names deep."""
    for folder in folders:
        place = Path(root, folder)
        if ".." in place.parts or Path(folder).is_absolute() or len(Path(folder).parts) < 2:
            continue
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in place.iterdir():
                if not path.is_dir() or path.is_symlink():
                    path.unlink(missing_ok=True)
            place.rmdir()


def _opened(path: Path, again: bool) -> int:
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    flags |= os.O_APPEND if again else os.O_CREAT | os.O_EXCL
    return os.open(path, flags, 0o600)


def _size(path: Path) -> int:
    return path.lstat().st_size


def _digest(path: Path) -> str:
    with open(path, "rb", opener=_no_link) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


def _append(path: Path, other: Path) -> None:
    with open(other, "rb", opener=_no_link) as source, open(path, "ab", opener=_no_link) as target:
        while block := source.read(BLOCK):
            target.write(block)
        target.flush()
        os.fsync(target.fileno())


def _placed(root: Path, part: Path, folder: str, wanted: str, count: int) -> tuple[str, int]:
    place = made(root / folder)
    for number in range(count + 1, count + TRIES):
        path = place / numbered(wanted, number)
        try:
            os.link(part, path, follow_symlinks=False)
        except FileExistsError:
            continue
        for grown in (place, *place.parents[: len(Path(folder).parts)]):
            flush_folder(grown)
        return path.relative_to(root).as_posix(), _size(path)
    raise Refused("VALIDATION_ERROR", f"too many files are called {wanted!r} here")


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _read(path: Path) -> AnnouncedFile | None:
    """An order that is whole and named as it says; nobody but us should have written there."""
    try:
        order = msgspec.json.decode(path.read_bytes(), type=AnnouncedFile)
    except (msgspec.MsgspecError, OSError):
        return None
    return order if JOB_ID.fullmatch(order.id) and path.name == f"{order.id}{ORDER}" else None
