"""Whatever a stage returns or raises, its attempt ends in a way that can be stored."""

import errno
from typing import Any

import msgspec
import pytest

from jobrunner import (
    Asset,
    AwaitCallback,
    Done,
    Partial,
    PermanentFailure,
    Rejected,
    RetryableFailure,
)
from jobrunner.stages.outcomes import Parked, for_attempt, places, raised, returned


class Silent(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def deep() -> Any:
    value: Any = []
    for _ in range(500):
        value = [value]
    return value


ODD: list[Any] = [
    None,
    "done",
    {"result": 1},
    Done,
    Done(result=object()),
    Done(result={1: {2}, "x": Silent()}),
    Done(result=deep()),
    Done(result="x" * 5_000_000),
    Done(result="\ud800"),
    Done(artifacts={"No Name": 1}),
    Done(artifacts=7),  # type: ignore[arg-type]
    Done(assets=("not an asset",)),  # type: ignore[arg-type]
    Done(assets=(Asset("1", 2, 3),)),  # type: ignore[arg-type]
    Partial(Silent()),  # type: ignore[arg-type]
    AwaitCallback(7),  # type: ignore[arg-type]
    AwaitCallback("", 1),
    AwaitCallback("k", float("nan")),
    AwaitCallback("k", -1),
]


@pytest.mark.parametrize("outcome", ODD, ids=range(len(ODD)))
def test_nonsense_is_a_permanent_failure(outcome: Any) -> None:
    """H47 H50: it says what is wrong, and would be wrong again."""
    ended = for_attempt(returned(outcome), 7, ["a line", "\ud800"])
    assert msgspec.json.decode(msgspec.json.encode(ended), type=type(ended)) == ended
    if isinstance(outcome, Partial):
        assert ended.outcome == "partial"
        return
    assert ended.outcome == "failed"
    assert ended.failure is not None
    assert (ended.failure.code, ended.failure.retryable) == ("STAGE_CRASHED", False)
    assert ended.failure.message


def test_what_a_stage_saved_belongs_to_its_report() -> None:
    listed, saved = Asset("1", "image", "u1"), Asset("2", "text", "u2")
    ended = returned(Done(assets=(listed,)), [(listed, ""), (saved, "text_uri")])
    assert ended.report.assets == (listed, saved)
    assert ended.report.artifacts == {"text_uri": "u2"}


def test_a_result_comes_back_as_it_is_stored() -> None:
    assert returned(Done(result=(1, 2.5, "x"))).report.result == [1, 2.5, "x"]


FAULTS: list[tuple[BaseException, str, str, bool]] = [
    (RetryableFailure("RATE_LIMITED", "slow down", 7), "failed", "RATE_LIMITED", True),
    (PermanentFailure("NO_PERMISSION", "no"), "failed", "NO_PERMISSION", False),
    (Rejected("POLICY", "no"), "rejected", "POLICY", False),
    (PermanentFailure("no code at all", 7), "failed", "STAGE_FAILED", False),  # type: ignore[arg-type]
    (TimeoutError("late"), "failed", "TIMEOUT", True),
    (ConnectionResetError("gone"), "failed", "NETWORK", True),
    (OSError(errno.ENOSPC, "full"), "failed", "STORAGE", True),
    (OSError(errno.EFBIG, "too large"), "failed", "FILE_LIMIT", False),
    (FileNotFoundError("nowhere"), "failed", "STAGE_CRASHED", False),
    (MemoryError(), "failed", "MEMORY_LIMIT", False),
    (ZeroDivisionError("a bug"), "failed", "STAGE_CRASHED", False),
    (Silent(), "failed", "STAGE_CRASHED", False),
    (SystemExit(0), "failed", "STAGE_CRASHED", False),
    (KeyboardInterrupt(), "failed", "STAGE_CRASHED", False),
]


@pytest.mark.parametrize(("fault", "outcome", "code", "retryable"), FAULTS, ids=range(len(FAULTS)))
def test_failures_are_classed(
    fault: BaseException, outcome: str, code: str, retryable: bool
) -> None:
    """I29 C42 H45 H46 H47: network, time, storage and rate limits may work next time; the rest
    will not."""
    ended = raised(fault)
    assert ended.failure is not None
    found = (ended.outcome, ended.failure.code, ended.failure.retryable)
    assert found == (outcome, code, retryable)
    assert ended.failure.retry_after_s == getattr(fault, "retry_after_s", 0)


def test_a_bug_leaves_its_traceback() -> None:
    def stage() -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError) as caught:
        stage()
    failure = raised(caught.value).failure
    assert failure is not None
    assert (
        failure.message
        == "the stage raised ZeroDivisionError; admins find where among the attempts"
    )
    assert "in stage" in failure.detail
    assert failure.detail.endswith("ZeroDivisionError: a bug\n")


def test_places_of_a_traceback_are_told_without_its_words() -> None:
    """What an exception says may be somebody's prompt, over several lines."""

    def stage() -> None:
        try:
            raise KeyError("a hippogriff\nTraceback: no\n  File: a hippogriff\nhippogriff: none")
        except KeyError as error:
            raise ValueError("another hippogriff") from error

    with pytest.raises(ValueError, match="another") as caught:
        stage()
    failure = raised(caught.value).failure
    assert failure is not None
    assert "hippogriff" in failure.detail
    told = places(failure.detail)
    assert told.startswith("Traceback")
    assert "in stage" in told
    assert told.endswith("\nValueError")
    assert "KeyError" in told
    assert "hippogriff" not in told.replace(__file__, "")
    assert places("the provider said: no") == ""


def test_what_the_disk_says_is_told_without_the_path() -> None:
    failure = raised(OSError(errno.ENOSPC, "no room", "/srv/secret/place")).failure
    assert failure is not None
    assert failure.message == "the stage ran into OSError: No space left on device"
    assert "/srv/secret/place" in failure.detail


def test_parking_is_no_failure() -> None:
    ended = raised(Parked("ticket-1", 30))
    assert (ended.outcome, ended.awaits, ended.await_s) == ("parked", "ticket-1", 30)


LATER, NEVER = RetryableFailure("LATER", "again"), PermanentFailure("NEVER", "so it is")
GROUPS: list[tuple[list[BaseException], str, str]] = [
    ([NEVER], "failed", "NEVER"),
    ([LATER, NEVER], "failed", "NEVER"),
    ([LATER, ExceptionGroup("inner", [Rejected("NO", "no")])], "rejected", "NO"),
    ([LATER, LATER], "failed", "LATER"),
    ([NEVER, ZeroDivisionError("x")], "failed", "STAGE_CRASHED"),
    ([Parked("k", 1.0)], "parked", ""),
]


@pytest.mark.parametrize(("faults", "status", "code"), GROUPS)
def test_of_a_group_the_fault_that_says_most_counts(
    faults: list[BaseException], status: str, code: str
) -> None:
    """As a task group raises it in which some of many submissions failed."""
    ended = raised(BaseExceptionGroup("unhandled errors in a TaskGroup", faults))
    assert (ended.outcome, ended.failure.code if ended.failure else "") == (status, code)
    if code == "LATER":
        assert ended.failure is not None
        assert ended.failure.retryable
    if code == "STAGE_CRASHED":
        assert ended.failure is not None
        assert "ZeroDivisionError" in ended.failure.detail
