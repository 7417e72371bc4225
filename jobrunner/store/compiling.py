"""Compiles a unit into rows. Pure: what is in the file does not matter here, only what is to be
written.

A decision about a job says where the job stood and where it stands; columns, locks, timers,
payload and the marks on artifacts follow from comparing the two. Everything else in it is a row
to append.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, structs

from jobrunner.core import units
from jobrunner.core.decision import (
    Addressed,
    CreditEntry,
    DeadLetter,
    Decision,
    EdgeTaken,
    QuotaAssert,
    Unit,
)
from jobrunner.core.features.bindings import Bind
from jobrunner.core.features.bulk import BulkTurned, MoreItems, NewBulk, Ticked
from jobrunner.core.features.families.batches import BATCH_UNITS
from jobrunner.core.features.families.parentage import Parted
from jobrunner.core.features.schedules.schedules import SCHEDULE_UNITS
from jobrunner.core.features.turns.limits import SetLimit
from jobrunner.core.features.upgrades.upgrades import UPGRADE_UNITS
from jobrunner.core.job import Asset, Attempt, Snapshot
from jobrunner.store import statements as sql
from jobrunner.store.before import digest_before
from jobrunner.store.features import notifications, sessions
from jobrunner.store.features.answers import answer_rows
from jobrunner.store.features.audit import add_address, audit_row
from jobrunner.store.features.bindings import binding_rows
from jobrunner.store.features.bulk import bulk_rows
from jobrunner.store.features.credits import granted_rows
from jobrunner.store.features.families.batches import batch_rows
from jobrunner.store.features.families.families import PARTED, family_rows
from jobrunner.store.features.pauses import pause_rows
from jobrunner.store.features.schedules.schedules import schedule_rows, tick_rows
from jobrunner.store.features.tokens import token_rows
from jobrunner.store.features.turns.limits import limit_rows
from jobrunner.store.features.turns.one_at_a_time import turn_rows
from jobrunner.store.features.turns.rates import rate_rows
from jobrunner.store.features.upgrades.replays import record_row
from jobrunner.store.features.upgrades.upgrades import repinned_rows, upgrade_rows
from jobrunner.store.features.webhooks import forgotten_rows, heard_rows, names_in, stored_rows
from jobrunner.store.keeping.desk import KEEPING
from jobrunner.store.keeping.retention import forgotten
from jobrunner.store.rows import (
    fixed_of,
    moving_of,
    payload_of,
    payload_row,
    place_of,
    stands,
    text,
)
from jobrunner.store.statements import Row

Scope = tuple[str, str]

UNBORN = Snapshot("", "", "", "", "", "", "waiting", 0, 0)
OPEN = frozenset({"waiting", "queued", "active"})
EFFECT = {
    "grant": (1, 0),
    "hold": (-1, 1),
    "capture": (0, -1),
    "release": (1, -1),
    "charge": (-1, 0),
    "refund": (1, 0),
}


class QuotaCheck(Struct, frozen=True):
    """Counted inside the transaction, for a user in a workflow."""

    user_id: str
    workflow: str
    limits: QuotaAssert
    now: int


class Work(Struct, frozen=True):
    """A unit, ready to be written. ``alone`` keeps it out of sets; ``touched`` are the jobs in it,
    ``closes`` where it may lower a count of open jobs."""

    rows: list[Row]
    snapshot: Snapshot | None = None
    alone: bool = False
    touched: tuple[str, ...] = ()
    quota: QuotaCheck | None = None
    closes: Scope | None = None


def compiled(unit: Unit, fresh_rows: Iterator[int], initial_credits: int) -> Work:
    if isinstance(unit, Decision):
        return _decided(unit, fresh_rows, initial_credits)
    if isinstance(unit, Addressed):
        work = compiled(unit.unit, fresh_rows, initial_credits)
        add_address(work.rows, unit.address)
        return work
    if isinstance(unit, units.Grant):
        return Work(list(granted_rows(unit, initial_credits)), alone=True)
    if rows_of := ALONE.get(type(unit)):
        return Work(list(rows_of(unit)), alone=True)
    return COMPILES[type(unit)](unit)


def _decided(decision: Decision, fresh_rows: Iterator[int], initial_credits: int) -> Work:
    """Compile a decision, other jobs first: a superseded job lets go of its money and its key
    before the new one takes them."""
    rows: list[Row] = []
    touched: list[str] = []
    for other in decision.also:
        _add(rows, touched, other, _placed(other, fresh_rows), initial_credits)
    after = _placed(decision, fresh_rows)
    _add(rows, touched, decision, after, initial_credits)
    if decision.tick is not None:
        rows += tick_rows(decision.tick, after)
    before, scope = decision.before, (after.user_id, after.workflow)
    closing = before is not None and before.kind in OPEN and after.kind not in OPEN
    return Work(
        rows,
        snapshot=after,
        alone=bool(decision.also),
        touched=tuple(touched),
        quota=QuotaCheck(*scope, decision.quota, after.created_at) if decision.quota else None,
        closes=scope if closing else None,
    )


def _placed(decision: Decision, fresh_rows: Iterator[int]) -> Snapshot:
    """Add the job's key in this file, which a new one gets here."""
    before, after = decision.before, decision.after
    if before is None:
        return structs.replace(after, row=next(fresh_rows))
    assert before.row, f"job {before.id} was decided on without having been read"
    kept = before.id == after.id and (decision.repinned or before.digest == after.digest)
    assert kept, "a job keeps id and declaration"
    return after if after.row == before.row else structs.replace(after, row=before.row)


