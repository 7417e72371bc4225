"""Named requests: the declared commands, under their own path or another that leads to them, and
the artifacts that people write."""

from jobrunner.core.declaration.workflow import Command, Definition
from jobrunner.core.job import Snapshot
from jobrunner.core.messages import Do, Edit
from jobrunner.errors import Refused
from jobrunner.http.frame.bodies import too_large
from jobrunner.http.frame.call import Call, Handler, Reply
from jobrunner.http.frame.etags import expected_version
from jobrunner.http.frame.finding import governed_job, job_id_of, visible_job
from jobrunner.http.frame.forms import command_fields
from jobrunner.http.frame.instants import text_of
from jobrunner.http.frame.rendering import reply, reply_answer
from jobrunner.http.views import ArtifactValue, ArtifactVersion
from jobrunner.http.wire import ArtifactEdit, ArtifactQuery


async def command(call: Call) -> Reply:
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

    async def aliased(call: Call) -> Reply:
        job, definition = await governed_job(call)
        for declared in definition.workflow.commands:
            if path in declared.aliases:
                return await _do(call, job, definition, declared)
        raise Refused("UNKNOWN_COMMAND", f"{definition.workflow.name} has no command at {path}")

    return aliased


async def show_artifact(call: Call) -> Reply:
    query: ArtifactQuery = call.query
    job, name = await visible_job(call), call.path["name"]
    view = await call.door.reader.artifact(job.id, name, query.version)
    if view is None:
        wanted = f"{name!r}" if query.version is None else f"{name!r} in version {query.version}"
        raise Refused("NOT_FOUND", f"the job has no artifact {wanted}")
    if view.unreadable:
        why = f"UNREADABLE: {view.unreadable}"
        version = view.artifact.version
        raise Refused("JOB_LOCKED", f"version {version} of {name!r}: {why}", stuck=why)
    return reply(
        ArtifactValue(
            name=view.artifact.name,
            version=view.artifact.version,
            value=view.artifact.value,
            created_at=text_of(view.artifact.created_at),
            versions=[
                ArtifactVersion(version=version, created_at=text_of(at))
                for version, at in view.versions
            ],
        )
    )


async def edit_artifact(call: Call) -> Reply:
    """A person's new version."""
    body: ArtifactEdit = call.body
    await _check_size(call)
    version = expected_version(call, body.expected_version)
    message = Edit(call.actor, call.path["name"], body.value, body.base_version, version)
    return reply_answer(call, await call.door.facade.ask(job_id_of(call), message), 200)


async def _check_size(call: Call) -> None:
    """More than a body usually has is for artifacts that are declared to take it."""
    size, most = len(call.raw), call.door.settings.max_body
    if size <= most:
        return
    _, definition = await governed_job(call)
    declared = definition.editables.get(call.path["name"])
    most = max(most, declared.max_size if declared else 0)
    if size > most:
        raise too_large(most)


async def _do(call: Call, job: Snapshot, definition: Definition, declared: Command) -> Reply:
    fields, reason, version = command_fields(definition, declared, call.raw)
    expected = expected_version(call, version)
    message = Do(call.actor, declared.name, fields, expected, reason)
    return reply_answer(call, await call.door.facade.ask(job.id, message))
