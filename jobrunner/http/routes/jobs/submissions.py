"""``POST /jobs``: a submission is checked and becomes a job, or finds the one of its key."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from jobrunner.actors import Answer
from jobrunner.core.declaration.happenings import NAMES, Happening
from jobrunner.core.declaration.one_of_a_kind import SingletonMode
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.tracing import HEADER, parent_in
from jobrunner.core.instants import instant_of
from jobrunner.core.messages import Singleton, Submit
from jobrunner.errors import Refused
from jobrunner.http.frame.addresses import link
from jobrunner.http.frame.endpoint import (
    OWNERS,
    SUBMITTING,
    Body,
    Endpoint,
    FromWorkflows,
    HttpCall,
    HttpReply,
    Query,
)
from jobrunner.http.frame.inputs import (
    SPACE,
    WAIT_MAX_S,
    Instant,
    Key,
    LabelKey,
    LabelValue,
    Name,
    key_given,
    needs_one,
    not_both,
    omitted_of,
    params_of,
    unavailable,
)
from jobrunner.http.frame.problems import invalid
from jobrunner.http.frame.views import Job, reply_answer
from jobrunner.ports import digest

Address = Annotated[
    str, Meta(max_length=2048, pattern=rf"^https?://[^/{SPACE}]+[^{SPACE}]*(?!\n)$")
]

QUIET_MAX_S = 30 * 86400
WAIT = re.compile(r"(?:^|,)[ \t]*wait[ \t]*=[ \t]*([0-9]{1,6})[ \t]*(?:$|[,;])", re.IGNORECASE)
CANONICAL = msgspec.json.Encoder(order="sorted").encode


class SingletonOrder(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Be the only job of this key: the ``first`` one stays, or the newer one takes the place of one
    that has not begun (``last``) or of any (``replace``), and begins after so much quiet."""

    key: Key
    mode: SingletonMode = "first"
    quiet_s: Annotated[float, Meta(ge=0, le=QUIET_MAX_S)] = 0


