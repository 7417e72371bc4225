"""One attempt of ``asset.generation``."""

import io
from typing import Any

import pytest
from jobrunner_asset_pattern import generation
from jobrunner_asset_pattern.generation import generate
from jobrunner_asset_pattern.params import Generation
from PIL import Image

from jobrunner import Reply
from jobrunner.testing import Attempt, run_stage, run_stage_live
from jobrunner.testing.providers import Made, OpenAILike

pytestmark = pytest.mark.anyio

TEXT = b"this is no picture"


def picture(kind: str = "PNG", size: tuple[int, int] = (90, 60)) -> bytes:
    data = io.BytesIO()
    Image.new("RGB", size, "teal").save(data, kind)
    return data.getvalue()


def library(count: int, *bad: int) -> dict[str, tuple[str, bytes]]:
    return {
        f"asset-{number}": ("upload", TEXT if number in bad else picture())
        for number in range(1, count + 1)
    }


def tried(count: int = 3, *bad: int, **params: Any) -> Attempt:
    held = library(count, *bad)
    return run_stage(generate, Generation(inputs=list(held), **params), assets=held)


def names(done: Attempt) -> list[tuple[str, str]]:
    return [(asset.storage_path.split("/")[-1], asset.asset_type) for asset in done.assets]


def test_every_size_of_every_input() -> None:
    """P25 P28 P30: a file of its own each, below its owner and its job."""
    done = tried(2, sizes=[64, 32, 64], format="webp")
    assert done.outcome == "done", done.failure
    assert [kind for _, kind in names(done)] == ["thumbnail"] * 4
    assert all(name.endswith(".webp") for name, _ in names(done))
    assert all(asset.storage_path.startswith("ada/job-1/") for asset in done.assets)
    assert [max(Image.open(io.BytesIO(data)).size) for data in done.files.values()] == [64, 32] * 2
    assert done.result == {"asset_count": 4, "failed": []}


