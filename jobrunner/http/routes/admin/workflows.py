"""The declarations, as published: pair by pair, with wildcards expanded."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Literal

import msgspec
from msgspec import Struct

from jobrunner.core.declaration.artifacts import Listed, schema_of_shapes
from jobrunner.core.declaration.states import End, Kind, Money, Role, Trigger
from jobrunner.core.declaration.workflow import ANY, Command, Definition, State, Upload, Workflow
from jobrunner.drawing.mermaid import mermaid
from jobrunner.drawing.svg import svg
from jobrunner.errors import Refused
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpReply, Query, View
from jobrunner.http.frame.views import encode, reply, view_of
from jobrunner.http.routes.pages.panels import page_of
from jobrunner.stages.fitting import proof

DRAWINGS: dict[str, tuple[Callable[[Workflow], str], str]] = {
    "mermaid": (mermaid, "text/plain; charset=utf-8"),
    "svg": (svg, "image/svg+xml"),
}
NO_SCRIPT = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


class DrawingQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["json", "mermaid", "svg"] = "json"


class StateView(View, frozen=True, kw_only=True):
    """``stage`` is one name, or several by job type; None where nothing is run."""

    name: str
    kind: Kind
    stage: str | dict[str, str] | None
    same: str
    ends: End | None
    deadline_s: float | None
    limit_s: float | None
    retry_max: int | None


class EdgeView(View, frozen=True, kw_only=True):
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    triggers: list[Trigger]
    guards: list[str]
    money: Money | None


class CommandView(View, frozen=True, kw_only=True):
    """``path`` says, by the status it starts in, which statuses it walks."""

    name: str
    source: list[str] = msgspec.field(name="from")
    path: dict[str, list[str]]
    satisfied: list[str]
    roles: list[Role]
    fields_schema: dict[str, Any] | None


class JobTypeView(View, frozen=True, kw_only=True):
    """``result_schema`` is what a result must be, where the workflow says so."""

    params_schema: dict[str, Any]
    price: int
    result_schema: dict[str, Any] | None


class UploadKind(View, frozen=True, kw_only=True):
    """A file that jobs take: in which states, as what, and what it becomes."""

    name: str
    source: list[str]
    asset_type: str
    types: list[str]
    max_bytes: int | None


class ArtifactKind(View, frozen=True, kw_only=True):
    """An artifact that the workflow lists: what it must be, whose reports may bring it (nobody's:
    it is written by commands alone), and from which states (none: from all)."""

    name: str
    value_schema: dict[str, Any]
    writers: list[str]
    source: list[str]


class PanelView(View, frozen=True, kw_only=True):
    """A page of the plugin's own that shows a job of this workflow in a sandboxed frame."""

    title: str
    url: str


class WorkflowView(View, frozen=True, kw_only=True):
    name: str
    version: str
    digest: str
    initial: str
    states: list[StateView]
    edges: list[EdgeView]
    commands: list[CommandView]
    uploads: list[UploadKind]
    artifacts: list[ArtifactKind]
    job_types: dict[str, JobTypeView]
    params_schema: dict[str, Any]
    prices: dict[str, int]
    panel: PanelView | None


