"""The meaning of the commands' fields, and how a command knows that it was met before.

What a worker must know of a request is stored as an artifact (``regenerate_request``,
``export_request``), so that it finds it wherever it runs. What only recognises a repeat is a mark.
"""

import hashlib
import json
from typing import Any

import msgspec
from msgspec.structs import replace

from jobrunner import Act, Ask, Refused, Replay, Report, Snapshot
from jobrunner_howera.outline import Transcript

REMEMBERED = 50
ORCHESTRATED = ("callback", "transition")


def known_run(ask: Ask) -> Replay | Refused | None:
    """``run``, recognised: the pipeline is under way, by this command or by an orchestrator."""
    job = ask.snapshot
    if job.run is None or not job.live or _reviewed(ask):
        return None
    if job.run.opened_by == "run":
        return Replay()
    if job.run.opened_by in ORCHESTRATED:
        return _running(job, "an orchestrator is at work on this job")
    return None


def _reviewed(ask: Ask) -> bool:
    """Say whether the job rests because somebody was to look at its transcript, and now has."""
    job = ask.snapshot
    rests = job.status == "TRANSCRIPT_READY" and bool(ask.settings.get("review_transcript"))
    return rests and ask.definition.goes_on("GENERATING", job.job_type)


def known_regenerate(ask: Ask) -> Replay | Refused | None:
    """``regenerate``, recognised by the caller's own id; another one has to wait its turn."""
    job = ask.snapshot
    request = _requests(job).get(ask.fields.get("client_request_id") or "")
    if request is not None:
        same = request["digest"] == _digest(_wish(ask))
        mismatch = {} if same else {"idempotency_mismatch": True}
        return Replay(answer={"task_id": request["task_id"], **mismatch})
    if job.status == "REGENERATING":
        return Refused(
            "REGENERATE_IN_PROGRESS",
            "a part of this draft is being written anew; wait for it to end",
            active_task_id=job.run_id,
        )
    return None


def begin_regenerate(ask: Ask) -> Act | Refused:
    """``regenerate``, carried out: the run it opens is the task."""
    job, wish = ask.snapshot, _wish(ask)
    current = draft_version(job)
    base = wish["base_version"] or current
    if base != current:
        return _conflict(base, current)
    task = {"task_id": ask.fresh, **wish, "base_version": base}
    return Act(
        report=Report(artifacts={"regenerate_request": task}),
        marks=_remember(ask, wish),
        answer={"task_id": ask.fresh},
    )


def known_export(ask: Ask) -> Replay | Refused | None:
    """``export``, recognised: the same one is being made, or another one is."""
    job = ask.snapshot
    if job.status != "EXPORTING":
        return None
    known, order = job.value("export_request") or {}, _order(ask)
    same = (known.get("run_id"), known.get("version")) == (job.run_id, order["version"])
    if same and set(formats_of(known)) == set(formats_of(order)):
        return Replay()
    return _running(job, "another export of this job is being made")


def begin_export(ask: Ask) -> Act | Refused:
    """``export``, carried out."""
    order, current = _order(ask), draft_version(ask.snapshot)
    if current and order["version"] is not None and order["version"] > current:
        detail = f"there is no version {order['version']} of the draft; the current is {current}"
        wrong = {"path": "$.version", "message": f"at most {current}"}
        return Refused("VALIDATION_ERROR", detail, errors=[wrong])
    request = {"run_id": ask.fresh, **order}
    return Act(report=Report(artifacts={"export_request": request}))


def all_exported(ask: Ask) -> Refused | None:
    """Guard: of an export in several formats each one is stored, by this run or in this report."""
    job = ask.snapshot
    wanted = formats_of(job.value("export_request") or {})
    if len(wanted) < 2:
        return None
    found = job.artifacts.get("exports")
    fresh = found is not None and (
        found.run_id == job.run_id or ask.report.artifacts.get("exports") is not None
    )
    stored = found.value if found is not None and fresh and isinstance(found.value, dict) else {}
    missing = [one for one in wanted if not stored.get(one)]
    if not missing:
        return None
    text = f"DONE needs every export that was ordered; exports lacks {', '.join(missing)}"
    return Refused("EXPORT_NOT_READY", text)


def formats_of(order: dict[str, Any]) -> list[str]:
    """Each one once, in the order in which they were wanted."""
    wanted = order.get("format")
    return list(dict.fromkeys(wanted if isinstance(wanted, list) else [wanted or ""]))


def read_correction(ask: Ask) -> Act | Refused:
    """A person's transcript: in the form that the next stage reads, or it is not taken."""
    found = ask.snapshot.value("transcript")
    try:
        msgspec.convert(found, Transcript)
    except msgspec.ValidationError as error:
        wrong = [{"path": "$.value", "message": str(error)}]
        text = f"this is no transcript: {error}; it needs segments with start_s, end_s and text"
        return Refused("VALIDATION_ERROR", text, errors=wrong)
    return Act()


def renew_draft(ask: Ask) -> Act:
    """An edit of the draft: its address names the version that is being saved."""
    return Act(report=Report(artifacts={"draft_uri": _address(ask.snapshot, 0)}))


def still_based(ask: Ask) -> Report:
    """Take what a regenerate brings: its draft counts only if nobody saved another one meanwhile.
    People are not overwritten by a machine that worked on an older text."""
    artifacts, job = dict(ask.report.artifacts), ask.snapshot
    if "draft" not in artifacts:
        return ask.report
    task = job.value("regenerate_request") or {}
    if task.get("task_id") != job.run_id or task["base_version"] == draft_version(job):
        artifacts.setdefault("draft_uri", _address(job, 1))
        return replace(ask.report, artifacts=artifacts)
    del artifacts["draft"]
    artifacts.pop("draft_uri", None)
    return replace(ask.report, artifacts=artifacts)


def draft_version(job: Snapshot) -> int:
    """0 where there is no draft."""
    found = job.artifacts.get("draft")
    return found.version if found else 0


def _address(job: Snapshot, ahead: int) -> str:
    return f"/jobs/{job.id}/artifacts/draft?version={draft_version(job) + ahead}"


def _running(job: Snapshot, why: str) -> Refused:
    return Refused("JOB_ALREADY_RUNNING", why, run_id=job.run_id)


def _conflict(base: int, current: int) -> Refused:
    return Refused(
        "ARTIFACT_VERSION_CONFLICT",
        f"draft is at version {current}, not {base}; read it again",
        name="draft",
        base_version=base,
        current_version=current,
    )


def _order(ask: Ask) -> dict[str, Any]:
    wanted = ask.fields["format"]
    each = list(dict.fromkeys(wanted)) if isinstance(wanted, list) else wanted
    return {"format": each, "version": ask.fields.get("version")}


def _wish(ask: Ask) -> dict[str, Any]:
    wish = {name: ask.fields.get(name) for name in ("base_version", "selection", "instruction")}
    moment_s = ask.fields.get("moment_s")
    return wish if moment_s is None else {**wish, "moment_s": moment_s}


def _requests(job: Snapshot) -> dict[str, dict[str, str]]:
    requests: dict[str, dict[str, str]] = job.marks.get("requests", {})
    return requests


def _remember(ask: Ask, wish: dict[str, Any]) -> dict[str, Any]:
    """The latest requests by the caller's ids, the oldest forgotten."""
    name = ask.fields.get("client_request_id")
    if not name:
        return {}
    request = {"task_id": ask.fresh, "digest": _digest(wish)}
    latest = list({**_requests(ask.snapshot), name: request}.items())[-REMEMBERED:]
    return {"requests": dict(latest)}


def _digest(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
