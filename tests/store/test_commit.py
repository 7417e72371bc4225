"""One unit, or many at once: what is written, what is refused, and what the others notice of it."""

import asyncio
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec import structs

from jobrunner.core.decision import (
    Clash,
    CreditEntry,
    DeadLetter,
    Decision,
    EventRow,
    KeyRow,
    QuotaAssert,
    Unit,
)
from jobrunner.core.job import Artifact, Asset, HeldLock, Snapshot, Timer
from jobrunner.core.questions import Credits, DoorQuestion, JobFilter
from jobrunner.core.units import AuditRecord, Forget, NewToken, Note, RevokeToken
from jobrunner.errors import StorageError
from jobrunner.store.batch import Written
from jobrunner.store.rows import APART, HOT, REST
from jobrunner.store.statements import BLOCK
from jobrunner.store.store import Store
from tests.store.factory import (
    NOON,
    attempt,
    beaten,
    birth,
    counted,
    everything,
    failure,
    grant,
    job,
    keyed,
    moved,
    opened,
    plain_hop,
    priced,
    raw,
    refused,
    stored,
)

pytestmark = pytest.mark.anyio
EVERYONE = JobFilter(limit=100)


async def together(store: Store, units: list[Unit]) -> list[Written | Clash | Exception]:
    return await asyncio.gather(*(store.commit(unit) for unit in units), return_exceptions=True)  # type: ignore[return-value]


async def test_a_snapshot_comes_back_as_it_went_in(store: Store) -> None:
    """Every field has a place: a column, a table of its own, or the rest."""
    assert sorted((*HOT, *APART, *REST)) == sorted(Snapshot.__struct_fields__)
    decision = everything(1)
    born = await stored(store, decision)
    assert born == structs.replace(decision.after, row=born.row)
    assert await store.reader.job(born.id) == born


async def test_changes_are_found_by_comparing_before_and_after(store: Store) -> None:
    born = await stored(store, everything(1))
    second = Artifact("draft", 2, "new", NOON + 1, "ada")
    other = Artifact("metrics", 1, [1], NOON + 1)
    ended = attempt(1, status="ended", outcome="failed", failure=failure())
    asset = Asset("asset-1", "image", "/x", "ada/1/x.png", 12, "ff", NOON)
    step = moved(
        born,
        "queued",
        artifacts={"draft": second, "metrics": other},
        attempt=None,
        locks=(HeldLock("editor", "run-1", "external", 1, NOON),),
        timers=(Timer("limit", NOON + 5),),
        labels={},
        result=None,
        line_at=NOON,
    )
    after = await stored(
        store,
        structs.replace(step, artifacts=(second, other), attempts=(ended,), assets=(asset,)),
    )
    assert await store.reader.job(born.id) == after
    assert await store.reader.attempts(born.id) == (ended,)
    view = await store.reader.artifact(born.id, "draft", None)
    assert view is not None
    assert (view.artifact, view.versions) == (second, ((1, NOON), (2, NOON + 1)))
    assert [row.asset for row in await store.reader.assets(born.id)] == [asset]
    assert await store.check() == ()


async def test_an_artifact_that_is_dropped_is_no_longer_current(store: Store) -> None:
    born = await stored(store, everything(1))
    await stored(store, moved(born, "working", artifacts={}))
    found = await store.reader.job(born.id)
    assert found is not None
    assert found.artifacts == {}
    assert await store.reader.artifact(born.id, "draft", 1) is not None


async def test_progress_leaves_the_version_alone(store: Store) -> None:
    born = await stored(store, everything(1))
    after = await stored(store, beaten(born, 70))
    assert (after.version, after.beat, after.progress) == (1, 1, 70)
    assert await store.reader.job(born.id) == after
    assert await refused(store, beaten(born, 80)) == "version"


async def test_a_decision_about_a_job_never_read_is_a_bug(store: Store) -> None:
    with pytest.raises(AssertionError, match="without having been read"):
        await store.commit(moved(job(1), "done"))


