"""Webhooks in the file: who awaits which, which came, and that the two never miss each other."""

import asyncio
import sqlite3
from pathlib import Path

import pytest
from msgspec import structs

from jobrunner.core.decision import Clash, Decision, Handed, Unit
from jobrunner.core.facts import Awaited
from jobrunner.core.features.webhooks import KEPT_MS
from jobrunner.core.job import Snapshot
from jobrunner.core.units import Forget, ForgetWebhooks, StoreWebhook, WebhookRow
from jobrunner.store.fsck import check_file
from jobrunner.store.store import Store
from tests.store.factory import (
    NOON,
    attempt,
    birth,
    job,
    moved,
    opened,
    raw,
    refused,
    stored,
)

pytestmark = pytest.mark.anyio
NAME = "provider:k"


def row(
    webhook_id: str = "w-1", *, name: str = NAME, at: int = NOON, reason: str = ""
) -> WebhookRow:
    return WebhookRow("provider", webhook_id, name, at, not reason, reason)


def kept(webhook_id: str = "w-1", *, at: int = NOON, name: str = NAME) -> StoreWebhook:
    return StoreWebhook(row(webhook_id, name=name, at=at, reason="kept"), {"url": "x"})


async def at_work(store: Store, number: int = 1) -> Snapshot:
    running = attempt(1, status="running", holder="stage", epoch=store.epoch)
    after = job(number, status="working", attempt=running, serial=1)
    return await stored(store, birth(after, attempts=(running,)))


def parks(before: Snapshot, name: str = NAME) -> Decision:
    return _turned(before, status="parked", awaits=name, source="provider")


def goes_on(
    before: Snapshot, *, webhook: WebhookRow | None = None, handed: Handed | None = None
) -> Decision:
    turned = _turned(before, status="due", awaits="", source="", answers={NAME: 1})
    return structs.replace(turned, webhook=webhook, handed=handed)


def _turned(before: Snapshot, **changes: object) -> Decision:
    assert before.attempt is not None
    changed = structs.replace(before.attempt, **changes)
    after = structs.replace(
        before, attempt=changed, version=before.version + 1, updated_at=before.updated_at + 10
    )
    return Decision(before=before, after=after, attempts=(changed,))


async def test_who_parks_is_found_by_the_name(store: Store) -> None:
    parked = await stored(store, parks(await at_work(store)))
    known = await store.reader.webhook("provider", "w-1", NAME, 0)
    assert known.awaited == Awaited(parked.id, open=True)
    assert (known.seen, known.kept) == (False, None)
    assert await store.check() == ()
    await stored(store, goes_on(parked, webhook=row()))
    known = await store.reader.webhook("provider", "w-1", NAME, 0)
    assert (known.seen, known.awaited) == (True, Awaited(parked.id, open=False))
    assert await store.check() == ()


async def test_an_id_is_taken_once_and_per_source(store: Store) -> None:
    parked = await stored(store, parks(await at_work(store)))
    told = await stored(store, goes_on(parked, webhook=row()))
    again = await stored(store, parks(told))
    assert await refused(store, goes_on(again, webhook=row())) == "webhook"
    other = structs.replace(row(), source="another")
    assert not isinstance(await store.commit(goes_on(again, webhook=other)), Clash)


async def test_one_that_nobody_awaits_is_kept_and_handed_over(store: Store) -> None:
    running = await at_work(store)
    await store.commit(kept())
    known = await store.reader.webhook("provider", "", NAME, NOON)
    assert known.kept is not None
    assert known.kept.value == {"url": "x"}
    assert await refused(store, parks(running)) == "awaited"
    await stored(store, goes_on(running, handed=Handed(known.kept.row, NAME)))
    known = await store.reader.webhook("provider", "w-1", NAME, NOON)
    assert (known.seen, known.kept) == (True, None)
    assert known.awaited == Awaited(running.id, open=False)
    assert await store.check() == ()


async def test_who_came_to_await_it_meanwhile_is_not_passed_over(store: Store) -> None:
    await stored(store, parks(await at_work(store)))
    assert await refused(store, kept()) == "awaited"
    over = StoreWebhook(row("w-2", reason="over"))
    assert await refused(store, over) == "awaited"


async def test_one_that_is_too_old_is_not_waited_for(store: Store) -> None:
    running = await at_work(store)
    await store.commit(kept(at=NOON - KEPT_MS))
    await stored(store, parks(running))
    assert await store.check() == ()


async def test_a_name_is_for_one_job(store: Store) -> None:
    first, second = await at_work(store, 1), await at_work(store, 2)
    parked = await stored(store, parks(first))
    assert await refused(store, parks(second)) == "awaited"
    await stored(store, goes_on(parked))
    await stored(store, parks(second))
    assert await store.check() == ()


async def test_in_one_batch_they_do_not_miss_each_other(store: Store) -> None:
    """R-P4: of the two that come at once, one is refused and looks again."""
    for number in range(1, 41):
        running = await at_work(store, number)
        name = f"provider:{number}"
        units: list[Unit] = [parks(running, name), kept(f"w-{number}", name=name)]
        outcomes = await asyncio.gather(*map(store.commit, units[:: 1 if number % 2 else -1]))
        clashes = [one.reason for one in outcomes if isinstance(one, Clash)]
        assert clashes == ["awaited"], outcomes
    assert await store.check() == ()


