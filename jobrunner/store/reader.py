"""The reader that everybody gets: whatever is asked at the same time is answered in one trip.

It keeps to ``core.questions.Reader``. What is found to be so may have changed when the caller hears
of it; whoever builds a decision on it lets the writer check it again.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from jobrunner.core.features.bindings import Binding, Resting, Spot
from jobrunner.core.features.bulk import Bulk, BulkItem
from jobrunner.core.features.deliveries import DeliveryFilter, DeliveryRow, DueDelivery, EndpointRow
from jobrunner.core.job import Attempt, Paused, Snapshot
from jobrunner.core.messages import WebhookFacts
from jobrunner.core.questions import (
    PAGE,
    ArtifactView,
    AssetRow,
    AuditRow,
    Counts,
    Credits,
    DeadLetterRow,
    DoorFacts,
    DoorQuestion,
    DueTimer,
    Gauges,
    HistoryRow,
    JobFilter,
    JobPage,
    LastLife,
    LedgerRow,
    News,
    NewsQuestion,
    OpenAttempt,
    Place,
    Story,
    Token,
    Tombstone,
    Waiting,
)
from jobrunner.errors import StorageError
from jobrunner.ports import Hop
from jobrunner.store import gauges as gauging
from jobrunner.store import jobs as answers
from jobrunner.store.features import bindings, notifications, streams, webhooks
from jobrunner.store.features import bulk as acts
from jobrunner.store.features.health import pulse
from jobrunner.store.listing import jobs, matching
from jobrunner.store.rounds import Rounds

ROUND_QUESTIONS = 64
FAILURES_KEPT = 1000

T = TypeVar("T")
Question = tuple[Callable[..., Any], tuple[Any, ...]]


def answer_all(connection: sqlite3.Connection, asked: list[Question]) -> list[Any]:
    """Runs on the reader's thread: one read transaction. An error is the answer to its question
    alone; one of the transaction itself is everybody's."""
    try:
        _ended(connection)
        connection.execute("BEGIN")
        answers = [_answer(connection, *question) for question in asked]
    except sqlite3.Error as error:
        return [StorageError(f"nothing could be read: {error}") for _ in asked]
    _ended(connection)
    return answers


def _ended(connection: sqlite3.Connection) -> None:
    """Nothing was written, so it is all the same how a transaction ends. One that a failing disk
    does not let end now is ended before the next."""
    for how in ("COMMIT", "ROLLBACK"):
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute(how)


