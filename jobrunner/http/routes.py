"""The table. Order matters only where two paths match the same address: the first one wins."""

from typing import Any

import msgspec

from jobrunner.http import callbacks, commands, jobs, operations, views, wire, workflows
from jobrunner.http.contributed import endpoints_of
from jobrunner.http.door import Door
from jobrunner.http.endpoint import (
    ADMINS,
    ANYBODY,
    MOVING,
    OWNERS,
    SUBMITTING,
    WORKERS,
    Endpoint,
)

EVENTS = ("CALLBACK_OUT_OF_ORDER", "EVENT_ID_PAYLOAD_MISMATCH")
ANYTHING = dict[str, Any]


def table_of(door: Door) -> tuple[Endpoint, ...]:
    """The service's own endpoints, then what the loaded workflows add without shadowing them."""
    definitions = door.supervisor.definitions
    loaded = [definitions.current(name) for name in sorted(definitions.names())]
    added = endpoints_of(definition for definition in loaded if definition is not None)
    return CORE + tuple(endpoint for endpoint in added if endpoint.door not in TAKEN)


SUBMISSIONS = tuple(
    Endpoint(
        method="POST",
        path=path,
        name=name,
        handler=jobs.submit,
        summary="Make a job, or find the one that the same key made before",
        roles=OWNERS,
        body=wire.Submission,
        answers={201: views.Job, 200: views.Job},
        codes=SUBMITTING,
        declared=True,
    )
    for path, name in (("/jobs", "createJob"), ("/jobs/", "createJobHere"))
)

READING = (
    Endpoint(
        method="GET",
        path="/jobs",
        name="listJobs",
        handler=jobs.list_jobs,
        summary="Jobs, newest first",
        query=wire.JobsQuery,
        answers={200: views.Jobs},
    ),
    Endpoint(
        method="GET",
        path="/jobs/",
        name="listJobsHere",
        handler=jobs.list_jobs,
        summary="Jobs, newest first",
        query=wire.JobsQuery,
        answers={200: views.Jobs},
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}",
        name="getJob",
        handler=jobs.show,
        summary="A job, now or as soon as it has moved on",
        query=wire.JobQuery,
        answers={200: views.Job, 304: None},
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/history",
        name="getHistory",
        handler=jobs.history,
        summary="Its transitions, oldest first",
        answers={200: views.History},
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/attempts",
        name="getAttempts",
        handler=jobs.attempts,
        summary="The executions of its stages, with their errors",
        answers={200: views.Attempts},
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/assets",
        name="getJobAssets",
        handler=jobs.assets,
        summary="Its files, newest first",
        answers={200: views.Assets},
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/explain",
        name="explainJob",
        handler=jobs.explain,
        summary="Why it is not moving",
        answers={200: ANYTHING},
    ),
    Endpoint(
        method="GET",
        path="/jobs/{id}/artifacts/{name}",
        name="getArtifact",
        handler=commands.show_artifact,
        summary="An artifact in one version, and the list of its versions",
        query=wire.ArtifactQuery,
        answers={200: views.ArtifactValue},
    ),
    Endpoint(
        method="GET",
        path="/assets",
        name="listAssets",
        handler=operations.library,
        summary="The caller's files over all jobs, newest first",
        query=wire.OwnedPageQuery,
        answers={200: views.Library},
    ),
    Endpoint(
        method="GET",
        path="/assets/{id}",
        name="getAsset",
        handler=operations.asset,
        summary="What is known of one file",
        answers={200: views.AssetEntry},
    ),
    Endpoint(
        method="GET",
        path="/workflows",
        name="listWorkflows",
        handler=workflows.list_workflows,
        summary="The loaded workflows, and those that were refused",
        answers={200: views.Workflows},
    ),
    Endpoint(
        method="GET",
        path="/workflows/{name}",
        name="getWorkflow",
        handler=workflows.show_workflow,
        summary="A declaration, or its picture",
        query=wire.DrawingQuery,
        answers={200: views.WorkflowView},
        media=("text/plain", "image/svg+xml"),
    ),
    Endpoint(
        method="GET",
        path="/credits",
        name="getCredits",
        handler=operations.credits,
        summary="What the caller can spend, and what is held",
        answers={200: views.Purse},
    ),
    Endpoint(
        method="GET",
        path="/credits/history",
        name="getCreditsHistory",
        handler=operations.credits_history,
        summary="The ledger, newest first",
        query=wire.OwnedPageQuery,
        answers={200: views.Ledger},
    ),
)

