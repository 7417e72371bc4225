"""Structs to columns and back. Pure.

A snapshot is spread over three places. What questions select by stands in columns of ``jobs``;
what may be large (params, result, labels, artifacts) stands in tables of its own, so that a page
of the hot table holds many jobs; everything else is one JSON text, ``rest``. Which fields those
are is worked out from the struct itself: a field added to ``Snapshot`` is stored without a line
changing here.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from jobrunner.core.declaration.workflow import EXTERNAL
from jobrunner.core.features.streams import HistoryRow
from jobrunner.core.job import Artifact, Asset, Attempt, Snapshot
from jobrunner.core.questions import AssetRow, AuditRow, DeadLetterRow, LedgerRow
from jobrunner.store.columns import Columns

T = TypeVar("T")
# The columns of a job by when they are written: at its birth; when its place changes, which indexes
# and triggers watch; always. In each list the fields come first, then what is worked out from them.
FIXED = ("workflow", "job_type", "user_id", "created_at")
PLACE_FIELDS = ("status", "kind", "line_at", "stuck")
PLACE = (*PLACE_FIELDS, "claim_at", "paused")
MOVING_FIELDS = ("version", "beat", "progress", "priority", "updated_at", "credits", "cost")
MOVING = (*MOVING_FIELDS, "rest")
ELSEWHERE = {"id": "j.uid", "row": "j.id", "digest": "d.digest"}
HOT = (*ELSEWHERE, *FIXED, *PLACE_FIELDS, *MOVING_FIELDS)
PAYLOAD = ("labels", "params", "result")
APART = (*PAYLOAD, "artifacts", "unreadable")

FROM_JOBS = """
    FROM jobs j JOIN definitions d ON d.id = j.definition LEFT JOIN payloads p ON p.job = j.id