async def test_rows_that_only_grow(store: Store) -> None:
    born = await stored(store, priced(1))
    step = moved(born, "broken", "release", credits="released")
    letter = DeadLetter("exhausted", failure(), hidden=True)
    said = AuditRecord("SAFE_BLOCK", "engine", {"phase": "preflight"})
    await stored(
        store,
        structs.replace(
            step, dead_letters=(letter,), audits=(said,), event=EventRow("e-1", "dig", NOON)
        ),
    )
    first, second = await store.reader.history(born.id)
    assert (first.version, first.hop, first.from_status, first.to_status) == (1, 1, None, "queued")
    assert (second.version, second.from_status, second.to_status) == (2, "queued", "broken")
    assert second.seq > first.seq
    (dead,) = await store.reader.dead_letters(10, None, hidden=True)
    assert (dead.job_id, dead.reason, dead.failure_code) == (born.id, "exhausted", "BOOM")
    assert await store.reader.dead_letters(10, None, hidden=False) == ()
    (audit,) = await store.reader.audit(10, None)
    assert (audit.event, audit.job_id, audit.fields) == (
        "SAFE_BLOCK", born.id, {"phase": "preflight"},
    )  # fmt: skip
    assert await store.reader.event(born.id, "e-1") == ("e-1", "dig")
    assert await store.reader.event(born.id, "e-0") is None


# ------------------------------------------------------------------------------------ refusals


async def arrange(store: Store, reason: str) -> Unit:
    """A unit that is bound to clash, for this reason."""
    born = await stored(store, keyed(900, "taken", user_id="eve"))
    match reason:
        case "version":
            await stored(store, moved(born, "resting"))
            return moved(born, "done")
        case "key":
            return keyed(901, "taken", user_id="eve")
        case "balance":
            return priced(901, cost=26, user_id="eve")
        case "event":
            heard = structs.replace(moved(born, "resting"), event=EventRow("e", "d", NOON))
            at = await stored(store, heard)
            return structs.replace(moved(at, "done"), event=EventRow("e", "d", NOON))
        case "quota":
            await stored(store, counted(902, QuotaAssert(open_jobs=1), user_id="eve"))
            return counted(901, QuotaAssert(open_jobs=1), user_id="eve")
        case "ledger":
            paid = await stored(store, priced(901, user_id="eve"))
            freed = moved(paid, "broken", "release", credits="released")
            return moved(await stored(store, freed), "broken", "release")
        case "exists":
            return birth(job(900))
        case "missing":
            return RevokeToken("nobody", NOON, "root")
    raise AssertionError(reason)


def affordable(numbers: range) -> list[Decision]:
    """More births with a price than one account could pay for."""
    return [priced(number, cost=1, user_id=f"ada-{number % 2}") for number in numbers]


REASONS = ["version", "key", "balance", "event", "quota", "ledger", "exists", "missing"]


@pytest.mark.parametrize("reason", REASONS)
async def test_a_refused_unit_of_a_batch_is_refused_alone(store: Store, reason: str) -> None:
    """R3: its neighbours before and after it are written, it leaves no trace. There are so many
    that their rows are inserted by the block, and some more."""
    bad = await arrange(store, reason)
    audits = len(await store.reader.audit(100, None))
    neighbours = affordable(range(1, BLOCK + 5))
    outcomes = await together(store, [*neighbours[:4], bad, *neighbours[4:]])
    clash = outcomes.pop(4)
    assert isinstance(clash, Clash)
    assert clash.reason == reason
    assert all(isinstance(outcome, Written) for outcome in outcomes)
    for decision in neighbours:
        assert await store.reader.job(decision.after.id) is not None
    if isinstance(bad, Decision) and bad.before is None and reason != "exists":
        assert await store.reader.job(bad.after.id) is None
        assert await store.reader.history(bad.after.id) == ()
    assert len(await store.reader.audit(100, None)) == audits
    assert await store.check() == ()


async def test_the_epoch_of_another_process_refuses_everything(
    store: Store, tmp_path: Path
) -> None:
    """R2: should the lock ever fail, the row does not."""
    with raw(tmp_path) as db:
        db.execute("INSERT INTO lives (started_at, seen_at) VALUES (1, 1)")
    assert await refused(store, priced(1)) == "epoch"
    assert await store.reader.job(job(1).id) is None


