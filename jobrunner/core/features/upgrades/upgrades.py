"""Upgrades as data: where jobs under way are, and an order to move them to today's declaration.

An order needs no list of its jobs: a job that was moved is under the declaration of today, and one
that was not is not. So a service that died in the middle goes on where the jobs say, and no job is
moved twice.
"""

from typing import Literal

from msgspec import Struct

from jobrunner.core.declaration.states import State

SHORT = 12
Turn = Literal["running", "done", "aborted"]


class UnderWay(Struct, frozen=True):
    """Jobs that have not ended, by where they are: a status of one declaration and a job type."""

    workflow: str
    version: str
    digest: str
    status: str
    job_type: str
    jobs: int

    @property
    def declaration(self) -> str:
        return f"version {self.version} ({self.digest[:SHORT]})"


class Stay(Struct, frozen=True):
    """A reason for which jobs stay under their declaration, how many, and some of them."""

    why: str
    jobs: int
    examples: tuple[str, ...] = ()


class Upgrade(Struct, frozen=True):
    """An order to move the jobs of a workflow to the declaration ``digest``. ``looked_at`` is the
    key of the last job that was looked at; ``moved`` and ``stays`` are what became of those jobs,
    or would, in a ``dry`` run. ``row`` is its place in the file, once it is there."""

    id: str
    workflow: str
    digest: str
    version: str
    actor: str
    at: int
    reason: str | None = None
    dry: bool = False
    status: Turn = "running"
    looked_at: int = 0
    moved: int = 0
    stays: tuple[Stay, ...] = ()
    ended_at: int | None = None
    row: int = 0


class NewUpgrade(Struct, frozen=True, tag=True):
    """Store an order."""

    upgrade: Upgrade


class UpgradeLooked(Struct, frozen=True, tag=True):
    """An order came so far; refused with ``missing`` when it is over. ``moved`` is what a dry run
    adds: of any other, each job counts itself in the transaction that moves it."""

    id: str
    looked_at: int
    moved: int
    stays: tuple[Stay, ...]


class UpgradeTurned(Struct, frozen=True, tag=True):
    """An order that is done or was aborted; refused with ``missing`` when it is over already."""

    id: str
    status: Turn
    actor: str
    at: int
    workflow: str
    moved: int = 0


class ForgetDeclarations(Struct, frozen=True, tag=True):
    """Forget those of these declarations that no job, and no decision on record, refers to."""

    digests: tuple[str, ...]


class Repinned(Struct, frozen=True):
    """The job goes from one declaration to another, on behalf of an order."""

    upgrade: str
    was: str
    became: str


class Older(Struct, frozen=True):
    """A job under way that is not under the declaration of today."""

    row: int
    job_id: str


PAGE_BYTES = 4 * 1024**2


class StoredDecision(Struct, frozen=True):
    """The record of a decision, as JSON, with its place in the life of its job."""

    version: int
    beat: int
    data: bytes


UPGRADE_UNITS = (NewUpgrade, UpgradeLooked, UpgradeTurned, ForgetDeclarations)
UpgradeUnit = NewUpgrade | UpgradeLooked | UpgradeTurned | ForgetDeclarations


def formerly(state: State) -> tuple[str, ...]:
    """List the names that a state had."""
    return (state.was,) if isinstance(state.was, str) else state.was


def with_stay(stays: tuple[Stay, ...], why: str, job_id: str, examples: int) -> tuple[Stay, ...]:
    """Count one more job that stays; of each reason the first few jobs are named."""
    for place, known in enumerate(stays):
        if known.why == why:
            more = (job_id,) if len(known.examples) < examples else ()
            counted = Stay(why, known.jobs + 1, known.examples + more)
            return (*stays[:place], counted, *stays[place + 1 :])
    return (*stays, Stay(why, 1, (job_id,)))


def fill_a_page(found: tuple[StoredDecision, ...], limit: int) -> bool:
    """Say whether there may be more of them behind these."""
    return len(found) == limit or sum(len(one.data) for one in found) >= PAGE_BYTES
