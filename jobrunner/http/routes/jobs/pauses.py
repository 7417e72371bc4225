"""Hold back a job, a workflow or a stage, and let it go on."""

from typing import Literal

from msgspec import UNSET, UnsetType

from jobrunner.core.instants import text_of
from jobrunner.core.messages import Pause, Resume
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import (
    ADMINS,
    MOVING,
    OWNERS,
    Body,
    Endpoint,
    Handler,
    HttpCall,
    HttpReply,
    View,
)
from jobrunner.http.frame.etags import expected_version
from jobrunner.http.frame.inputs import Prose, Reasoned, Version, job_id_of
from jobrunner.http.frame.views import Job, reply, reply_answer

Scope = Literal["workflow", "stage"]


class PauseOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Prose | None = None
    expected_version: Version | None = None


class PauseView(View, frozen=True, kw_only=True):
    """A workflow or a stage, held back or not."""

    scope: str
    name: str
    paused: bool
    by: str | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    at: str | UnsetType = UNSET
    replayed: bool | UnsetType = UNSET


class PauseList(View, frozen=True, kw_only=True):
    pauses: list[PauseView]


async def pause_job(call: HttpCall) -> HttpReply:
    body: PauseOrder = call.body
    version = expected_version(call, body.expected_version)
    message = Pause(call.actor, body.reason, version)
    return reply_answer(call, await call.door.facade.ask(job_id_of(call), message), 200)


async def resume_job(call: HttpCall) -> HttpReply:
    body: PauseOrder = call.body
    version = expected_version(call, body.expected_version)
    message = Resume(call.actor, body.reason, version)
    return reply_answer(call, await call.door.facade.ask(job_id_of(call), message), 200)


async def list_pauses(call: HttpCall) -> HttpReply:
    rows = await call.door.reader.pauses()
    shown = [
        PauseView(
            scope=scope, name=name, paused=True, by=one.by, reason=one.reason, at=text_of(one.at)
        )
        for scope, name, one in rows
    ]
    return reply(PauseList(pauses=shown))


def pausing(scope: Scope) -> Handler:
    async def pause(call: HttpCall) -> HttpReply:
        body: Reasoned = call.body
        name = _known(call, scope)
        held = call.door.facade.pausing
        paused, before = await held.pause(scope, name, call.actor, body.reason)
        return reply(
            PauseView(
                scope=scope,
                name=name,
                paused=True,
                by=paused.by,
                reason=paused.reason,
                at=text_of(paused.at),
                replayed=before,
            )
        )

    return pause


def resuming(scope: Scope) -> Handler:
    async def resume(call: HttpCall) -> HttpReply:
        body: Reasoned = call.body
        name = call.path["name"]
        held = call.door.facade.pausing
        was = await held.resume(scope, name, call.actor, body.reason)
        if not was:
            _known(call, scope)
        return reply(PauseView(scope=scope, name=name, paused=False, replayed=not was))

    return resume


def _known(call: HttpCall, scope: Scope) -> str:
    """Raises: Refused NOT_FOUND for what is not loaded here."""
    name, definitions = call.path["name"], call.door.facade.definitions
    loaded = definitions.names() if scope == "workflow" else sorted(definitions.stages)
    if name not in loaded:
        known = ", ".join(loaded) or "none"
        raise Refused("NOT_FOUND", f"there is no {scope} {name!r}; loaded are: {known}")
    return name


def _of_job(path: str, name: str, handler: Handler, summary: str) -> Endpoint:
    return Endpoint(
        "POST",
        path,
        name,
        handler,
        summary,
        {200: Job},
        roles=OWNERS,
        body=PauseOrder,
        empty=True,
        codes=MOVING,
        declared=True,
    )


def _of_many(scope: Scope, verb: str, handler: Handler, summary: str) -> Endpoint:
    return Endpoint(
        "POST",
        f"/admin/{scope}s/{{name}}/{verb}",
        f"{verb}{scope.capitalize()}",
        handler,
        summary,
        {200: PauseView},
        roles=ADMINS,
        body=Reasoned,
        empty=True,
    )


ENDPOINTS = (
    _of_job("/jobs/{id}/pause", "pauseJob", pause_job, "Pause a job: no attempt of it starts"),
    _of_job("/jobs/{id}/resume", "resumeJob", resume_job, "Let a paused job go on"),
    Endpoint(
        "GET",
        "/admin/pauses",
        "listPauses",
        list_pauses,
        "List the paused workflows and stages",
        {200: PauseList},
        roles=ADMINS,
    ),
    _of_many(
        "workflow",
        "pause",
        pausing("workflow"),
        "Pause a workflow: no attempt of any of its jobs starts",
    ),
    _of_many("workflow", "resume", resuming("workflow"), "Let the jobs of a paused workflow go on"),
    _of_many("stage", "pause", pausing("stage"), "Pause a stage: no attempt of it starts"),
    _of_many(
        "stage", "resume", resuming("stage"), "Let the attempts of a paused stage start again"
    ),
)