class ExcludedView(View, frozen=True, kw_only=True):
    """A fault that there would be without the edge from ``from`` to ``to``, with the steps of a job
    that would suffer."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    rule: str
    text: str
    trace: list[str]


class ProofView(View, frozen=True, kw_only=True):
    """A workflow that is loaded has no fault: every job ends, all money is settled and every lock
    let go, whatever happens. ``excluded`` are counter-examples, one for each edge that keeps one
    from happening."""

    name: str
    version: str
    digest: str
    excluded: list[ExcludedView]


class WorkflowEntry(View, frozen=True, kw_only=True):
    name: str
    version: str
    initial: str
    job_types: list[str]


class RefusedWorkflow(View, frozen=True, kw_only=True):
    name: str
    faults: list[str]


class Workflows(View, frozen=True, kw_only=True):
    workflows: list[WorkflowEntry]
    refused: list[RefusedWorkflow]


@Endpoint("GET", "/workflows", {200: Workflows})
async def list_workflows(call: HttpCall) -> HttpReply:
    """List the loaded workflows, and those that were refused."""
    definitions = call.door.facade.definitions
    loaded = [definitions.current(name) for name in sorted(definitions.names())]
    entries = [
        view_of(WorkflowEntry, definition.workflow, job_types=list(definition.job_types))
        for definition in loaded
        if definition is not None
    ]
    refused = [
        RefusedWorkflow(name=name, faults=[str(fault) for fault in faults])
        for name, faults in sorted(definitions.refused["workflows"].items())
    ]
    return reply(Workflows(workflows=entries, refused=refused))


@Endpoint(
    "GET",
    "/workflows/{name}",
    {200: WorkflowView},
    query=DrawingQuery,
    media=("text/plain", "image/svg+xml"),
)
async def get_workflow(call: HttpCall) -> HttpReply:
    """Show the declaration of a workflow, or its picture."""
    query: DrawingQuery = call.query
    definition = _named(call)
    if query.format == "json":
        return HttpReply(200, _published(definition, panel_of(call, definition)))
    draw, content_type = DRAWINGS[query.format]
    return HttpReply(200, draw(definition.workflow).encode(), dict(NO_SCRIPT), content_type)


@Endpoint("GET", "/workflows/{name}/proof", {200: ProofView})
async def get_proof(call: HttpCall) -> HttpReply:
    """Show what was proved of a workflow when it was loaded, by the counter-examples that each of
    its edges excludes."""
    definition = _named(call)
    in_thread = call.door.facade.world.children.in_thread
    return HttpReply(200, await in_thread(partial(_proved, definition)))


def schema_of(kind: type[Struct]) -> dict[str, Any]:
    """JSON Schema, complete in itself."""
    return msgspec.json.schema(kind)


def _named(call: HttpCall) -> Definition:
    """Raises: Refused NOT_FOUND."""
    name = call.path["name"]
    definition = call.door.facade.definitions.current(name)
    if definition is None:
        raise Refused("NOT_FOUND", f"there is no workflow {name!r}")
    return definition


@lru_cache(maxsize=64)
def _proved(definition: Definition) -> bytes:
    found = [
        view_of(ExcludedView, one.fault, source=one.source, target=one.target)
        for one in proof(definition)
    ]
    workflow, digest = definition.workflow, definition.digest
    return encode(view_of(ProofView, workflow, digest=digest, excluded=found))


@lru_cache(maxsize=64)
def _published(definition: Definition, panel: PanelView | None) -> bytes:
    return encode(published(definition, panel))


def panel_of(call: HttpCall, definition: Definition) -> PanelView | None:
    """Find the panel of this workflow: that of today, whatever declaration a job is under."""
    panel = call.door.facade.definitions.panels.get(definition.workflow.name)
    return PanelView(title=panel.title, url=link(call, page_of(panel))) if panel else None


def published(definition: Definition, panel: PanelView | None = None) -> WorkflowView:
    workflow = definition.workflow
    job_types = {
        job_type.name: JobTypeView(
            params_schema=schema_of(definition.structs[job_type.params]),
            price=job_type.price,
            result_schema=schema_of_shapes(definition.result_shapes(job_type.name)) or None,
        )
        for job_type in workflow.job_types
    }
    return view_of(
        WorkflowView,
        workflow,
        digest=definition.digest,
        states=[_state(state) for state in workflow.states],
        edges=_edges(definition),
        commands=[_command(definition, command) for command in workflow.commands],
        uploads=[_upload(upload) for upload in workflow.uploads],
        artifacts=[_artifact(listed) for listed in workflow.artifacts],
        job_types=job_types,
        params_schema=job_types[workflow.job_types[0].name].params_schema,
        prices={name: view.price for name, view in job_types.items()},
        panel=panel,
    )


def _state(state: State) -> StateView:
    stages = set(state.stage.values())
    one = stages.pop() if len(stages) == 1 and (ANY in state.stage) else None
    return view_of(
        StateView,
        state,
        stage=one or dict(state.stage) or None,
        ends=state.ends or None,
        deadline_s=state.deadline.after_s if state.deadline else None,
        limit_s=state.limit_s or None,
        retry_max=state.retry.max if state.retry else None,
    )


def _edges(definition: Definition) -> list[EdgeView]:
    return [
        EdgeView(
            source=source,
            target=target,
            triggers=list(edge.by),
            guards=[guard.call.name for guard in edge.guards],
            money=edge.money,
        )
        for source, targets in definition.table.items()
        for target, edge in targets.items()
    ]


def _upload(upload: Upload) -> UploadKind:
    source = list({**upload.begins, **upload.walks})
    return view_of(UploadKind, upload, source=source, max_bytes=upload.max_bytes or None)


def _artifact(listed: Listed) -> ArtifactKind:
    schema = schema_of_shapes(listed.shapes)
    return view_of(ArtifactKind, listed, value_schema=schema, source=list(listed.states))


def _command(definition: Definition, command: Command) -> CommandView:
    fields = schema_of(definition.structs[command.fields]) if command.fields else None
    path = {source: list(walk) for source, walk in command.walks.items()}
    return view_of(CommandView, command, source=list(path), path=path, fields_schema=fields)
