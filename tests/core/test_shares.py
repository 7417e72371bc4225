"""Shares: who asks now and then has little, and nobody of many who ask for as much."""

import math
import random

import pytest

from jobrunner.core.features.turns.shares import FORGOTTEN_AT, Shares

LATELY = 4096


def used(shares: Shares, amounts: dict[str, int], rounds: int) -> None:
    for _ in range(rounds):
        for user_id, amount in amounts.items():
            shares.take(user_id, amount)


def test_nobody_has_little_before_somebody_had_much() -> None:
    shares = Shares(LATELY)
    used(shares, {"ada": 1, "eve": 1}, 40)
    assert not any(map(shares.has_little, ("ada", "eve", "kim")))


def test_who_asks_now_and_then_has_little() -> None:
    shares = Shares(LATELY)
    used(shares, {"eve": 100, "ada": 10}, 100)
    assert shares.has_little("ada")
    assert not shares.has_little("eve")
    assert shares.has_little("kim"), "she has never been here"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("users", [1, 2, 10, 100])
def test_none_of_many_who_ask_for_as_much_has_little(seed: int, users: int) -> None:
    """In any order, and also while they are still new."""
    shares, chance = Shares(16 * LATELY), random.Random(seed)
    for number in range(20 * LATELY):
        user_id = str(chance.randrange(users))
        assert not shares.has_little(user_id), number
        shares.take(user_id, 10)


def test_what_was_had_is_forgotten_while_others_have_more() -> None:
    """Nobody makes up for yesterday: whoever had all of it is one of two soon."""
    shares = Shares(LATELY)
    used(shares, {"eve": 100}, 1_000)
    used(shares, {"ada": 100}, 200)
    assert shares.has_little("eve")
    used(shares, {"eve": 100, "ada": 100}, 100)
    assert not shares.has_little("eve")
    assert not shares.has_little("ada")


def test_as_long_as_it_lasts_only_those_are_known_who_had_something_lately() -> None:
    shares = Shares(LATELY)
    for number in range(100_000):
        shares.take(f"user-{number}", 4)
    assert len(shares._had) < LATELY * math.log2(FORGOTTEN_AT)
    assert not shares.has_little("user-99999")
