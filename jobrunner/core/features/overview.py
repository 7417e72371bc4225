"""How everything stands at a glance: what the first page of the dashboard asks for."""

from typing import Protocol

from jobrunner.core.job import Snapshot

Tally = tuple[tuple[str, str, int], ...]


class OverviewReader(Protocol):
    async def tally_of(self, user_id: str | None, most: int) -> Tally:
        """Count jobs by workflow and status: all, or the newest of one user."""
        ...

    async def retrying(self, workflows: tuple[str, ...], limit: int) -> tuple[Snapshot, ...]:
        """Jobs that failed and will be tried again, the next ones first."""
        ...

    async def parked(self, limit: int) -> tuple[Snapshot, ...]:
        """Jobs that await a callback: of those that were made first, who waits longest first."""
        ...

    async def lately(self, places: tuple[tuple[str, str], ...], limit: int) -> tuple[Snapshot, ...]:
        """Jobs that came to rest in these places (workflow, status), the last ones first."""
        ...