def _add(
    rows: list[Row], touched: list[str], decision: Decision, after: Snapshot, initial_credits: int
) -> None:
    """Add the rows of a decision about one job: here those that nearly every decision has."""
    was, job = decision.before or UNBORN, after.row
    touched.append(after.id)
    rows += repinned_rows(decision, after) if decision.repinned else (_job(decision, after),)
    if was is UNBORN or stands(was) != stands(after):
        rows += _tallied(decision.before, after)
    for number, hop in enumerate(decision.hops, 1):
        rows.append(_hop(number, hop, after))
    if was is UNBORN or payload_of(was) != payload_of(after):
        rows.append(sql.PAYLOAD.row(job=job, **payload_row(after)))
    if was.locks != after.locks:
        rows += _locks(was, after)
    if was.timers != after.timers:
        rows += _timers(was, after)
    for attempt in decision.attempts:
        rows.append(_attempt(attempt, job))
    if decision.artifacts or was.artifacts != after.artifacts:
        rows += _artifacts(decision, was, after)
    if was.turn_key or after.turn_key:
        rows += turn_rows(was, after)
    _add_rare(rows, touched, decision, after, initial_credits)


def _add_rare(
    rows: list[Row], touched: list[str], decision: Decision, after: Snapshot, initial_credits: int
) -> None:
    """Add the rows of what few decisions have."""
    if decision.assets or decision.audits or decision.dead_letters:
        rows += _left(decision, after)
    for entry in decision.ledger:
        rows += _money(entry, after, initial_credits)
    if decision.keys:
        rows += _keys(decision, after)
        touched += [key.takes_from for key in decision.keys if key.takes_from]
    if decision.event:
        rows.append(sql.EVENT.row(job=after.row, **structs.asdict(decision.event)))
    if decision.record is not None:
        rows.append(record_row(decision.record, after))
    if decision.notifications:
        rows += notifications.notified(decision, after)
    if decision.kin is not None:
        rows += family_rows(decision, decision.kin, after)
    if decision.rates:
        rows += rate_rows(decision)
    if decision.webhook or decision.handed or _waits(decision.before) or _waits(after):
        rows += [*heard_rows(decision, after), *answer_rows(decision, after)]
        touched += names_in(decision)


def _left(decision: Decision, after: Snapshot) -> Iterator[Row]:
    """Make the rows of files, of records, and of work that was given up."""
    for asset in decision.assets:
        yield _asset(asset, after.row, after.user_id)
    for record in decision.audits:
        yield audit_row(record, after.updated_at, after.id)
    for letter in decision.dead_letters:
        yield _dead_letter(letter, after)


