"""Units beside the decisions about jobs: each is written whole or not at all, as a decision is.

A unit is data: what is to be stored, and what must still hold when it is. The store makes
statements of it.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct

from jobrunner.core.features.bulk import Tick
from jobrunner.core.job import Asset, Paused, Snapshot


class AuditRecord(Struct, frozen=True):
    event: str
    actor: str
    fields: dict[str, Any] = {}


class WebhookRow(Struct, frozen=True):
    """A webhook, remembered by its id among those of its source. ``name`` is what it was about;
    ``reason`` says why it was not ``applied``."""

    source: str
    webhook_id: str
    name: str
    at: int
    applied: bool
    reason: str = ""


class Grant(Struct, frozen=True, tag=True):
    """Credits given by an operator, or to a new account (then ``once``: only if it has no row).
    Under a ``key`` an account is given something once."""

    user_id: str
    amount: int
    reason: str
    actor: str
    at: int
    once: bool = False
    key: str = ""


class NewToken(Struct, frozen=True, tag=True):
    """A token is stored as the SHA-256 of what was printed. Those that it ``replaces``, by id, end
    at the latest at ``replaced_until``; refused with ``missing`` when one of them is gone. With
    ``workflows`` it is for their jobs only."""

    id: str
    name: str
    role: str
    digest: bytes
    at: int
    actor: str
    expires_at: int | None = None
    replaces: tuple[str, ...] = ()
    replaced_until: int = 0
    workflows: tuple[str, ...] = ()


class RevokeToken(Struct, frozen=True, tag=True):
    """Revoke tokens by id or by NAME; refused with ``missing`` when there is none."""

    which: str
    at: int
    actor: str


class Note(Struct, frozen=True, tag=True):
    """An audit record on its own, about a job or about none."""

    record: AuditRecord
    at: int
    job_id: str | None = None


class Forget(Struct, frozen=True, tag=True):
    """Delete a job that ended, at this version; what stays is its tombstone. ``folders`` hold its
    files, which are to follow it."""

    job: Snapshot
    at: int
    actor: str
    folders: tuple[str, ...] = ()
    tick: Tick | None = None


class Shelve(Struct, frozen=True, tag=True):
    """A file that came before its job: it is its owner's, and no job's yet."""

    asset: Asset
    user_id: str


class Unshelve(Struct, frozen=True, tag=True):
    """Forget a file that is no job's, which lies in ``folder``; refused with ``missing`` when there
    is none."""

    asset_id: str
    folder: str
    at: int
    actor: str


class Unreadable(Struct, frozen=True, tag=True):
    """Mark a job stuck whose record cannot be read, and touch nothing else."""

    job_id: str
    why: str


class Cleared(Struct, frozen=True, tag=True):
    """The files of deleted jobs, or of a deleted asset, are off the disk."""

    folders: tuple[str, ...]


class Halt(Struct, frozen=True, tag=True):
    """A workflow or a stage is paused; refused with ``exists`` when it is already."""

    scope: str
    name: str
    paused: Paused


class Unhalt(Struct, frozen=True, tag=True):
    """Resume a workflow or a stage; refused with ``missing`` when it was not paused."""

    scope: str
    name: str
    actor: str
    at: int
    reason: str | None = None


class Remember(Struct, frozen=True, tag=True):
    """Store a declaration by its digest (a repeat changes nothing)."""

    digest: str
    name: str
    version: str
    data: bytes
    states: tuple[tuple[str, str], ...]
    at: int


class Tried(Struct, frozen=True, tag=True):
    """The result of the ``number``-th try of a delivery; ``at`` is its start."""

    delivery: int
    number: int
    at: int
    latency_ms: int
    http_status: int | None
    error: str
    outcome: Literal["delivered", "due", "failed", "disabled"]
    due_at: int | None = None


class Redeliver(Struct, frozen=True, tag=True):
    """Try a delivery again from the start, whatever became of it; refused with ``missing`` when
    there is none or its endpoint is disabled."""

    delivery_id: str
    at: int
    actor: str
    job_id: str


class EnableEndpoint(Struct, frozen=True, tag=True):
    """Deliver there again, also what was held back meanwhile; refused with ``missing`` when it is
    not disabled."""

    endpoint: int
    at: int
    actor: str


class StoreWebhook(Struct, frozen=True, tag=True):
    """A webhook that is for no attempt now; with a ``value`` it is kept for one that may come to
    await it. Refused with ``awaited`` when somebody awaits it already, with ``webhook`` when its
    id came before."""

    webhook: WebhookRow
    value: Any = UNSET


class ForgetWebhooks(Struct, frozen=True, tag=True):
    """Old ones, a limited number at a time: those kept since before ``kept_before`` are not handed
    over any more, and those of no job are forgotten when they came before ``before`` (None:
    never)."""

    kept_before: int
    before: int | None


class LogLines(Struct, frozen=True, tag=True):
    """All lines of a stage whose attempt was ended before the stage was."""

    job_id: str
    serial: int
    lines: tuple[str, ...]
