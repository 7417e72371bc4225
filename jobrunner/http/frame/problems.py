"""The one place where an error becomes HTTP: problem documents (RFC 9457) with a stable code."""

from functools import lru_cache
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from jobrunner.core.instants import timed
from jobrunner.errors import (
    FilesUnreachable,
    JobrunnerError,
    LeaseOver,
    OutcomeUnknown,
    Refused,
    StorageFull,
)
from jobrunner.http.frame.endpoint import PROBLEM, HttpReply, View

RETRY_AFTER_S = 5
LASTING_S = 60
RESERVED = frozenset({"type", "title", "status", "detail", "error_code", "correlation_id"})


class FieldFault(View, frozen=True, kw_only=True):
    path: str
    message: str


class Problem(View, frozen=True, kw_only=True):
    """RFC 9457, with a stable code; some codes bring members of their own."""

    type: str
    title: str
    status: int
    detail: str
    error_code: str
    correlation_id: str
    errors: list[FieldFault] | UnsetType = UNSET


def problem(refused: Refused, correlation_id: str) -> HttpReply:
    """A refusal as seen from outside; what its code needs stands beside the usual members."""
    extra = {key: value for key, value in refused.extra.items() if key not in RESERVED}
    body: dict[str, Any] = {
        "type": f"urn:jobrunner:problem:{refused.code.lower()}",
        "title": phrase_of(refused.status),
        "status": refused.status,
        "detail": refused.detail,
        "error_code": refused.code,
        "correlation_id": correlation_id,
        **timed(extra),
    }
    return HttpReply(refused.status, msgspec.json.encode(body), _headers(refused), PROBLEM)


@lru_cache(maxsize=128)
def phrase_of(status: int) -> str:
    """460 is the one status that another protocol made up."""
    return "Checksum Mismatch" if status == 460 else HTTPStatus(status).phrase


def refusal_of(error: Exception) -> Refused | None:
    """An error of ours in the words of a refusal; None for what nobody foresaw."""
    match error:
        case Refused():
            return error
        case LeaseOver():
            return Refused("LEASE_OVER", str(error))
        case StorageFull():
            detail = "the disk is full: nothing was stored; the operator must make room"
            return Refused("STORAGE_FULL", detail)
        case OutcomeUnknown():
            detail = "nobody knows whether this was stored; ask again with the same key or event id"
            return Refused("OUTCOME_UNKNOWN", detail)
        case FilesUnreachable(lasting=lasting):
            detail = "the store that holds this file does not answer; it is tried again by itself"
            if lasting:
                detail = "the store that holds this file refuses us; the operator must see to it"
            wait_s = LASTING_S if lasting else RETRY_AFTER_S
            return Refused("FILES_UNREACHABLE", detail, retry_after_s=wait_s)
        case JobrunnerError():
            return Refused("INTERNAL", "this is our fault; the log has the details")
        case _:
            return None


def internal() -> Refused:
    """A bug. What it was stands in the log under the same correlation id, and only there."""
    return Refused("INTERNAL", "this is our fault; the log has the details")


def invalid(detail: str, *faults: tuple[str, str]) -> Refused:
    """400: ``faults`` are pairs of a path in what was sent and what is wrong there."""
    errors = [{"path": path, "message": message} for path, message in faults]
    return Refused("VALIDATION_ERROR", detail, errors=errors)


def _headers(refused: Refused) -> dict[str, str]:
    match refused.status:
        case 401:
            return {"WWW-Authenticate": 'Bearer realm="jobrunner"'}
        case 405:
            return {"Allow": ", ".join(refused.extra.get("allowed_methods", ()))}
        case 429 | 503:
            return {"Retry-After": str(int(refused.extra.get("retry_after_s", RETRY_AFTER_S)))}
        case 412 if refused.code == "TUS_VERSION_UNSUPPORTED":
            return {"Tus-Version": ", ".join(refused.extra.get("versions", ()))}
        case 415 if "accept_encoding" in refused.extra:
            return {"Accept-Encoding": ", ".join(refused.extra["accept_encoding"])}
        case 416:
            return {"Content-Range": f"bytes */{refused.extra.get('size', '*')}"}
        case 408 | 413:
            return {"Connection": "close"}
        case _:
            return {}
