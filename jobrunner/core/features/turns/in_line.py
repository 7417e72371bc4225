"""The line for slots, as the store shows it."""

from typing import Protocol

from msgspec import Struct


class Waiting(Struct, frozen=True):
    """A job in line for a slot of this process. ``turn_key``: it is taken one at a time."""

    job_id: str
    user_id: str
    workflow: str
    status: str
    job_type: str
    priority: int
    line_at: int
    turn_key: str = ""


class LineReader(Protocol):
    """The questions about the line."""

    async def line(
        self,
        limit: int,
        workflows: tuple[str, ...],
        but_not: tuple[str, ...] = (),
        not_at: tuple[tuple[str, str, str], ...] = (),
    ) -> tuple[Waiting, ...]:
        """The jobs that wait for a slot, in order; without the users in ``but_not``, and without
        the places (workflow, status, job type) in ``not_at``."""
        ...

    async def keyed_line(
        self,
        limit: int,
        workflows: tuple[str, ...],
        but_not: tuple[str, ...],
        not_at: tuple[tuple[str, str, str], ...],
        taken: tuple[str, ...],
    ) -> tuple[Waiting, ...]:
        """The same, with keys, and without those whose key is ``taken``."""
        ...

    async def turns(self) -> tuple[tuple[str, str], ...]:
        """Job and key of everybody who has a turn."""
        ...

    async def line_users(self) -> tuple[tuple[int, str, int], ...]:
        """Priority, user, and how many jobs of these wait for a slot."""
        ...