def _waits(job: Snapshot | None) -> bool:
    """Say whether its attempt may wait for somebody outside: for a webhook or an answer."""
    attempt = job.attempt if job else None
    return attempt is not None and bool(attempt.source or attempt.questions)


def _job(decision: Decision, job: Snapshot) -> Row:
    before = decision.before
    place, moving = place_of(job), moving_of(job)
    if before is None:
        ids = (job.row, job.id, job.digest, decision.quota is not None)
        return sql.JOB_BORN, (*ids, *fixed_of(job), *place, *moving)
    known = (before.row, before.version, before.beat)
    stays = job.status == before.status and job.priority == before.priority
    if stays and place == place_of(before):
        return sql.JOB_TOUCHED, (*moving, *known)
    return sql.JOB_MOVED, (*place, *moving, *known)


def _tallied(before: Snapshot | None, after: Snapshot) -> Iterator[Row]:
    workflow, (status, in_line) = after.workflow, stands(after)
    yield sql.TALLY.row(workflow=workflow, status=status, jobs=1, in_line=int(in_line))
    if before is not None:
        status, in_line = stands(before)
        yield sql.TALLY.row(workflow=workflow, status=status, jobs=-1, in_line=-int(in_line))


def _keys(decision: Decision, job: Snapshot) -> Iterator[Row]:
    for key in decision.keys:
        said = {
            "user_id": job.user_id, "workflow": job.workflow, "digest": key.digest,
            "job_id": job.id, "body_digest": key.body_digest, "parts": key.parts,
            "digest_before": digest_before(key.digest),
        }  # fmt: skip
        if key.takes_from:
            yield sql.KEY_MOVED.row(**said, takes_from=key.takes_from)
        else:
            yield sql.KEY.row(**said)


def _money(entry: CreditEntry, job: Snapshot, initial_credits: int) -> Iterator[Row]:
    assert entry.amount > 0, f"a {entry.kind} of {entry.amount} credits is none"
    spendable, held = EFFECT[entry.kind]
    at = job.updated_at
    yield sql.ACCOUNT.row(user_id=entry.user_id, initial=initial_credits, opened_at=at)
    yield sql.LEDGER.row(
        user_id=entry.user_id, kind=entry.kind, amount=spendable * entry.amount,
        held_change=held * entry.amount, job_id=job.id, run_id=entry.run_id, reason=entry.reason,
        at=at, moved=0, held_moved=0,
    )  # fmt: skip


def _hop(number: int, hop: EdgeTaken, job: Snapshot) -> Row:
    return sql.HISTORY.row(
        job=job.row, version=job.version, hop=number, from_status=hop.from_status,
        to_status=hop.to_status, trigger=hop.trigger, actor=hop.actor, reason=hop.reason,
        run_id=hop.run_id, event_id=hop.event_id, at=job.updated_at,
    )  # fmt: skip


def _locks(before: Snapshot, after: Snapshot) -> Iterator[Row]:
    for lock in before.locks:
        if after.lock(lock.scope) is None:
            yield sql.LOCK_FREED.row(job=after.row, scope=lock.scope)
    for lock in after.locks:
        if lock not in before.locks:
            yield sql.LOCK.row(job=after.row, **structs.asdict(lock))


def _timers(before: Snapshot, after: Snapshot) -> Iterator[Row]:
    for timer in before.timers:
        if after.timer(timer.purpose) is None:
            yield sql.TIMER_GONE.row(job=after.row, purpose=timer.purpose)
    for timer in after.timers:
        if timer not in before.timers:
            yield sql.TIMER.row(job=after.row, purpose=timer.purpose, due_at=timer.due_at)


def _attempt(attempt: Attempt, row: int) -> Row:
    return sql.ATTEMPT.row(
        job=row, serial=attempt.serial, status=attempt.status, holder=attempt.holder,
        epoch=attempt.epoch, attempt=text(attempt),
    )  # fmt: skip


