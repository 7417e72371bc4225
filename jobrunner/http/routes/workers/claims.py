"""Claims: an outside worker takes a job, or looks for work."""

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Meta, UnsetType

from jobrunner.actors import Answer
from jobrunner.actors.features.claims import ClaimSearch
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.instants import text_or_none
from jobrunner.core.messages import Claim
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import MOVING, WORKERS, Body, Endpoint, HttpCall, HttpReply, View
from jobrunner.http.frame.inputs import Key, Name, NoFields, Word, job_id_of, not_both
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import Job, job_view, reply, reply_answer
from jobrunner.http.routes.jobs.submissions import workflow_named
from jobrunner.http.routes.workers.remote import StageBrief, brief_of


class StageRun(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stage, and the state and the job type in which it is run."""

    state: Name
    job_type: Name
    stage: Name


class WorkWanted(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An outside worker looks for jobs; ``status`` narrows it to one or some of their statuses.
    ``runs`` are stages that it has by the same plugins as this service, and where they stand:
    then each claim comes with its ``brief``. ``digest`` is that of the declaration that it has.
    ``key`` makes it safe to ask again: whoever was given something under it is given the same."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        not_both("runs", "status"),
        not_both("runs", "job_type"),
    )
    workflow: Name
    status: Name | Annotated[list[Name], Meta(max_length=64)] | None = None
    job_type: Name | None = None
    max: Annotated[int, Meta(ge=1, le=100)] = 1
    wait: Annotated[float, Meta(ge=0, le=30)] = 0
    runs: Annotated[list[StageRun], Meta(min_length=1, max_length=1024)] | None = None
    digest: Word | None = None
    key: Key | None = None


class Claimed(View, frozen=True, kw_only=True):
    job: Job
    run_id: str
    attempt: int
    claim: int
    lease_until: str | None
    brief: StageBrief | UnsetType = UNSET


class ClaimList(View, frozen=True, kw_only=True):
    claims: list[Claimed]


@Endpoint("POST", "/jobs/{id}/claim", {200: Job}, WORKERS, body=NoFields, empty=True, codes=MOVING)
async def claim_job(call: HttpCall) -> HttpReply:
    """Claim a job for an outside worker, or the attempt that nobody holds."""
    answer = await call.door.facade.claims.one(job_id_of(call), Claim(call.actor))
    return reply_answer(call, answer)


@Endpoint(
    "POST",
    "/internal/claims",
    {200: ClaimList},
    WORKERS,
    body=WorkWanted,
    codes=("UNKNOWN_WORKFLOW", "WORKFLOW_UNAVAILABLE", "OTHER_DECLARATION"),
)
async def claim_work(call: HttpCall) -> HttpReply:
    """Look for work, and claim it for an outside worker."""
    body: WorkWanted = call.body
    found = workflow_named(call, body.workflow)
    if not call.actor.serves(body.workflow):
        known = ", ".join(call.actor.workflows)
        raise Refused("FORBIDDEN", f"this token is not for {body.workflow!r}; it is for: {known}")
    if body.digest is not None and body.digest != found.digest:
        raise _other(found, body.digest)
    if body.runs is not None and (body.status is not None or body.job_type is not None):
        detail = "runs says where: leave out status and job_type"
        raise invalid(detail, ("$.runs", detail))
    statuses = (body.status,) if isinstance(body.status, str) else tuple(body.status or ())
    search = ClaimSearch(
        call.actor,
        body.workflow,
        limit=body.max,
        wait_s=body.wait,
        statuses=statuses,
        job_type=body.job_type,
        runs=tuple((one.state, one.job_type, one.stage) for one in body.runs or ()),
        gone=call.gone,
    )
    answers = await call.door.facade.claims.take(search, body.key or "")
    briefed = body.runs is not None
    return reply(ClaimList(claims=[await _claimed(call, one, briefed) for one in answers]))


def _other(found: Definition, digest: str) -> Refused:
    detail = (
        f"this service has {found.workflow.name} {found.workflow.version} with digest "
        f"{found.digest}, not {digest}; install the same plugin on both sides"
    )
    return Refused("OTHER_DECLARATION", detail, digest=found.digest)


async def _claimed(call: HttpCall, answer: Answer, briefed: bool) -> Claimed:
    lease_until = answer.fields.get("lease_until")
    return Claimed(
        job=job_view(call, answer.job),
        run_id=answer.job.run_id,
        attempt=answer.fields["attempt"],
        claim=answer.fields["claim"],
        lease_until=text_or_none(lease_until),
        brief=await brief_of(call, answer.job) if briefed else UNSET,
    )
