"""Records for a person to look at: who did what, and work that was given up."""

from typing import Any

from jobrunner.http.frame.endpoint import ADMINS, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import PageQuery, following_cursor, key_of
from jobrunner.http.frame.views import reply, view_of


class DeadLettersQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    hidden: bool = False


class AuditEntry(View, frozen=True, kw_only=True):
    id: int
    at: str
    event: str
    actor: str
    job_id: str | None
    fields: dict[str, Any]


class DeadLetterEntry(View, frozen=True, kw_only=True):
    id: int
    at: str
    job_id: str
    workflow: str
    user_id: str
    reason: str
    failure_code: str
    failure_message: str
    failed_stage: str
    hidden: bool


class AuditLog(View, frozen=True, kw_only=True):
    audit: list[AuditEntry]
    next_cursor: str | None


class DeadLetters(View, frozen=True, kw_only=True):
    dead_letters: list[DeadLetterEntry]
    next_cursor: str | None


@Endpoint("GET", "/admin/audit", {200: AuditLog}, ADMINS, query=PageQuery)
async def get_audit(call: HttpCall) -> HttpReply:
    """List who did what, newest first."""
    query: PageQuery = call.query
    rows = await call.door.reader.audit(query.limit, key_of(query.cursor))
    entries = [view_of(AuditEntry, row) for row in rows]
    return reply(
        AuditLog(audit=entries, next_cursor=following_cursor([row.id for row in rows], query))
    )


@Endpoint("GET", "/admin/dead-letters", {200: DeadLetters}, ADMINS, query=DeadLettersQuery)
async def get_dead_letters(call: HttpCall) -> HttpReply:
    """List the jobs that were given up, for a person to look at."""
    query: DeadLettersQuery = call.query
    rows = await call.door.reader.dead_letters(query.limit, key_of(query.cursor), query.hidden)
    entries = [view_of(DeadLetterEntry, row) for row in rows]
    following = following_cursor([row.id for row in rows], query)
    return reply(DeadLetters(dead_letters=entries, next_cursor=following))
