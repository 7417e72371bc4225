"""P30: the storage path of a file holds its owner and its job, whatever its address looks like."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobrunner_image_generation import definition as image_generation

from jobrunner.check.checking import check
from jobrunner.core.job import Asset, Snapshot
from jobrunner.core.reports import shelved
from tests.driving import varied

NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def job(known: int = 0) -> Snapshot:
    """One that has so many files already."""
    return Snapshot(
        id="job-7",
        workflow="sample",
        digest="",
        job_type="one",
        user_id="ada",
        status="running",
        kind="active",
        created_at=1,
        updated_at=1,
        asset_types={"image": known} if known else {},
    )


def path(url: str, known: int = 0, **more: Any) -> str:
    return shelved(Asset("a", "image", url, **more), job(known)).storage_path


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://cdn.example/out/1.png", "1.png"),
        ("https://cdn.example/out/1.png?sig=a/b#c", "1.png"),
        ("s3://bucket/Bericht März.PDF", "Bericht_M_rz.PDF"),
        ("https://cdn.example/dir/", "dir"),
        ("/assets/../..", "image"),
        ("https://cdn.example/.ssh", "ssh"),
        ("?", "image"),
        ("x-2.png", "x-2-1.png"),
    ],
)
def test_the_first_file_keeps_its_name(url: str, name: str) -> None:
    assert path(url) == f"ada/job-7/{name}"


def test_every_other_file_gets_its_number() -> None:
    assert path("https://cdn.example/1.png", 1) == "ada/job-7/1-2.png"
    assert path("https://cdn.example/notes", 11) == "ada/job-7/notes-12"


def test_a_path_below_the_jobs_own_folder_is_kept() -> None:
    own = "ada/job-7/elsewhere.png"
    assert path("https://cdn.example/1.png", storage_path=own) == own


@pytest.mark.parametrize(
    "given",
    [
        "shelf/1.png",
        "ada/1.png",
        "ada/job-8/1.png",
        "eve/job-7/1.png",
        "ada/job-7/../job-8/1.png",
        "ada/job-7/deeper/1.png",
        "ada/job-7/.hidden",
        "originals/ada/job-7/1.png",
        "ada/job-7/",
    ],
)
def test_any_other_path_is_made_here(given: str) -> None:
    """Nobody names a file of somebody else, or of another job, as this one's."""
    assert path("https://cdn.example/1.png", storage_path=given) == "ada/job-7/1.png"


def test_a_folder_of_the_workflow_stands_before_it() -> None:
    """I25: what a provider made lies under ``originals``."""
    asset = Asset("a", "image", "https://cdn.example/1.png")
    folder = image_generation.workflow.folder
    assert shelved(asset, job(), folder).storage_path == "originals/ada/job-7/1.png"


@pytest.mark.parametrize("folder", ["a/b", "..", ".hidden", "a b", "x" * 101])
def test_a_folder_is_one_plain_name(folder: str) -> None:
    faults = check(varied(image_generation, folder=folder))
    assert [fault.rule for fault in faults] == ["shape"]


addresses = st.one_of(
    st.text(max_size=200),
    st.from_regex(r"a(-[0-9]{1,2}){0,3}(\.[a-z]{1,12}){0,2}", fullmatch=True),
)


@given(st.lists(addresses, min_size=1, max_size=12))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_no_two_files_of_a_job_share_a_path(urls: list[str]) -> None:
    paths = [path(url or "u", known) for known, url in enumerate(urls)]
    assert len({*paths}) == len(urls)
    for one in paths:
        assert one.startswith("ada/job-7/")
        assert NAME.fullmatch(one.removeprefix("ada/job-7/"))