async def test_a_bug_in_one_unit_is_raised_at_its_caller_alone(store: Store) -> None:
    """A status that the declaration does not know, a figure out of range, text that is none."""
    unknown = birth(job(1, kind="active"))
    wild = birth(job(2, progress=101))
    broken = birth(job(3, user_id="\ud800"))
    huge = birth(job(4, line_at=2**70))
    fine = affordable(range(10, 10 + BLOCK))
    outcomes = await together(store, [unknown, *fine[:2], wild, broken, huge, *fine[2:]])
    for index in (5, 4, 3, 0):
        bug = outcomes.pop(index)
        assert isinstance(bug, Exception), bug
    assert [type(outcome) for outcome in outcomes] == [Written] * BLOCK
    assert len((await store.reader.jobs(EVERYONE)).jobs) == BLOCK
    assert await store.check() == ()


# ------------------------------------------------------------------------------- group commit


async def test_many_units_share_one_commit(tmp_path: Path) -> None:
    """Whatever waits is committed at once, and nobody is answered before COMMIT."""
    write, read = plain_hop(tmp_path), plain_hop(tmp_path)
    async with opened(tmp_path, writer_hop=write, reader_hop=read) as store:
        write.gate, before = anyio.Event(), write.commits
        done: list[int] = []

        async def commit(number: int) -> None:
            await stored(store, priced(number, cost=1, user_id=f"u{number}"))
            done.append(write.commits)

        async with anyio.create_task_group() as group:
            group.start_soon(commit, 1)
            await anyio.wait_all_tasks_blocked()
            for number in range(2, 601):
                group.start_soon(commit, number)
            await anyio.wait_all_tasks_blocked()
            assert done == []
            write.gate.set()
        assert write.commits - before == 3, "the first alone, then 512, then the rest"
        assert sorted(set(done)) == [before + 1, before + 2, before + 3]
        assert await store.check() == ()
    write.connection.close()
    read.connection.close()


async def test_a_set_is_written_statement_by_statement(tmp_path: Path) -> None:
    write, read = plain_hop(tmp_path), plain_hop(tmp_path)
    async with opened(tmp_path, writer_hop=write, reader_hop=read) as store:
        write.statements.clear()
        await together(store, [priced(number, cost=1) for number in range(8)])
        assert sum(line.startswith("SAVEPOINT") for line in write.statements) == 1
        write.statements.clear()
        await together(store, [priced(number, cost=1) for number in range(7, 15)])
        assert sum(line.startswith("SAVEPOINT") for line in write.statements) == 9
        assert sum(line.startswith("ROLLBACK TO") for line in write.statements) == 2
        assert len((await store.reader.jobs(EVERYONE)).jobs) == 15
    write.connection.close()
    read.connection.close()


async def test_two_changes_of_one_job_in_one_batch_keep_their_order(store: Store) -> None:
    """The second expects what the first leaves; so do the locks and timers in between."""
    born = await stored(store, birth(job(1)))
    first = moved(
        born, "working", locks=(HeldLock("job", "r", "stage", 1),), timers=(Timer("limit", 5),)
    )
    second = moved(first.after, "done", locks=(), timers=())
    outcomes = await together(store, [first, second])
    assert all(isinstance(outcome, Written) for outcome in outcomes)
    assert await store.check() == ()
    assert await store.reader.next_timer(("toy",)) is None


async def test_one_of_two_rivals_wins(store: Store) -> None:
    """R2 R3: the same version expected by many."""
    born = await stored(store, birth(job(1)))
    outcomes = await together(store, [moved(born, "done") for _ in range(20)])
    assert sum(isinstance(outcome, Written) for outcome in outcomes) == 1
    assert [row.version for row in await store.reader.history(born.id)] == [1, 2]


async def test_one_of_many_submissions_of_a_key_wins(store: Store) -> None:
    """C35: unique per user, enforced by the database; others' equal keys do not matter."""
    rivals = [keyed(number, "same") for number in range(20)]
    others = [keyed(100 + number, "same", user_id=f"u{number}") for number in range(5)]
    outcomes = await together(store, [*rivals, *others])
    refusals = [outcome.reason for outcome in outcomes if isinstance(outcome, Clash)]
    assert refusals == ["key"] * 19
    assert len((await store.reader.jobs(EVERYONE)).jobs) == 6


async def test_a_quota_counts_the_batch_that_it_is_in(store: Store) -> None:
    limits = QuotaAssert(open_jobs=3)
    outcomes = await together(store, [counted(number, limits) for number in range(10)])
    assert [outcome.reason for outcome in outcomes if isinstance(outcome, Clash)] == ["quota"] * 7
    (first, *_) = (await store.reader.jobs(EVERYONE)).jobs
    await stored(store, moved(first, "done"))
    await stored(store, counted(20, limits))
    assert await refused(store, counted(21, limits)) == "quota"
    assert not isinstance(await store.commit(counted(22, limits, user_id="eve")), Clash)


