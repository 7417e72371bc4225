"""Where in a trace something hangs, by W3C Trace Context and by the ids that are there anyway."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrunner.core.features.tracing import Parent, delivery_of, parent_in, submission_of

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
