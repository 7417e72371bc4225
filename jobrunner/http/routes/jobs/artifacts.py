"""Artifacts that people read in every version, and those that they write."""

from typing import Annotated, Any

from msgspec import Meta

from jobrunner.core.instants import text_of
from jobrunner.core.messages import Edit
from jobrunner.errors import Refused
from jobrunner.http.frame.bodies import too_large
from jobrunner.http.frame.endpoint import MOVING, Body, Endpoint, HttpCall, HttpReply, Query, View
from jobrunner.http.frame.etags import expected_version
from jobrunner.http.frame.inputs import Version, governed_job, job_id_of, visible_job
from jobrunner.http.frame.views import Job, reply, reply_answer, view_of


class ArtifactEdit(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    value: Any
    base_version: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    expected_version: Version | None = None


class ArtifactQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Version | None = None


class ArtifactVersion(View, frozen=True, kw_only=True):
    version: int
    created_at: str


class ArtifactValue(View, frozen=True, kw_only=True):
    name: str
    version: int
    value: Any
    created_at: str
    versions: list[ArtifactVersion]


@Endpoint(
    "GET",
    "/jobs/{id}/artifacts/{name}",
    {200: ArtifactValue},
    query=ArtifactQuery,
    codes=("JOB_LOCKED",),
)
async def get_artifact(call: HttpCall) -> HttpReply:
    """Show an artifact in one version, and list its versions."""
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
    versions = [
        ArtifactVersion(version=version, created_at=text_of(at)) for version, at in view.versions
    ]
    return reply(view_of(ArtifactValue, view.artifact, versions=versions))


@Endpoint("PUT", "/jobs/{id}/artifacts/{name}", {200: Job}, body=ArtifactEdit, codes=MOVING)
async def edit_artifact(call: HttpCall) -> HttpReply:
    """Write a new version of an artifact."""
    body: ArtifactEdit = call.body
    await _check_size(call)
    version = expected_version(call, body.expected_version)
    message = Edit(call.actor, call.path["name"], body.value, body.base_version, version)
    return reply_answer(call, await call.door.facade.ask(job_id_of(call), message), 200)


async def _check_size(call: HttpCall) -> None:
    """More than a body usually has is for artifacts that are declared to take it."""
    size, most = len(call.raw), call.door.settings.max_body
    if size <= most:
        return
    _, definition = await governed_job(call)
    declared = definition.editables.get(call.path["name"])
    most = max(most, declared.max_size if declared else 0)
    if size > most:
        raise too_large(most)
