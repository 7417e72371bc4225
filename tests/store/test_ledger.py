"""Entries of the ledger that share a batch: each tells what was left after it."""

import asyncio

import pytest

from jobrunner.store.batch import Written
from jobrunner.store.statements import BLOCK
from jobrunner.store.store import Store
from tests.store.factory import priced

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("units", [BLOCK, BLOCK + 3, 4 * BLOCK])
async def test_two_accounts_take_turns_in_a_batch(store: Store, units: int) -> None:
    """Each had 25 credits: an account that runs out in the middle pays as far as it goes."""
    births = [
        priced(number, cost=1, user_id=("ada", "bob")[number % 2]) for number in range(1, units + 1)
    ]
    outcomes = await asyncio.gather(*(store.commit(birth) for birth in births))
    written = [isinstance(outcome, Written) for outcome in outcomes]
    assert written == [number <= 50 for number in range(1, units + 1)]
    for name in ("ada", "bob"):
        paid = sum(birth.after.user_id == name for birth in births[:50])
        entries = (await store.reader.ledger(name, 100, None))[::-1]
        assert [entry.balance_after for entry in entries] == [25 - n for n in range(paid + 1)]
        assert [entry.held_after for entry in entries] == [*range(paid + 1)]
    assert await store.check() == ()
