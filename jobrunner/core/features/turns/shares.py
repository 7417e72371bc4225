"""Tells which users had little lately of what all of them want.

What a user had counts for half when ``lately`` has been given to all since. What is usual is what
had those to whom things were given, and little is less than half of that. So none of a hundred has
little who all take what they can get, whoever asks now and then has little, and nobody makes up for
yesterday at the expense of those who work today.
"""

import math

FORGOTTEN_AT = 256.0
GRAINS = 4096


class Shares:
    def __init__(self, lately: float) -> None:
        self._growth = math.log(2) / lately
        self._grain = lately / GRAINS
        self._had: dict[str, float] = {}
        self._worth = 1.0
        self._usual = 0.0

    def has_little(self, user_id: str) -> bool:
        had = self._had.get(user_id, 0.0) / self._worth
        return had + self._grain < self._usual / 2

    def take(self, user_id: str, amount: float) -> None:
        """Note that a user is given so much. What was given before is not made less, what is given
        later is worth more."""
        self._had[user_id] = had = self._had.get(user_id, 0.0) + amount * self._worth
        share = min(amount * self._growth, 1.0)
        self._usual += (had / self._worth - self._usual) * share
        self._worth *= 1.0 + share
        if self._worth > FORGOTTEN_AT:
            self._forget()

    def _forget(self) -> None:
        """Count anew, without those of whom next to nothing is left."""
        had = {user_id: had / self._worth for user_id, had in self._had.items()}
        self._had = {user_id: left for user_id, left in had.items() if left >= self._grain}
        self._worth = 1.0
