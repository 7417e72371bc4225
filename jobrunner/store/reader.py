"""The reader that everybody gets: whatever is asked at the same time is answered in one trip.

What is found to be so may have changed when the caller hears of it; whoever builds a decision on it
lets the writer check it again.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Concatenate, ParamSpec, TypeVar

from jobrunner.core.questions import Credits, DoorFacts, DoorQuestion
from jobrunner.errors import StorageError
from jobrunner.ports import StoreThread
from jobrunner.store import gauges as gauging
from jobrunner.store import jobs as answers
from jobrunner.store import listing
from jobrunner.store.askable import asks
from jobrunner.store.features import answers as posed
from jobrunner.store.features import assets as shelved
from jobrunner.store.features import audit as acts
from jobrunner.store.features import bindings as bound
from jobrunner.store.features import credits as money
from jobrunner.store.features import notifications, overview, streams, webhooks
from jobrunner.store.features import pauses as paused
from jobrunner.store.features import sessions as signed_in
from jobrunner.store.features import tokens as bearers
from jobrunner.store.features.bulk import BulkAnswers
from jobrunner.store.features.families.batches import BatchAnswers
from jobrunner.store.features.families.families import FamilyAnswers
from jobrunner.store.features.schedules import schedules as planned
from jobrunner.store.features.turns import claimable, in_line
from jobrunner.store.features.turns import limits as bounds
from jobrunner.store.features.turns import one_at_a_time as keyed
from jobrunner.store.features.turns import rates as paces
from jobrunner.store.features.upgrades import replays, upgrades
from jobrunner.store.keeping import health
from jobrunner.store.keeping.desk import KeepingAnswers
from jobrunner.store.rounds import InOrder, Rounds

ROUND_QUESTIONS = 64
FAILURES_KEPT = 1000

P = ParamSpec("P")
T = TypeVar("T")
Question = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


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
    """End the transaction in any way, since nothing was written. One that a failing disk does not
    let end now is ended before the next."""
    for how in ("COMMIT", "ROLLBACK"):
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute(how)


def _answer(
    connection: sqlite3.Connection,
    question: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    try:
        return question(connection, *arguments, **named)
    except sqlite3.Error as error:
        return StorageError(f"the question {question.__name__!r} could not be answered: {error}")
    except Exception as error:  # noqa: BLE001 - a bug in one answer is not the others'
        return error


class StoreReader(FamilyAnswers, BatchAnswers, BulkAnswers, KeepingAnswers):
    def __init__(self, hop: StoreThread, initial_credits: int) -> None:
        self._hop = hop
        self._initial_credits = initial_credits
        self._failed: list[str] = []
        self._rounds: Rounds[Question, Any] = Rounds(self._answer_all, InOrder(ROUND_QUESTIONS))

    async def close(self) -> None:
        await self._rounds.close()

    def failures(self) -> str:
        """Say what could not be answered since this was asked last; nothing when all was."""
        failed, self._failed = self._failed, []
        return f"{len(failed)} questions could not be answered, as: {failed[-1]}" if failed else ""

    async def _answer_all(self, asked: list[Question]) -> list[Any]:
        answers = await self._hop(answer_all, asked)
        self._failed += [str(answer) for answer in answers if isinstance(answer, StorageError)]
        del self._failed[:-FAILURES_KEPT]
        return answers

    async def ask(
        self,
        question: Callable[Concatenate[sqlite3.Connection, P], T],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        answer = await self._rounds.ask((question, arguments, named))
        if isinstance(answer, Exception):
            raise answer
        found: T = answer
        return found

    async def door(self, question: DoorQuestion) -> DoorFacts:
        return await self.ask(answers.door, question, self._initial_credits)

    async def credits(self, user_id: str) -> Credits:
        return await self.ask(answers.credits_of, user_id, self._initial_credits)

    pulse = asks(health.pulse)
    job = asks(answers.job)
    tombstone = asks(answers.tombstone)
    jobs = asks(listing.jobs)
    history = asks(streams.history)
    story = asks(streams.story)
    news = asks(streams.news)
    last_news = asks(streams.last_news)
    attempts = asks(answers.attempts)
    assets = asks(answers.assets)
    job_assets = asks(answers.job_assets)
    clearings = asks(answers.clearings)
    library = asks(shelved.library)
    asset = asks(shelved.asset)
    named_by = asks(shelved.named_by)
    artifact = asks(answers.artifact)
    event = asks(answers.event)
    webhook = asks(webhooks.webhook)
    old_webhooks = asks(webhooks.old_webhooks)
    question_of = asks(posed.question_of)
    question_named = asks(posed.question_named)
    pending_answers = asks(posed.pending_answers)
    ledger = asks(money.ledger)
    grant = asks(money.grant)
    audit = asks(acts.audit)
    dead_letters = asks(acts.dead_letters)
    token = asks(bearers.token)
    session = asks(signed_in.session)
    tokens = asks(bearers.tokens)
    due_timers = asks(answers.due_timers)
    next_timer = asks(answers.next_timer)
    line = asks(in_line.line)
    line_users = asks(in_line.line_users)
    place = asks(in_line.place)
    claimable = asks(claimable.claimable)
    open_attempts = asks(answers.open_attempts)
    last_life = asks(answers.last_life)
    declarations = asks(answers.declarations)
    under_way = asks(upgrades.under_way)
    older = asks(upgrades.older)
    needless = asks(upgrades.needless)
    decisions = asks(replays.decisions)
    declarations_of = asks(replays.declarations_of)
    upgrades = asks(upgrades.upgrades)
    bindings = asks(bound.bindings)
    resting = asks(bound.resting)
    pauses = asks(paused.pauses)
    keyed_line = asks(keyed.keyed_line)
    turns = asks(keyed.turns)
    orders = asks(bounds.orders)
    rates = asks(paces.rates)
    in_line_by = asks(paces.in_line_by)
    ahead_at = asks(paces.ahead_at)
    schedules = asks(planned.schedules)
    firing = asks(planned.firing)
    firings = asks(planned.firings)
    ids_of = asks(listing.matching)
    counts = asks(answers.counts)
    gauges = asks(gauging.gauges)
    tally_of = asks(overview.tally_of)
    retrying = asks(overview.retrying)
    parked = asks(overview.parked)
    lately = asks(overview.lately)
    due_deliveries = asks(notifications.due_deliveries)
    next_delivery = asks(notifications.next_delivery)
    deliveries = asks(notifications.deliveries)
    delivery = asks(notifications.delivery)
    endpoints = asks(notifications.endpoints)
