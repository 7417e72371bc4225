"""The ss lifecycle, arranged for tests in the pure core: no clock, no store, no HTTP."""

from typing import Any

from jobrunner_ss import definition as shipped

from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.job import Failure, Snapshot
from jobrunner.errors import Refused
from tests.driving import ADA, Arrange, World, code, outside

definition = outside(shipped)
STATUSES = ("created", "draft_ready", "confirmed", "queued", "running", "succeeded", "failed")
MOVES = {
    ("created", "draft_ready"),
    ("draft_ready", "confirmed"),
    ("confirmed", "queued"),
    ("queued", "running"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("failed", "queued"),
}
WORDS = {"requirement": "Sum the sales by region", "inputs": {"fingerprint": "f1"}}
QUESTIONS = {"text": "one table", "questions": [{"id": "year", "required": True}, {"id": "unit"}]}
TIMEOUT = Failure("STAGE_TIMEOUT", "it took too long")
CORRUPT = Failure("CORRUPT_INPUT", "the file is not a table", retryable=False)


def created(world: World) -> str:
    return world.born(params=WORDS)


def draft_ready(world: World, draft: Any = "one table") -> str:
    job_id = created(world)
    assert code(world.do(job_id, "draft", draft=draft)) == "moved"
    return job_id


def confirmed(world: World) -> str:
    job_id = draft_ready(world)
    world.do(job_id, "freeze-plan")
    assert code(world.move(job_id, "confirmed", ADA)) == "moved"
    return job_id


def queued(world: World) -> str:
    job_id = draft_ready(world)
    assert code(world.do(job_id, "confirm", confirmed=True)) == "moved"
    return job_id


def running(world: World) -> str:
    job_id = queued(world)
    assert code(world.claim(job_id)) == "moved"
    return job_id


def succeeded(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "succeeded", result={"rows": 3})
    return job_id


def failed(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "failed", failure_message="no such column")
    return job_id


AT_REST: dict[str, Arrange] = {
    "created": created,
    "draft_ready": draft_ready,
    "confirmed": confirmed,
    "queued": queued,
    "running": running,
    "succeeded": succeeded,
    "failed": failed,
}
REPORTS: dict[str, dict[str, Any]] = {
    "draft_ready": {"artifacts": {"draft": "by hand"}},
    "failed": {"failure_message": "by hand"},
}


def at(world: World, status: str) -> Snapshot:
    """A job that stands there."""
    job = world.jobs[AT_REST[status](world)]
    assert job.status == status
    return job


def refused(said: Any) -> Refused:
    assert isinstance(said, Refused), said
    return said


def answer(said: Any) -> dict[str, Any]:
    assert isinstance(said, Decision | NoOp), said
    return said.answer