class NewJob(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The common part of a submission alone and of one in a batch."""

    workflow: Name
    job_type: Annotated[str, Meta(min_length=1, max_length=50)] | None = None
    params: msgspec.Raw | UnsetType = UNSET
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    run_at: Instant | None = None
    labels: Annotated[dict[LabelKey, LabelValue], Meta(max_length=16)] = {}
    notify_url: Address | None = None
    notify_on: Annotated[list[Happening], Meta(min_length=1, max_length=len(NAMES))] | None = None
    singleton: SingletonOrder | None = None


class Submission(NewJob, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Make a job. The job type says what ``params`` may be; ``parameters`` is an alias."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        not_both("params", "parameters"),
        {"anyOf": [needs_one("notify_url"), {"not": needs_one("notify_on")}]},
    )
    from_workflows: ClassVar[dict[str, FromWorkflows]] = {
        "workflow": "workflows",
        "params": "params",
        "parameters": "params",
    }
    parameters: msgspec.Raw | UnsetType = UNSET
    idempotency_key: Key | None = None


class SubmissionQuery(Query, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``wait`` holds the answer for so many seconds, until the job has ended. The header
    ``Prefer: wait=30`` asks for the same."""

    wait: Annotated[float, Meta(ge=0, le=WAIT_MAX_S)] | None = None


@Endpoint(
    "POST",
    "/jobs",
    {201: Job, 200: Job},
    OWNERS,
    body=Submission,
    query=SubmissionQuery,
    codes=SUBMITTING,
)
async def create_job(call: HttpCall) -> HttpReply:
    """Create a job, or find the one that has the same idempotency key.

    Checked in this order: workflow, job type, params, key; the rest is the core's."""
    body: Submission = call.body
    definition = workflow_named(call, body.workflow)
    job_type = job_type_named(definition, body.job_type)
    raw = _params(body)
    params = params_of(definition, job_type, raw, "$.params")
    run_at = instant_of(body.run_at, "$.run_at") if body.run_at else None
    refuse_url(call, body.notify_url)
    if body.notify_on is not None and body.notify_url is None:
        detail = "notify_on says what notify_url is told; send both"
        raise invalid(detail, ("$.notify_on", detail))
    wait_s, preferred = _wait_asked(call)
    answer = await call.door.facade.submit(
        submission(
            call,
            definition,
            job_type,
            params,
            body.idempotency_key,
            body.priority,
            run_at,
            body.labels,
            body.notify_url,
            body.notify_on,
            omitted_of(definition, job_type, params, raw),
            singleton_of(definition, body.singleton),
        ),
        at_once=wait_s > 0,
    )
    shown = reply_submitted(call, await ended(call, answer, wait_s))
    if preferred:
        shown.headers["Preference-Applied"] = f"wait={wait_s:.0f}"
    return shown


create_job_here = replace(create_job, path="/jobs/", name="createJobHere", listed=False)


def _wait_asked(call: HttpCall) -> tuple[float, bool]:
    """Return how long to hold the answer, and whether that was only preferred. A preference that
    cannot be read is ignored, and one that is too long is cut down (RFC 7240)."""
    query: SubmissionQuery = call.query
    said = call.headers.get("Prefer")
    if query.wait is not None or said is None or (preferred := WAIT.search(said)) is None:
        return query.wait or 0, False
    return min(int(preferred[1]), WAIT_MAX_S), True


async def ended(call: HttpCall, answer: Answer, wait_s: float) -> Answer:
    """Return the answer with the job as it ended, or as it stands when the time is up. A caller
    that waits gives up the place of its submission."""
    if not wait_s or answer.job.ended:
        return answer
    call.leave()
    return replace(answer, job=await call.door.facade.ended(answer.job, wait_s))


def refuse_url(call: HttpCall, url: str | None) -> None:
    """Refuse a URL to which no notification may go.

    Raises: Refused
    """
    if url is not None and (reason := call.door.facade.deliveries.misfit_url(url)):
        raise invalid(f"notify_url: {reason}", ("$.notify_url", reason))


def submission(
    call: HttpCall,
    definition: Definition,
    job_type: str,
    params: dict[str, Any],
    key: str | None,
    priority: int = 0,
    run_at: int | None = None,
    labels: dict[str, str] | None = None,
    notify_url: str | None = None,
    notify_on: Sequence[str] | None = None,
    omitted: tuple[str, ...] = (),
    singleton: Singleton | None = None,
) -> Submit:
    """Make the message of a submission by any route. Only beside a key is its digest kept."""
    workflow = definition.workflow
    name, key = workflow.name, key_given(call, key, workflow.recipe.max_length)
    keyed = key or singleton or workflow.singleton or workflow.recipe.derive
    return Submit(
        call.actor,
        name,
        job_type,
        params,
        call.door.ids.fresh(),
        key,
        digest(CANONICAL([name, job_type, params])).hex() if keyed else "",
        priority,
        run_at,
        labels or {},
        notify_url,
        tuple(notify_on or ()),
        call.correlation_id,
        traceparent_of(call),
        call.door.facade.draining,
        omitted=omitted,
        singleton=singleton,
    )


def traceparent_of(call: HttpCall) -> str | None:
    """Return where the caller's trace goes on; ignore what cannot be read."""
    said = call.headers.get(HEADER)
    return said if parent_in(said) else None


def reply_submitted(call: HttpCall, answer: Answer) -> HttpReply:
    shown = reply_answer(call, answer, 200 if answer.replayed else 201)
    shown.headers["Location"] = link(call, f"/jobs/{answer.job.id}")
    return shown


def workflow_named(call: HttpCall, name: str) -> Definition:
    """Find a loaded workflow.

    Raises: Refused UNKNOWN_WORKFLOW; WORKFLOW_UNAVAILABLE for one that was refused at start.
    """
    definitions = call.door.facade.definitions
    definition: Definition | None = definitions.current(name)
    if definition is not None:
        return definition
    if name in definitions.refused["workflows"]:
        raise unavailable(name)
    known = ", ".join(definitions.names()) or "none"
    raise Refused("UNKNOWN_WORKFLOW", f"there is no workflow {name!r}; loaded are: {known}")


def job_type_named(definition: Definition, name: str | None) -> str:
    """Find the job type; the first declared one when the caller names none.

    Raises: Refused UNKNOWN_JOB_TYPE.
    """
    if name is None:
        return definition.workflow.job_types[0].name
    if name in definition.job_types:
        return name
    known = ", ".join(definition.job_types)
    detail = f"{definition.workflow.name} has no job type {name!r}; it has: {known}"
    raise Refused("UNKNOWN_JOB_TYPE", detail)


def singleton_of(definition: Definition, wish: SingletonOrder | None) -> Singleton | None:
    """Turn the caller's wish into a singleton.

    Raises: Refused, where the workflow declares its own.
    """
    if wish is None:
        return None
    if definition.workflow.singleton is not None:
        name = definition.workflow.name
        detail = f"{name} declares its own singleton, by {definition.workflow.singleton.key.name}"
        raise invalid(f"singleton: {detail}; send none", ("$.singleton", detail))
    return Singleton(wish.key, wish.mode, wish.quiet_s)


def _params(body: Submission) -> bytes:
    """Take the params, under either spelling.

    Raises: Refused, when both are there and differ.
    """
    given, alias = body.params, body.parameters
    if given is UNSET or alias is UNSET:
        chosen = alias if given is UNSET else given
        return b"" if chosen is UNSET else bytes(chosen)
    if msgspec.json.decode(given) != msgspec.json.decode(alias):
        detail = "params and parameters are the same field, and they differ; send one of them"
        raise invalid(detail, ("$.parameters", detail))
    return bytes(given)
