"""Files and their folders: private, on the disk, and gone only when they are gone."""

import errno
import os
import stat
from functools import partial
from pathlib import Path

import pytest

from jobrunner.actors.features.notifications.secrets import key_file_beside
from jobrunner.errors import (
    Misconfigured,
    PermanentFailure,
    Refused,
    RetryableFailure,
    StorageError,
)
from jobrunner.files import library
from jobrunner.files.library import Kept, Shelf, SoundFiles
from jobrunner.files.links import twin
from jobrunner.http.routes.files import content
from jobrunner.ports import SystemFiles

ABSENT = (errno.ENOENT, errno.ENOTDIR)
TROUBLE = (errno.EMFILE, errno.EACCES, errno.EIO, errno.ESTALE)


def mode(place: Path) -> int:
    return stat.S_IMODE(place.stat().st_mode)


def test_what_is_saved_is_its_owners_alone(tmp_path: Path) -> None:
    os.umask(os.umask(0o022))
    root = tmp_path / "assets"
    kept = Shelf(str(root), "ada/job-1").put("picture.png", b"picture")
    twin(str(root), [(kept.path, "ada/job-2/picture.png")], {})
    for folder in (root, root / "ada", root / "ada/job-1", root / "ada/job-2"):
        assert mode(folder) == 0o700, folder
    for file in (root / kept.path, root / "ada/job-2/picture.png"):
        assert mode(file) == 0o600, file


def test_each_folder_that_got_a_new_name_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R10: a file on the disk in a folder that is not is no file."""
    flushed, plain = list[str](), os.fsync

    def fsync(handle: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{handle}"))
        plain(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    Shelf(str(tmp_path / "assets"), "ada/job-1").put("picture.png", b"picture")
    for folder in ("", "assets", "assets/ada", "assets/ada/job-1"):
        assert str(tmp_path / folder) in flushed, folder


@pytest.mark.parametrize("number", [*ABSENT, *TROUBLE])
def test_a_file_that_cannot_be_opened_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    kept = Shelf(str(tmp_path), "ada/job-1").put("picture.png", b"picture")

    def fails(*arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(library, "sha256_of", fails)
    for look in (SoundFiles(str(tmp_path)), partial(library.is_sound, str(tmp_path))):
        if number in ABSENT:
            assert look(kept) is False
        else:
            with pytest.raises(StorageError, match="cannot be looked at"):
                look(kept)
    kind = PermanentFailure if number in ABSENT else RetryableFailure
    with pytest.raises(kind):
        Shelf(str(tmp_path), "ada/job-1").sound("picture", kept)


@pytest.mark.parametrize("number", [*ABSENT, *TROUBLE])
def test_a_file_that_cannot_be_looked_at_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Where nobody opens it: by whoever checks it now and then, and by whoever hands it over."""
    kept = Shelf(str(tmp_path), "ada/job-1").put("picture.png", b"picture")
    checked, plain = SoundFiles(str(tmp_path)), Path.stat

    def fails(path: Path, **how: bool) -> os.stat_result:
        if path.name == "picture.png":
            raise OSError(number, os.strerror(number))
        return plain(path, **how)

    assert checked(kept)
    monkeypatch.setattr(Path, "stat", fails)
    if number in ABSENT:
        assert checked(kept) is False
        assert content._size(str(tmp_path), kept.path) == -1
        return
    with pytest.raises(StorageError, match="cannot be looked at"):
        checked(kept)
    with pytest.raises(OSError, match=os.strerror(number)):
        content._size(str(tmp_path), kept.path)


@pytest.mark.parametrize("number", [*ABSENT, *TROUBLE])
def test_only_a_file_that_is_gone_is_answered_as_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(*arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fails)
    with pytest.raises((Refused, OSError)) as told:
        content._opened(tmp_path / "x", 0)
    code = getattr(told.value, "code", "a bug, with its traceback in the log")
    assert (code == "ASSET_GONE") == (number in ABSENT)
    assert (code == "OVERLOADED") == (number == errno.EMFILE)


def test_a_secret_that_cannot_be_seen_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = key_file_beside(str(tmp_path / "jobs.db"), SystemFiles())
    file.make("x" * 40)

    def fails(path: str) -> os.stat_result:
        raise PermissionError(errno.EACCES, "no", path)

    monkeypatch.setattr(os, "stat", fails)
    with pytest.raises(Misconfigured, match="cannot be read"):
        key_file_beside(str(tmp_path / "jobs.db"), SystemFiles()).make("y" * 40)
    monkeypatch.undo()
    assert file() == ["x" * 40]


def test_a_secret_that_is_empty_is_found_at_once(tmp_path: Path) -> None:
    file = key_file_beside(str(tmp_path / "jobs.db"), SystemFiles())
    Path(file.path).touch()
    with pytest.raises(Misconfigured, match="at least 24"):
        file.make("y" * 40)


def test_a_row_that_names_no_file_is_no_file(tmp_path: Path) -> None:
    for path in ("a/" + "x" * 400, "../x", "", "a/\0"):
        assert content._size(str(tmp_path), path) == -1
    assert not SoundFiles(str(tmp_path))(Kept("a/" + "x" * 400, 1, ""))