"""
_HOT_COLUMNS = ", ".join(ELSEWHERE.get(name, f"j.{name}") for name in HOT)
SELECT_BRIEF = f"SELECT {_HOT_COLUMNS}, j.rest, p.labels {FROM_JOBS}"
SELECT_WHOLE = f"SELECT {_HOT_COLUMNS}, j.rest, p.labels, p.params, p.result {FROM_JOBS}"
ROW = HOT.index("row")


def _field(field: structs.FieldInfo) -> tuple[str, Any, Any]:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    return field.name, field.type, field.default


_FIELDS = [field for field in structs.fields(Snapshot) if field.name not in HOT + APART]
REST = tuple(field.name for field in _FIELDS)
Rest = msgspec.defstruct("Rest", [_field(field) for field in _FIELDS], omit_defaults=True)

_place, _moving = attrgetter(*PLACE_FIELDS), attrgetter(*MOVING_FIELDS)
fixed_of = attrgetter(*FIXED)
payload_of = attrgetter(*PAYLOAD)
_rest_values = attrgetter(*REST)
_rest_decoder = msgspec.json.Decoder(Rest)
_fields_decoder = msgspec.json.Decoder(dict[str, Any])
_attempt_decoder = msgspec.json.Decoder(Attempt)
_encode = msgspec.json.Encoder().encode


def text(value: Any) -> str:
    return _encode(value).decode()


def parsed(stored: str | None) -> Any:
    return None if stored is None else msgspec.json.decode(stored)


def place_of(job: Snapshot) -> tuple[Any, ...]:
    return (*_place(job), claim_at(job), job.paused is not None)


def moving_of(job: Snapshot) -> tuple[Any, ...]:
    return (*_moving(job), text(Rest(*_rest_values(job))))


def stands(job: Snapshot) -> tuple[str, bool]:
    """Return the status, and whether the job is called when its turn in line has come: so jobs are
    counted."""
    return job.status, job.line_at is not None and job.stuck is None and job.paused is None


def claim_at(job: Snapshot) -> int | None:
    """Say from when an outside worker may take this job; None while it may not."""
    attempt = job.attempt
    if job.line_at is not None or job.stuck is not None or job.paused is not None:
        return None
    if job.kind != "queued" if attempt is None else not _is_up_for_claim(attempt):
        return None
    run_at = job.timer("run_at")
    return max(attempt.not_before if attempt else 0, run_at.due_at if run_at else 0)


def _is_up_for_claim(attempt: Attempt) -> bool:
    return attempt.status == "due" and attempt.stage == EXTERNAL and not attempt.holder


def payload_row(job: Snapshot) -> dict[str, str | None]:
    """Absent is NULL."""
    return {
        "labels": text(job.labels) if job.labels else None,
        "params": None if job.params is msgspec.UNSET else text(job.params),
        "result": None if job.result is None else text(job.result),
    }


def brief_job(row: tuple[Any, ...]) -> Snapshot:
    """A job as lists show it: without params, result and artifacts."""
    return whole_job(row, ())


def whole_job(row: tuple[Any, ...], artifacts: Iterable[tuple[Any, ...]]) -> Snapshot:
    """``artifacts`` are the rows of the current ones. A job of which a part cannot be read is
    stuck: it still has an owner."""
    faults: list[str] = []
    said = dict(zip(HOT, row, strict=False))
    stored_rest, *payload = row[len(HOT) :]
    if (rest := _tried("rest", _rest_decoder.decode, stored_rest, faults)) is not None:
        said |= zip(REST, _rest_values(rest), strict=True)
    for name, stored in zip(PAYLOAD, payload, strict=False):
        if stored is not None:
            value = _tried(name, msgspec.json.decode, stored, faults)
            said |= {} if value is None else {name: value}
    found = [_tried("artifact", ARTIFACT.of, one, faults) for one in artifacts]
    said["artifacts"] = {artifact.name: artifact for artifact in found if artifact is not None}
    if faults:
        said["unreadable"] = "; ".join(faults)
        said["stuck"] = said["stuck"] or f"UNREADABLE: {said['unreadable']}"
    return Snapshot(**said)


def _tried(name: str, read: Callable[[Any], T], stored: Any, faults: list[str]) -> T | None:
    try:
        return read(stored)
    except Exception as error:  # noqa: BLE001 - whatever became of what was written here
        faults.append(f"{name} cannot be read: {type(error).__name__}: {error}"[:200])
        return None


def attempt_of(stored: str) -> Attempt | None:
    """Read an attempt; None where it cannot be read."""
    return _tried("attempt", _attempt_decoder.decode, stored, [])


ARTIFACT = Columns(Artifact, "artifacts t", read={"value": parsed})


def artifact_as_far(row: tuple[Any, ...]) -> tuple[Artifact, str]:
    """Read an artifact; where its value cannot be read, say why instead."""
    faults: list[str] = []
    whole = _tried("artifact", ARTIFACT.of, row, faults)
    return whole or AS_FAR.of(row), "; ".join(faults)


AS_FAR = Columns(Artifact, "artifacts t", read={"value": lambda stored: None})
ASSET = Columns(
    AssetRow,
    "assets t LEFT JOIN jobs j ON j.id = t.job",
    elsewhere={"job_id": "j.uid", "row": "t.id"},
    first=Columns(Asset, "assets t", elsewhere={"id": "t.uid"}),
)
HISTORY = Columns(
    HistoryRow, "history t JOIN jobs j ON j.id = t.job", elsewhere={"job_id": "j.uid"}
)
LEDGER = Columns(LedgerRow, "ledger t")
DEAD_LETTER = Columns(DeadLetterRow, "dead_letters t", read={"hidden": bool})


def _audited(stored: str) -> dict[str, Any]:
    """Tell actor and act even where the rest of the record cannot be read."""
    faults: list[str] = []
    fields = _tried("fields", _fields_decoder.decode, stored, faults)
    return {"unreadable": faults[0]} if fields is None else fields


AUDIT = Columns(AuditRow, "audit t", read={"fields": _audited})
