"""The table. Order matters only where two paths match the same address: the first one wins."""

from functools import lru_cache, partial
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from jobrunner.core.declaration.workflow import Definition
from jobrunner.http import views, wire
from jobrunner.http.frame import openapi
from jobrunner.http.frame.call import Call, Door, Handler, Reply
from jobrunner.http.frame.endpoint import ADMINS, MOVING, OWNERS, SUBMITTING, WORKERS, Endpoint
from jobrunner.http.frame.plugin_routes import endpoints_of
from jobrunner.http.frame.rendering import encode
from jobrunner.http.routes.admin import metrics, notifications, operations, tokens, workflows
from jobrunner.http.routes.files import table
from jobrunner.http.routes.jobs import bulk, commands, jobs, pauses, streams
from jobrunner.http.routes.jobs.streams import EVENT_STREAM
from jobrunner.http.routes.pages import docs
from jobrunner.http.routes.workers import claims, webhooks

STREAMING = ("NOT_ACCEPTABLE", "TOO_MANY_STREAMS")
EVENTS = ("CALLBACK_OUT_OF_ORDER", "EVENT_ID_PAYLOAD_MISMATCH")
ANYTHING = dict[str, Any]
Answers = type[Any] | dict[int, Any]


def table_of(door: Door) -> tuple[Endpoint, ...]:
    """The service's own endpoints, then what the loaded workflows add without shadowing them."""
    loaded = _loaded(door)
    edits = [editable.max_size for one in loaded for editable in one.workflow.editables]
    core = tuple(_for_edits(endpoint, max(edits, default=0)) for endpoint in CORE)
    added = endpoints_of(loaded)
    return core + tuple(endpoint for endpoint in added if endpoint.door not in TAKEN)


def _for_edits(endpoint: Endpoint, most: int) -> Endpoint:
    """Who saves an artifact may send as much as any workflow takes; its own limit comes later."""
    return replace(endpoint, max_body=most) if endpoint.name == "editArtifact" else endpoint


async def document(call: Call) -> Reply:
    return Reply(200, _document(call.door))


@lru_cache(maxsize=4)
def _document(door: Door) -> bytes:
    public_url = door.settings.public_url
    return encode(openapi.document(table_of(door), _loaded(door), door.version, public_url))


def _loaded(door: Door) -> list[Definition]:
    definitions = door.facade.definitions
    found = (definitions.current(name) for name in sorted(definitions.names()))
    return [definition for definition in found if definition is not None]


def _endpoint(
    method: Any, path: str, name: str, handler: Handler, answers: Answers, summary: str, **more: Any
) -> Endpoint:
    return Endpoint(
        method=method,
        path=path,
        name=name,
        handler=handler,
        answers=answers if isinstance(answers, dict) else {200: answers},
        summary=summary,
        **more,
    )


_get = partial(_endpoint, "GET")
_post = partial(_endpoint, "POST")
_put = partial(_endpoint, "PUT")
_delete = partial(_endpoint, "DELETE")

MAKING: dict[str, Any] = {
    "roles": OWNERS,
    "body": wire.Submission,
    "codes": SUBMITTING,
    "declared": True,
}
MOVES: dict[str, Any] = {"codes": MOVING, "declared": True}
MADE = {201: views.Job, 200: views.Job}
MOVED = {200: views.Job, 202: views.Job}

SUBMISSIONS = (
    _post(
        "/jobs", "createJob", jobs.submit, MADE, "Make a job, or find the one of its key", **MAKING
    ),
    _post("/jobs/", "createJobHere", jobs.submit, MADE, "The same", **MAKING),
)

