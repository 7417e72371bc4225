"""What operators ask: money, tokens, records of who did what, and whether the service is well."""

from jobrunner.actors import Answer
from jobrunner.core.decision import Grant
from jobrunner.core.messages import Release, Stop
from jobrunner.errors import Refused
from jobrunner.http.frame.call import Call, Reply
from jobrunner.http.frame.finding import job_id_of
from jobrunner.http.frame.instants import text_of
from jobrunner.http.frame.keys import key_given
from jobrunner.http.frame.paging import cursor_of, key_of
from jobrunner.http.frame.rendering import asset_entries, asset_entry, reply, reply_answer
from jobrunner.http.routes.files.content import own_asset, works_with_library
from jobrunner.http.views import (
    Alive,
    Audit,
    AuditEntry,
    Checked,
    DeadLetterEntry,
    DeadLetters,
    Granted,
    Ledger,
    LedgerEntry,
    Library,
    Purse,
    Readiness,
)
from jobrunner.http.wire import (
    DeadLettersQuery,
    GrantOrder,
    OwnedPageQuery,
    OwnedQuery,
    PageQuery,
    Reasoned,
)


async def credits(call: Call) -> Reply:
    query: OwnedQuery = call.query
    return reply(await _purse(call, _whose(call, query)))


async def credits_history(call: Call) -> Reply:
    query: OwnedPageQuery = call.query
    user_id = _whose(call, query)
    rows = await call.door.reader.ledger(user_id, query.limit, key_of(query.cursor))
    entries = [
        LedgerEntry(
            kind=row.kind,
            amount=row.amount,
            balance_after=row.balance_after,
            held_after=row.held_after,
            job_id=row.job_id,
            run_id=row.run_id,
            reason=row.reason,
            created_at=text_of(row.created_at),
        )
        for row in rows
    ]
    return reply(Ledger(history=entries, next_cursor=_next([row.id for row in rows], query)))


async def grant(call: Call) -> Reply:
    body: GrantOrder = call.body
    user_id, now = call.path["user"], call.door.clock.now()
    if not any(token.name == user_id for token in await call.door.reader.tokens()):
        raise Refused("NOT_FOUND", f"there is no user {user_id!r}: no token has that name")
    key = key_given(call, body.idempotency_key) or ""
    given = Grant(user_id, body.amount, body.reason, call.actor.name, now, key=key)
    replayed = await call.door.facade.grant(given)
    purse = await call.door.reader.credits(user_id)
    return reply(
        Granted(user_id=user_id, balance=purse.balance, held=purse.held, replayed=replayed)
    )


async def library(call: Call) -> Reply:
    """Files over all jobs, newest first. An admin who names nobody sees everybody's; a worker sees
    those of whose job it holds, where the stage that it stands in for would."""
    query: OwnedPageQuery = call.query
    everybody = call.actor.role == "admin" and query.user_id is None
    if query.user_id is not None and await works_with_library(call, query.user_id):
        owner: str | None = query.user_id
    else:
        owner = None if everybody else _whose(call, query)
    rows = await call.door.reader.library(owner, query.limit, key_of(query.cursor))
    following = _next([row.row for row in rows], query)
    return reply(Library(assets=asset_entries(call, rows), next_cursor=following))


async def asset(call: Call) -> Reply:
    row = await own_asset(call)
    return reply(asset_entry(call, row.asset, row.job_id))


async def audit(call: Call) -> Reply:
    query: PageQuery = call.query
    rows = await call.door.reader.audit(query.limit, key_of(query.cursor))
    entries = [
        AuditEntry(
            id=row.id,
            at=text_of(row.at),
            event=row.event,
            actor=row.actor,
            job_id=row.job_id,
            fields=row.fields,
        )
        for row in rows
    ]
    return reply(Audit(audit=entries, next_cursor=_next([row.id for row in rows], query)))


async def dead_letters(call: Call) -> Reply:
    query: DeadLettersQuery = call.query
    rows = await call.door.reader.dead_letters(query.limit, key_of(query.cursor), query.hidden)
    entries = [
        DeadLetterEntry(
            id=row.id,
            at=text_of(row.at),
            job_id=row.job_id,
            workflow=row.workflow,
            user_id=row.user_id,
            reason=row.reason,
            failure_code=row.failure_code,
            failure_message=row.failure_message,
            failed_stage=row.failed_stage,
            hidden=row.hidden,
        )
        for row in rows
    ]
    following = _next([row.id for row in rows], query)
    return reply(DeadLetters(dead_letters=entries, next_cursor=following))


async def stop(call: Call) -> Reply:
    body: Reasoned = call.body
    return reply_answer(call, await _ask(call, Stop(call.actor, body.reason)), 200)


async def release(call: Call) -> Reply:
    body: Reasoned = call.body
    return reply_answer(call, await _ask(call, Release(call.actor, body.reason)), 200)


async def check_db(call: Call) -> Reply:
    faults = await call.door.check_db()
    return reply(Checked(ok=not faults, faults=faults))


async def alive(call: Call) -> Reply:
    return reply(Alive(status="ok", version=call.door.version))


async def ready(call: Call) -> Reply:
    checks = dict(await call.door.health())
    fine = not any(checks.values())
    return reply(Readiness(ready=fine, checks=checks), 200 if fine else 503)


async def _ask(call: Call, message: Stop | Release) -> Answer:
    answer: Answer = await call.door.facade.ask(job_id_of(call), message)
    return answer


async def _purse(call: Call, user_id: str) -> Purse:
    found = await call.door.reader.credits(user_id)
    return Purse(user_id=user_id, balance=found.balance, held=found.held)


def _whose(call: Call, query: OwnedQuery | OwnedPageQuery) -> str:
    if query.user_id in (None, call.actor.name):
        return call.actor.name
    if call.actor.role != "admin":
        raise Refused("FORBIDDEN", "what belongs to others is for admins to see")
    return str(query.user_id)


def _next(keys: list[int], query: PageQuery) -> str | None:
    """A page that is full may have a successor."""
    return cursor_of(keys[-1]) if len(keys) == query.limit else None
