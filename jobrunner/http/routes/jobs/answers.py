"""Answers to what stages ask: listed, and given, by role or by the token of the question."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from jobrunner.core.features.answers.giving import AnswerFilter, PendingAnswer, digest_of, may_give
from jobrunner.core.features.answers.posed import Standing
from jobrunner.core.job import Actor, Snapshot
from jobrunner.core.messages import Answered
from jobrunner.errors import PluginFault, Refused
from jobrunner.http.frame.bodies import decode
from jobrunner.http.frame.endpoint import SHOWN, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import PageQuery, cursor_of, key_of, visible_job
from jobrunner.http.frame.views import reply, view_of
from jobrunner.http.routes.pages.answers import question_page

GIVING = ("ANSWER_GIVEN", "ANSWER_OVER", "CALLBACK_UNEXPECTED", "WORKFLOW_UNAVAILABLE")
OVER = {
    "ANSWER_OVER": "Nobody waits for an answer any more: it is too late, or the work has ended.",
    "NOT_FOUND": "Nothing is asked at this address. Is it whole?",
}
NOWHERE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


class AnswersQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    job_id: Annotated[str, Meta(max_length=36)] | None = None


class WantedAnswer(View, frozen=True, kw_only=True):
    """An answer that is wanted. ``asks`` is the JSON Schema of it; ``by`` are the roles that may
    give it, beside admins and whoever has its address; ``may_give`` says it of the caller.
    ``default`` is what counts when nobody answers in time, if it ``has_default``."""

    job_id: str
    workflow: str
    name: str
    text: str
    asks: dict[str, Any] | None
    by: list[str]
    may_give: bool
    asked_at: str
    expires_at: str | None
    has_default: bool
    default: Any


class WantedAnswers(View, frozen=True, kw_only=True):
    answers: list[WantedAnswer]
    next_cursor: str | None


class QuestionShown(View, frozen=True, kw_only=True):
    """A question, as it is shown to whoever has its address."""

    name: str
    text: str
    asks: dict[str, Any] | None
    standing: Standing
    expires_at: str | None
    default: Any


class AnswerTaken(View, frozen=True, kw_only=True):
    """``replayed``: the same answer had been given before."""

    name: str
    replayed: bool
    job_id: str | UnsetType = UNSET


@Endpoint("GET", "/answers", {200: WantedAnswers}, query=AnswersQuery)
async def list_answers(call: HttpCall) -> HttpReply:
    """List the answers that stages wait for, newest first."""
    query: AnswersQuery = call.query
    whose = call.actor.name if call.actor.role == "user" else None
    which = AnswerFilter(
        whose, query.job_id, call.actor.workflows, query.limit, key_of(query.cursor)
    )
    found = await call.door.reader.pending_answers(which)
    following = cursor_of(found[-1].id) if len(found) == query.limit else None
    return reply(
        WantedAnswers(answers=[_wanted(call, one) for one in found], next_cursor=following)
    )


@Endpoint("POST", "/jobs/{id}/answers/{name}", {200: AnswerTaken}, body=msgspec.Raw, codes=GIVING)
async def give_answer(call: HttpCall) -> HttpReply:
    """Answer a question of a job's stage, by role."""
    job, name = await visible_job(call), call.path["name"]
    found = await call.door.reader.question_named(job.id, name)
    if found is None:
        return await _call_back(call, job, name)
    if not may_give(found.posed, call.actor.roles(job)):
        whose = " or ".join(found.posed.by) or "admin"
        raise Refused("FORBIDDEN", f"{name!r} is for {whose} to answer, or for who has its address")
    replayed = await call.door.facade.give(found, call.actor, _value(call, found), by_token=False)
    return reply(AnswerTaken(name=name, replayed=replayed, job_id=job.id))


@Endpoint(
    "GET", "/callbacks/{token}", {200: QuestionShown}, None, media=(SHOWN,), codes=("ANSWER_OVER",)
)
async def get_question(call: HttpCall) -> HttpReply:
    """Show what is asked at this address; looking changes nothing."""
    if SHOWN in call.headers.get("Accept", ""):
        return await _page(call)
    shown = reply(await _shown(call))
    return HttpReply(200, shown.body, NOWHERE)


