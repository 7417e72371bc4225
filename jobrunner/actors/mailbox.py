"""A bounded queue with two lanes.

What the outside sends may be refused when the box is full: the door waits a moment for room, then
says so. What the inside sends (outcomes, timers, recovery, and a person's cancel) has a lane of its
own and is never refused: each of them exists at most once per job.
"""

import asyncio
from collections import deque
from typing import Any

from jobrunner.actors.requester import ADDRESS, REQUEST
from jobrunner.core.features.bulk import Tick
from jobrunner.core.messages import Message

CAPACITY = 1024


class Envelope:
    """A message, and whoever waits for the answer; ``tick`` when it is an item of a bulk, ``asked``
    the request that it came by, and ``address`` from where."""

    __slots__ = ("address", "asked", "message", "reply", "tick")

    def __init__(
        self, message: Message, reply: "asyncio.Future[Any]", tick: Tick | None = None
    ) -> None:
        self.message = message
        self.reply = reply
        self.tick = tick
        self.asked = REQUEST.get()
        self.address = ADDRESS.get()


class Mailbox:
    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._inside: deque[Envelope] = deque()
        self._outside: deque[Envelope] = deque()

    def __len__(self) -> int:
        return len(self._inside) + len(self._outside)

    @property
    def full(self) -> bool:
        return len(self._outside) >= self._capacity

    def put(self, letter: Envelope, *, inside: bool) -> None:
        (self._inside if inside else self._outside).append(letter)

    def take(self) -> Envelope | None:
        """The next letter, inside first; None when there is none."""
        if self._inside:
            return self._inside.popleft()
        return self._outside.popleft() if self._outside else None
