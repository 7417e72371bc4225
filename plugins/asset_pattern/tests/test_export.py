"""One attempt of ``asset.export``."""

import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from jobrunner_asset_pattern import export as module
from jobrunner_asset_pattern.bundles import FORMATS, Tar, Zip
from jobrunner_asset_pattern.export import export
from jobrunner_asset_pattern.params import Export

from jobrunner.testing import Attempt, run_stage

HELD = {
    "new.png": ("image", b"new" * 1000),
    "mid.txt": ("text", b"mid"),
    "old.png": ("image", b""),
    "bundle.zip": ("bundle", b"PK"),
}
KINDS = ["zip", "tar.gz"]


def packed(**params: Any) -> Attempt:
    return run_stage(export, Export(**params), assets=HELD)


def inside(done: Attempt) -> dict[str, bytes]:
    """Name → content of the only file that was made."""
    (asset,) = done.assets
    assert (asset.asset_type, asset.id) == ("bundle", done.result["bundle"])
    data = io.BytesIO(done.files[asset.url])
    if asset.storage_path.endswith(".zip"):
        with zipfile.ZipFile(data) as file:
            assert file.testzip() is None
            return {name: file.read(name) for name in file.namelist()}
    with tarfile.open(fileobj=data) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]


@pytest.mark.parametrize("format_", KINDS)
def test_all_that_the_owner_has(format_: str) -> None:
    """P21 P28: newest first, without the bundles, with a list that says what is what."""
    done = packed(format=format_, title="All of it")
    assert done.outcome == "done", done.failure
    files = inside(done)
    manifest = json.loads(files.pop("manifest.json"))
    assert list(files) == ["0001-new.png", "0002-mid.txt", "0003-old.png"]
    assert list(files.values()) == [HELD[name][1] for name in ("new.png", "mid.txt", "old.png")]
    assert manifest["title"] == "All of it"
    assert manifest["missing"] == []
    for entry in manifest["files"]:
        assert hashlib.sha256(files[entry["name"]]).hexdigest() == entry["sha256"]
        assert len(files[entry["name"]]) == entry["file_size"]
        assert HELD[entry["asset_id"]][0] == entry["asset_type"]
    assert done.result == {"asset_count": 3, "bundle": done.assets[0].id, "failed": []}
    assert done.assets[0].storage_path == f"ada/job-1/All-of-it.{format_}"


@pytest.mark.parametrize("format_", KINDS)
def test_the_same_files_make_the_same_bundle(format_: str) -> None:
    first, second = packed(format=format_), packed(format=format_)
    assert list(first.files.values()) == list(second.files.values())


def test_only_some_types() -> None:
    assert list(inside(packed(asset_types=["text"], manifest=False))) == ["0001-mid.txt"]
    assert list(inside(packed(asset_types=["bundle"], manifest=False))) == ["0001-bundle.zip"]
    mixed = packed(inputs=["new.png", "mid.txt"], asset_types=["text"], manifest=False)
    assert list(inside(mixed)) == ["0001-mid.txt"]


def test_those_that_are_named_once_each_in_their_order() -> None:
    done = packed(inputs=["mid.txt", "bundle.zip", "mid.txt"], manifest=False)
    assert list(inside(done)) == ["0001-mid.txt", "0002-bundle.zip"]


@pytest.mark.parametrize("format_", KINDS)
def test_what_is_missing_is_named(format_: str) -> None:
    """P4 P23 P39 P40: in the message, in the result, and in the bundle."""
    done = packed(inputs=["new.png", "of-eve", "mid.txt"], format=format_)
    assert done.outcome == "partial"
    assert done.failure is not None
    assert done.failure.message.startswith("1 of 3 files are missing: of-eve: ")
    (missing,) = done.result["failed"]
    assert missing["asset"] == "of-eve"
    assert json.loads(inside(done)["manifest.json"])["missing"] == [missing]


@pytest.mark.parametrize("kind", [Zip, Tar])
def test_a_file_that_goes_between_the_look_and_the_packing(
    monkeypatch: pytest.MonkeyPatch, kind: type[Zip] | type[Tar]
) -> None:
    """The others are whole, and it is named."""

    class Late(kind):  # type: ignore[misc, valid-type]
        def add(self, name: str, path: str) -> None:
            if path.endswith("mid.txt"):
                Path(path).unlink()
            super().add(name, path)

    monkeypatch.setitem(FORMATS, "zip" if kind is Zip else "tar.gz", Late)
    done = packed(format="zip" if kind is Zip else "tar.gz")
    assert done.outcome == "partial"
    assert [one["asset"] for one in done.result["failed"]] == ["mid.txt"]
    assert list(inside(done)) == ["0001-new.png", "0002-old.png", "manifest.json"]


@pytest.mark.parametrize(
    ("params", "named"), [({"inputs": ["of-eve"]}, "of-eve"), ({"asset_types": ["film"]}, "upload")]
)
def test_an_empty_bundle_is_a_failure(params: dict[str, Any], named: str) -> None:
    """P5 P22 P40"""
    done = packed(**params)
    assert done.failure is not None
    assert (done.outcome, done.failure.code, done.assets) == ("failed", "NOTHING_TO_EXPORT", ())
    assert named in done.failure.message


def test_a_library_that_is_too_large_is_not_cut_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIBRARY_MAX", 4)
    done = packed()
    assert done.failure is not None
    assert done.failure.code == "TOO_MANY_FILES"


def test_a_disk_that_is_too_small_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPARE", 1 << 60)
    done = packed()
    assert done.failure is not None
    assert (done.failure.code, done.failure.retryable) == ("STORAGE_FAILED", True)
    assert done.assets == ()


@pytest.mark.parametrize("params", [{}, {"inputs": ["mid.txt"]}, {"inputs": ["of-eve", "mid.txt"]}])
def test_it_says_25_50_and_75(params: dict[str, Any]) -> None:
    """P28"""
    told = [percent for percent, _ in packed(**params).progress if percent is not None]
    assert {25, 50, 75} <= set(told)
    assert told == sorted(told)


@pytest.mark.parametrize("title", ["", "../../etc/passwd", "ä ö ü", "-", "a" * 200, "x\n\0y"])
def test_a_title_is_no_path(title: str) -> None:
    done = packed(title=title)
    path = done.assets[0].storage_path
    assert path.startswith("ada/job-1/")
    assert path.count("/") == 2
    assert json.loads(inside(done)["manifest.json"])["title"] == title