@Endpoint("POST", "/callbacks/{token}", {200: AnswerTaken}, None, msgspec.Raw, codes=GIVING)
async def answer_question(call: HttpCall) -> HttpReply:
    """Answer the question of this address, once."""
    found = await _found(call)
    actor = Actor(f"answer:{found.name}", "workflow")
    replayed = await call.door.facade.give(found, actor, _value(call, found), by_token=True)
    return reply(AnswerTaken(name=found.name, replayed=replayed))


async def _found(call: HttpCall) -> PendingAnswer:
    """Raises: Refused NOT_FOUND for what is no token, and RATE_LIMITED for who keeps guessing."""
    found = await call.door.reader.question_of(digest_of(call.path["token"]))
    if found is None:
        call.door.limits.take_anonymous(call.address)
        raise Refused("NOT_FOUND", "nothing is asked at this address")
    return found


async def _call_back(call: HttpCall, job: Snapshot, key: str) -> HttpReply:
    """A stage may await a callback of no source; its key is all that is known of it."""
    attempt = job.attempt
    if attempt is None or attempt.source or key not in (attempt.awaits, *attempt.answers):
        raise Refused("NOT_FOUND", f"job {job.id} has asked nothing that is called {key[:80]!r}")
    value = decode(call.raw, msgspec.json.Decoder())
    answer = await call.door.facade.ask(job.id, Answered(call.actor, key, value))
    return reply(AnswerTaken(name=key, replayed=answer.replayed, job_id=job.id))


def _value(call: HttpCall, found: PendingAnswer) -> Any:
    """Read the answer as its stage wants it. Raises: Refused VALIDATION_ERROR."""
    kind = _kind(call, found)
    return msgspec.to_builtins(decode(call.raw, msgspec.json.Decoder(kind or Any)))


def _kind(call: HttpCall, found: PendingAnswer) -> type[Any] | None:
    wanted = found.posed.struct
    if not wanted:
        return None
    stage = call.door.facade.definitions.stage(found.posed.stage)
    known = {one.__name__: one for one in stage.asks} if stage is not None else {}
    if wanted not in known:
        lost = PluginFault(found.workflow, f"struct {wanted}", "is not there", missing=True)
        raise lost.refusal()
    return known[wanted]


def _schema(call: HttpCall, found: PendingAnswer) -> dict[str, Any] | None:
    kind = _kind(call, found)
    return msgspec.json.schema(kind) if kind is not None else None


def _wanted(call: HttpCall, found: PendingAnswer) -> WantedAnswer:
    posed, actor = found.posed, call.actor
    roles = {actor.role, *(["user"] if actor.name == found.user_id else [])} - {"reader"}
    try:
        asks = _schema(call, found)
    except Refused:
        asks = None
    return view_of(
        WantedAnswer,
        posed,
        job_id=found.job_id,
        workflow=found.workflow,
        name=found.name,
        asks=asks,
        may_give=may_give(posed, frozenset(roles)),
        has_default=posed.default is not UNSET,
        default=_default(found),
    )


async def _shown(call: HttpCall) -> QuestionShown:
    """Raises: Refused, also ANSWER_OVER."""
    found = await _found(call)
    if found.standing == "over" or found.posed.expired(call.door.clock.now()):
        raise Refused("ANSWER_OVER", "nobody waits for this answer any more")
    return view_of(
        QuestionShown,
        found.posed,
        name=found.name,
        asks=_schema(call, found),
        standing=found.standing,
        default=_default(found),
    )


async def _page(call: HttpCall) -> HttpReply:
    """The same for a person, who is told in words when there is nothing to answer."""
    try:
        asking = await _shown(call)
    except Refused as refused:
        if refused.code not in OVER:
            raise
        return question_page(call, OVER[refused.code])
    if asking.standing != "open":
        return question_page(call, "This question has been answered.", asking.name)
    return question_page(call, asking.text, asking.name, asking.expires_at, asking.asks or {})


def _default(found: PendingAnswer) -> Any:
    return None if found.posed.default is UNSET else found.posed.default
