"""When the same is sent again, and when it is not: conversations held by hand, without a line."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from jobrunner.client import OperatorError, RetryLimits, TryLater, Unanswered
from jobrunner.client.talk import FreshKey, Rest, Talk, WireAnswer, WireRequest, patient
from jobrunner.client.talks import asking
from jobrunner.client.talks.hearing import of_jobs
from jobrunner.errors import JobrunnerError, Unreachable

JOB = {
    "id": "j", "workflow": "w", "job_type": "t", "user_id": "u", "status": "s", "kind": "final",
    "version": 1, "progress": 0, "attempt": 0, "retry_count": 0, "priority": 0, "labels": {},
    "credits": {"cost": 0, "state": "none"}, "created_at": "2026-01-01T00:00:00.000Z",
    "updated_at": "2026-01-01T00:00:00.000Z", "allowed": {"statuses": [], "commands": []},
}  # fmt: skip
MADE = WireAnswer(201, {}, msgspec.json.encode(JOB))
NOBODY = Unreachable("nobody there")
SILENCE = Unanswered("it broke off")


def refusal(code: str, status: int, after: str = "") -> WireAnswer:
    body = msgspec.json.encode({"error_code": code, "detail": "because"})
    return WireAnswer(status, {"retry-after": after} if after else {}, body)


BUSY = refusal("OVERLOADED", 503, "7")


def held(
    talk: Talk[Any], answers: Sequence[WireAnswer | JobrunnerError], limits: RetryLimits
) -> tuple[list[WireRequest], list[float]]:
    """What was sent, and the rests between."""
    ahead, sent, rests = list(answers), [], []
    whole = patient(talk, limits)
    try:
        step = next(whole)
        while True:
            said: Any = None
            if isinstance(step, WireRequest):
                sent.append(step)
                said = ahead.pop(0)
            elif isinstance(step, Rest):
                rests.append(step.seconds)
            elif isinstance(step, FreshKey):
                said = "fresh"
            step = whole.throw(said) if isinstance(said, Exception) else whole.send(said)
    except StopIteration:
        assert not ahead, "not asked for"
        return sent, rests


LIMITS = RetryLimits(tries=4, total_s=60, first_s=1)


@pytest.mark.parametrize("passing", [BUSY, NOBODY, SILENCE, refusal("OUTCOME_UNKNOWN", 503)])
def test_a_submission_is_said_again_under_its_key(passing: Any) -> None:
    sent, _ = held(asking.submit("w"), [passing, passing, MADE], LIMITS)
    assert [one.headers["Idempotency-Key"] for one in sent] == ["fresh"] * 3
    sent, _ = held(asking.submit("w", key="mine"), [passing, MADE], LIMITS)
    assert {one.headers["Idempotency-Key"] for one in sent} == {"mine"}


def test_rests_grow_and_are_never_shorter_than_the_service_asks() -> None:
    _, rests = held(asking.submit("w"), [NOBODY, NOBODY, NOBODY, MADE], LIMITS)
    assert rests == [1, 2, 4]
    _, rests = held(asking.submit("w"), [BUSY, NOBODY, MADE], LIMITS)
    assert rests == [7, 2]


@pytest.mark.parametrize("after", ["61", "3600"])
def test_what_lasts_longer_than_the_caller_waits_is_raised_at_once(after: str) -> None:
    with pytest.raises(TryLater) as refused:
        held(asking.submit("w"), [refusal("DRAINING", 503, after)], LIMITS)
    assert refused.value.retry_after_s == float(after)


def test_tries_are_bounded() -> None:
    with pytest.raises(Unreachable):
        held(asking.submit("w"), [NOBODY] * 4, LIMITS)


@pytest.mark.parametrize("open_end", [SILENCE, refusal("OUTCOME_UNKNOWN", 503)])
def test_what_was_perhaps_done_is_not_done_again(open_end: Any) -> None:
    for talk in (asking.cancel("j"), asking.delete_job("j"), asking.ask("POST", "/x", body={})):
        with pytest.raises(JobrunnerError):
            held(talk, [open_end], LIMITS)


@pytest.mark.parametrize("surely_not_done", [BUSY, NOBODY, refusal("RATE_LIMITED", 429, "1")])
def test_what_was_surely_not_done_is(surely_not_done: Any) -> None:
    sent, _ = held(asking.cancel("j"), [surely_not_done, MADE], LIMITS)
    assert len(sent) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refusal("QUOTA_EXCEEDED", 429, "5"), TryLater),
        (refusal("WORKFLOW_UNAVAILABLE", 503, "5"), OperatorError),
        (refusal("INTERNAL", 500), OperatorError),
        (WireAnswer(200, {}, b"<html>"), Unreachable),
    ],
)
def test_what_does_not_pass_is_raised_at_once(answer: WireAnswer, error: type[Exception]) -> None:
    with pytest.raises(error):
        held(asking.submit("w"), [answer], LIMITS)


def test_a_proxy_with_nobody_behind_it_is_no_refusal() -> None:
    sent, _ = held(asking.job("j"), [WireAnswer(502, {}, b"<html>"), MADE], LIMITS)
    assert len(sent) == 2


def test_events_are_read_wherever_the_blocks_are_cut() -> None:
    job = msgspec.json.encode(JOB | {"progress_message": "grün"})
    stream = b"retry: 1500\nid: 4\n\n: still here\n\nevent: progress\ndata: " + job + b"\n\n"
    stream += b"event: settled\r\nid: 5\r\ndata: " + job[:-1] + b"\r\ndata:}\r\n\r\n"
    stream += b"event: progress\ndata: " + job
    for size in (1, 7, 100, len(stream)):
        hearing = of_jobs()
        blocks = [stream[start : start + size] for start in range(0, len(stream), size)]
        told = [event for block in blocks for event in hearing.take(block)]
        assert [(one.kind, one.id) for one in told] == [("progress", "4"), ("settled", "5")]
        assert told[0].job is not None
        assert told[0].job.progress_message == "grün"
        assert hearing.rest_s() == 1.5
        assert hearing.request.headers["Last-Event-ID"] == "5"
