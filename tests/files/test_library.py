"""Files of jobs: whole or absent, each at a place of its own, checked before they are relied on."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from jobrunner import PermanentFailure
from jobrunner.files.library import (
    Kept,
    Shelf,
    SoundFiles,
    inside,
    is_handed_out,
    is_sound,
    made_empty,
    old_files,
)

FOLDER = "ada/job-1"


def test_a_file_has_its_size_and_digest(tmp_path: Path) -> None:
    kept = Shelf(str(tmp_path), FOLDER).put("a.txt", b"words")
    assert kept == Kept("ada/job-1/a.txt", 5, sha256(b"words").hexdigest())
    assert (tmp_path / kept.path).read_bytes() == b"words"
    assert os.listdir(tmp_path / FOLDER) == ["a.txt"]


def test_a_scratch_folder_that_could_not_be_made_is_not_remembered(tmp_path: Path) -> None:
    """Nobody is there to take it back."""
    (tmp_path / "file").write_bytes(b"")
    wanted = str(tmp_path / "file" / "job-1")
    with pytest.raises(FileExistsError):
        made_empty(wanted)
    assert not is_handed_out(wanted)


def test_a_file_of_the_scratch_folder_is_moved(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_bytes(b"words")
    kept = Shelf(str(tmp_path / "shelf"), FOLDER).put("a.txt", str(made))
    assert not made.exists()
    assert is_sound(str(tmp_path / "shelf"), kept)


def test_no_file_takes_the_place_of_another(tmp_path: Path) -> None:
    """H43: whatever is there stays, even what no row speaks of."""
    first = Shelf(str(tmp_path), FOLDER)
    paths = [first.put("a.txt", b"1").path, first.put("a.txt", b"2").path]
    again = Shelf(str(tmp_path), FOLDER)
    paths += [again.put("a.txt", b"3").path, Shelf(str(tmp_path), FOLDER, 7).put("b", b"4").path]
    assert paths == [f"{FOLDER}/{name}" for name in ("a.txt", "a-2.txt", "a-3.txt", "b-8")]
    assert (tmp_path / paths[0]).read_bytes() == b"1"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../a", "a b", "ä", "x" * 101])
def test_names_that_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PermanentFailure, match="BAD_FILE_NAME"):
        Shelf(str(tmp_path), FOLDER).put(name, b"")
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "ada/../../x"])
def test_no_row_leads_out_of_the_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        inside(str(tmp_path), path)
    assert not is_sound(str(tmp_path), Kept(path, 0, sha256().hexdigest()))


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Shelf(str(tmp_path), FOLDER).put("a.txt", str(tmp_path / "missing"))
    assert os.listdir(tmp_path / FOLDER) == []


def test_a_damaged_file_is_no_input(tmp_path: Path) -> None:
    """H41 H47: exists, size, digest; the failure is permanent and says which artifact it is."""
    shelf = Shelf(str(tmp_path), FOLDER)
    kept = shelf.put("a.txt", b"words")
    assert Path(shelf.sound("text", kept)).read_bytes() == b"words"
    (tmp_path / kept.path).write_bytes(b"sword")
    for bad in (kept, None, Kept(f"{FOLDER}/gone", 5, kept.sha256)):
        with pytest.raises(PermanentFailure, match=r"CORRUPT_INPUT: .*'text'"):
            shelf.sound("text", bad)


def test_soundness_is_remembered_until_something_changes(tmp_path: Path) -> None:
    """H38 H41: a change that leaves size and time as they were is noticed too."""
    kept = Shelf(str(tmp_path), FOLDER).put("a.txt", b"words")
    place = tmp_path / kept.path
    checked = SoundFiles(str(tmp_path))
    before = place.stat()
    assert checked(kept)
    assert checked(kept)
    place.write_bytes(b"sword")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not checked(kept)
    place.write_bytes(b"words")
    assert checked(kept)
    place.unlink()
    assert not checked(kept)


def test_what_is_old_is_found_by_its_job(tmp_path: Path) -> None:
    shelf = Shelf(str(tmp_path), FOLDER)
    old, new = shelf.put("old", b"").path, shelf.put("new", b"").path
    os.utime(tmp_path / old, (1, 1))
    now_ms = int((tmp_path / new).stat().st_mtime * 1000)
    assert old_files(str(tmp_path), now_ms) == {"job-1": [old]}
