"""Claims: an outside worker takes a job, or looks for work."""

from typing import Annotated

from msgspec import Meta

from jobrunner.actors import Answer
from jobrunner.core.instants import text_or_none
from jobrunner.core.messages import Claim
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import MOVING, WORKERS, Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import Name, NoFields, job_id_of
from jobrunner.http.frame.views import Job, job_view, reply, reply_answer
from jobrunner.http.routes.jobs.submissions import workflow_named


class WorkWanted(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An outside worker looks for jobs; ``status`` narrows it to one or some of their statuses."""

    workflow: Name
    status: Name | Annotated[list[Name], Meta(max_length=64)] | None = None
    job_type: Name | None = None
    max: Annotated[int, Meta(ge=1, le=100)] = 1
    wait: Annotated[float, Meta(ge=0, le=30)] = 0


class Claimed(View, frozen=True, kw_only=True):
    job: Job
    run_id: str
    attempt: int
    claim: int
    lease_until: str | None


class ClaimList(View, frozen=True, kw_only=True):
    claims: list[Claimed]


@Endpoint("POST", "/jobs/{id}/claim", {200: Job}, WORKERS, body=NoFields, empty=True, codes=MOVING)
async def claim_job(call: HttpCall) -> HttpReply:
    """Claim a job for an outside worker, or the attempt that nobody holds."""
    answer = await call.door.facade.ask(job_id_of(call), Claim(call.actor))
    return reply_answer(call, answer)


@Endpoint(
    "POST",
    "/internal/claims",
    {200: ClaimList},
    WORKERS,
    body=WorkWanted,
    codes=("UNKNOWN_WORKFLOW", "WORKFLOW_UNAVAILABLE"),
)
async def claim_work(call: HttpCall) -> HttpReply:
    """Look for work, and claim it for an outside worker."""
    body: WorkWanted = call.body
    workflow_named(call, body.workflow)
    if not call.actor.serves(body.workflow):
        known = ", ".join(call.actor.workflows)
        raise Refused("FORBIDDEN", f"this token is not for {body.workflow!r}; it is for: {known}")
    statuses = (body.status,) if isinstance(body.status, str) else tuple(body.status or ())
    answers = await call.door.facade.claims.take(
        call.actor, body.workflow, statuses, body.job_type, body.max, body.wait
    )
    return reply(ClaimList(claims=[_claimed(call, answer) for answer in answers]))


def _claimed(call: HttpCall, answer: Answer) -> Claimed:
    lease_until = answer.fields.get("lease_until")
    return Claimed(
        job=job_view(call, answer.job),
        run_id=answer.job.run_id,
        attempt=answer.fields["attempt"],
        claim=answer.fields["claim"],
        lease_until=text_or_none(lease_until),
    )
