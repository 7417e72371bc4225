"""The conversations about declarations that change under jobs under way, for admins."""

from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from jobrunner.client.talk import Now, Talk
from jobrunner.client.talks.asking import at, read_of, record_in, value_in, written

HOLD_S = 30


class PlaceRecord(Struct, frozen=True, kw_only=True):
    """How many jobs that have not ended stand in this state."""

    status: str
    job_type: str
    jobs: int


class DeclarationRecord(Struct, frozen=True, kw_only=True):
    """A declaration that jobs under way are under, or that is ``today``'s. ``lacks`` is what it
    names and no plugin brings any more: whoever needs it is stuck until it is back."""

    workflow: str
    version: str
    digest: str
    today: bool
    jobs: int
    places: list[PlaceRecord]
    lacks: list[str]


class StayRecord(Struct, frozen=True, kw_only=True):
    """Jobs that stay under their declaration for one reason, and the first of them."""

    why: str
    jobs: int
    examples: list[str]


class UpgradeRecord(Struct, frozen=True, kw_only=True):
    """``moved`` jobs are under the declaration ``digest``, or would be after a dry run."""

    id: str
    workflow: str
    digest: str
    version: str
    by: str
    reason: str | None
    dry_run: bool
    status: Literal["running", "done", "aborted"]
    moved: int
    stay: int
    stays: list[StayRecord]
    created_at: datetime
    ended_at: datetime | None

    @property
    def ended(self) -> bool:
        return self.status != "running"


def declarations() -> Talk[list[DeclarationRecord]]:
    """List the declarations in use, with the jobs that are under each and what they lack."""
    found = value_in((yield read_of(at("admin", "declarations"))))
    return msgspec.convert(found["declarations"], list[DeclarationRecord])


def migrate(
    workflow: str,
    *,
    dry_run: bool = False,
    reason: str | None = None,
    timeout_s: float | None = None,
) -> Talk[UpgradeRecord]:
    """Move the jobs of a workflow that are under way to its declaration of today, and return once
    all were looked at, or as it stands when the time is up: see its ``ended``. With ``dry_run`` it
    says what would become of them, and moves none."""
    body = {"workflow": workflow, "dry_run": dry_run} | ({"reason": reason} if reason else {})
    began: float = yield Now()
    asked = written("POST", at("admin", "upgrades"), body, repeatable=dry_run, wait_s=HOLD_S)
    found = record_in((yield asked), UpgradeRecord)
    while not found.ended:
        now: float = yield Now()
        left_s = HOLD_S if timeout_s is None else min(began + timeout_s - now, HOLD_S)
        if left_s <= 0:
            return found
        found = yield from upgrade(found.id, wait_s=left_s)
    return found


def upgrades() -> Talk[list[UpgradeRecord]]:
    """List the orders to move jobs, the newest first."""
    found = value_in((yield read_of(at("admin", "upgrades"))))
    return msgspec.convert(found["upgrades"], list[UpgradeRecord])


def upgrade(upgrade_id: str, *, wait_s: float = 0) -> Talk[UpgradeRecord]:
    """Read how many were moved and why others stay; ``wait_s`` (60 at most) holds the answer until
    all were looked at."""
    query = {"wait": wait_s} if wait_s else {}
    answer = yield read_of(at("admin", "upgrades", upgrade_id), query, wait_s=wait_s)
    return record_in(answer, UpgradeRecord)


def abort_upgrade(upgrade_id: str) -> Talk[UpgradeRecord]:
    """Move nobody more; whoever was moved stays where it is."""
    path = at("admin", "upgrades", upgrade_id)
    return record_in((yield written("DELETE", path, {}, repeatable=True)), UpgradeRecord)
