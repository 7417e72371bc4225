"""The conversations about jobs, files and credits, one request each but for waiting."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.client.records import (
    ArtifactRecord,
    AttemptRecord,
    CreditsRecord,
    FileRecord,
    HopRecord,
    JobRecord,
    LedgerRecord,
    WorkflowRecord,
)
from jobrunner.client.talk import FreshKey, Now, Rest, Talk, WireAnswer, WireRequest
from jobrunner.errors import Unreachable

R = TypeVar("R", bound=Struct)

JSON = "application/json"
HOLD_S = 50.0
BREATH_S = 0.5
NOT_MODIFIED = 304

Query = Mapping[str, Any] | Sequence[tuple[str, Any]]


def submit(
    workflow: str,
    params: Mapping[str, Any] | None = None,
    *,
    job_type: str | None = None,
    key: str | None = None,
    priority: int | None = None,
    labels: Mapping[str, str] | None = None,
    run_at: datetime | None = None,
    notify_url: str | None = None,
    notify_on: Sequence[str] | None = None,
    singleton: Mapping[str, Any] | None = None,
    wait_s: float = 0,
) -> Talk[JobRecord]:
    """Make a job. Without a ``key`` it has one of its own, so it is made once however often the
    line breaks; with a ``singleton`` (``key``, ``mode``, ``quiet_s``) it is the only one of that
    key; ``wait_s`` (60 at most) holds the answer until it has ended."""
    wishes = {
        "workflow": workflow,
        "params": params,
        "job_type": job_type,
        "priority": priority,
        "labels": labels,
        "run_at": run_at,
        "notify_url": notify_url,
        "notify_on": notify_on,
        "singleton": singleton,
    }
    body = {name: wish for name, wish in wishes.items() if wish is not None}
    headers = {"Idempotency-Key": key or (yield FreshKey())}
    query = [("wait", wait_s)] if wait_s else []
    answer = yield written(
        "POST", "/jobs", body, query=query, headers=headers, repeatable=True, wait_s=wait_s
    )
    return job_in(answer)


def job(job_id: str) -> Talk[JobRecord]:
    """Read a job as it stands."""
    return job_in((yield read_of(at("jobs", job_id))))


def changed(seen: JobRecord, *, wait_s: float = 30, progress: bool = False) -> Talk[JobRecord]:
    """Read a job as soon as something was decided since it was ``seen`` (with ``progress``: was
    reported), or as it was seen when the time is up."""
    query = [("wait", wait_s), *([("progress", "true")] if progress else [])]
    headers = {"If-None-Match": seen.etag or f'"{seen.version}"'}
    answer = yield read_of(at("jobs", seen.id), query, headers=headers, wait_s=wait_s)
    return seen if answer.status == NOT_MODIFIED else job_in(answer)


def wait(job_id: str, *, timeout_s: float | None = None) -> Talk[JobRecord]:
    """Read a job once it has ended, or as it stands when the time is up: see its ``ended``."""
    began: float = yield Now()
    while True:
        asked: float = yield Now()
        left_s = HOLD_S if timeout_s is None else timeout_s - (asked - began)
        hold_s = max(0.0, min(HOLD_S, left_s))
        query = [("wait", hold_s), ("until", "ended")]
        found = job_in((yield read_of(at("jobs", job_id), query, wait_s=hold_s)))
        if found.ended or left_s <= hold_s < HOLD_S:
            return found
        answered: float = yield Now()
        if answered - asked < hold_s / 2:
            yield Rest(BREATH_S)  # a service that stops answers at once


def command(
    job_id: str,
    name: str,
    *,
    reason: str | None = None,
    expected_version: int | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Talk[JobRecord]:
    """Give a job a command of its workflow, with the fields that it takes. Without
    ``expected_version`` it is not said a second time where the first one may have been heard."""
    body = _reasoned(reason, expected_version) | dict(fields or {})
    sure = expected_version is not None
    return job_in((yield written("POST", at("jobs", job_id, name), body, repeatable=sure)))


def cancel(
    job_id: str, *, reason: str | None = None, expected_version: int | None = None
) -> Talk[JobRecord]:
    """Give the command ``cancel``."""
    return command(job_id, "cancel", reason=reason, expected_version=expected_version)


def pause(job_id: str, *, reason: str | None = None) -> Talk[JobRecord]:
    """Let nothing new start in a job. Said twice, it is said once."""
    path = at("jobs", job_id, "pause")
    return job_in((yield written("POST", path, _reasoned(reason), repeatable=True)))


def resume(job_id: str, *, reason: str | None = None) -> Talk[JobRecord]:
    """Let a paused job go on."""
    path = at("jobs", job_id, "resume")
    return job_in((yield written("POST", path, _reasoned(reason), repeatable=True)))


def rerun(
    job_id: str,
    *,
    start: str | None = None,
    params: Mapping[str, Any] | None = None,
    reason: str | None = None,
    key: str | None = None,
) -> Talk[JobRecord]:
    """Make a new job from one that has ended, from the state ``start`` on."""
    body = _reasoned(reason) | ({"from": start} if start else {})
    body |= {"params": params} if params else {}
    headers = {"Idempotency-Key": key or (yield FreshKey())}
    path = at("jobs", job_id, "rerun")
    return job_in((yield written("POST", path, body, headers=headers, repeatable=True)))


def delete_job(job_id: str) -> Talk[None]:
    """Forget a job that has ended, and its files."""
    yield WireRequest(method="DELETE", path=at("jobs", job_id))


def explain(job_id: str) -> Talk[dict[str, Any]]:
    """Read why a job does not move."""
    found: dict[str, Any] = value_in((yield read_of(at("jobs", job_id, "explain"))))
    return found


def artifact(job_id: str, name: str, *, version: int | None = None) -> Talk[ArtifactRecord]:
    """Read a named value of a job, today's or an older one."""
    query = [] if version is None else [("version", version)]
    answer = yield read_of(at("jobs", job_id, "artifacts", name), query)
    return record_in(answer, ArtifactRecord)


