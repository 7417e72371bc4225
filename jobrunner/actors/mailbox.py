"""A bounded line of letters with two lanes. A letter is read by the task that brought it, when its
turn comes: so no task waits for letters, and an answer needs no way back.

What the outside sends may be refused when the box is full: the door waits a moment for room, then
says so. What the inside sends (outcomes, timers, recovery, and a person's cancel) has a lane of its
own and is never refused: each of them exists at most once per job.
"""

import asyncio
from collections import deque

CAPACITY = 1024


class Mailbox:
    """``open`` while somebody's letter is being dealt with; whoever finds it closed may open it
    instead of waiting for a turn. Hardly any letter waits: the lanes are made for the first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._lanes: tuple[deque[asyncio.Future[None]], ...] = ()
        self.open = False

    def __len__(self) -> int:
        """How many letters wait, the one at hand not counted."""
        return sum(map(len, self._lanes))

    @property
    def full(self) -> bool:
        return bool(self._lanes) and len(self._lanes[1]) >= self._capacity

    async def turn(self, *, inside: bool) -> None:
        """Wait for one's turn, which lasts until ``next``."""
        if not self.open:
            self.open = True
            return
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lanes = self._lanes or (deque(), deque())
        self._lanes[0 if inside else 1].append(come)
        try:
            await come
        except BaseException:
            if not come.cancelled():
                self.next()  # it had come just then
            raise

    def next(self) -> None:
        """Give the turn to the next one, inside first, that still waits for it."""
        while self._lanes and (lane := self._lanes[0] or self._lanes[1]):
            come = lane.popleft()
            if not come.done():
                come.set_result(None)
                return
        self.open = False
