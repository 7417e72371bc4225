"""The outbox in the file: a notification commits with what it tells of, or not at all."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jobrunner.core.decision import Notification
from jobrunner.core.features.notifications import DeliveryFilter, DeliveryRow
from jobrunner.core.units import EnableEndpoint, Forget, Redeliver, Tried
from jobrunner.errors import StorageFull
from jobrunner.store.features.statements import WAITING_MAX
from jobrunner.store.store import Store
from tests.store.factory import NOON, birth, job, moved, opened, raw, refused, stored

pytestmark = pytest.mark.anyio

LATER = NOON + 10**9
HOOK = "https://a.example/hook"


def note(number: int, url: str = HOOK, owner: str = "ada") -> Notification:
    return Notification(f"n{number}", owner, f"{owner} {url}", url, "job.ended", "{}")


def tried(row: int, number: int, outcome: Any = "due", **more: Any) -> Tried:
    due_at = LATER if outcome == "due" else None
    return Tried(row, number, NOON, 5, more.get("status"), more.get("error", "no"), outcome, due_at)


async def due(store: Store, *closed: str, flying: tuple[int, ...] = (), limit: int = 100) -> Any:
    rows = await store.reader.due_deliveries(LATER, limit, closed, flying)
    return [row.id for row in rows]


async def one(store: Store, delivery_id: str) -> DeliveryRow:
    found = await store.reader.delivery(delivery_id)
    assert found is not None
    return found


async def test_it_commits_with_its_transition_or_not_at_all(tmp_path: Path) -> None:
    """A clash refuses the move and what would have been told of it; a commit has both."""
    async with opened(tmp_path) as store:
        first = await stored(store, birth(job(1)))
        await stored(store, moved(first, "working"))
        stale = replace(moved(first, "working"), notifications=(note(1),))
        assert await refused(store, stale) == "version"
        assert await due(store) == []
        assert await store.reader.endpoints(10, None, troubled=False) == ()
        await stored(store, birth(job(2), notifications=(note(2), note(3, "https://b.example"))))
        assert await due(store) == ["n2", "n3"]
        assert await store.check() == ()


async def test_a_full_disk_keeps_neither(tmp_path: Path) -> None:
    """R17"""
    async with opened(tmp_path) as store:
        with raw(tmp_path) as db:
            pages = db.execute("PRAGMA page_count").fetchone()[0]
        await store._writer._hop(lambda db: db.execute(f"PRAGMA max_page_count = {pages}"))
        big = "x" * 10**6
        with pytest.raises(StorageFull):
            await stored(store, birth(job(1, params={"big": big}), notifications=(note(1),)))
        assert await due(store) == []
        assert await store.reader.job(job(1).id) is None


async def test_the_same_notification_is_never_stored_twice(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await stored(store, birth(job(1), notifications=(note(1),)))
        with pytest.raises(sqlite3.IntegrityError):
            await store.commit(birth(job(2), notifications=(note(1),)))
        assert await store.reader.job(job(2).id) is None


async def test_a_window_leaves_out_closed_lanes_and_what_flies(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for number in range(6):
            url = HOOK if number % 2 else "https://b.example"
            await stored(store, birth(job(number), notifications=(note(number, url),)))
        assert await due(store, limit=3) == ["n0", "n1", "n2"]
        assert await due(store, f"ada {HOOK}") == ["n0", "n2", "n4"]
        rows = await store.reader.due_deliveries(LATER, 10, (), ())
        flying = tuple(row.row for row in rows[:4])
        assert await due(store, flying=flying) == ["n4", "n5"]
        assert await store.reader.next_delivery((), ()) == rows[0].row - 1 + NOON
        lanes = (f"ada {HOOK}", "ada https://b.example")
        assert await store.reader.next_delivery(lanes, ()) is None


async def test_a_try_is_written_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await stored(store, birth(job(1), notifications=(note(1),)))
        assert not hasattr(await store.commit(tried(1, 1)), "reason")
        assert await refused(store, tried(1, 1)) == "missing"
        await store.commit(tried(1, 2, "delivered", status=200, error=""))
        found = await one(store, "n1")
        assert (found.status, found.due_at) == ("delivered", None)
        assert [(t.number, t.http_status, t.error) for t in found.tries] == [
            (1, None, "no"),
            (2, 200, ""),
        ]
        assert await store.check() == ()


async def test_an_endpoint_that_fails_is_marked_until_it_is_well(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for number in (1, 2):
            await stored(store, birth(job(number), notifications=(note(number),)))
        await store.commit(tried(1, 1))
        await store.commit(tried(2, 1))
        (marked,) = await store.reader.endpoints(10, None, troubled=True)
        assert (marked.failing_since, marked.failures, marked.last_error) == (NOON, 2, "no")
        await store.commit(tried(1, 2, "delivered", status=204, error=""))
        assert await store.reader.endpoints(10, None, troubled=True) == ()


async def test_gone_holds_back_everything_to_that_endpoint_and_nothing_else(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as store:
        told = (note(1), note(2), note(3, owner="eve"), note(4, "https://a.example/other"))
        await stored(store, birth(job(1), notifications=told))
        await store.commit(tried(1, 1, "disabled", status=410))
        await stored(store, birth(job(2), notifications=(note(5),)))
        assert sorted(await due(store)) == ["n3", "n4"]
        assert [(await one(store, f"n{n}")).status for n in (1, 2, 5)] == ["disabled"] * 3
        assert await refused(store, Redeliver("n5", LATER, "ada", job(2).id)) == "missing"
        assert await store.check() == ()

        await store.commit(EnableEndpoint(1, LATER, "root"))
        assert await refused(store, EnableEndpoint(1, LATER, "root")) == "missing"
        assert sorted(await due(store)) == ["n1", "n2", "n3", "n4", "n5"]
        events = [row.event for row in await store.reader.audit(10, None)]
        assert {"endpoint.disabled", "endpoint.enabled"} <= set(events)


async def test_a_try_under_way_while_its_endpoint_is_disabled_is_held_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await stored(store, birth(job(1), notifications=(note(1), note(2), note(3))))
        await store.commit(tried(1, 1, "disabled", status=410))
        await store.commit(tried(2, 1, "due"))
        await store.commit(tried(3, 1, "delivered", status=200))
        assert (await one(store, "n2")).status == "disabled"
        assert (await one(store, "n3")).status == "delivered"
        assert await store.check() == ()


async def test_what_is_redelivered_starts_afresh_under_its_id(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await stored(store, birth(job(1), notifications=(note(1),)))
        await store.commit(tried(1, 1, "failed"))
        await store.commit(Redeliver("n1", LATER, "ada", job(1).id))
        (again,) = await store.reader.due_deliveries(LATER, 10, (), ())
        assert (again.id, again.tries, again.spent) == ("n1", 1, 0)
        audited = (await store.reader.audit(1, None))[0]
        assert (audited.event, audited.actor) == ("delivery.redelivered", "ada")


async def test_nobody_piles_up_without_end(tmp_path: Path) -> None:
    """R11, R12: a user has so many waiting; more are kept as given up, with the reason. Neither
    another user nor an operator's endpoint is counted with them."""
    async with opened(tmp_path) as store:
        many = tuple(note(number) for number in range(WAITING_MAX + 2))
        others = (note(5000, owner="eve"), note(5001, owner="workflow:toy"))
        await stored(store, birth(job(1), notifications=many + others))
        over = await store.reader.deliveries(DeliveryFilter(10, status="failed"))
        assert [row.id for row in over] == [f"n{WAITING_MAX + 1}", f"n{WAITING_MAX}"]
        assert "wait already" in over[0].note
        assert (await one(store, "n5000")).status == (await one(store, "n5001")).status == "due"