def _artifacts(decision: Decision, before: Snapshot, after: Snapshot) -> Iterator[Row]:
    old, new = before.artifacts, after.artifacts
    stored = {(artifact.name, artifact.version) for artifact in decision.artifacts}
    for name, artifact in new.items():
        known = artifact == old.get(name) or (name, artifact.version) in stored
        assert known, f"artifact {name} changed without a row of its own"
    for name, artifact in old.items():
        if name not in new or new[name].version != artifact.version:
            yield sql.ARTIFACT_RETIRED.row(job=after.row, name=name, version=artifact.version)
    for artifact in decision.artifacts:
        current = artifact.name in new and new[artifact.name].version == artifact.version
        said = structs.asdict(artifact) | {"value": text(artifact.value)}
        yield sql.ARTIFACT.row(job=after.row, current=current, **said)


def _asset(asset: Asset, row: int | None, user_id: str) -> Row:
    return sql.ASSET.row(job=row, user_id=user_id, **structs.asdict(asset))


def _dead_letter(letter: DeadLetter, job: Snapshot) -> Row:
    failure = letter.failure
    return sql.DEAD_LETTER.row(
        at=job.updated_at, job_id=job.id, workflow=job.workflow, user_id=job.user_id,
        reason=letter.reason, failure_code=failure.code, failure_message=failure.message,
        failed_stage=failure.stage, hidden=letter.hidden,
    )  # fmt: skip


def _remembered(unit: units.Remember) -> Iterator[Row]:
    yield sql.DEFINITION.row(
        digest=unit.digest, name=unit.name, version=unit.version, data=unit.data, stored_at=unit.at
    )
    for name, kind in unit.states:
        yield sql.STATE.row(digest=unit.digest, name=name, kind=kind)


def _unshelved(unit: units.Unshelve) -> Iterator[Row]:
    yield sql.ASSET_GONE.row(id=unit.asset_id)
    yield sql.CLEARING.row(folder=unit.folder, at=unit.at)


def _unreadable(unit: units.Unreadable) -> Iterator[Row]:
    yield sql.JOB_OUT_OF_LINE.row(job_id=unit.job_id)
    yield sql.JOB_UNREADABLE.row(why=unit.why, job_id=unit.job_id)


def _lines(unit: units.LogLines) -> Work:
    log = msgspec.json.encode(unit.lines).decode()
    row = sql.LINES.row(lines=log, job_id=unit.job_id, serial=unit.serial)
    return Work([row], touched=(unit.job_id,))


def _sent(unit: units.Tried | units.Redeliver | units.EnableEndpoint) -> Work:
    return Work(list(notifications.rows_of(unit)), alone=notifications.touches_others(unit))


ALONE: dict[type, Callable[[Any], Iterable[Row]]] = {
    **dict.fromkeys((units.NewToken, units.RevokeToken), token_rows),
    **dict.fromkeys(sessions.UNITS, sessions.session_rows),
    units.Unshelve: _unshelved,
    units.Unreadable: _unreadable,
    units.Remember: _remembered,
    units.ForgetWebhooks: forgotten_rows,
    Bind: binding_rows,
    **dict.fromkeys(BATCH_UNITS, batch_rows),
    **dict.fromkeys(UPGRADE_UNITS, upgrade_rows),
    **dict.fromkeys((units.Halt, units.Unhalt), pause_rows),
    **dict.fromkeys((NewBulk, MoreItems, BulkTurned), bulk_rows),
    SetLimit: limit_rows,
    **dict.fromkeys(SCHEDULE_UNITS, schedule_rows),
    **KEEPING,
}
COMPILES: dict[type, Callable[[Any], Work]] = {
    units.Note: lambda unit: Work([audit_row(unit.record, unit.at, unit.job_id)]),
    units.Forget: lambda unit: Work(list(forgotten(unit)), alone=True, touched=(unit.job.id,)),
    units.Shelve: lambda unit: Work([_asset(unit.asset, None, unit.user_id)]),
    units.Cleared: lambda unit: Work([sql.CLEARED.row(folder=folder) for folder in unit.folders]),
    units.StoreWebhook: lambda unit: Work(list(stored_rows(unit)), touched=(unit.webhook.name,)),
    units.LogLines: _lines,
    Parted: lambda unit: Work([PARTED.row(job=unit.job, last=unit.last)]),
    **dict.fromkeys((units.Tried, units.Redeliver, units.EnableEndpoint), _sent),
    Ticked: lambda unit: Work(list(bulk_rows(unit))),
}
