"""POST /jobs/{id}/rerun: a new job from an old one, without doing again what still holds."""

from typing import Any

from msgspec import field

from jobrunner.actors.features.reruns import Wish
from jobrunner.errors import Refused
from jobrunner.http.frame.endpoint import OWNERS, SUBMITTING, Body, Endpoint, HttpCall, HttpReply
from jobrunner.http.frame.inputs import Key, Name, Prose, key_given, visible_job
from jobrunner.http.frame.views import Job
from jobrunner.http.routes.jobs.submissions import reply_submitted


class Again(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``from`` is the state to begin again from. ``params`` lie over the job's, name by name."""

    from_: Name | None = field(default=None, name="from")
    params: dict[str, Any] = {}
    reason: Prose | None = None
    idempotency_key: Key | None = None


@Endpoint(
    "POST",
    "/jobs/{id}/rerun",
    {201: Job, 200: Job},
    OWNERS,
    body=Again,
    empty=True,
    codes=(*SUBMITTING, "JOB_LOCKED", "JOB_NOT_SETTLED"),
)
async def rerun_job(call: HttpCall) -> HttpReply:
    """Create a new job from this one, reusing the results that still hold."""
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
