"""What may be asked of the outbox: the notifications that wait, what became of the others, and the
endpoints that they go to."""

from typing import Protocol

from msgspec import Struct


class DueDelivery(Struct, frozen=True):
    """A notification to be tried now. ``row`` is its integer key, ``tries`` counts all of them and
    ``spent`` those since it was last made due from the start; ``traceparent`` is its job's."""

    row: int
    id: str
    job_id: str
    workflow: str
    user_id: str
    endpoint: int
    owner: str
    lane: str
    url: str
    type: str
    body: str
    tries: int
    spent: int
    traceparent: str | None = None


class DeliveryTry(Struct, frozen=True):
    number: int
    at: int
    latency_ms: int
    http_status: int | None
    error: str


class DeliveryRow(Struct, frozen=True):
    """A notification and what became of it. ``status``: ``due``, ``delivered``, ``failed`` (given
    up) or ``disabled`` (held back)."""

    row: int
    id: str
    job_id: str
    user_id: str
    endpoint: int
    owner: str
    url: str
    type: str
    status: str
    due_at: int | None
    note: str
    created_at: int
    disabled: bool
    tries: tuple[DeliveryTry, ...] = ()


class DeliveryFilter(Struct, frozen=True):
    """Newest first; ``after`` is the row of the last one seen. ``owner`` is whose endpoint."""

    limit: int
    after: int | None = None
    job_id: str | None = None
    owner: str | None = None
    status: str | None = None
    endpoint: int | None = None


class EndpointRow(Struct, frozen=True):
    """``failing_since`` is when its first failure was that no success has followed."""

    id: int
    owner: str
    url: str
    failing_since: int | None
    failures: int
    last_error: str
    disabled_at: int | None
    due: int


class OutboxReader(Protocol):
    async def due_deliveries(
        self, now: int, limit: int, closed: tuple[str, ...], flying: tuple[int, ...]
    ) -> tuple[DueDelivery, ...]:
        """Longest due first; without the lanes in ``closed`` and the rows in ``flying``."""
        ...

    async def next_delivery(
        self, closed: tuple[str, ...], flying: tuple[int, ...]
    ) -> int | None: ...

    async def deliveries(self, which: DeliveryFilter) -> tuple[DeliveryRow, ...]: ...

    async def delivery(self, delivery_id: str) -> DeliveryRow | None: ...

    async def endpoints(
        self, limit: int, after: int | None, troubled: bool
    ) -> tuple[EndpointRow, ...]:
        """Newest first; ``troubled``: only those that are failing or disabled."""
        ...
