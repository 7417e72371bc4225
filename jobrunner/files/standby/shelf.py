"""A store of objects as the place of a copy, asked from threads: what is put there is whole or not
there, and a small thing is exchanged for another only if it is still what it was."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from jobrunner.errors import Misconfigured
from jobrunner.files.folders import flushed, made
from jobrunner.files.objects.bucket import PARTS_AT_ONCE, ObjectStore

T = TypeVar("T")
PAGE = 1000
BLOCK = 4 * 1024**2
UNKEPT = "this store does not keep conditional writes (If-Match, If-None-Match): two might serve"


class StandbyShelf:
    """``root`` is its place for people; every key here is below its prefix. Whatever the store says
    no to is an OSError, as of a folder that cannot be reached."""

    def __init__(self, bucket: ObjectStore) -> None:
        self.root = bucket.terms.place
        self._bucket = bucket
        self._prefix = bucket.terms.prefix

    def read(self, key: str) -> tuple[bytes, str]:
        """An object and its mark, which changes with it.

        Raises: FileNotFoundError, OSError"""

        def got(lib: Any, store: Any) -> tuple[bytes, str]:
            found = lib.get(store, self._prefix + key)
            return bytes(found.bytes()), str(found.meta["e_tag"])

        return self._asked(got)

    def write(self, key: str, data: bytes) -> None:
        """Raises: OSError"""
        self._asked(lambda lib, store: lib.put(store, self._prefix + key, data))

    def create(self, key: str, data: bytes) -> str | None:
        """Put it where nothing is, and return its mark; None where something is.

        Raises: OSError"""
        return self._put(key, data, "create")

    def exchange(self, key: str, data: bytes, mark: str) -> str | None:
        """Put it in the place of what has this mark, and return the new one; None where something
        else is, or nothing.

        Raises: OSError"""
        return self._put(key, data, {"e_tag": mark})

    def demand_conditions(self, key: str) -> None:
        """Try it, and judge by what lies there: answers may be lost, and asked for again.

        Raises: Misconfigured, where the store takes what it was asked not to; OSError"""
        self.create(key, b"1")
        try:
            data, mark = self.read(key)
            self.create(key, b"2")
            kept = [self.read(key)[0] == data]
            self.exchange(key, b"3", mark)
            kept.append(self.read(key)[0] == b"3")
            self.exchange(key, b"4", mark)
            kept.append(self.read(key)[0] == b"3")
        finally:
            self.remove([key])
        if not all(kept):
            raise Misconfigured(f"{self.root}: {UNKEPT}")

    def send(self, key: str, source: Path) -> None:
        """A file of any size, in as large parts as is set. Raises: OSError"""
        size = source.stat().st_size
        options: dict[str, Any] = {
            "use_multipart": size > self._bucket.terms.part,
            "chunk_size": self._bucket.terms.part_of(size),
            "max_concurrency": PARTS_AT_ONCE,
        }
        self._asked(lambda lib, store: lib.put(store, self._prefix + key, source, **options))

    def fetch(self, key: str, target: Path) -> None:
        """Bring it to a file, flushed, which has its name when it is whole.

        Raises: FileNotFoundError, OSError"""
        made(target.parent)
        draft = target.with_name(f"{target.name}.draft")

        def got(lib: Any, store: Any) -> None:
            with flushed(draft) as file:
                file.writelines(lib.get(store, self._prefix + key).stream(min_chunk_size=BLOCK))

        try:
            self._asked(got)
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)

    def has(self, key: str) -> bool:
        """Raises: OSError"""
        try:
            self._asked(lambda lib, store: lib.head(store, self._prefix + key))
        except FileNotFoundError:
            return False
        return True

    def names(self, folder: str) -> list[str]:
        """List what lies directly in a folder, folders among it. Raises: OSError"""
        above = self._prefix + folder

        def listed(lib: Any, store: Any) -> list[str]:
            found = lib.list_with_delimiter(store, above)
            paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
            return [path.rstrip("/").rpartition("/")[2] for path in paths]

        return self._asked(listed)

    def keys(self, folder: str) -> Iterator[str]:
        """List everything below a folder, however deep. Raises: OSError"""
        pages = self._asked(
            lambda lib, store: iter(lib.list(store, self._prefix + folder, chunk_size=PAGE))
        )
        while page := self._asked(lambda lib, store: next(pages, None)):
            yield from (one["path"].removeprefix(self._prefix) for one in page)

    def remove(self, keys: list[str]) -> None:
        """Raises: OSError"""
        for start in range(0, len(keys), PAGE):
            self._remove_page([self._prefix + key for key in keys[start : start + PAGE]])

    def _remove_page(self, paths: list[str]) -> None:
        self._asked(lambda lib, store: lib.delete(store, paths))

    def _put(self, key: str, data: bytes, mode: Any) -> str | None:
        kinds = self._bucket.blocking()[0].exceptions
        unlike = kinds.AlreadyExistsError, kinds.PreconditionError, FileNotFoundError
        try:
            put = self._asked(
                lambda lib, store: lib.put(
                    store, self._prefix + key, data, mode=mode, use_multipart=False
                )
            )
        except unlike:
            return None
        return str(put["e_tag"])

    def _asked(self, ask: Callable[[Any, Any], T]) -> T:
        """Raises: FileNotFoundError, AlreadyExistsError, PreconditionError, OSError."""
        lib, store = self._bucket.blocking()
        kinds = lib.exceptions
        try:
            return ask(lib, store)
        except (FileNotFoundError, kinds.AlreadyExistsError, kinds.PreconditionError):
            raise
        except (kinds.BaseError, PermissionError) as error:
            words = str(error).partition("\n\nDebug source")[0]
            raise OSError(f"{self.root}: {' '.join(words.split())[:300]}") from None