async def test_closing_a_job_in_the_batch_does_not_excuse_what_came_before(store: Store) -> None:
    limits = QuotaAssert(open_jobs=1)
    born = await stored(store, counted(1, limits))
    outcomes = await together(store, [counted(2, limits), moved(born, "done"), counted(3, limits)])
    assert [type(outcome) for outcome in outcomes] == [Clash, Written, Written]


async def test_quotas_by_time_count_deleted_jobs_too(store: Store) -> None:
    """Deleting a job does not give its submission back."""
    limits = QuotaAssert(per_minute=2, per_day=3)
    first = await stored(store, counted(1, limits))
    ended = await stored(store, moved(first, "done"))
    assert not isinstance(await store.commit(Forget(ended, NOON, "ada")), Clash)
    await stored(store, counted(2, limits))
    assert await refused(store, counted(3, limits)) == "quota"
    later = NOON + 60_000 + 1
    await stored(store, counted(4, limits, created_at=later))
    assert await refused(store, counted(5, limits, created_at=later + 60_002)) == "quota"
    question = DoorQuestion("ada", "toy", None, None, quota=True, now=later)
    door = await store.reader.door(question)
    assert (door.open_jobs, door.last_minute, door.last_day) == (2, 2, 3)


# -------------------------------------------------------------------------------------- money


async def test_an_account_begins_with_the_initial_credits(store: Store) -> None:
    assert (await store.reader.credits("ada")).balance == 25
    await stored(store, priced(1, cost=20))
    assert await store.reader.credits("ada") == Credits("ada", 5, 20)
    hold, first = await store.reader.ledger("ada", 10, None)
    assert (first.kind, first.amount, first.balance_after, first.reason) == (
        "grant", 25, 25, "initial",
    )  # fmt: skip
    assert (hold.kind, hold.amount, hold.balance_after, hold.held_after) == ("hold", -20, 5, 20)
    assert (hold.job_id, hold.run_id) == (job(1).id, "run-1")


@pytest.mark.parametrize(
    ("kinds", "balance", "held", "credits"),
    [
        (("hold",), 22, 3, "held"),
        (("hold", "capture"), 22, 0, "captured"),
        (("hold", "release"), 25, 0, "released"),
        (("charge",), 22, 0, "charged"),
        (("charge", "refund"), 25, 0, "refunded"),
    ],
)
async def test_what_each_kind_does_to_an_account(
    store: Store, kinds: tuple[str, ...], balance: int, held: int, credits: str
) -> None:
    """DESIGN 8.9, R3: the effects, and that the file adds up."""
    entries = tuple(CreditEntry(kind, 3, "ada", "run-1") for kind in kinds)
    await stored(store, birth(job(1, cost=3, credits=credits), ledger=entries))
    purse = await store.reader.credits("ada")
    assert (purse.balance, purse.held) == (balance, held)
    newest = (await store.reader.ledger("ada", 10, None))[0]
    assert (newest.balance_after, newest.held_after) == (balance, held)
    assert await store.check() == ()


async def test_no_credits_are_spent_twice(store: Store) -> None:
    """Twenty at once for a balance that is enough for eight."""
    outcomes = await together(store, [priced(number, cost=3) for number in range(20)])
    assert sum(isinstance(outcome, Written) for outcome in outcomes) == 8
    purse = await store.reader.credits("ada")
    assert (purse.balance, purse.held) == (1, 24)
    assert await store.check() == ()


async def test_letting_go_of_what_is_not_held_is_a_bug(store: Store) -> None:
    entry = CreditEntry("capture", 3, "ada", "run-1")
    with pytest.raises(Exception, match="CHECK"):
        await store.commit(birth(job(1, cost=3), ledger=(entry,)))
    assert (await store.reader.credits("ada")).balance == 25


