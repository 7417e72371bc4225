"""Hold back a job, a workflow or a stage, and let it go on."""

from typing import Literal

from msgspec import UNSET, UnsetType

from jobrunner.core.job import Paused
from jobrunner.core.messages import Pause, Resume
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import (
    ADMINS,
    MOVING,
    OWNERS,
    Body,
    Endpoint,
    HttpCall,
    HttpReply,
    View,
)
from jobrunner.http.frame.etags import expected_version
from jobrunner.http.frame.inputs import Prose, Reasoned, Version, job_id_of
from jobrunner.http.frame.views import Job, reply, reply_answer, view_of

Scope = Literal["workflow", "stage"]


class PauseOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Prose | None = None
    expected_version: Version | None = None


class PauseView(View, frozen=True, kw_only=True):
    """A workflow or a stage, held back or not."""

    scope: Scope
    name: str
    paused: bool
    by: str | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    at: str | UnsetType = UNSET
    replayed: bool | UnsetType = UNSET


class PauseList(View, frozen=True, kw_only=True):
    pauses: list[PauseView]


@Endpoint("POST", "/jobs/{id}/pause", {200: Job}, OWNERS, PauseOrder, empty=True, codes=MOVING)
async def pause_job(call: HttpCall) -> HttpReply:
    """Pause a job: no attempt of it starts."""
    return await _ask(call, Pause)


@Endpoint("POST", "/jobs/{id}/resume", {200: Job}, OWNERS, PauseOrder, empty=True, codes=MOVING)
async def resume_job(call: HttpCall) -> HttpReply:
    """Let a paused job go on."""
    return await _ask(call, Resume)


@Endpoint("GET", "/admin/pauses", {200: PauseList}, ADMINS)
async def list_pauses(call: HttpCall) -> HttpReply:
    """List the paused workflows and stages."""
    rows = await call.door.reader.pauses()
    return reply(PauseList(pauses=[_paused(scope, name, one) for scope, name, one in rows]))


@Endpoint("POST", "/admin/workflows/{name}/pause", {200: PauseView}, ADMINS, Reasoned, empty=True)
async def pause_workflow(call: HttpCall) -> HttpReply:
    """Pause a workflow: no attempt of any of its jobs starts."""
    return await _pause(call, "workflow")


@Endpoint("POST", "/admin/workflows/{name}/resume", {200: PauseView}, ADMINS, Reasoned, empty=True)
async def resume_workflow(call: HttpCall) -> HttpReply:
    """Let the jobs of a paused workflow go on."""
    return await _resume(call, "workflow")


@Endpoint("POST", "/admin/stages/{name}/pause", {200: PauseView}, ADMINS, Reasoned, empty=True)
async def pause_stage(call: HttpCall) -> HttpReply:
    """Pause a stage: no attempt of it starts."""
    return await _pause(call, "stage")


@Endpoint("POST", "/admin/stages/{name}/resume", {200: PauseView}, ADMINS, Reasoned, empty=True)
async def resume_stage(call: HttpCall) -> HttpReply:
    """Let the attempts of a paused stage start again."""
    return await _resume(call, "stage")


async def _ask(call: HttpCall, order: type[Pause] | type[Resume]) -> HttpReply:
    body: PauseOrder = call.body
    message = order(call.actor, body.reason, expected_version(call, body.expected_version))
    return reply_answer(call, await call.door.facade.ask(job_id_of(call), message), 200)


async def _pause(call: HttpCall, scope: Scope) -> HttpReply:
    body: Reasoned = call.body
    name = _known(call, scope)
    pausing = call.door.facade.pausing
    paused, before = await pausing.pause(scope, name, call.actor, body.reason)
    return reply(_paused(scope, name, paused, before))


async def _resume(call: HttpCall, scope: Scope) -> HttpReply:
    body: Reasoned = call.body
    name = call.path["name"]
    was = await call.door.facade.pausing.resume(scope, name, call.actor, body.reason)
    if not was:
        _known(call, scope)
    return reply(PauseView(scope=scope, name=name, paused=False, replayed=not was))


def _paused(scope: str, name: str, one: Paused, replayed: bool | UnsetType = UNSET) -> PauseView:
    return view_of(PauseView, one, scope=scope, name=name, paused=True, replayed=replayed)


def _known(call: HttpCall, scope: Scope) -> str:
    """Raises: Refused NOT_FOUND for what is not loaded here."""
    name, definitions = call.path["name"], call.door.facade.definitions
    loaded = definitions.names() if scope == "workflow" else sorted(definitions.stages)
    if name not in loaded:
        known = ", ".join(loaded) or "none"
        raise Refused("NOT_FOUND", f"there is no {scope} {name!r}; loaded are: {known}")
    return name
