"""What is told, to whom, and what follows from a try to tell it."""

from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace

from jobrunner.core.decision import Decision
from jobrunner.core.declaration.workflow import Definition, Notify
from jobrunner.core.features.notifications import (
    BODY_MAX,
    JITTER,
    PAUSES_S,
    RETRY_AFTER_S_MAX,
    DueDelivery,
    TryAnswer,
    follows,
    origin_of,
    pause_s,
)
from jobrunner.core.messages import Move, Report, SetAside
from tests.driving import ADMIN, Said, World, outside
from tests.standing import CUTX, HOWERA, SS, Lifecycle

URL = "https://hooks.example/jobs?key=k"
DUE = DueDelivery(7, "d", "j", "w", "ada", 1, "ada", "ada https://h", URL, "job.ended", "{}", 0, 0)


def world(lifecycle: Lifecycle = CUTX, notify: Notify | None = None) -> World:
    definition = lifecycle.definition
    if notify is not None:
        workflow = replace(definition.workflow, notify=notify)
        definition = Definition(workflow, definition.functions, definition.structs)
    return World(outside(definition))


def decided(said: Said) -> Decision:
    assert isinstance(said, Decision), said
    return said


def born(here: World, **more: Any) -> str:
    return here.born("copy", {"product_id": "lamp-7"}, **more)


def moved(here: World, job_id: str, to: str, **report: Any) -> Decision:
    return decided(here.tell(job_id, Move(ADMIN, to, Report(**report))))


def test_nobody_is_told_where_nobody_asked() -> None:
    here = world()
    assert moved(here, born(here), "canceled").notifications == ()


def test_the_end_is_told_and_the_way_there_is_not() -> None:
    here = world()
    job_id = born(here, notify_url=URL)
    assert moved(here, job_id, "processing").notifications == ()
    done = moved(here, job_id, "completed", result={"variants": list("abcde")})
    (told,) = done.notifications
    assert (told.type, told.url, told.owner) == ("job.ended", URL, "ada")
    assert told.lane == "ada https://hooks.example"
    assert told.id == f"{job_id}-{done.after.version}-job"


def test_a_body_says_who_moved_and_never_what_was_made() -> None:
    here = world()
    job_id = born(here, notify_url=URL, labels={"team": "a"})
    moved(here, job_id, "processing")
    (told,) = moved(here, job_id, "failed", failure_message="no luck").notifications
    body = json.decode(told.body)
    assert sorted(body) == ["data", "timestamp", "type"]
    assert body["type"] == "job.settled"
    data = body["data"]
    assert (data["job_id"], data["from_status"], data["status"]) == (job_id, "processing", "failed")
    assert (data["failure_message"], data["labels"]) == ("no luck", {"team": "a"})
    assert not {"params", "result", "artifacts", "result_url", "notify_url"} & set(data)


@pytest.mark.parametrize(
    ("on", "types"),
    [
        (("ended", "settled"), ["job.settled", "job.ended"]),
        (("ended",), ["job.ended"]),
        (("settled",), ["job.settled"]),
        (("stuck",), ["job.stuck"]),
        (
            ("transition",),
            ["job.transition", "job.transition", "job.settled", "job.transition", "job.ended"],
        ),
    ],
)
def test_an_endpoint_hears_what_it_asked_for(on: Any, types: list[str]) -> None:
    """Every move, or only those that matter; the type is the most telling thing that happened."""
    here = world(notify=Notify("https://ops.example/", on))
    first = decided(here.submit("copy", {"product_id": "lamp-7"}))
    job_id = first.after.id
    heard = list(first.notifications)
    heard += moved(here, job_id, "processing").notifications
    heard += moved(here, job_id, "failed", failure_message="no").notifications
    heard += decided(here.tell(job_id, SetAside("its actor failed"))).notifications
    heard += moved(here, job_id, "pending").notifications
    heard += moved(here, job_id, "canceled").notifications
    assert [told.type for told in heard] == types
    assert {told.owner for told in heard} == {f"workflow:{CUTX.definition.workflow.name}"}


def test_a_job_that_waits_for_a_person_says_so() -> None:
    here = world(SS)
    said = decided(here.submit("", {"requirement": "x"}, notify_url=URL, notify_on=("waiting",)))
    assert [told.type for told in said.notifications] == ["job.waiting"]


def test_two_endpoints_are_told_the_same_under_ids_of_their_own() -> None:
    here = world(notify=Notify("https://ops.example/"))
    one, other = moved(here, born(here, notify_url=URL), "canceled").notifications
    assert one.body == other.body
    assert one.id.removesuffix("-job") == other.id.removesuffix("-workflow")


def test_a_body_stays_small_whatever_a_job_holds() -> None:
    """R11: the bodies are bounded, also with every field at its largest."""
    here = world(HOWERA)
    labels = {f"{number}{chr(0x1F600)}" * 9: "\u0001" * 255 for number in range(16)}
    job_id = here.born(notify_url=URL, labels=labels, correlation_id="\u0002" * 5000)
    (told,) = moved(
        here,
        job_id,
        "FAILED",
        failure_message="\u0003" * 100_000,
        failure_code="X",
        failed_stage="AUDIO_EXTRACTING",
    ).notifications
    assert len(told.body.encode()) < BODY_MAX


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_a_success_ends_it(status: int) -> None:
    tried = follows(DUE, TryAnswer(status, latency_ms=12), 5, 1000, 0.5)
    assert (tried.outcome, tried.due_at, tried.number, tried.at) == ("delivered", None, 1, 5)


@pytest.mark.parametrize("status", [None, 100, 199, 300, 302, 400, 404, 408, 429, 500, 503, 599])
def test_anything_else_is_tried_again(status: int | None) -> None:
    tried = follows(DUE, TryAnswer(status, "no"), 5, 1000, 0.0)
    assert (tried.outcome, tried.due_at) == ("due", 1000 + 5000)


def test_gone_is_gone_and_hopeless_is_hopeless() -> None:
    assert follows(DUE, TryAnswer(410), 5, 1000, 0).outcome == "disabled"
    assert follows(DUE, TryAnswer(None, "inside", hopeless=True), 5, 1000, 0).outcome == "failed"


def test_the_schedule_is_spread_over_three_days_and_ends() -> None:
    waits = []
    for spent in range(20):
        tried = follows(replace(DUE, spent=spent, tries=spent + 3), TryAnswer(500), 0, 0, 0)
        assert tried.number == spent + 4
        if tried.outcome == "failed":
            break
        assert tried.due_at is not None
        waits.append(tried.due_at // 1000)
    assert tuple(waits) == PAUSES_S[1:]
    assert sum(waits) > 3 * 86_400


def test_patience_is_granted_within_a_day() -> None:
    assert pause_s(1, 600, 0) == 600
    assert pause_s(3, 600, 0) == PAUSES_S[3]
    assert pause_s(1, 1e12, 0) == RETRY_AFTER_S_MAX
    assert pause_s(2, 0, 1) == PAUSES_S[2] * (1 + JITTER)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        (URL, "https://hooks.example"),
        ("HTTPS://Hooks.Example:8443/a/b?c", "https://hooks.example:8443"),
        ("https://[2001:db8::1]/x", "https://[2001:db8::1]"),
        ("no url", ""),
    ],
)
def test_only_the_origin_of_a_url_may_be_logged(url: str, origin: str) -> None:
    assert origin_of(url) == origin
