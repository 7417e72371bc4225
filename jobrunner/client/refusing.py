"""A refusal of the service as an exception, by who must act: the caller, time, or the operator."""

from collections.abc import Mapping
from typing import Any

import msgspec

from jobrunner.errors import JobrunnerError, Refused, Unreachable

KNOWN = frozenset({"type", "title", "status", "detail", "error_code", "correlation_id"})


class Unanswered(Unreachable):
    """It was sent, and nobody answered: it may have been done."""


class ServiceRefusal(Refused):
    """Whatever the service says no with. ``extra`` has what the code brings beside its text."""

    correlation_id: str = ""


class CallerError(ServiceRefusal):
    """The caller must ask for something else."""


class InvalidRequest(CallerError):
    """It is malformed, or names what is not there: VALIDATION_ERROR, INVALID_PARAMS,
    UNKNOWN_WORKFLOW … ``extra["errors"]`` has the paths."""


class NotPermitted(CallerError):
    """The token is none, or its role may not do that: UNAUTHORIZED, FORBIDDEN."""


class OutOfCredits(CallerError):
    """INSUFFICIENT_CREDITS."""


class NotThere(CallerError):
    """There is no such thing, or no more: NOT_FOUND, UNKNOWN_COMMAND, JOB_GONE …"""


class InConflict(CallerError):
    """It does not go with how things stand: ILLEGAL_TRANSITION, JOB_VERSION_CONFLICT …"""


class TryLater(ServiceRefusal):
    """The same may be taken later, after ``retry_after_s`` at the earliest: OVERLOADED, DRAINING,
    RATE_LIMITED, QUOTA_EXCEEDED …"""

    retry_after_s: float = 0.0


class OperatorError(ServiceRefusal):
    """The operator must act: INTERNAL, WORKFLOW_UNAVAILABLE."""


BY_STATUS: dict[int, type[ServiceRefusal]] = {
    401: NotPermitted,
    402: OutOfCredits,
    403: NotPermitted,
    404: NotThere,
    409: InConflict,
    410: NotThere,
    412: InConflict,
    429: TryLater,
    503: TryLater,
}
BY_CODE: dict[str, type[ServiceRefusal]] = {"WORKFLOW_UNAVAILABLE": OperatorError}


def refusal_in(status: int, headers: Mapping[str, str], body: bytes) -> JobrunnerError:
    """Read what an answer of 400 and above says, be it ours or of somebody in between."""
    problem = _problem_in(body)
    if not problem and status in (502, 504):
        return Unanswered(f"nobody answers behind the proxy ({status}); it may have been done")
    code = str(problem.get("error_code", f"HTTP_{status}"))
    kind = BY_CODE.get(code) or BY_STATUS.get(status)
    if kind is None:
        kind = OperatorError if status >= 500 else InvalidRequest
    extra = {name: value for name, value in problem.items() if name not in KNOWN}
    refused = kind(code, _text(problem), status=status, **extra)
    refused.correlation_id = str(problem.get("correlation_id", ""))
    if isinstance(refused, TryLater):
        refused.retry_after_s = _seconds(headers.get("retry-after", ""))
    return refused


def _problem_in(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(problem: dict[str, Any]) -> str:
    """The reason, and below it each field that is wrong."""
    detail = problem.get("detail") or problem.get("title") or "no reason given"
    faults = [one for one in problem.get("errors", ()) if isinstance(one, dict)]
    paths = [f"{fault.get('path')}: {fault.get('message')}" for fault in faults]
    return "\n  ".join([str(detail), *paths])


def _seconds(said: str) -> float:
    return float(said) if said.isascii() and said.isdigit() else 0.0