async def test_the_log_is_paged_and_narrowed(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        for number in range(5):
            owner = "eve" if number == 3 else "ada"
            await stored(store, birth(job(number), notifications=(note(number, owner=owner),)))
        await store.commit(tried(1, 1, "failed"))

        async def ids(**which: Any) -> list[str]:
            found = await store.reader.deliveries(DeliveryFilter(**{"limit": 10, **which}))
            return [row.id for row in found]

        assert await ids(limit=2) == ["n4", "n3"]
        assert await ids(after=4) == ["n2", "n1", "n0"]
        assert await ids(owner="eve") == ["n3"]
        assert await ids(status="failed") == ["n0"]
        assert await ids(job_id=job(2).id) == ["n2"]
        assert await ids(endpoint=1, status="due") == ["n4", "n2", "n1"]


async def test_all_of_it_goes_with_its_job(tmp_path: Path) -> None:
    """DESIGN 8.7: deliveries, tries and an endpoint that nobody else has."""
    async with opened(tmp_path) as store:
        first = await stored(
            store, birth(job(1, status="done"), notifications=(note(1), note(2, "https://b.ex")))
        )
        await stored(store, birth(job(2, status="done"), notifications=(note(3),)))
        await store.commit(tried(1, 1))
        await store.commit(Forget(first, LATER, "ada"))
        with raw(tmp_path) as db:
            assert db.execute("SELECT count(*) FROM delivery_tries").fetchone() == (0,)
        assert [row.url for row in await store.reader.endpoints(9, None, troubled=False)] == [HOOK]
        assert await due(store) == ["n3"]
        assert await refused(store, tried(1, 2)) == "missing"
        assert await store.check() == ()


FAULTS = [
    ("UPDATE deliveries SET tries = 2, spent = 2 WHERE uid = 'n1'", "says that it was tried 2"),
    ("UPDATE endpoints SET disabled_at = 1 WHERE id = 1", "disabled"),
    (
        "UPDATE deliveries SET status = 'delivered', due_at = NULL WHERE uid = 'n1'",
        "no try of it was a success",
    ),
]


@pytest.mark.parametrize(("defect", "sentence"), FAULTS)
async def test_the_check_of_the_file_knows_its_laws(
    tmp_path: Path, defect: str, sentence: str
) -> None:
    async with opened(tmp_path) as store:
        await stored(store, birth(job(1, status="queued"), notifications=(note(1),)))
        await store.commit(tried(1, 1))
        assert await store.check() == ()
        with raw(tmp_path) as db:
            db.execute(defect)
        (fault,) = await store.check()
        assert sentence in fault