READING = (
    _get(
        "/jobs", "listJobs", jobs.list_jobs, views.Jobs, "Jobs, newest first", query=wire.JobsQuery
    ),
    _get("/jobs/", "listJobsHere", jobs.list_jobs, views.Jobs, "The same", query=wire.JobsQuery),
    _get(
        "/jobs/{id}",
        "getJob",
        jobs.show,
        {200: views.Job, 304: None},
        "A job, now or as soon as it has moved on",
        query=wire.JobQuery,
    ),
    _get(
        "/jobs/{id}/history",
        "getHistory",
        jobs.history,
        views.History,
        "Its transitions, oldest first",
        query=wire.RowsQuery,
    ),
    _get(
        "/jobs/{id}/attempts",
        "getAttempts",
        jobs.attempts,
        views.Attempts,
        "What its stages did",
        query=wire.RowsQuery,
    ),
    _get(
        "/jobs/{id}/events",
        "followJob",
        streams.job_events,
        {200: EVENT_STREAM, 204: None},
        "What befalls it, as it happens",
        query=wire.JobEventsQuery,
        codes=STREAMING,
    ),
    _get(
        "/events",
        "followJobs",
        streams.all_events,
        {200: EVENT_STREAM},
        "What befalls all jobs that the caller may list",
        query=wire.EventsQuery,
        codes=STREAMING,
    ),
    _get(
        "/jobs/{id}/assets",
        "getJobAssets",
        jobs.assets,
        views.Assets,
        "Its files, newest first",
        query=wire.FilesQuery,
    ),
    _get("/jobs/{id}/explain", "explainJob", jobs.explain, ANYTHING, "Why it is not moving"),
    _get(
        "/jobs/{id}/artifacts/{name}",
        "getArtifact",
        commands.show_artifact,
        views.ArtifactValue,
        "An artifact in one version, and the list of its versions",
        query=wire.ArtifactQuery,
        codes=("JOB_LOCKED",),
    ),
    _get(
        "/assets",
        "listAssets",
        operations.library,
        views.Library,
        "The caller's files over all jobs, newest first; an admin sees everybody's",
        query=wire.OwnedPageQuery,
    ),
    _get("/assets/{id}", "getAsset", operations.asset, views.AssetEntry, "What is known of a file"),
    _get(
        "/workflows",
        "listWorkflows",
        workflows.list_workflows,
        views.Workflows,
        "The loaded workflows, and those that were refused",
    ),
    _get(
        "/workflows/{name}",
        "getWorkflow",
        workflows.show_workflow,
        views.WorkflowView,
        "A declaration, or its picture",
        query=wire.DrawingQuery,
        media=("text/plain", "image/svg+xml"),
    ),
    _get(
        "/credits",
        "getCredits",
        operations.credits,
        views.Purse,
        "What the caller can spend",
        query=wire.OwnedQuery,
    ),
    _get(
        "/credits/history",
        "getCreditsHistory",
        operations.credits_history,
        views.Ledger,
        "The ledger, newest first",
        query=wire.OwnedPageQuery,
    ),
)

CHANGING = (
    _post(
        "/jobs/{id}/claim",
        "claimJob",
        claims.claim,
        views.Job,
        "An outside worker takes the job, or the attempt that nobody holds",
        roles=WORKERS,
        body=wire.NoFields,
        empty=True,
        **MOVES,
    ),
    _post(
        "/internal/claims",
        "claimWork",
        claims.claims,
        views.Claims,
        "The same, for a worker that looks for work",
        roles=WORKERS,
        body=wire.WorkWanted,
        codes=("UNKNOWN_WORKFLOW", "WORKFLOW_UNAVAILABLE"),
    ),
    _post(
        "/jobs/{id}/transitions",
        "moveJob",
        claims.transition,
        views.Job,
        "Take one declared edge",
        body=wire.Transition,
        **MOVES,
    ),
    _post(
        "/jobs/{id}/progress",
        "reportProgress",
        claims.progress,
        views.Job,
        "Progress; an empty body is a heartbeat",
        roles=WORKERS,
        body=wire.Progress,
        empty=True,
        **MOVES,
    ),
    _post(
        "/internal/jobs/{id}/status",
        "reportStatus",
        claims.status,
        {204: None, 200: views.EventReplayed},
        "A status event: it has one effect, however often it is sent",
        roles=WORKERS,
        body=wire.StatusEvent,
        codes=MOVING + EVENTS,
        declared=True,
    ),
    _post(
        "/jobs/{id}/{command}",
        "commandJob",
        commands.command,
        MOVED,
        "A command that the job's workflow declares",
        body=Raw,
        shown_body=wire.AnyCommand,
        empty=True,
        **MOVES,
    ),
    _put(
        "/jobs/{id}/artifacts/{name}",
        "editArtifact",
        commands.edit_artifact,
        views.Job,
        "A person's new version of an artifact",
        body=wire.ArtifactEdit,
        **MOVES,
    ),
    _delete(
        "/jobs/{id}",
        "deleteJob",
        jobs.remove,
        {204: None},
        "Forget a job that has ended",
        codes=("JOB_NOT_SETTLED", "JOB_VERSION_CONFLICT"),
    ),
)

