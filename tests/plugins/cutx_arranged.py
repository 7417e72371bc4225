"""The cutx lifecycle, arranged for tests in the pure core: no clock, no store, no HTTP."""

from typing import Any

from jobrunner_cutx import definition as shipped

from jobrunner.core.job import Failure
from tests.driving import (
    Arrange,
    World,
    code,
    outside,
)

definition = outside(shipped)
STATUSES = ("pending", "queued", "processing", "completed", "failed", "canceled", "expired")
FINAL = ("completed", "canceled")
MOVES = {
    ("pending", "queued"),
    ("pending", "processing"),
    ("pending", "failed"),
    ("pending", "canceled"),
    ("queued", "processing"),
    ("queued", "failed"),
    ("queued", "canceled"),
    ("processing", "completed"),
    ("processing", "failed"),
    ("processing", "canceled"),
    ("processing", "expired"),
    ("failed", "pending"),
    ("expired", "pending"),
}
PRICES = {"copy": 1, "static_ad": 3, "tts": 2, "ugc_video": 40, "scrape": 0}
AT_ONCE = ("copy", "scrape")
IN_LINE = ("static_ad", "tts", "ugc_video")
ABOUT = {"product_id": "lamp-7"}
PARAMS: dict[str, dict[str, Any]] = {
    "copy": ABOUT,
    "static_ad": ABOUT,
    "ugc_video": ABOUT,
    "tts": {"text": "a lamp"},
    "scrape": {"url": "https://example.org/lamp"},
}
NETWORK = Failure("NETWORK", "connection reset")
BAD_INPUT = Failure("BAD_INPUT", "no such product", retryable=False)


def pending(world: World) -> str:
    return world.born("copy", ABOUT)


def queued(world: World) -> str:
    return world.born("static_ad", ABOUT)


def processing(world: World) -> str:
    job_id = pending(world)
    assert code(world.claim(job_id)) == "moved"
    return job_id


def completed(world: World) -> str:
    job_id = processing(world)
    world.callback(job_id, "e1", "completed", result={"variants": ["a", "b", "c", "d", "e"]})
    return job_id


def failed(world: World) -> str:
    job_id = processing(world)
    world.callback(job_id, "e1", "failed", failure_message="the provider says no")
    return job_id


def canceled(world: World) -> str:
    job_id = pending(world)
    world.do(job_id, "cancel")
    return job_id


def expired(world: World) -> str:
    job_id = processing(world)
    world.fire(job_id, "deadline")
    return job_id


AT_REST: dict[str, Arrange] = {
    "pending": pending,
    "queued": queued,
    "processing": processing,
    "completed": completed,
    "failed": failed,
    "canceled": canceled,
    "expired": expired,
}
REPORTS: dict[str, dict[str, Any]] = {
    "completed": {"result": {"variants": []}},
    "failed": {"failure_message": "by hand"},
}
