"""The image-generation lifecycle, arranged for tests in the pure core: nothing that waits."""

from typing import Any

from jobrunner_image_generation import definition as shipped

from jobrunner.core.job import Failure
from tests.driving import (
    Arrange,
    World,
    code,
    outside,
    picture,
)

definition = outside(shipped)
STATUSES = ("queued", "running", "failed", "completed", "rejected", "dead_letter")
FINAL = ("completed", "rejected", "dead_letter")
MOVES = {
    ("queued", "running"),
    ("queued", "rejected"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "rejected"),
    ("failed", "queued"),
    ("failed", "dead_letter"),
}
LIGHTHOUSE = {"prompt": "a lighthouse at dusk"}
TIMEOUT = Failure("STAGE_TIMEOUT", "the provider did not answer")
BAD_REQUEST = Failure("PROVIDER_ERROR", "the provider says 400", retryable=False)


def queued(world: World) -> str:
    return world.born(params=LIGHTHOUSE)


def running(world: World) -> str:
    job_id = queued(world)
    assert code(world.claim(job_id)) == "moved"
    return job_id


def failed(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "failed", failure_message="the provider says 500")
    return job_id


def completed(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "completed", assets=(picture(),))
    return job_id


def rejected(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "rejected")
    return job_id


def dead_letter(world: World) -> str:
    job_id = running(world)
    world.callback(job_id, "e1", "failed", failure_message="the provider says 400", retryable=False)
    return job_id


AT_REST: dict[str, Arrange] = {
    "queued": queued,
    "running": running,
    "failed": failed,
    "completed": completed,
    "rejected": rejected,
    "dead_letter": dead_letter,
}
REPORTS: dict[str, dict[str, Any]] = {
    "completed": {"assets": (picture(),)},
    "failed": {"failure_message": "by hand"},
}