def edit_artifact(
    job_id: str, name: str, value: Any, *, base_version: int | None = None
) -> Talk[JobRecord]:
    """Write a new version of a named value, from the version that it was edited from."""
    body = {"value": value, "base_version": base_version}
    sure = base_version is not None
    path = at("jobs", job_id, "artifacts", name)
    return job_in((yield written("PUT", path, body, repeatable=sure)))


def file(asset_id: str) -> Talk[FileRecord]:
    """Read what is known of a file."""
    return record_in((yield read_of(at("assets", asset_id))), FileRecord)


def delete_file(asset_id: str) -> Talk[None]:
    """Forget a file that is no job's."""
    yield WireRequest(method="DELETE", path=at("assets", asset_id))


def credits_of(user_id: str | None = None) -> Talk[CreditsRecord]:
    """Read what can be spent, by the caller or, for an admin, by another."""
    return record_in((yield read_of("/credits", _pairs({"user_id": user_id}))), CreditsRecord)


def grant(user_id: str, amount: int, reason: str, *, key: str | None = None) -> Talk[CreditsRecord]:
    """Give credits, once under one key."""
    body = {"amount": amount, "reason": reason}
    headers = {"Idempotency-Key": key or (yield FreshKey())}
    path = at("admin", "credits", user_id, "grant")
    answer = yield written("POST", path, body, headers=headers, repeatable=True)
    return record_in(answer, CreditsRecord)


def workflows() -> Talk[list[WorkflowRecord]]:
    """List what is loaded."""
    found = value_in((yield read_of("/workflows")))
    return msgspec.convert(found["workflows"], list[WorkflowRecord])


def workflow(name: str) -> Talk[dict[str, Any]]:
    """Read a declaration, with the schemas of its parameters."""
    found: dict[str, Any] = value_in((yield read_of(at("workflows", name))))
    return found


def ask(
    method: str,
    path: str,
    *,
    body: Any = None,
    query: Query = (),
    headers: Mapping[str, str] | None = None,
    wait_s: float = 0,
    repeatable: bool = False,
) -> Talk[WireAnswer]:
    """Ask for anything else. What is not a GET is said twice only where the caller says that this
    is like saying it once."""
    sent = dict(headers or {})
    safe = repeatable or method in ("GET", "HEAD")
    if body is None:
        pairs = _pairs(query)
        request = WireRequest(
            method=method, path=path, query=pairs, headers=sent, wait_s=wait_s, repeatable=safe
        )
    else:
        request = written(
            method, path, body, query=query, headers=sent, wait_s=wait_s, repeatable=safe
        )
    answer: WireAnswer = yield request
    return answer


class PagedList(Struct, Generic[R], frozen=True):
    """Rows that come in pages, each behind the cursor of the one before."""

    path: str
    kind: type[R]
    name: str
    query: tuple[tuple[str, str], ...] = ()

    def page(self, cursor: str | None) -> Talk[tuple[list[R], str | None]]:
        query = [*self.query, *([("cursor", cursor)] if cursor else [])]
        found = value_in((yield read_of(self.path, query)))
        rows = [msgspec.convert(row, self.kind) for row in found[self.name]]
        return rows, found.get("next_cursor")


