"""A person's file for a job: may it come, what its first byte moves, what it becomes when whole.

The same checks are made three times: before anybody reads a byte (``admitted``), when the first
byte is here, and in the commit that makes the file part of the job. In between anything may have
happened to the job, so only the last of them decides.

A file that is sent again, byte for byte the one that came last, changes nothing: whoever lost the
answer to an upload may simply repeat it.
"""

import re
import unicodedata
from typing import Any

from jobrunner.core.access import foreign
from jobrunner.core.decision import NoOp
from jobrunner.core.declaration.ask import Act
from jobrunner.core.declaration.functions import added, permitted
from jobrunner.core.declaration.workflow import Definition, Trigger, Upload
from jobrunner.core.draft import Case, Cause, Draft
from jobrunner.core.facts import Facts
from jobrunner.core.job import Actor, Asset, Snapshot
from jobrunner.core.messages import Arrived, Arriving, Moment, Report
from jobrunner.core.replies import Verdict, answered, begin, forbidden, satisfied, stale_version
from jobrunner.core.reports import apply_report
from jobrunner.core.steps import go_on, question, walk
from jobrunner.core.units import AuditRecord
from jobrunner.errors import Refused

LAST = "uploads"
ANY_TYPE = "application/octet-stream"
NAME_MAX = 100
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
ENDING = re.compile(r"\.[A-Za-z0-9]{1,10}\Z")
DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|com[0-9]|lpt[0-9])(\.|\Z)", re.IGNORECASE)
OURS = re.compile(r"\.(draft|part|new)\Z", re.IGNORECASE)


def admitted(
    definition: Definition, job: Snapshot, actor: Actor, name: str, media_type: str, now: int
) -> Upload | Refused:
    """The declared upload that a file would be, or why none of its bytes need be sent. Without a
    name it is the first one that the workflow declares."""
    if refused := foreign(definition, job, actor):
        return refused
    upload = _named(definition, name)
    if isinstance(upload, Refused):
        return upload
    message = Arriving(actor, upload.name)
    draft = begin(Case(definition, job, message, Facts(), Moment(now)), "upload")
    if refused := _barred(draft, upload) or _wrong_type(upload, media_type):
        return refused
    return upload


def arriving(case: Case[Arriving]) -> Verdict:
    """Move the job at the first byte of a file, where the workflow says so."""
    definition, job, message = case.definition, case.job, case.message
    upload = _named(definition, message.upload)
    if isinstance(upload, Refused):
        return upload
    draft = begin(case, "upload")
    if refused := stale_version(job, message.expected_version) or _barred(draft, upload):
        return refused
    path = upload.begins.get(job.status, ())
    if not path:
        return satisfied(draft)
    draft.decided = True
    cause = Cause(_trigger(draft))
    if refused := walk(draft, path, cause) or go_on(draft, cause):
        return refused
    return _answered(draft, upload)


def arrived(case: Case[Arrived]) -> Verdict:
    """Make the whole file part of the job from this commit on, or never."""
    definition, job, message = case.definition, case.job, case.message
    upload = _named(definition, message.upload)
    if isinstance(upload, Refused):
        return upload
    draft = begin(case, "upload")
    asset = message.asset
    if refused := _barred(draft, upload):
        return refused
    if known := _last(job).get(upload.name):
        if known["sha256"] == asset.sha256 and known["file_size"] == asset.file_size:
            return NoOp("replayed", job, {"asset": known, "replayed": True})
    if refused := _take(draft, upload, asset):
        return refused
    cause = Cause(_trigger(draft))
    if refused := walk(draft, upload.walks[job.status], cause) or go_on(draft, cause):
        return refused
    return _answered(draft, upload)


def safe_name(given: str, fallback: str) -> str:
    """Name a file as it may be called here, as near as can be to what its sender calls it: one
    plain name without a path, that hides nothing and is no device anywhere."""
    flat = unicodedata.normalize("NFKD", given).encode("ascii", "ignore").decode()
    last = re.split(r"[/\\]", flat.rstrip("/\\ ."))[-1]
    plain = UNSAFE.sub("_", last).lstrip("._-").rstrip("._-")
    if not plain:
        plain = UNSAFE.sub("_", fallback).strip("._-") or "file"
    if OURS.search(plain):
        plain += "_"
    if DEVICES.match(plain):
        plain = f"file-{plain}"
    found = ENDING.search(plain)
    ending = found[0] if found else ""
    return plain.removesuffix(ending)[: NAME_MAX - len(ending)] + ending


def _named(definition: Definition, name: str) -> Upload | Refused:
    declared = definition.uploads
    if not declared:
        return Refused("UNKNOWN_UPLOAD", f"{definition.workflow.name} takes no files for its jobs")
    if not name:
        return definition.workflow.uploads[0]
    found = declared.get(name)
    if found is not None:
        return found
    known = ", ".join(declared)
    detail = f"{definition.workflow.name} takes no upload {name!r}; it takes: {known}"
    return Refused("UNKNOWN_UPLOAD", detail)


def _barred(draft: Draft, upload: Upload) -> Refused | None:
    """Why this job takes no such file now, from whoever asks."""
    job = draft.job
    if not draft.actor.roles(job) & {"user", "admin"}:
        return forbidden("files of a job come from its owner or an admin")
    if job.status not in {**upload.walks, **upload.begins}:
        detail = f"upload {upload.name!r} is not taken in {job.status}"
        known = draft.definition.workflow.codes
        return Refused(
            upload.locked, detail, status=known.get(upload.locked, 0), current_status=job.status
        )
    for guard in upload.guards:
        if refused := permitted(guard.call, question(draft)):
            return refused
    return None


def _wrong_type(upload: Upload, media_type: str) -> Refused | None:
    family = media_type.partition("/")[0] + "/*"
    if not upload.types or {media_type, family} & set(upload.types):
        return None
    detail = f"upload {upload.name!r} is taken as {', '.join(upload.types)}, not as {media_type!r}"
    return Refused("UNSUPPORTED_MEDIA_TYPE", detail)


def _take(draft: Draft, upload: Upload, asset: Asset) -> Refused | None:
    values: dict[str, Any] = {}
    if upload.artifact:
        values[upload.artifact] = asset.url
    if upload.fingerprint:
        values[upload.fingerprint] = asset.sha256
    report = Report(artifacts=values, assets=(asset,))
    act = Act() if upload.action is None else added(upload.action, question(draft, report=report))
    if isinstance(act, Refused):
        return act
    apply_report(draft, Report(artifacts={**values, **act.report.artifacts}, assets=(asset,)))
    entry = {"id": asset.id, "url": asset.url, "file_size": asset.file_size, "sha256": asset.sha256}
    marks = {LAST: {**_last(draft.job), upload.name: entry}, **act.marks}
    if upload.mark:
        marks[upload.mark] = asset.url
    kept = draft.before.asset_url if draft.before else None
    draft.decide(marks={**draft.job.marks, **marks}, asset_url=kept)  # it is no result
    draft.answer.update({"asset": entry, **act.answer})
    return None


def _last(job: Snapshot) -> dict[str, Any]:
    """The file of each upload that came last, by the upload's name."""
    last: dict[str, Any] = job.marks.get(LAST, {})
    return last


def _trigger(draft: Draft) -> Trigger:
    roles = draft.actor.roles(draft.job)
    return "user" if "user" in roles else "admin"


def _answered(draft: Draft, upload: Upload) -> Verdict:
    if draft.actor.role == "admin":
        fields = {"upload": upload.name}
        draft.audits += (AuditRecord("job.upload", draft.actor.name, fields),)
    return answered(draft)
