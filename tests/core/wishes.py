"""Everything that may be asked of a job, as lists to choose from: who, what and with which words.

``wishes`` is finite and the same for equal arguments, so that it can be gone through from end to
end or drawn from at random.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

from msgspec.structs import replace

from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.job import STAGE, Asset, Failure, Purpose, Snapshot
from jobrunner.core.messages import (
    Advance,
    Answered,
    Arrived,
    Arriving,
    Beat,
    Checkpoint,
    Claim,
    Do,
    Edit,
    Ended,
    Event,
    Fired,
    Keep,
    Message,
    Move,
    Pause,
    Rebound,
    Recovered,
    Release,
    Report,
    Resume,
    SetAside,
    Start,
    Stop,
    Supersede,
    Told,
)
from tests.driving import ADA, ADMIN, EVE, WORKER

PURPOSES: tuple[Purpose, ...] = (
    "run_at",
    "retry",
    "backoff",
    "deadline",
    "limit",
    "lease",
    "heartbeat",
    "lapse",
)
OUTCOMES = ("done", "partial", "rejected", "failed", "parked", "interrupted")

PAGE = Asset("file-1", "image", "/assets/file-1/content", "ada/one/1.png", 3)
GOODS: dict[str, Any] = {
    "artifacts": {
        "audio_uri": PAGE.url,
        "transcript_uri": PAGE.url,
        "draft_uri": PAGE.url,
        "export_uri": PAGE.url,
        "frame": PAGE.url,
        "pieces": 7,
        "draft": "# One",
        "video_uri": "s3://videos/one.mp4",
    },
    "assets": (PAGE,),
    "result": {"total": 12},
    "progress": 60,
}
FIRST = Report(artifacts={"audio_uri": PAGE.url, "pieces": 7}, assets=(PAGE,))
SECOND = Report(artifacts={"transcript_uri": PAGE.url}, assets=(PAGE,))
WHY: dict[str, Any] = {
    "failure_code": "NETWORK",
    "failure_message": "nobody answers",
    "failed_stage": "GENERATING",
}
REPORTS = (
    Report(),
    Report(**GOODS),
    Report(**WHY),
    Report(**WHY, retryable=False),
    Report(progress=40, message="going on"),
    Report(result={"total": 13}, correlation_id="trace-7"),
    Report(artifacts={"plan": {"plan_id": "another"}, "video_uri": "s3://videos/two.mp4"}),
    Report(progress=101),
)
FAILURES = (
    Failure("NETWORK", "nobody answers", retry_after_s=7),
    Failure("BAD_INPUT", "this cannot be read", retryable=False),
)

FIELDS: dict[tuple[str, str], tuple[dict[str, Any], ...]] = {
    ("image-generation", "annotate"): ({"note": "seen"},),
    ("ss", "draft"): (
        {},
        {"draft": "Sum it"},
        {"draft": {"questions": [{"id": "region", "required": True}]}},
    ),
    ("ss", "freeze-plan"): ({}, {"answers": {"region": "north"}}),
    ("ss", "confirm"): (
        {"confirmed": True},
        {"confirmed": True, "answers": {"region": "north"}},
        {"confirmed": False},
    ),
    ("howera", "confirm-upload"): (
        {"video_uri": "s3://videos/one.mp4"},
        {"video_uri": "s3://videos/two.mp4"},
        {},
    ),
    ("howera", "regenerate"): (
        {},
        {"client_request_id": "r1", "instruction": "shorter"},
        {"client_request_id": "r1", "instruction": "longer"},
        {"base_version": 9},
    ),
    ("howera", "export"): (
        {"format": "PDF"},
        {"format": "MD_ZIP"},
        {"format": "PDF", "version": 9},
    ),
    ("howera", "fail"): (WHY,),
}


def wishes(definition: Definition, job: Snapshot) -> Iterator[Message]:
    """All of them, for a job that stands like this."""
    yield from moves(definition, job)
    yield from callbacks(definition, job)
    yield from commands(definition, job)
    yield from edits(definition)
    yield from arrivals(definition)
    yield from from_outside()
    yield from from_inside(job)


def moves(definition: Definition, job: Snapshot) -> Iterator[Message]:
    for to, actor, report in product((*definition.states, "nowhere"), (ADMIN, WORKER), REPORTS):
        yield Move(actor, to, report)
    for to in definition.states:
        yield Move(ADA, to, REPORTS[1])
        yield Move(EVE, to)
        yield Move(WORKER, to, Report(**GOODS, **WHY, run_id="another"))
    yield Move(ADMIN, job.status, expected_version=job.version + 1)


def callbacks(definition: Definition, job: Snapshot) -> Iterator[Message]:
    """Fresh ones, and one that happened before the last."""
    for to, report in product(definition.states, REPORTS[:5]):
        yield Move(WORKER, to, report, event=Event("event-1", "digest-1", job.updated_at))
    yield Move(WORKER, job.status, event=Event("event-2", "digest-2", 0))


def commands(definition: Definition, job: Snapshot) -> Iterator[Message]:
    workflow = definition.workflow.name
    for name in (*definition.commands, "vanish"):
        bodies = FIELDS.get((workflow, name), ({},))
        for fields in bodies:
            for actor in (ADA, ADMIN, WORKER):
                yield Do(actor, name, fields)
            yield Do(ADA, name, fields, expected_version=job.version + 1)
        yield Do(EVE, name, bodies[0])


def edits(definition: Definition) -> Iterator[Message]:
    for name in (*definition.editables, "secret"):
        for actor, base in product((ADA, ADMIN, WORKER), (None, 0, 1)):
            yield Edit(actor, name, "# Other words", base)


def arrivals(definition: Definition) -> Iterator[Message]:
    for name in (*definition.uploads, "secret"):
        for actor in (ADA, ADMIN, WORKER, EVE):
            yield Arriving(actor, name)
            yield Arrived(actor, name, replace(PAGE, id=f"file-{actor.name}", sha256="5ea1"))
        yield Arriving(ADA, name, expected_version=0)


def from_outside() -> Iterator[Message]:
    yield from (Claim(actor) for actor in (WORKER, ADMIN, ADA))
    for actor, progress in product((WORKER, ADMIN, STAGE, ADA), (None, 70)):
        yield Beat(actor, progress, "going on" if progress else None)
    yield Beat(WORKER, 5, run_id="another")
    for actor, key in product((WORKER, ADA), ("call-1", "call-2")):
        yield Answered(actor, key, {"status": "succeeded"})
    yield from (Told("provider", "hook-1", key, {"status": "failed"}) for key in ("one", "two"))
    yield from (Stop(actor, "enough") for actor in (ADMIN, ADA))
    yield from (Release(actor) for actor in (ADMIN, ADA))
    for actor in (ADA, ADMIN, WORKER, EVE):
        yield Pause(actor, "enough for today")
        yield Resume(actor)


def from_inside(job: Snapshot) -> Iterator[Message]:
    yield Start()
    yield Advance()
    yield Rebound()
    yield from (Recovered(alone) for alone in (False, True))
    yield SetAside("its actor failed three times")
    yield Supersede("another")
    for purpose in PURPOSES:
        timer = job.timer(purpose)
        yield Fired(purpose, timer.due_at if timer else 0)
    serials = (job.serial, job.serial - 1) if job.serial else (1,)
    yield from (Keep(serial, "uploaded", "https://provider.example/1") for serial in serials)
    yield from (Checkpoint(serial, Report(artifacts={"half": serial})) for serial in serials)
    for serial, outcome in product(serials, OUTCOMES):
        yield from endings(serial, outcome)


def endings(serial: int, outcome: str) -> Iterator[Message]:
    match outcome:
        case "failed" | "rejected" | "partial":
            yield from (Ended(serial, outcome, failure=failure) for failure in FAILURES)
            yield Ended(serial, outcome, Report(**GOODS), FAILURES[0])
        case "parked":
            yield Ended(serial, outcome, awaits="call-1", await_s=30)
            yield Ended(serial, outcome, awaits="call-1")
            yield Ended(serial, outcome, awaits="provider:one", await_s=30, source="provider")
        case "done":
            for made in (Report(), Report(**GOODS), FIRST, SECOND):
                yield Ended(serial, outcome, made)
        case _:
            yield Ended(serial, outcome)
