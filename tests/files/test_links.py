"""Files that a job gets along from another one."""

import hashlib
import json
from pathlib import Path

import pytest

from jobrunner.files import links
from jobrunner.files.library import Kept, Shelf
from jobrunner.files.links import told_in, twin

OLD, NEW = "01900000-0000-7000-8000-00000000000a", "01900000-0000-7000-8000-00000000000b"
SAID = {"pictures": [f"/assets/{OLD}/content", f"https://here.invalid/assets/{OLD}/content"]}


def kept(folder: Path, name: str, data: bytes) -> Kept:
    return Shelf(str(folder), "ada/job-1").put(name, data)


def test_what_names_other_files_is_written_anew(tmp_path: Path) -> None:
    old = kept(tmp_path, "draft.json", json.dumps(SAID).encode())
    (new,) = twin(str(tmp_path), [(old.path, "ada/job-2/draft.json")], {OLD: NEW})
    data = (tmp_path / new.path).read_bytes()
    assert json.loads(data) == json.loads(json.dumps(SAID).replace(OLD, NEW))
    assert (new.size, new.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert told_in(str(tmp_path), old.path) == SAID, "the old one stays as it was"
    assert sorted(path.name for path in (tmp_path / "ada/job-2").iterdir()) == ["draft.json"]


@pytest.mark.parametrize("name", ["draft.txt", "draft.json", "other.json"])
def test_all_else_is_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Of another kind, too long to be looked through, or naming nothing."""
    data = b'{"none": 1}' if name == "other.json" else json.dumps(SAID).encode()
    monkeypatch.setattr(links, "JSON_MAX", 20)
    old = kept(tmp_path, name, data)
    assert twin(str(tmp_path), [(old.path, f"ada/job-2/{name}")], {OLD: NEW}) == []
    assert (tmp_path / old.path).samefile(tmp_path / f"ada/job-2/{name}")


@pytest.mark.parametrize("data", [b"", b"no json", b"\xff"])
def test_what_is_no_json_says_nothing(tmp_path: Path, data: bytes) -> None:
    assert told_in(str(tmp_path), kept(tmp_path, "draft.json", data).path) is None
    assert told_in(str(tmp_path), "ada/job-1/gone.json") is None


def test_no_file_is_written_over(tmp_path: Path) -> None:
    old = kept(tmp_path, "draft.json", json.dumps(SAID).encode())
    with pytest.raises(FileExistsError):
        twin(str(tmp_path), [(old.path, old.path)], {OLD: NEW})
    assert told_in(str(tmp_path), old.path) == SAID
