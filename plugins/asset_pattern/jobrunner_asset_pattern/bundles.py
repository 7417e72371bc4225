"""Files packed into one. The same files make the same bundle, byte for byte: no time of day, no
user and no machine goes in.
"""

import gzip
import io
import os
import tarfile
import zipfile
from contextlib import AbstractContextManager
from typing import Self

EPOCH = (1980, 1, 1, 0, 0, 0)
EPOCH_S = 315_532_800
READABLE = 0o644
UNIX = 3
BLOCK = 1 << 20


class Zip(AbstractContextManager["Zip"]):
    """Pictures and films are packed already, so files are stored as they are."""

    def __init__(self, path: str) -> None:
        self._file = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True)

    def __enter__(self) -> Self:
        return self

    def add(self, name: str, path: str) -> None:
        """Raises: FileNotFoundError, before anything is written."""
        with open(path, "rb") as source:
            info = _info(name)
            info.file_size = os.fstat(source.fileno()).st_size
            with self._file.open(info, "w", force_zip64=True) as target:
                while block := source.read(BLOCK):
                    target.write(block)

    def write(self, name: str, data: bytes) -> None:
        self._file.writestr(_info(name), data)

    def __exit__(self, *_: object) -> None:
        self._file.close()


class Tar(AbstractContextManager["Tar"]):
    """Packed lightly, for the texts among the files."""

    def __init__(self, path: str) -> None:
        self._raw = open(path, "wb")  # noqa: SIM115 - all three are closed on leaving
        self._packed = gzip.GzipFile("", "wb", compresslevel=1, fileobj=self._raw, mtime=0)
        self._file = tarfile.open(fileobj=self._packed, mode="w")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def add(self, name: str, path: str) -> None:
        """Raises: FileNotFoundError, before anything is written."""
        with open(path, "rb") as source:
            self._file.addfile(_entry(name, os.fstat(source.fileno()).st_size), source)

    def write(self, name: str, data: bytes) -> None:
        self._file.addfile(_entry(name, len(data)), io.BytesIO(data))

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._packed.close()
        self._raw.close()


FORMATS: dict[str, type[Zip] | type[Tar]] = {"zip": Zip, "tar.gz": Tar}


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, EPOCH)
    info.create_system = UNIX
    info.external_attr = READABLE << 16
    return info


def _entry(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, READABLE, EPOCH_S
    return info
