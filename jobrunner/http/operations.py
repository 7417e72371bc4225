"""What operators ask: money, tokens, records of who did what, and whether the service is well."""

from msgspec import UNSET, UnsetType

from jobrunner.actors import Answer
from jobrunner.core.decision import Grant, NewToken, RevokeToken
from jobrunner.core.messages import Release, Stop
from jobrunner.core.queries import Token
from jobrunner.errors import Refused
from jobrunner.http.door import Call, Reply
from jobrunner.http.finding import job_id_of
from jobrunner.http.instants import instant_of, text_of, text_or_none
from jobrunner.http.paging import cursor_of, key_of
from jobrunner.http.problems import invalid
from jobrunner.http.rendering import asset_entries, asset_entry, reply, reply_answer
from jobrunner.http.views import (
    Alive,
    Audit,
    AuditEntry,
    Checked,
    DeadLetterEntry,
    DeadLetters,
    Ledger,
    LedgerEntry,
    Library,
    Purse,
    Readiness,
    TokenEntry,
    Tokens,
)
from jobrunner.http.wire import (
    DeadLettersQuery,
    GrantOrder,
    OwnedPageQuery,
    OwnedQuery,
    PageQuery,
    Reasoned,
    TokenOrder,
)
from jobrunner.ports import digest


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
    await call.door.supervisor.write(Grant(user_id, body.amount, body.reason, call.actor.name, now))
    return reply(await _purse(call, user_id))


async def library(call: Call) -> Reply:
    """Files over all jobs, newest first."""
    query: OwnedPageQuery = call.query
    rows = await call.door.reader.library(_whose(call, query), query.limit, key_of(query.cursor))
    following = _next([row.row for row in rows], query)
    return reply(Library(assets=asset_entries(rows), next_cursor=following))


async def asset(call: Call) -> Reply:
    asset_id = call.path["id"]
    row = await call.door.reader.asset(asset_id)
    if row is None or (call.actor.role == "user" and row.user_id != call.actor.name):
        raise Refused("NOT_FOUND", f"there is no asset {asset_id}")
    return reply(asset_entry(row.asset, row.job_id))


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


async def tokens(call: Call) -> Reply:
    found = await call.door.reader.tokens()
    return reply(Tokens(tokens=[_token_entry(token) for token in found]))


async def new_token(call: Call) -> Reply:
    """The token itself is in this answer and nowhere else."""
    body: TokenOrder = call.body
    door, now = call.door, call.door.clock.now()
    expires_at = instant_of(body.expires_at, "$.expires_at") if body.expires_at else None
    if expires_at is not None and expires_at <= now:
        raise invalid("expires_at is over already", ("$.expires_at", "not in the future"))
    secret, token_id = door.ids.secret(), door.ids.fresh()
    sealed = digest(secret.encode())
    await door.supervisor.write(
        NewToken(token_id, body.name, body.role, sealed, now, call.actor.name, expires_at)
    )
    if body.role == "user":
        await _open_account(call, body)
    door.keyring.forget()
    made = Token(token_id, body.name, body.role, now, expires_at)
    return reply(_token_entry(made, secret), 201)


async def revoke_token(call: Call) -> Reply:
    """By token id, or by name: then all of that name."""
    which, now = call.path["id"], call.door.clock.now()
    await call.door.supervisor.write(RevokeToken(which, now, call.actor.name))
    call.door.keyring.forget()
    return Reply(204)


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
    answer: Answer = await call.door.supervisor.ask(job_id_of(call), message)
    return answer


async def _open_account(call: Call, body: TokenOrder) -> None:
    """Only a new user starts with credits; another token of the same name changes no balance."""
    door = call.door
    first = door.settings.initial_credits if body.credits is None else body.credits
    opening = Grant(body.name, first, "initial", call.actor.name, door.clock.now(), once=True)
    try:
        await door.supervisor.write(opening)
    except Refused as refused:
        if refused.code != "ALREADY_EXISTS":
            raise


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


def _token_entry(token: Token, secret: str | UnsetType = UNSET) -> TokenEntry:
    return TokenEntry(
        id=token.id,
        name=token.name,
        role=token.role,
        created_at=text_of(token.created_at),
        expires_at=text_or_none(token.expires_at),
        revoked_at=text_or_none(token.revoked_at),
        token=secret,
    )
