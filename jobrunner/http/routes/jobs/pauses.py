"""Holding back a job, a workflow or a stage, letting it go on; doing a job again as a new one."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType, field

from jobrunner.actors.features.reruns import Wish
from jobrunner.core.messages import Pause, Resume
from jobrunner.errors import Refused
from jobrunner.http.frame.call import Call, Handler, Reply
from jobrunner.http.frame.endpoint import ADMINS, MOVING, OWNERS, SUBMITTING, Endpoint
from jobrunner.http.frame.etags import expected_version
from jobrunner.http.frame.finding import job_id_of, visible_job
from jobrunner.http.frame.instants import text_of
from jobrunner.http.frame.keys import key_given
from jobrunner.http.frame.rendering import reply, reply_answer
from jobrunner.http.routes.jobs.jobs import reply_submitted
from jobrunner.http.views import Job, View
from jobrunner.http.wire import Body, Key, Name, Prose, Reasoned, Version

Scope = Literal["workflow", "stage"]


class Held(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Prose | None = None
    expected_version: Version | None = None


class Again(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``from`` is the state to begin again from. ``params`` lie over the job's, name by name."""

    from_: Name | None = field(default=None, name="from")
    params: dict[str, Any] = {}
    reason: Prose | None = None
    idempotency_key: Key | None = None


class PauseView(View, frozen=True, kw_only=True):
    """A workflow or a stage, held back or not."""

    scope: str
    name: str
    paused: bool
    by: str | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET
    at: str | UnsetType = UNSET
    replayed: bool | UnsetType = UNSET


class Pauses(View, frozen=True, kw_only=True):
    pauses: list[PauseView]


async def pause_job(call: Call) -> Reply:
    body: Held = call.body
    version = expected_version(call, body.expected_version)
    message = Pause(call.actor, body.reason, version)
    return reply_answer(call, await call.door.facade.ask(job_id_of(call), message), 200)


async def resume_job(call: Call) -> Reply:
    body: Held = call.body
    version = expected_version(call, body.expected_version)
    message = Resume(call.actor, body.reason, version)
    return reply_answer(call, await call.door.facade.ask(job_id_of(call), message), 200)


async def rerun_job(call: Call) -> Reply:
    """A new job, or the one that this very wish made before."""
    body: Again = call.body
    job = await visible_job(call)
    if not call.actor.roles(job) & OWNERS:
        raise Refused("FORBIDDEN", "doing a job again is for its owner or an admin")
    wish = Wish(
        by=call.actor,
        place=body.from_,
        params=body.params,
        reason=body.reason,
        key=key_given(call, body.idempotency_key),
        correlation_id=call.correlation_id,
    )
    return reply_submitted(call, await call.door.facade.bulks.reruns.rerun(job, wish))


async def list_pauses(call: Call) -> Reply:
    rows = await call.door.reader.pauses()
    shown = [
        PauseView(
            scope=scope, name=name, paused=True, by=one.by, reason=one.reason, at=text_of(one.at)
        )
        for scope, name, one in rows
    ]
    return reply(Pauses(pauses=shown))


def pausing(scope: Scope) -> Handler:
    async def pause(call: Call) -> Reply:
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
    async def resume(call: Call) -> Reply:
        body: Reasoned = call.body
        name = call.path["name"]
        held = call.door.facade.pausing
        was = await held.resume(scope, name, call.actor, body.reason)
        if not was:
            _known(call, scope)
        return reply(PauseView(scope=scope, name=name, paused=False, replayed=not was))

    return resume


def _known(call: Call, scope: Scope) -> str:
    """Raises: Refused NOT_FOUND for what is not loaded here."""
    name, definitions = call.path["name"], call.door.facade.definitions
    loaded = definitions.names() if scope == "workflow" else sorted(definitions.stages)
    if name not in loaded:
        known = ", ".join(loaded) or "none"
        raise Refused("NOT_FOUND", f"there is no {scope} {name!r}; loaded are: {known}")
    return name


def _of_job(path: str, name: str, handler: Handler, summary: str, body: type[Body]) -> Endpoint:
    return Endpoint(
        method="POST",
        path=path,
        name=name,
        handler=handler,
        summary=summary,
        answers={200: Job},
        roles=OWNERS,
        body=body,
        empty=True,
        codes=MOVING,
        declared=True,
    )


def _of_many(scope: Scope, verb: str, handler: Handler, summary: str) -> Endpoint:
    return Endpoint(
        method="POST",
        path=f"/admin/{scope}s/{{name}}/{verb}",
        name=f"{verb}{scope.capitalize()}",
        handler=handler,
        summary=summary,
        answers={200: PauseView},
        roles=ADMINS,
        body=Reasoned,
        empty=True,
    )


OF_JOBS = (
    _of_job("/jobs/{id}/pause", "pauseJob", pause_job, "Nothing new starts in this job", Held),
    _of_job("/jobs/{id}/resume", "resumeJob", resume_job, "A paused job goes on", Held),
    Endpoint(
        method="POST",
        path="/jobs/{id}/rerun",
        name="rerunJob",
        handler=rerun_job,
        summary="A new job from this one, without doing again what still holds",
        answers={201: Job, 200: Job},
        roles=OWNERS,
        body=Again,
        empty=True,
        codes=(*SUBMITTING, "JOB_LOCKED", "JOB_NOT_SETTLED"),
        declared=True,
    ),
)
OF_MANY = (
    Endpoint(
        method="GET",
        path="/admin/pauses",
        name="listPauses",
        handler=list_pauses,
        summary="The workflows and stages that are paused",
        answers={200: Pauses},
        roles=ADMINS,
    ),
    _of_many("workflow", "pause", pausing("workflow"), "No attempt of any of its jobs starts"),
    _of_many("workflow", "resume", resuming("workflow"), "Its jobs go on"),
    _of_many("stage", "pause", pausing("stage"), "No attempt of this stage starts"),
    _of_many("stage", "resume", resuming("stage"), "Its attempts start again"),
)