OPERATING = (
    _post(
        "/admin/credits/{user}/grant",
        "grantCredits",
        operations.grant,
        views.Granted,
        "Give credits",
        roles=ADMINS,
        body=wire.GrantOrder,
        codes=("IDEMPOTENCY_MISMATCH",),
    ),
    _get(
        "/admin/audit",
        "getAudit",
        operations.audit,
        views.Audit,
        "Who did what, newest first",
        roles=ADMINS,
        query=wire.PageQuery,
    ),
    _get(
        "/admin/dead-letters",
        "getDeadLetters",
        operations.dead_letters,
        views.DeadLetters,
        "Work that was given up, for a person to look at",
        roles=ADMINS,
        query=wire.DeadLettersQuery,
    ),
    _post(
        "/admin/jobs/{id}/stop",
        "stopJob",
        operations.stop,
        views.Job,
        "End the running attempt as a permanent failure",
        roles=ADMINS,
        body=wire.Reasoned,
        empty=True,
        **MOVES,
    ),
    _post(
        "/admin/jobs/{id}/release",
        "releaseJob",
        operations.release,
        views.Job,
        "Let a job go on that was put aside",
        roles=ADMINS,
        body=wire.Reasoned,
        empty=True,
        **MOVES,
    ),
    _get(
        "/admin/tokens",
        "listTokens",
        tokens.tokens,
        views.Tokens,
        "The tokens, without what they say",
        roles=ADMINS,
    ),
    _post(
        "/admin/tokens",
        "createToken",
        tokens.new_token,
        {201: views.TokenEntry},
        "A new token, shown this once",
        roles=ADMINS,
        body=wire.TokenOrder,
        codes=("UNKNOWN_WORKFLOW",),
    ),
    _post(
        "/admin/tokens/{id}/rotate",
        "rotateToken",
        tokens.rotate_token,
        {201: views.TokenEntry},
        "A new token in the place of one, or of all of a name, which end a little later",
        roles=ADMINS,
        body=wire.Rotation,
        empty=True,
    ),
    _delete(
        "/admin/tokens/{id}",
        "revokeToken",
        tokens.revoke_token,
        {204: None},
        "Revoke a token by its id, or all of a name",
        roles=ADMINS,
    ),
    _post(
        "/admin/db/check",
        "checkDatabase",
        operations.check_db,
        views.Checked,
        "Look for faults in the stored file",
        roles=ADMINS,
        body=wire.NoFields,
        empty=True,
    ),
)

HEARING = (
    _post(
        "/webhooks/{source}",
        "hearWebhook",
        webhooks.webhook,
        views.WebhookHeard,
        "What a provider says about its work, signed by Standard Webhooks",
        roles=None,
        body=Raw,
        plain=True,
        codes=("UNAUTHORIZED", "WORKFLOW_UNAVAILABLE"),
    ),
)

OPEN = (
    _get("/healthz", "isAlive", operations.alive, views.Alive, "The process answers", roles=None),
    _get(
        "/readyz",
        "isReady",
        operations.ready,
        {200: views.Readiness, 503: views.Readiness},
        "It can do its work",
        roles=None,
    ),
    _get("/openapi.json", "getOpenApi", document, ANYTHING, "This document", roles=None),
)

CORE: tuple[Endpoint, ...] = (
    SUBMISSIONS
    + READING
    + table.ENDPOINTS
    + pauses.OF_JOBS
    + CHANGING
    + pauses.OF_MANY
    + bulk.ENDPOINTS
    + OPERATING
    + HEARING
    + notifications.ENDPOINTS
    + metrics.ENDPOINTS
    + docs.ENDPOINTS
    + OPEN
)
TAKEN = frozenset(endpoint.door for endpoint in CORE)

__all__ = ["CORE", "TAKEN", "document", "table_of"]