async def test_in_one_batch_each_is_looked_at_in_its_turn(store: Store) -> None:
    """A late one behind the commit that parks anew is no late one any more."""
    parked = await stored(store, parks(await at_work(store)))
    told = await stored(store, goes_on(parked, webhook=row()))
    late = StoreWebhook(row("w-2", reason="over"))
    outcomes = await asyncio.gather(store.commit(parks(told)), store.commit(late))
    assert [getattr(one, "reason", "") for one in outcomes] == ["", "awaited"]


async def test_copies_in_one_batch(store: Store) -> None:
    outcomes = await asyncio.gather(*(store.commit(kept()) for _ in range(200)))
    assert sum(not isinstance(one, Clash) for one in outcomes) == 1


async def test_a_deleted_job_leaves_its_names_and_ids(store: Store, tmp_path: Path) -> None:
    parked = await stored(store, parks(await at_work(store)))
    told = await stored(store, goes_on(parked, webhook=row()))
    over = structs.replace(told, attempt=None, locks=())
    ended = attempt(1, status="ended")
    gone = await stored(
        store,
        structs.replace(
            moved(told, "done"), attempts=(ended,), after=structs.replace(moved(over, "done").after)
        ),
    )
    await store.commit(Forget(gone, NOON, "ada"))
    known = await store.reader.webhook("provider", "w-1", NAME, 0)
    assert (known.seen, known.awaited) == (True, Awaited(None, open=False))
    assert await store.reader.old_webhooks(0, NOON + 1_000)
    await store.commit(ForgetWebhooks(0, NOON + 1_000))
    known = await store.reader.webhook("provider", "w-1", NAME, 0)
    assert (known.seen, known.awaited) == (False, None)
    assert not await store.reader.old_webhooks(0, NOON + 1_000)


async def test_what_is_of_a_job_is_not_forgotten_before_it(store: Store) -> None:
    parked = await stored(store, parks(await at_work(store)))
    await stored(store, goes_on(parked, webhook=row()))
    assert not await store.reader.old_webhooks(2**60, 2**60)
    await store.commit(ForgetWebhooks(2**60, 2**60))
    assert (await store.reader.webhook("provider", "w-1", NAME, 0)).seen


async def test_what_nobody_came_for_expires_and_its_id_stays(store: Store) -> None:
    await store.commit(kept())
    assert await store.reader.old_webhooks(NOON + 1, None)
    await store.commit(ForgetWebhooks(NOON + 1, None))
    known = await store.reader.webhook("provider", "w-1", NAME, 0)
    assert (known.seen, known.kept) == (True, None)
    assert not await store.reader.old_webhooks(NOON + 1, None)


async def test_a_storm_of_old_ones_is_forgotten_in_parts(store: Store, tmp_path: Path) -> None:
    with raw(tmp_path) as db:
        db.executemany(
            "INSERT INTO webhooks (source, webhook_id, name, at, applied, reason) "
            "VALUES ('provider', ?, 'provider:k', 1, 0, 'over')",
            [(f"w-{number}",) for number in range(2_500)],
        )
    left = []
    while await store.reader.old_webhooks(0, 2):
        await store.commit(ForgetWebhooks(0, 2))
        with raw(tmp_path) as db:
            left.append(db.execute("SELECT count(*) FROM webhooks").fetchone()[0])
    assert left == [1_500, 500, 0]


PLANTED = [
    ("UPDATE awaits SET open = 0", "and the table of names does not say so"),
    ("UPDATE awaits SET serial = 9", "is said to be awaited by job job-000001"),
    (
        (
            "INSERT INTO webhooks (source, webhook_id, name, at, applied, reason, value) "
            f"VALUES ('provider', 'w-9', '{NAME}', {NOON + 99}, 0, 'kept', '1')"
        ),
        "the webhook w-9 of provider is kept, though job job-000001 awaits it",
    ),
]


@pytest.mark.parametrize(("defect", "said"), PLANTED)
async def test_what_was_broken_on_purpose_is_found(tmp_path: Path, defect: str, said: str) -> None:
    async with opened(tmp_path) as store:
        await stored(store, parks(await at_work(store)))
    with raw(tmp_path) as db:
        db.execute(defect)
    assert any(said in fault for fault in check_file(str(tmp_path / "jobs.db")))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM webhooks WHERE source = 'x' AND webhook_id = 'y'",
        "SELECT 1 FROM webhooks WHERE name = 'x' AND value IS NOT NULL AND at >= 1 ORDER BY id",
        "SELECT 1 FROM webhooks WHERE job IS NULL AND value IS NULL AND at < 5",
        "SELECT 1 FROM awaits WHERE name = 'x'",
        "SELECT 1 FROM awaits WHERE job IS NULL AND at < 5",
        "SELECT 1 FROM awaits WHERE job = 5",
        "SELECT 1 FROM webhooks WHERE job = 5",
    ],
)
async def test_no_question_walks_a_table(store: Store, tmp_path: Path, sql: str) -> None:
    with raw(tmp_path) as db:
        plan = [step[3] for step in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert all("SEARCH" in step or "TEMP" in step for step in plan), plan


async def test_a_value_stays_only_while_it_waits(store: Store, tmp_path: Path) -> None:
    """The file itself forbids a webhook that was applied and waits."""
    with raw(tmp_path) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute(
            "INSERT INTO webhooks (source, webhook_id, name, at, applied, reason, value) "
            "VALUES ('provider', 'w', 'n', 1, 1, '', '1')"
        )
