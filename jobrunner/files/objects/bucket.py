"""The bucket: what is put there, read, listed and removed, and what a refusal of it means.

The library tries again by itself what may have been bad luck. What is left is of two kinds: a
store that does not answer or has a fault of its own, which passes; and one that refuses us, does
not know the bucket or does not speak our language, which an operator must see to.
"""

import hashlib
import importlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
from msgspec import Struct

from jobrunner.errors import FilesUnreachable, Misconfigured
from jobrunner.files.folders import flush, made, private
from jobrunner.files.objects.credentials import ObjectKeys, keys_of, mark_of

BLOCK = 4 * 1024**2
PARTS_MAX = 9_000
PARTS_AT_ONCE = 4
LIST_PAGE = 500
REMOVED_AT_ONCE = 500
TRIES = 2
PATIENCE = 4
WORDS_MAX = 300
DRAFT = ".fetching-"
REFUSED = re.compile(r"status code: 4(?!08|29)\d\d")
NO_BUCKET = "NoSuchBucket"
MISSING = "objects.bucket: needs obstore: pip install 'jobrunner[s3]'"
T = TypeVar("T")


class ObjectTerms(Struct, frozen=True, kw_only=True):
    """``style``: whether the bucket stands in the path of an address or in its host. ``part`` is
    how much of a file goes in one request, which may take ``timeout_s``."""

    bucket: str
    endpoint: str = ""
    region: str = "us-east-1"
    prefix: str = ""
    credentials: str = ""
    style: str = "path"
    checksum: str = "sha256"
    part: int = 8 * 1024**2
    timeout_s: float = 30

    @property
    def place(self) -> str:
        """Name where it is, for people."""
        return f"s3://{self.bucket}/{self.prefix}"

    def part_of(self, size: int) -> int:
        """How much of a file of this size goes in one request: a store counts the parts."""
        return max(self.part, -(-size // PARTS_MAX))


class ObjectSeen(Struct, frozen=True):
    """An object, as a list of the store tells of it."""

    key: str
    size: int
    changed_at: int


class ObjectStore:
    """``fault`` is what was wrong the last time, None when all went well. Whoever clears copies on
    the disk, or says that one is to stay, has its ``turn``."""

    def __init__(self, terms: ObjectTerms, environ: Mapping[str, str]) -> None:
        """Raises: Misconfigured, without the library or the keys."""
        try:
            self._lib: Any = importlib.import_module("obstore")
            self._kind: Any = importlib.import_module("obstore.store").S3Store
        except ImportError:
            raise Misconfigured(MISSING) from None
        self.terms = terms
        self.fault: FilesUnreachable | None = None
        self._fetches = 0
        self.turn = anyio.Lock()
        self._environ = environ
        self._mark = mark_of(terms.credentials)
        self.keys = keys_of(terms.credentials, environ)
        self._store: Any = self._opened(self.keys)

    def key_of(self, path: str, sha256: str) -> str:
        """Make the key for a file of this content, beside the others of its folder."""
        folder, _, name = path.rpartition("/")
        return f"{self.terms.prefix}{folder}/{sha256}/{name}"

    def blocking(self) -> tuple[Any, Any]:
        """The library, and the store as it takes it, for who asks from a thread of its own."""
        self._renew()
        return self._lib, self._store

    async def check(self) -> None:
        """Ask for something that needs every right but those to change anything."""
        await self._asked(self._first_page)

    async def size(self, key: str) -> int | None:
        """Return the size of an object; None for one that is not there.

        Raises: FilesUnreachable"""
        try:
            return int((await self._asked(lambda: self._lib.head_async(self._store, key)))["size"])
        except FileNotFoundError:
            await self.check()  # a bucket that is gone looks like a file that is
            return None

    async def put(self, place: Path, key: str, size: int, shown: Mapping[str, str]) -> None:
        """A file that is whole and never changes. One that is there already, as large, is the same.

        Raises: FilesUnreachable, OSError"""
        if await self.size(key) == size:
            return
        alone = size <= self.terms.part
        options: dict[str, Any] = {"mode": "create"} if alone else {"use_multipart": True}
        options["chunk_size"] = self.terms.part_of(size)
        put = partial(self._lib.put_async, self._store, key, place, max_concurrency=PARTS_AT_ONCE)
        try:
            await self._asked(lambda: put(attributes=dict(shown), **options), patient=True)
        except FileExistsError:
            pass  # the answer to the first try was lost
        if (found := await self.size(key)) != size:
            raise FilesUnreachable(f"{key} has {found} bytes there, and {size} here", lasting=True)

    async def blocks(
        self, key: str, first: int, last: int, block: int = BLOCK
    ) -> AsyncIterator[bytes]:
        """Read from one byte to another, both included, piece by piece. Each piece is a request, so
        a long file needs no long patience, and a slow reader no more room than a few ``block``.

        Raises: FilesUnreachable, FileNotFoundError"""
        while first <= last:
            until = min(first + block, last + 1)
            data = await self._read(key, first, until)
            if len(data) != until - first:
                raise FilesUnreachable(f"{key} ends at {first + len(data)}", lasting=True)
            yield data
            first = until

    async def fetch(
        self, key: str, size: int, place: Path, block: Callable[[Callable[[], Any]], Awaitable[Any]]
    ) -> bool:
        """Bring an object to its place on the disk, whole or not at all; False for one that is not
        there, or is not what its key says. ``block`` is for what would hold up others.

        Raises: FilesUnreachable, OSError"""
        self._fetches += 1
        draft = place.with_name(f"{place.name}{DRAFT}{self._fetches}")
        found = hashlib.sha256()
        handle = await block(partial(_drafted, draft))
        try:
            async for data in self.blocks(key, 0, size - 1):
                await block(partial(_written, handle, data, found))
            if found.hexdigest() != key.split("/")[-2]:
                return False
            await block(partial(_named, handle, draft, place))
            return True
        except FileNotFoundError:
            return False
        finally:
            os.close(handle)
            draft.unlink(missing_ok=True)

    async def is_sound(self, key: str, size: int) -> bool:
        """Read all of an object, and say whether it is what its key says.

        Raises: FilesUnreachable"""
        found = hashlib.sha256()
        try:
            async for data in self.blocks(key, 0, size - 1):
                found.update(data)
        except FileNotFoundError:
            return False
        return found.hexdigest() == key.split("/")[-2]

    async def remove(self, keys: tuple[str, ...]) -> None:
        """Remove objects; one that is not there is removed already.

        Raises: FilesUnreachable"""
        for start in range(0, len(keys), REMOVED_AT_ONCE):
            some = list(keys[start : start + REMOVED_AT_ONCE])
            try:
                await self._asked(partial(self._lib.delete_async, self._store, some))
            except FileNotFoundError:
                continue

    async def listed(self) -> AsyncIterator[list[ObjectSeen]]:
        """List everything under our prefix, a page at a time.

        Raises: FilesUnreachable"""
        pages = self._lib.list(self._store, self.terms.prefix or None, chunk_size=LIST_PAGE)
        while page := await self._asked(partial(_next_page, pages)):
            yield [
                ObjectSeen(one["path"], one["size"], int(one["last_modified"].timestamp() * 1000))
                for one in page
            ]

    async def address(self, key: str, seconds: float) -> str:
        """Make an address at which anybody may read it, for so long. Made here: nobody is asked."""
        signed = self._lib.sign_async(self._store, "GET", key, timedelta(seconds=seconds))
        return str(await signed)

    async def _read(self, key: str, first: int, until: int) -> bytes:
        ranged = partial(self._lib.get_range_async, self._store, key, start=first, end=until)
        try:
            return bytes(await self._asked(ranged))
        except FileNotFoundError:
            await self.check()
            raise

    async def _first_page(self) -> None:
        await anext(aiter(self._lib.list(self._store, self.terms.prefix or None)), None)

    async def _asked(self, ask: Callable[[], Awaitable[T]], patient: bool = False) -> T:
        """Raises: FilesUnreachable, FileNotFoundError, FileExistsError."""
        self._renew()
        try:
            with anyio.fail_after(None if patient else self.terms.timeout_s * PATIENCE):
                answer = await ask()
        except FileExistsError:
            raise
        except FileNotFoundError as error:
            if NO_BUCKET in str(error):
                raise self._failed(error, lasting=True) from None
            raise
        except TimeoutError as error:
            raise self._failed(error, lasting=False) from None
        except (self._lib.exceptions.BaseError, PermissionError) as error:
            raise self._failed(error, lasting=self._is_lasting(error)) from None
        self.fault = None
        return answer

    def _is_lasting(self, error: Exception) -> bool:
        kinds = self._lib.exceptions
        refused = (kinds.PermissionDeniedError, kinds.UnauthenticatedError, PermissionError)
        return isinstance(error, refused) or bool(REFUSED.search(str(error)))

    def _failed(self, error: Exception, *, lasting: bool) -> FilesUnreachable:
        words = str(error).partition("\n\nDebug source")[0] or "no answer in time"
        told = f"{self.terms.place}: {' '.join(words.split())[:WORDS_MAX]}"
        self.fault = FilesUnreachable(told, lasting=lasting)
        return self.fault

    def _renew(self) -> None:
        """Take keys that were changed in their file. Those that cannot be read leave the old ones:
        who writes a file in two steps must not stop us."""
        if (mark := mark_of(self.terms.credentials)) == self._mark:
            return
        try:
            self.keys = keys_of(self.terms.credentials, self._environ)
        except Misconfigured:
            return
        self._mark, self._store = mark, self._opened(self.keys)

    def _opened(self, keys: ObjectKeys) -> Any:
        terms = self.terms
        config: dict[str, Any] = {
            "region": terms.region,
            "access_key_id": keys.access,
            "secret_access_key": keys.secret,
            "virtual_hosted_style_request": terms.style == "host",
        }
        config |= {"endpoint": terms.endpoint} if terms.endpoint else {}
        config |= {"session_token": keys.token} if keys.token else {}
        config |= {"checksum_algorithm": "SHA256"} if terms.checksum == "sha256" else {}
        try:
            return self._kind(
                terms.bucket,
                **config,
                client_options={
                    "allow_http": terms.endpoint.startswith("http://"),
                    "timeout": timedelta(seconds=terms.timeout_s),
                    "connect_timeout": timedelta(seconds=min(terms.timeout_s, 5)),
                },
                retry_config={
                    "max_retries": TRIES,
                    "retry_timeout": timedelta(seconds=terms.timeout_s * (TRIES + 1)),
                },
            )
        except (ValueError, self._lib.exceptions.BaseError) as error:
            words = str(error).partition("\n\nDebug source")[0]
            raise Misconfigured(f"objects: the store cannot be spoken to: {words}") from None


async def _next_page(pages: Any) -> Any:
    return await anext(aiter(pages), None)


def _drafted(draft: Path) -> int:
    made(draft.parent)
    draft.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return private(str(draft), flags)


def _written(handle: int, data: bytes, found: Any) -> None:
    found.update(data)
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _named(handle: int, draft: Path, place: Path) -> None:
    """Give the file its name when it is on the disk. The name is its digest, so another file of it
    is the same, or was spoilt here."""
    os.fsync(handle)
    os.replace(draft, place)
    flush(place.parent)
