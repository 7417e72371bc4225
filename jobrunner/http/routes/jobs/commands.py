"""Named requests: the declared commands, under their own path or another that leads to them, and
the artifacts that people write."""

from msgspec import Raw

from jobrunner.core.declaration.workflow import Command, Definition
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Do, Release, Stop
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import ADMINS, MOVING, Endpoint, Handler, HttpCall, HttpReply
from jobrunner.http.frame.etags import expected_version
from jobrunner.http.frame.inputs import Reasoned, Version, command_fields, governed_job, job_id_of
from jobrunner.http.frame.views import Job, reply_answer


class AnyCommand(Reasoned, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields that every command takes; its own fields stand with the declared ones."""

    expected_version: Version | None = None


@Endpoint(
    "POST",
    "/jobs/{id}/{command}",
    {200: Job, 202: Job},
    body=Raw,
    shown_body=AnyCommand,
    empty=True,
    codes=MOVING,
)
async def command_job(call: HttpCall) -> HttpReply:
    """Carry out a command that the job's workflow declares."""
    job, definition = await governed_job(call)
    name = call.path["command"]
    declared = definition.commands.get(name)
    if declared is None:
        known = ", ".join(sorted(definition.commands)) or "none"
        detail = f"{definition.workflow.name} has no command {name!r}; it has: {known}"
        raise Refused("UNKNOWN_COMMAND", detail)
    return await _do(call, job, definition, declared)


def command_at(path: str) -> Handler:
    """A path of some workflows' own; the job's workflow says which command it stands for."""

    async def aliased(call: HttpCall) -> HttpReply:
        job, definition = await governed_job(call)
        for declared in definition.workflow.commands:
            if path in declared.aliases:
                return await _do(call, job, definition, declared)
        raise Refused("UNKNOWN_COMMAND", f"{definition.workflow.name} has no command at {path}")

    return aliased


async def _do(
    call: HttpCall, job: Snapshot, definition: Definition, declared: Command
) -> HttpReply:
    fields, reason, version = command_fields(definition, declared, call.raw)
    expected = expected_version(call, version)
    message = Do(call.actor, declared.name, fields, expected, reason)
    return reply_answer(call, await call.door.facade.ask(job.id, message))


@Endpoint(
    "POST", "/admin/jobs/{id}/stop", {200: Job}, ADMINS, body=Reasoned, empty=True, codes=MOVING
)
async def stop_job(call: HttpCall) -> HttpReply:
    """End the running attempt as a permanent failure."""
    return await _ask(call, Stop)


@Endpoint(
    "POST", "/admin/jobs/{id}/release", {200: Job}, ADMINS, body=Reasoned, empty=True, codes=MOVING
)
async def release_job(call: HttpCall) -> HttpReply:
    """Let a stuck job go on."""
    return await _ask(call, Release)


async def _ask(call: HttpCall, order: type[Stop] | type[Release]) -> HttpReply:
    body: Reasoned = call.body
    message = order(call.actor, body.reason)
    return reply_answer(call, await call.door.facade.ask(job_id_of(call), message), 200)
