"""Where in a trace something hangs, by W3C Trace Context and by the ids that are there anyway."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jobrunner.core.features.meter import Wait
from jobrunner.core.features.tracing import (
    Parent,
    delivery_of,
    parent_in,
    submission_of,
    wait_of,
    waits_over,
)
from jobrunner.core.job import Attempt, Snapshot, Timer

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
JOB = "01a1ef29-4e4d-73c6-855a-340026341354"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", True),
    ],
)
def test_what_is_a_parent(text: str, sampled: bool) -> None:
    assert parent_in(text) == Parent(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "x",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 1000,
        "٠٠" + f"-{TRACE}-{SPAN}-01",
    ],
)
def test_what_is_none(text: str | None) -> None:
    assert parent_in(text) is None


@given(st.text(max_size=80))
def test_whatever_is_sent(text: str) -> None:
    found = parent_in(text)
    assert found is None or parent_in(found.text) == found


def test_ids_follow_from_what_they_are_about() -> None:
    first = submission_of(JOB, None)
    assert first.trace_id == JOB.replace("-", "")
    assert first == submission_of(JOB, "nonsense")
    below = submission_of(JOB, f"00-{TRACE}-{SPAN}-00")
    assert (below.trace_id, below.span_id, below.sampled) == (TRACE, first.span_id, False)
    tries = [delivery_of(below, "d", number) for number in (1, 2)]
    assert len({one.span_id for one in (*tries, below)}) == 3
    assert all(parent_in(one.text) == one for one in (first, below, *tries))


# ---------------------------------------------------------------- waits


def stood(**how: Any) -> Snapshot:
    """A job whose state was entered at 100 and which changed last at 200."""
    about: dict[str, Any] = {"id": JOB, "workflow": "w", "digest": "d", "job_type": "t"}
    about |= {"user_id": "u", "status": "queued", "kind": "queued", "entered_at": 100}
    return Snapshot(created_at=50, updated_at=200, **about | how)


def attempt(status: Any, **how: Any) -> Attempt:
    about: dict[str, Any] = {"state": "work", "stage": "s", "run_id": "r", "number": 1}
    return Attempt(1, status=status, opened_at=120, **about | how)


RUN_AT, BACKOFF = Timer("run_at", 300), Timer("backoff", 300)
WAITS = {
    "a slot": (
        stood(line_at=150),
        {"line_at": None, "attempt": attempt("running")},
        [Wait("slot", "queued", 150, 300)],
    ),
    "a slot, in vain": (stood(line_at=150), {"line_at": None, "status": "gone"},
        [Wait("slot", "queued", 150, 300)]),
    "a slot still": (stood(line_at=150), {"progress": 3}, []),
    "a callback": (
        stood(attempt=attempt("parked")),
        {"attempt": attempt("due"), "line_at": 300},
        [Wait("callback", "work", 200, 300)],
    ),
    "a callback, in vain": (stood(attempt=attempt("parked")), {"attempt": None},
        [Wait("callback", "work", 200, 300)]),
    "a callback still": (stood(attempt=attempt("parked")), {"progress": 3}, []),
    "a worker": (
        stood(attempt=attempt("due", not_before=140)),
        {"attempt": attempt("running", claimant="c")},
        [Wait("claim", "work", 140, 300)],
    ),
    "a worker, queued": (stood(), {"attempt": attempt("running", claimant="c")},
        [Wait("claim", "queued", 100, 300)]),
    "nobody: it is worked on": (
        stood(attempt=attempt("running", claimant="c")),
        {"progress": 3},
        [],
    ),
    "its moment": (stood(timers=(RUN_AT,)), {"timers": (), "line_at": 300},
        [Wait("run_at", "queued", 100, 300)]),
    "a pause between tries": (
        stood(timers=(BACKOFF,), attempt=attempt("due")),
        {"timers": (), "line_at": 300},
        [Wait("backoff", "work", 120, 300)],
    ),
    "no moment: it was taken off": (
        stood(timers=(replace(BACKOFF, due_at=301),), attempt=attempt("due")),
        {"timers": ()},
        [],
    ),
    "no delay: a limit": (stood(timers=(Timer("limit", 300),)), {"timers": ()}, []),
}  # fmt: skip


@pytest.mark.parametrize(("before", "change", "waits"), WAITS.values(), ids=WAITS)
def test_what_a_job_has_waited_for(
    before: Snapshot, change: dict[str, Any], waits: list[Wait]
) -> None:
    after = replace(before, **change, updated_at=300, version=2)
    assert list(waits_over(before, after)) == waits
    spans = {wait_of(after, wait).span_id for wait in waits}
    assert len(spans) == len(waits)
    assert all(wait_of(after, wait).trace_id == JOB.replace("-", "") for wait in waits)