def test_as_large_as_it_is_and_in_its_own_format() -> None:
    held = {"a": ("upload", picture("JPEG")), "b": ("upload", picture("GIF"))}
    done = run_stage(generate, Generation(inputs=["a", "/assets/b/content"]), assets=held)
    assert [name.rpartition(".")[2] for name, _ in names(done)] == ["jpg", "gif"]
    assert [kind for _, kind in names(done)] == ["image", "image"]
    sizes = [Image.open(io.BytesIO(data)).size for data in done.files.values()]
    assert sizes == [(90, 60), (90, 60)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_it_says_25_50_and_75(count: int) -> None:
    """P28: whatever the number of inputs, and never backwards."""
    told = [percent for percent, _ in tried(count).progress if percent is not None]
    assert {25, 50, 75} <= set(told)
    assert told == sorted(told)
    assert told[-1] == 75


def test_some_of_it_is_partial_and_names_what_failed() -> None:
    """P4 P23 P39 P40"""
    done = tried(3, 2)
    assert (done.outcome, len(done.assets)) == ("partial", 2)
    assert done.failure is not None
    assert done.failure.message.startswith("1 of 3 inputs failed: asset-2: this is no picture")
    assert done.result["asset_count"] == 2
    assert [one["input"] for one in done.result["failed"]] == ["asset-2"]


def test_none_of_it_is_a_failure_that_names_all() -> None:
    """P5 P22 P40"""
    done = tried(2, 1, 2)
    assert done.outcome == "failed"
    assert done.failure is not None
    assert (done.failure.code, done.failure.retryable) == ("NOTHING_MADE", False)
    assert "asset-1" in done.failure.message
    assert "asset-2" in done.failure.message


def test_many_failures_are_told_from_the_beginning() -> None:
    """P40: the first ones by name, all of them in the result."""
    done = tried(60, *range(2, 61))
    assert done.failure is not None
    assert done.failure.message.startswith("59 of 60 inputs failed: asset-2:")
    assert done.failure.message.endswith("and 49 more")
    assert len(done.result["failed"]) == 59


def test_nothing_to_work_on() -> None:
    """P40"""
    done = run_stage(generate, Generation())
    assert done.failure is not None
    assert (done.outcome, done.failure.code) == ("failed", "NO_INPUTS")
    assert "inputs" in done.failure.message


def test_somebody_elses_file_is_as_if_there_were_none() -> None:
    done = run_stage(generate, Generation(inputs=["asset-1", "of-eve"]), assets=library(1))
    assert done.outcome == "partial"
    assert "of-eve" in done.result["failed"][0]["error"]


def test_nothing_of_an_input_is_kept_when_one_of_its_files_cannot_be_made() -> None:
    held = {"wide": ("upload", picture(size=(17_000, 4))), "fine": ("upload", picture())}
    params = Generation(inputs=list(held), sizes=[32, 16_384], format="webp")
    done = run_stage(generate, params, assets=held)
    assert (done.outcome, done.result["asset_count"]) == ("partial", 2)
    assert done.result["failed"][0]["input"] == "wide"
    assert len(done.assets) == 2


@pytest.mark.parametrize("finished", [1, 19, 20, 21, 40, 44])
def test_what_is_finished_is_not_done_again(finished: int) -> None:
    """P28: an attempt that was cut off goes on with the next input."""
    held = library(45, 3)
    inputs = list(held)
    first = run_stage(generate, Generation(inputs=inputs[:finished]), assets=held)
    before = {name: value for name, value in first.artifacts.items() if name.startswith("fin")}
    again = run_stage(generate, Generation(inputs=inputs), assets=held, artifacts=before)
    assert again.outcome == "partial"
    assert len(again.assets) + len(first.assets) == 44 == again.result["asset_count"]
    assert [one["input"] for one in again.result["failed"]] == ["asset-3"]
    assert again.progress[0][1] == f"{finished} of 45"


def test_what_another_run_finished_is_not_this_ones() -> None:
    first = tried(3)
    before = {name: {**value, "run_id": "run-0"} for name, value in first.artifacts.items()}
    again = run_stage(
        generate, Generation(inputs=list(library(3))), assets=library(3), artifacts=before
    )
    assert len(again.assets) == 3


def test_a_written_page_is_not_written_with_every_input_that_follows() -> None:
    done = tried(45)
    assert sorted(done.artifacts) == ["finished_1", "finished_2", "finished_3"]
    assert [len(done.artifacts[name]["inputs"]) for name in sorted(done.artifacts)] == [20, 20, 5]


class Scripted:
    """A server that answers one status after the other, and then with a picture."""

    def __init__(self, *statuses: int, body: bytes = b"") -> None:
        self.statuses = list(statuses)
        self.body = body or picture()
        self.asked: list[str] = []

    def __call__(self, asked: Any) -> Reply:
        self.asked.append(asked.url)
        status = self.statuses.pop(0) if self.statuses else 200
        return Reply(status, {}, self.body if status == 200 else b"no", asked.url)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "PAUSE_S_MAX", 0.0)


def fetched(server: Scripted) -> Attempt:
    params = Generation(inputs=["https://example.org/a.png"])
    return run_stage(generate, params, http=server)


@pytest.mark.usefixtures("hasty")
def test_what_may_come_next_time_is_tried_three_times() -> None:
    server = Scripted(503, 429)
    assert fetched(server).outcome == "done"
    assert len(server.asked) == 3
    server = Scripted(503, 503, 503)
    failed = fetched(server)
    assert failed.failure is not None
    assert "given up after 3 tries" in failed.failure.message
    assert len(server.asked) == 3


@pytest.mark.parametrize("body", [b"<html><body>Sorry</body></html>", b"%PDF-1.7", TEXT])
def test_what_is_no_picture_is_not_fetched_again(body: bytes) -> None:
    server = Scripted(body=body)
    assert fetched(server).outcome == "failed"
    assert len(server.asked) == 1


async def test_from_a_server_and_inside_refused() -> None:
    """What the guard refuses costs that input alone."""
    inside = "http://169.254.169.254/latest/meta-data/"
    async with OpenAILike() as server:
        url = server.keep("a", Made(picture(), "text/html"))
        params = Generation(inputs=[url, inside])
        done = await run_stage_live(generate, params, origins=[server.url])
    assert (done.outcome, len(done.assets)) == ("partial", 1)
    assert [one["input"] for one in done.result["failed"]] == [inside]