def _answer(
    connection: sqlite3.Connection, question: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    try:
        return question(connection, *arguments)
    except sqlite3.Error as error:
        return StorageError(f"the question {question.__name__!r} could not be answered: {error}")
    except Exception as error:  # noqa: BLE001 - a bug in one answer is not the others'
        return error


class StoreReader:
    def __init__(self, hop: Hop, initial_credits: int) -> None:
        self._hop = hop
        self._initial_credits = initial_credits
        self._failed: list[str] = []
        self._rounds: Rounds[Question, Any] = Rounds(self._answer_all, ROUND_QUESTIONS)

    async def close(self) -> None:
        await self._rounds.close()

    def failures(self) -> str:
        """What could not be answered since this was asked last; nothing when all was."""
        failed, self._failed = self._failed, []
        return f"{len(failed)} questions could not be answered, as: {failed[-1]}" if failed else ""

    async def _answer_all(self, asked: list[Question]) -> list[Any]:
        answers = await self._hop(answer_all, asked)
        self._failed += [str(answer) for answer in answers if isinstance(answer, StorageError)]
        del self._failed[:-FAILURES_KEPT]
        return answers

    async def pulse(self) -> int:
        """The newest epoch in the file, read like everything else."""
        return await self._ask(pulse)

    async def _ask(self, question: Callable[..., T], *arguments: Any) -> T:
        answer = await self._rounds.ask((question, arguments))
        if isinstance(answer, Exception):
            raise answer
        found: T = answer
        return found

    async def job(self, job_id: str) -> Snapshot | None:
        return await self._ask(answers.job, job_id)

    async def tombstone(self, job_id: str) -> Tombstone | None:
        return await self._ask(answers.tombstone, job_id)

    async def jobs(self, which: JobFilter) -> JobPage:
        return await self._ask(jobs, which)

    async def history(
        self, job_id: str, limit: int = PAGE, after: tuple[int, int] = (0, 0)
    ) -> tuple[HistoryRow, ...]:
        return await self._ask(streams.history, job_id, limit, after)

    async def story(self, job_id: str, after: int, limit: int) -> Story | None:
        return await self._ask(streams.story, job_id, after, limit)

    async def news(self, question: NewsQuestion) -> News:
        return await self._ask(streams.news, question)

    async def last_news(self) -> int:
        return await self._ask(streams.last_news)

    async def attempts(self, job_id: str, limit: int = PAGE, after: int = 0) -> tuple[Attempt, ...]:
        return await self._ask(answers.attempts, job_id, limit, after)

    async def assets(self, job_id: str) -> tuple[AssetRow, ...]:
        return await self._ask(answers.assets, job_id)

    async def job_assets(self, job_id: str, limit: int, after: int | None) -> tuple[AssetRow, ...]:
        return await self._ask(answers.job_assets, job_id, limit, after)

    async def clearings(self, limit: int) -> tuple[str, ...]:
        return await self._ask(answers.clearings, limit)

    async def library(
        self, user_id: str | None, limit: int, after: int | None
    ) -> tuple[AssetRow, ...]:
        return await self._ask(answers.library, user_id, limit, after)

    async def asset(self, asset_id: str) -> AssetRow | None:
        return await self._ask(answers.asset, asset_id)

    async def named_by(self, row: AssetRow, workflows: tuple[str, ...]) -> bool:
        return await self._ask(answers.named_by, row, workflows)

    async def artifact(self, job_id: str, name: str, version: int | None) -> ArtifactView | None:
        return await self._ask(answers.artifact, job_id, name, version)

    async def event(self, job_id: str, event_id: str) -> tuple[str, str] | None:
        return await self._ask(answers.event, job_id, event_id)

    async def webhook(self, source: str, webhook_id: str, name: str, since: int) -> WebhookFacts:
        return await self._ask(webhooks.webhook, source, webhook_id, name, since)

    async def old_webhooks(self, kept_before: int, before: int | None) -> bool:
        return await self._ask(webhooks.old_webhooks, kept_before, before)

    async def door(self, question: DoorQuestion) -> DoorFacts:
        return await self._ask(answers.door, question, self._initial_credits)

    async def credits(self, user_id: str) -> Credits:
        return await self._ask(answers.credits_of, user_id, self._initial_credits)

    async def ledger(self, user_id: str, limit: int, after: int | None) -> tuple[LedgerRow, ...]:
        return await self._ask(answers.ledger, user_id, limit, after)

    async def grant(self, user_id: str, key: str) -> LedgerRow | None:
        return await self._ask(answers.grant, user_id, key)

    async def audit(self, limit: int, after: int | None) -> tuple[AuditRow, ...]:
        return await self._ask(answers.audit, limit, after)

    async def dead_letters(
        self, limit: int, after: int | None, hidden: bool
    ) -> tuple[DeadLetterRow, ...]:
        return await self._ask(answers.dead_letters, limit, after, hidden)

    async def token(self, digest: bytes) -> Token | None:
        return await self._ask(answers.token, digest)

    async def tokens(self) -> tuple[Token, ...]:
        return await self._ask(answers.tokens)

    async def due_timers(
        self, now: int, limit: int, workflows: tuple[str, ...]
    ) -> tuple[DueTimer, ...]:
        return await self._ask(answers.due_timers, now, limit, workflows)

    async def next_timer(self, workflows: tuple[str, ...]) -> int | None:
        return await self._ask(answers.next_timer, workflows)

    async def line(
        self,
        limit: int,
        workflows: tuple[str, ...],
        but_not: tuple[str, ...] = (),
        not_at: tuple[tuple[str, str, str], ...] = (),
    ) -> tuple[Waiting, ...]:
        return await self._ask(answers.line, limit, workflows, but_not, not_at)

    async def line_users(self) -> tuple[tuple[str, int], ...]:
        return await self._ask(answers.line_users)

    async def place(self, job: Snapshot, workflows: tuple[str, ...]) -> Place:
        return await self._ask(answers.place, job, workflows)

    async def line_length(self) -> int:
        return await self._ask(answers.line_length)

    async def claimable(
        self, workflow: str, statuses: tuple[str, ...], job_type: str | None, now: int, limit: int
    ) -> tuple[str, ...]:
        return await self._ask(answers.claimable, workflow, statuses, job_type, now, limit)

    async def open_attempts(self, epoch: int) -> tuple[OpenAttempt, ...]:
        return await self._ask(answers.open_attempts, epoch)

    async def last_life(self, epoch: int) -> LastLife | None:
        return await self._ask(answers.last_life, epoch)

    async def declarations(self) -> tuple[tuple[str, str, bytes], ...]:
        return await self._ask(answers.declarations)

    async def bindings(self) -> tuple[Binding, ...]:
        return await self._ask(bindings.bindings)

    async def resting(
        self, places: tuple[Spot, ...], after: int, limit: int
    ) -> tuple[Resting, ...]:
        return await self._ask(bindings.resting, places, after, limit)

    async def pauses(self) -> tuple[tuple[str, str, Paused], ...]:
        return await self._ask(acts.pauses)

    async def bulk(self, bulk_id: str) -> Bulk | None:
        return await self._ask(acts.bulk, bulk_id)

    async def open_bulks(self) -> tuple[Bulk, ...]:
        return await self._ask(acts.open_bulks)

    async def bulk_ahead(self, bulk_id: str, limit: int) -> tuple[BulkItem, ...]:
        return await self._ask(acts.bulk_ahead, bulk_id, limit)

    async def bulk_failures(
        self, bulk_id: str, limit: int, after: int | None
    ) -> tuple[BulkItem, ...]:
        return await self._ask(acts.bulk_failures, bulk_id, limit, after)

    async def ids_of(self, which: JobFilter) -> tuple[tuple[int, str], ...]:
        return await self._ask(matching, which)

    async def counts(self) -> Counts:
        return await self._ask(answers.counts)

    async def gauges(self) -> Gauges:
        return await self._ask(gauging.gauges)

    async def due_deliveries(
        self, now: int, limit: int, closed: tuple[str, ...], flying: tuple[int, ...]
    ) -> tuple[DueDelivery, ...]:
        return await self._ask(notifications.due_deliveries, now, limit, closed, flying)

    async def next_delivery(self, closed: tuple[str, ...], flying: tuple[int, ...]) -> int | None:
        return await self._ask(notifications.next_delivery, closed, flying)

    async def deliveries(self, which: DeliveryFilter) -> tuple[DeliveryRow, ...]:
        return await self._ask(notifications.deliveries, which)

    async def delivery(self, delivery_id: str) -> DeliveryRow | None:
        return await self._ask(notifications.delivery, delivery_id)

    async def endpoints(
        self, limit: int, after: int | None, troubled: bool
    ) -> tuple[EndpointRow, ...]:
        return await self._ask(notifications.endpoints, limit, after, troubled)
