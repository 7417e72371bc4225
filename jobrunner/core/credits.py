"""Credits on an edge. What a kind does to balance and hold is arithmetic of the ledger; what is
decided here is only whether it may happen now, and that it happens once a run."""

from typing import Literal

from jobrunner.core.decision import CreditEntry
from jobrunner.core.declaration.workflow import Definition, Money
from jobrunner.core.draft import Draft
from jobrunner.core.job import Snapshot
from jobrunner.core.questions import LedgerRow
from jobrunner.core.units import Grant
from jobrunner.errors import Refused

Standing = Literal["none", "held", "captured", "released", "charged", "refunded"]

TAKES: tuple[Money, ...] = ("hold", "charge")
AFTER: dict[Money, Standing] = {
    "hold": "held",
    "capture": "captured",
    "release": "released",
    "charge": "charged",
    "refund": "refunded",
}
NEEDS: dict[Money, frozenset[Standing]] = {
    "hold": frozenset({"none", "released", "captured"}),
    "capture": frozenset({"held"}),
    "release": frozenset({"held"}),
    "charge": frozenset({"none", "refunded"}),
    "refund": frozenset({"charged"}),
}


def move_money(draft: Draft, kind: Money | None, reason: str | None = None) -> Refused | None:
    """Adds the ledger entry that an edge declares; a cost of 0 moves nothing. What is held or
    charged costs the price of today, and is settled at its own amount."""
    if kind is None:
        return None
    if kind in TAKES and (price := price_of(draft.definition, draft.job)) != draft.job.cost:
        draft.set(cost=price)
    job = draft.job
    if job.cost == 0:
        return None
    assert job.credits in NEEDS[kind], f"{kind} of job {job.id} while its credits are {job.credits}"
    if kind in TAKES and (short := _too_little(draft)):
        return short
    draft.ledger += (CreditEntry(kind, job.cost, job.user_id, job.run_id, reason or ""),)
    draft.log(f"credits.{AFTER[kind]}", amount=job.cost)
    draft.set(credits=AFTER[kind])
    return None


def price_of(definition: Definition, job: Snapshot) -> int:
    """Name the credits that the next hold or charge takes; a parent may have paid for its child."""
    covered = job.parent is not None and job.parent.covered
    return 0 if covered else definition.job_types[job.job_type].price


def _too_little(draft: Draft) -> Refused | None:
    balance = draft.case.facts.balance
    if balance is None or balance >= draft.job.cost:
        return None
    return Refused(
        "INSUFFICIENT_CREDITS",
        f"this costs {draft.job.cost} credits and {balance} are left; ask for more credits",
        balance=balance,
        required=draft.job.cost,
    )


def granted_otherwise(grant: Grant, before: LedgerRow) -> Refused | None:
    """Refuse a grant under a key that stands for another one."""
    if (before.amount, before.reason) == (grant.amount, grant.reason):
        return None
    return Refused(
        "IDEMPOTENCY_MISMATCH",
        f"under this key {grant.user_id} was given {before.amount} credits before, for "
        f"{before.reason!r}; other credits need another key",
    )