CHANGING = (
    Endpoint(
        method="POST",
        path="/jobs/{id}/claim",
        name="claimJob",
        handler=callbacks.claim,
        summary="An outside worker takes the job, or the attempt that nobody holds",
        roles=WORKERS,
        body=wire.NoFields,
        empty=True,
        answers={200: views.Job},
        codes=MOVING,
        declared=True,
    ),
    Endpoint(
        method="POST",
        path="/internal/claims",
        name="claimWork",
        handler=callbacks.claims,
        summary="The same, for a worker that looks for work",
        roles=WORKERS,
        body=wire.WorkWanted,
        answers={200: views.Claims},
        codes=("UNKNOWN_WORKFLOW", "WORKFLOW_UNAVAILABLE"),
    ),
    Endpoint(
        method="POST",
        path="/jobs/{id}/transitions",
        name="moveJob",
        handler=callbacks.transition,
        summary="Take one declared edge",
        body=wire.Transition,
        answers={200: views.Job},
        codes=MOVING,
        declared=True,
    ),
    Endpoint(
        method="POST",
        path="/jobs/{id}/progress",
        name="reportProgress",
        handler=callbacks.progress,
        summary="Progress; an empty body is a heartbeat",
        roles=WORKERS,
        body=wire.Progress,
        empty=True,
        answers={200: views.Job},
        codes=MOVING,
        declared=True,
    ),
    Endpoint(
        method="POST",
        path="/internal/jobs/{id}/status",
        name="reportStatus",
        handler=callbacks.status,
        summary="A status event: accepted once, whatever is sent how often",
        roles=WORKERS,
        body=wire.StatusEvent,
        answers={204: None, 200: views.EventReplayed},
        codes=MOVING + EVENTS,
        declared=True,
    ),
    Endpoint(
        method="POST",
        path="/jobs/{id}/{command}",
        name="commandJob",
        handler=commands.command,
        summary="A command that the job's workflow declares",
        body=msgspec.Raw,
        empty=True,
        answers={200: views.Job, 202: views.Job},
        codes=MOVING,
        declared=True,
    ),
    Endpoint(
        method="PUT",
        path="/jobs/{id}/artifacts/{name}",
        name="editArtifact",
        handler=commands.edit_artifact,
        summary="A person's new version of an artifact",
        body=wire.ArtifactEdit,
        answers={200: views.Job},
        codes=MOVING,
        declared=True,
    ),
    Endpoint(
        method="DELETE",
        path="/jobs/{id}",
        name="deleteJob",
        handler=jobs.remove,
        summary="Forget a job that has ended",
        answers={204: None},
        codes=("JOB_NOT_SETTLED",),
    ),
)

OPERATING = (
    Endpoint(
        method="POST",
        path="/admin/credits/{user}/grant",
        name="grantCredits",
        handler=operations.grant,
        summary="Give credits",
        roles=ADMINS,
        body=wire.GrantOrder,
        answers={200: views.Purse},
    ),
    Endpoint(
        method="GET",
        path="/admin/audit",
        name="getAudit",
        handler=operations.audit,
        summary="Who did what, newest first",
        roles=ADMINS,
        query=wire.PageQuery,
        answers={200: views.Audit},
    ),
    Endpoint(
        method="GET",
        path="/admin/dead-letters",
        name="getDeadLetters",
        handler=operations.dead_letters,
        summary="Work that was given up, for a person to look at",
        roles=ADMINS,
        query=wire.DeadLettersQuery,
        answers={200: views.DeadLetters},
    ),
    Endpoint(
        method="POST",
        path="/admin/jobs/{id}/stop",
        name="stopJob",
        handler=operations.stop,
        summary="End the running attempt as a permanent failure",
        roles=ADMINS,
        body=wire.Reasoned,
        empty=True,
        answers={200: views.Job},
        codes=MOVING,
        declared=True,
    ),
    Endpoint(
        method="POST",
        path="/admin/jobs/{id}/release",
        name="releaseJob",
        handler=operations.release,
        summary="Let a job go on that was put aside",
        roles=ADMINS,
        body=wire.Reasoned,
        empty=True,
        answers={200: views.Job},
        codes=MOVING,
        declared=True,
    ),
    Endpoint(
        method="GET",
        path="/admin/tokens",
        name="listTokens",
        handler=operations.tokens,
        summary="The tokens, without what they say",
        roles=ADMINS,
        answers={200: views.Tokens},
    ),
    Endpoint(
        method="POST",
        path="/admin/tokens",
        name="createToken",
        handler=operations.new_token,
        summary="A new token, shown this once",
        roles=ADMINS,
        body=wire.TokenOrder,
        answers={201: views.TokenEntry},
        codes=("ALREADY_EXISTS",),
    ),
    Endpoint(
        method="DELETE",
        path="/admin/tokens/{id}",
        name="revokeToken",
        handler=operations.revoke_token,
        summary="Revoke a token by its id, or all of a name",
        roles=ADMINS,
        answers={204: None},
    ),
    Endpoint(
        method="POST",
        path="/admin/db/check",
        name="checkDatabase",
        handler=operations.check_db,
        summary="Look for faults in the stored file",
        roles=ADMINS,
        body=wire.NoFields,
        empty=True,
        answers={200: views.Checked},
    ),
)

OPEN = (
    Endpoint(
        method="GET",
        path="/healthz",
        name="isAlive",
        handler=operations.alive,
        summary="The process answers",
        roles=None,
        answers={200: views.Alive},
    ),
    Endpoint(
        method="GET",
        path="/readyz",
        name="isReady",
        handler=operations.ready,
        summary="It can do its work",
        roles=None,
        answers={200: views.Readiness, 503: views.Readiness},
    ),
    Endpoint(
        method="GET",
        path="/openapi.json",
        name="getOpenApi",
        handler=operations.document,
        summary="This document",
        roles=None,
        answers={200: ANYTHING},
    ),
)

CORE: tuple[Endpoint, ...] = SUBMISSIONS + READING + CHANGING + OPERATING + OPEN
TAKEN = frozenset(endpoint.door for endpoint in CORE)

__all__ = ["ANYBODY", "CORE", "TAKEN", "table_of"]
