"""Facts: what is known of the world when a decision is made, read before it and handed to it.

A fact that may have changed by the time of the commit is asserted there by the decision.
"""

from typing import Any

from msgspec import Struct

from jobrunner.core.features.turns.rates import HoldTerms
from jobrunner.core.job import Paused, Snapshot


class SeenEvent(Struct, frozen=True):
    """An event id that was accepted before, with the digest of what it said."""

    id: str
    digest: str


class Known(Struct, frozen=True):
    """The job that a key leads to, or the tombstone of one (then ``snapshot`` is None)."""

    job_id: str
    body_digest: str
    snapshot: Snapshot | None


class Awaited(Struct, frozen=True):
    """The job that awaits, or once awaited, webhooks of this name; ``job_id`` is None when it is
    deleted."""

    job_id: str | None
    open: bool


class KeptWebhook(Struct, frozen=True):
    """A webhook that came before anybody awaited it. ``row`` is its key in the store."""

    row: int
    value: Any


class WebhookFacts(Struct, frozen=True):
    """The store's knowledge of a webhook and of its name; ``seen``: one of this id came before."""

    seen: bool = False
    awaited: Awaited | None = None
    kept: KeptWebhook | None = None


class Facts(Struct, frozen=True):
    """The store's knowledge when the decision was made. A field left out was not asked for.

    ``verified`` are the assets behind artifacts whose files are there and as recorded.
    ``halted`` is the pause of the job's workflow, ``halted_stages`` are the stages that are paused,
    under whatever workflow they run. ``lent`` are the stages that may begin in the slot which this
    job holds, in the commit that ends its attempt or makes the job. ``holds``: that attempt takes
    from rates, which its provider may hold back."""

    known: Known | None = None
    derived: Known | None = None
    singleton: Known | None = None
    balance: int | None = None
    open_jobs: int = 0
    last_minute: int = 0
    last_day: int = 0
    event: SeenEvent | None = None
    verified: frozenset[str] = frozenset()
    webhook: WebhookFacts | None = None
    halted: Paused | None = None
    halted_stages: frozenset[str] = frozenset()
    lent: frozenset[str] = frozenset()
    holds: HoldTerms | None = None