async def test_grants(store: Store) -> None:
    await store.commit(grant("ada", 10))
    assert (await store.reader.credits("ada")).balance == 35
    assert await refused(store, grant("ada", 10, once=True)) == "exists"
    await store.commit(grant("eve", 7, once=True))
    await store.commit(grant("eva", 0, once=True))
    assert (await store.reader.credits("eve")).balance == 7
    assert (await store.reader.credits("eva")).balance == 0
    assert await refused(store, grant("eve", -8)) == "balance"
    assert [row.event for row in await store.reader.audit(10, None)] == ["credits.granted"] * 3
    assert await store.check() == ()


# -------------------------------------------------------------------- keys, deletion, tokens


async def test_a_key_moves_to_the_job_that_supersedes(store: Store) -> None:
    """The old job lets go of its money before the new one holds: there is enough for one."""
    old = await stored(
        store,
        structs.replace(priced(1, cost=25), keys=(KeyRow("k", "old"),)),
    )
    ends = moved(old, "broken", "release", credits="released")
    new = structs.replace(
        priced(2, cost=25), keys=(KeyRow("k", "new", "", takes_from=old.id),), also=(ends,)
    )
    await stored(store, new)
    question = DoorQuestion("ada", "toy", "k", "none", quota=False, now=NOON)
    facts = await store.reader.door(question)
    assert facts.known is not None
    assert (facts.known.job_id, facts.known.body_digest) == (new.after.id, "new")
    assert facts.derived is None
    assert (await store.reader.credits("ada")).held == 25
    again = structs.replace(priced(3, cost=25), keys=new.keys)
    assert await refused(store, again) == "key", "what is wrong with the key is said before money"
    assert await store.check() == ()


async def test_a_stale_superseded_job_refuses_the_whole_unit(store: Store) -> None:
    old = await stored(store, keyed(1, "k"))
    await stored(store, moved(old, "resting"))
    new = structs.replace(
        keyed(2, "k"), keys=(KeyRow("k", "b", "", old.id),), also=(moved(old, "broken"),)
    )
    assert await refused(store, new) == "version"
    assert await store.reader.job(job(2).id) is None


async def test_a_deleted_job_leaves_a_tombstone_whose_keys_still_answer(store: Store) -> None:
    """DESIGN 8.7: what goes, and what stays."""
    whole = everything(1)
    asset = Asset("asset-1", "image", "/x", created_at=NOON)
    born = await stored(
        store,
        structs.replace(whole, assets=(asset,), event=EventRow("e", "d", NOON)),
    )
    assert await refused(store, Forget(born, NOON, "ada")) == "version"
    ended = attempt(1, status="ended")
    done = await stored(
        store,
        structs.replace(
            moved(born, "done", "capture", credits="captured", attempt=None, locks=(), timers=()),
            attempts=(ended,),
        ),
    )
    assert await refused(store, Forget(born, NOON, "ada")) == "version"
    assert not isinstance(await store.commit(Forget(done, NOON + 9, "ada")), Clash)
    read = store.reader
    assert await read.job(born.id) is None
    assert await read.history(born.id) == ()
    assert await read.attempts(born.id) == ()
    assert await read.asset("asset-1") is None
    assert await read.artifact(born.id, "draft", 1) is None
    assert await read.event(born.id, "e") == ("e", "d")
    stone = await read.tombstone(born.id)
    assert stone is not None
    assert (stone.user_id, stone.workflow, stone.status) == ("ada", "toy", "done")
    facts = await read.door(DoorQuestion("ada", "toy", "key-1", None, quota=False, now=NOON))
    assert facts.known is not None
    assert (facts.known.job_id, facts.known.snapshot) == (born.id, None)
    assert await refused(store, keyed(2, "key-1")) == "key"
    assert len(await read.ledger("ada", 10, None)) == 3
    assert (await read.audit(1, None))[0].event == "job.deleted"
    assert (await read.counts()).by_status == ()
    assert await store.check() == ()


async def test_a_number_of_the_history_is_never_used_twice(store: Store) -> None:
    """A stream resumes from it, whatever was deleted meanwhile."""
    born = await stored(store, birth(job(1, status="broken")))
    (last,) = await store.reader.history(born.id)
    await store.commit(Forget(born, NOON, "ada"))
    await stored(store, birth(job(2)))
    assert (await store.reader.history(job(2).id))[0].seq > last.seq


