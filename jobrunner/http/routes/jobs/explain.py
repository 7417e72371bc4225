"""GET /jobs/{id}/explain: why a job is not moving."""

from typing import Any

from jobrunner.core.instants import timed
from jobrunner.http.frame.endpoint import Endpoint, HttpCall, HttpReply
from jobrunner.http.frame.inputs import visible_job
from jobrunner.http.frame.views import encode


@Endpoint("GET", "/jobs/{id}/explain", {200: dict[str, Any]})
async def explain_job(call: HttpCall) -> HttpReply:
    """Explain why a job does not move."""
    job = await visible_job(call)
    return HttpReply(200, encode(timed(await call.door.facade.explain(job))))
