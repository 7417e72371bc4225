"""A folder of backups: what is the same is kept once, what is torn is seen, what is old goes."""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from jobrunner.core.keeping.backups import CopyFacts, FileRow, Manifest
from jobrunner.errors import Misconfigured, Refused, StorageError
from jobrunner.files.backups import Archive, lies_in
from jobrunner.files.stored_backups import DATABASE, MANIFEST, StoredBackups

FIRST, SECOND, THIRD = (f"2026-01-0{day}T000000.000Z" for day in (1, 2, 3))


def put(folder: Path, path: str, data: bytes) -> FileRow:
    place = folder / "assets" / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return FileRow(path, sha256(data).hexdigest(), due=True)


def backed_up(folder: Path, name: str, *rows: FileRow, keep: int = 9) -> Manifest:
    """A backup of these files, and of a database that is a few bytes."""
    (folder / "jobs.db").touch()

    def read(place: str) -> tuple[CopyFacts, Iterator[FileRow]]:
        return CopyFacts(4, 1, len(rows)), iter(rows)

    archive = Archive(str(folder / "backups"))
    archive.open()
    try:
        Path(archive.begin(name, str(folder / "jobs.db"))).write_bytes(b"rows of " + name.encode())
        assets = str(folder / "assets")
        made = archive.gather(name, str(folder / "jobs.db"), assets, read, lambda: True)
        archive.finish(made)
        assert archive.prune(keep) == ""
    finally:
        archive.close()
    return made


def stored(folder: Path) -> StoredBackups:
    return StoredBackups(str(folder / "backups"))


def kept_files(folder: Path) -> list[str]:
    return sorted(place.name for place in (folder / "backups" / "files").rglob("*/*"))


def test_the_next_backup_costs_what_is_new(tmp_path: Path) -> None:
    old, new = put(tmp_path, "ada/1/a.txt", b"old"), put(tmp_path, "ada/2/a.txt", b"newer")
    first = backed_up(tmp_path, FIRST, old)
    second = backed_up(tmp_path, SECOND, old, new)
    assert (first.files, first.new_files, first.new_bytes) == (1, 1, 3)
    assert (second.files, second.bytes) == (2, 8)
    assert (second.new_files, second.new_bytes) == (1, 5)
    assert kept_files(tmp_path) == sorted((old.sha256, new.sha256))
    place = stored(tmp_path).place_of(old.sha256)
    assert os.path.samefile(place, tmp_path / "assets" / old.path)


def test_a_path_that_is_used_again_does_not_change_an_older_backup(tmp_path: Path) -> None:
    row = put(tmp_path, "ada/1/a.txt", b"first")
    backed_up(tmp_path, FIRST, row)
    (tmp_path / "assets" / row.path).unlink()
    backed_up(tmp_path, SECOND, put(tmp_path, "ada/1/a.txt", b"again"))
    for name in (FIRST, SECOND):
        assert list(stored(tmp_path).faults(name)) == []
    assert len(kept_files(tmp_path)) == 2


def test_on_another_disk_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(18, "another disk")

    monkeypatch.setattr(os, "link", refuse)
    row = put(tmp_path, "ada/1/a.txt", b"words")
    backed_up(tmp_path, FIRST, row)
    place = stored(tmp_path).place_of(row.sha256)
    assert place.read_bytes() == b"words"
    assert not os.path.samefile(place, tmp_path / "assets" / row.path)


def test_old_ones_go_with_what_is_theirs_alone(tmp_path: Path) -> None:
    both, gone = put(tmp_path, "ada/1/a.txt", b"both"), put(tmp_path, "ada/2/a.txt", b"gone")
    backed_up(tmp_path, FIRST, both, gone)
    backed_up(tmp_path, SECOND, both, keep=2)
    assert stored(tmp_path).names() == [FIRST, SECOND]
    backed_up(tmp_path, THIRD, both, keep=2)
    assert stored(tmp_path).names() == [SECOND, THIRD]
    assert kept_files(tmp_path) == [both.sha256]


def test_while_a_list_cannot_be_read_no_file_goes(tmp_path: Path) -> None:
    row = put(tmp_path, "ada/1/a.txt", b"words")
    for name in (FIRST, SECOND, THIRD):
        backed_up(tmp_path, name, row)
    (tmp_path / "backups" / SECOND / "files.list").write_bytes(b"\xff\xfe")
    archive = Archive(str(tmp_path / "backups"))
    archive.open()
    assert "cannot be read" in archive.prune(2)
    archive.close()
    assert kept_files(tmp_path) == [row.sha256]


def test_a_backup_that_was_cut_off_is_none_and_goes(tmp_path: Path) -> None:
    row = put(tmp_path, "ada/1/a.txt", b"words")
    backed_up(tmp_path, FIRST, row)
    torn = tmp_path / "backups" / SECOND
    torn.mkdir()
    (torn / DATABASE).write_bytes(b"half")
    (torn / f"{MANIFEST}.draft").write_bytes(b"{")
    assert stored(tmp_path).names() == [FIRST]
    assert stored(tmp_path).folders() == [FIRST, SECOND]
    backed_up(tmp_path, THIRD, row)
    assert stored(tmp_path).folders() == [FIRST, THIRD]


@pytest.mark.parametrize("part", [DATABASE, "files.list", MANIFEST, "file", "size", "gone"])
def test_a_byte_that_is_not_what_it_was_is_found(tmp_path: Path, part: str) -> None:
    row = put(tmp_path, "ada/1/a.txt", b"words")
    backed_up(tmp_path, FIRST, row)
    place = tmp_path / "backups" / FIRST / part
    if part in ("file", "size", "gone"):
        place = stored(tmp_path).place_of(row.sha256)
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.unlink()
    if part != "gone":
        place.write_bytes(data + b"x" if part == "size" else data)
    found = ""
    try:
        found = "; ".join(stored(tmp_path).faults(FIRST))
    except StorageError as error:
        found = str(error)
    assert place.name in found


def test_a_file_that_is_not_what_its_row_says_is_named(tmp_path: Path) -> None:
    good = put(tmp_path, "ada/1/a.txt", b"good")
    spoilt = put(tmp_path, "ada/2/a.txt", b"good once")
    (tmp_path / "assets" / spoilt.path).write_bytes(b"not now")
    elsewhere = FileRow("ada/3/a.txt", "", due=False)
    made = backed_up(tmp_path, FIRST, good, spoilt, elsewhere)
    assert (made.files, made.absent_count, made.absent) == (1, 1, (spoilt.path,))


@pytest.mark.parametrize("path", ["../x", "/etc/hostname"])
def test_no_row_leads_out_of_the_library(tmp_path: Path, path: str) -> None:
    (tmp_path / "x").write_bytes(b"")
    made = backed_up(tmp_path, FIRST, FileRow(path, "", due=True))
    assert (made.files, made.absent) == (0, (path,))


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(Misconfigured, match=r"letters\.txt"):
        Archive(str(tmp_path)).open()
    assert os.listdir(tmp_path) == ["letters.txt"]


def test_one_at_a_time(tmp_path: Path) -> None:
    first, second = Archive(str(tmp_path)), Archive(str(tmp_path))
    first.open()
    with pytest.raises(Refused, match="BACKUP_UNDER_WAY"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_a_folder_among_the_files_of_jobs_is_known(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "other").symlink_to(tmp_path / "assets")
    assert lies_in(str(tmp_path / "assets" / "b"), str(tmp_path / "assets"))
    assert lies_in(str(tmp_path / "other" / "b"), str(tmp_path / "assets"))
    assert not lies_in(str(tmp_path / "assets-b"), str(tmp_path / "assets"))