async def test_tokens(store: Store) -> None:
    for number in (1, 2, 3):
        name = "ada" if number < 3 else "eve"
        unit = NewToken(f"t{number}", name, "user", bytes([number]) * 32, NOON + number, "root")
        assert isinstance(await store.commit(unit), Written)
    assert await refused(store, unit) == "exists"
    found = await store.reader.token(bytes([1]) * 32)
    assert found is not None
    assert (found.id, found.name, found.role, found.revoked_at) == ("t1", "ada", "user", None)
    assert await store.reader.token(bytes(32)) is None
    await store.commit(RevokeToken("ada", NOON + 9, "root"))
    await store.commit(RevokeToken("t3", NOON + 9, "root"))
    assert {token.revoked_at for token in await store.reader.tokens()} == {NOON + 9}
    assert await refused(store, RevokeToken("ada", NOON, "root")) == "missing"
    said = [row.event for row in await store.reader.audit(10, None)]
    assert sorted(set(said)) == ["token.created", "token.revoked"]


async def test_notes_and_declarations(store: Store) -> None:
    await store.commit(Note(AuditRecord("job.annotated", "root", {"note": "n"}), NOON, "job-1"))
    (note,) = await store.reader.audit(10, None)
    assert (note.event, note.job_id, note.at) == ("job.annotated", "job-1", NOON)
    ((name, digest, data),) = await store.reader.declarations()
    assert (name, digest, data) == ("toy", "d" * 64, b"{}")


# ------------------------------------------------------------------------------- cancellation


@pytest.mark.parametrize("native", [False, True])
async def test_a_cancelled_caller_tears_nothing(tmp_path: Path, native: bool) -> None:
    """Whether by a scope of ours or from outside: its unit is whole, what follows from it is done,
    and the others hear theirs. It is gone at once itself."""
    write, read = plain_hop(tmp_path), plain_hop(tmp_path)
    async with opened(tmp_path, writer_hop=write, reader_hop=read) as store:
        write.gate = anyio.Event()
        heard, followed = list[int](), list[str]()

        def follow(kept: Snapshot | None) -> None:
            followed.append(kept.id if kept else "")

        async def commit(number: int) -> None:
            await store.commit(priced(number), follow)
            heard.append(number)

        scope = anyio.CancelScope()

        async def first() -> None:
            with scope:
                await commit(1)

        leader = asyncio.ensure_future(first())
        await anyio.wait_all_tasks_blocked()
        others = [asyncio.ensure_future(commit(number)) for number in (2, 3)]
        await anyio.wait_all_tasks_blocked()
        if native:
            leader.cancel()
        else:
            scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert leader.done()
        assert (heard, followed) == ([], [])
        write.gate.set()
        await asyncio.gather(leader, *others, return_exceptions=True)
        assert heard == [2, 3]
        assert followed == [job(number).id for number in (1, 2, 3)]
        for number in (1, 2, 3):
            assert await store.reader.job(job(number).id) is not None
        assert await store.check() == ()
    write.connection.close()
    read.connection.close()


async def test_an_error_for_a_whole_round_reaches_everybody_who_still_listens(
    tmp_path: Path,
) -> None:
    write, read = plain_hop(tmp_path), plain_hop(tmp_path)
    async with opened(tmp_path, writer_hop=write, reader_hop=read) as store:
        read.gate = anyio.Event()
        asked = [asyncio.ensure_future(store.reader.job("x")) for _ in range(3)]
        await anyio.wait_all_tasks_blocked()
        asked[1].cancel()
        read.connection.close()
        read.gate.set()
        kinds = [type(one) for one in await asyncio.gather(*asked, return_exceptions=True)]
        assert kinds == [StorageError, asyncio.CancelledError, StorageError]
    write.connection.close()


async def test_close_answers_the_questions_that_wait(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        asked = [asyncio.ensure_future(store.reader.line_users()) for _ in range(300)]
        await anyio.lowlevel.checkpoint()
        await store.close()
        assert await asyncio.gather(*asked) == [()] * 300


async def test_close_serves_what_waits_and_takes_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        waiting = [asyncio.ensure_future(store.commit(priced(number))) for number in range(5)]
        await anyio.lowlevel.checkpoint()
        await store.close()
        outcomes = await asyncio.gather(*waiting)
        assert all(isinstance(outcome, Written) for outcome in outcomes)
        with pytest.raises(Exception, match="closed"):
            await store.commit(priced(9))
    async with opened(tmp_path) as again:
        assert len((await again.reader.jobs(EVERYONE)).jobs) == 5