def jobs(
    *,
    workflow: str | None = None,
    status: str | Sequence[str] = (),
    job_type: str | None = None,
    labels: Mapping[str, str] | None = None,
    user_id: str | None = None,
    order: str | None = None,
    include: str | Sequence[str] = (),
    stuck: bool = False,
    paused: bool = False,
    parent: str | None = None,
    schedule: str | None = None,
    batch: str | None = None,
    text: str | None = None,
    params: Mapping[str, str] | None = None,
    page: int = 100,
) -> PagedList[JobRecord]:
    """List jobs, newest first. ``include`` is what lists leave out: params, result, artifacts;
    ``parent`` is the job whose stage submitted them. ``text`` and ``params`` are looked for job by
    job."""
    one = {"workflow": workflow, "job_type": job_type, "user_id": user_id, "order": order}
    one |= {"parent": parent, "schedule": schedule, "batch": batch, "text": text}
    flags = {"stuck": stuck or None, "paused": paused or None, "limit": page}
    several = [("status", text) for text in _several(status)]
    several += [("include", text) for text in _several(include)]
    several += [("label", f"{key}:{value}") for key, value in (labels or {}).items()]
    several += [("param", f"{name}:{value}") for name, value in (params or {}).items()]
    return PagedList("/jobs", JobRecord, "jobs", (*_pairs(one | flags), *several))


def history(job_id: str) -> PagedList[HopRecord]:
    """List the transitions of a job, oldest first."""
    return PagedList(at("jobs", job_id, "history"), HopRecord, "history")


def attempts(job_id: str) -> PagedList[AttemptRecord]:
    """List the executions of a job's stages."""
    return PagedList(at("jobs", job_id, "attempts"), AttemptRecord, "attempts")


def files(job_id: str | None = None, *, user_id: str | None = None) -> PagedList[FileRecord]:
    """List the files of a job, or one's own over all jobs, newest first."""
    path = at("jobs", job_id, "assets") if job_id else "/assets"
    return PagedList(path, FileRecord, "assets", _pairs({"user_id": user_id}))


def ledger(user_id: str | None = None) -> PagedList[LedgerRecord]:
    """List where credits went, newest first."""
    query = _pairs({"user_id": user_id})
    return PagedList("/credits/history", LedgerRecord, "history", query)


def at(*parts: str) -> str:
    """A path of these segments, whatever they contain."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def read_of(
    path: str,
    query: Query = (),
    *,
    headers: Mapping[str, str] | None = None,
    wait_s: float = 0,
) -> WireRequest:
    return WireRequest(
        method="GET",
        path=path,
        query=_pairs(query),
        headers=headers or {},
        wait_s=wait_s,
        repeatable=True,
    )


def written(
    method: str,
    path: str,
    body: Any,
    *,
    query: Query = (),
    headers: Mapping[str, str] | None = None,
    repeatable: bool = False,
    wait_s: float = 0,
) -> WireRequest:
    return WireRequest(
        method=method,
        path=path,
        query=_pairs(query),
        headers={"Content-Type": JSON, **(headers or {})},
        body=msgspec.json.encode(body),
        wait_s=wait_s,
        repeatable=repeatable,
    )


def value_in(answer: WireAnswer) -> Any:
    """Raises: Unreachable, for what this service does not say."""
    try:
        return msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        raise strange(answer) from None


def record_in(answer: WireAnswer, kind: type[R]) -> R:
    """Raises: Unreachable."""
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError:
        raise strange(answer) from None


def job_in(answer: WireAnswer) -> JobRecord:
    """Raises: Unreachable."""
    found = record_in(answer, JobRecord)
    return replace(found, etag=answer.headers.get("etag", ""), said=value_in(answer))


def strange(answer: WireAnswer) -> Unreachable:
    return Unreachable(
        f"an answer with status {answer.status} that is not of this service: who is it?"
    )


def _reasoned(reason: str | None, expected_version: int | None = None) -> dict[str, Any]:
    said = {"reason": reason, "expected_version": expected_version}
    return {name: value for name, value in said.items() if value is not None}


def _pairs(query: Query) -> tuple[tuple[str, str], ...]:
    pairs = query.items() if isinstance(query, Mapping) else query
    return tuple((name, _text(value)) for name, value in pairs if value is not None)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _several(words: str | Sequence[str]) -> Sequence[str]:
    return [words] if isinstance(words, str) else words
