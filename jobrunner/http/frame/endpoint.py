"""One entry of the table: what may be called, by whom, with what, and what may come back."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from jobrunner.core.declaration.workflow import Definition
from jobrunner.errors import STATUS_OF_CODE
from jobrunner.http.frame.call import Handler
from jobrunner.http.frame.limits import Weight
from jobrunner.http.views import View
from jobrunner.http.wire import Query

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

SHOWN = "text/html"
ANYBODY = frozenset({"user", "workflow", "admin"})
OWNERS = frozenset({"user", "admin"})
WORKERS = frozenset({"workflow", "admin"})
ADMINS = frozenset({"admin"})

# What may befall any call, any call with a token, any with a body, any that names a job.
ALWAYS = ("VALIDATION_ERROR", "INTERNAL", "RATE_LIMITED", "OVERLOADED", "FORBIDDEN")
WITH_TOKEN = ("UNAUTHORIZED",)
WITH_BODY = ("BODY_TOO_LARGE", "BODY_TIMEOUT", "UNSUPPORTED_MEDIA_TYPE")
WITH_PATH = ("NOT_FOUND",)
WITH_WRITE = ("STORAGE_FULL", "OUTCOME_UNKNOWN", "OVERLOADED", "DRAINING")

SUBMITTING = (
    "INSUFFICIENT_CREDITS",
    "INVALID_PARAMS",
    "UNKNOWN_WORKFLOW",
    "UNKNOWN_JOB_TYPE",
    "QUOTA_EXCEEDED",
    "DRAINING",
    "WORKFLOW_UNAVAILABLE",
    "JOB_GONE",
)
MOVING = (
    "ILLEGAL_TRANSITION",
    "TERMINAL_STATE",
    "JOB_VERSION_CONFLICT",
    "JOB_ALREADY_RUNNING",
    "JOB_LOCKED",
    "JOB_PAUSED",
    "STALE_RUN",
    "RESULT_MISSING",
    "ARTIFACT_VERSION_CONFLICT",
    "INSUFFICIENT_CREDITS",
    "UNKNOWN_COMMAND",
    "WORKFLOW_UNAVAILABLE",
)


class Endpoint(Struct, frozen=True, kw_only=True):
    """``roles`` None: no token is asked for. ``body`` None: none is read; ``Raw``: which struct it
    must be depends on the job, and ``shown_body`` is what the document says instead, or what the
    fields of ``command`` are. ``empty``
    allows no body at all, and of a ``plain`` one the bytes are read and nothing is looked at.
    ``answers`` maps a status to what comes with it: a view, a media type, any JSON (``dict``) or
    nothing (None). ``codes`` are the refusals beyond those that go without
    saying, and with ``declared`` those that workflows add. ``streams``: the body is a file of this
    media type, which the handler reads itself. ``local``: who asks from this machine needs no
    token."""

    method: Method
    path: str
    name: str
    handler: Handler
    summary: str
    answers: dict[int, type[View] | type[dict[str, Any]] | str | None]
    roles: frozenset[str] | None = ANYBODY
    body: type[Any] | None = None
    shown_body: type[Struct] | None = None
    command: str = ""
    empty: bool = False
    streams: str = ""
    plain: bool = False
    query: type[Query] | None = None
    codes: tuple[str, ...] = ()
    declared: bool = False
    media: tuple[str, ...] = ()
    local: bool = False
    max_body: int = 0

    @property
    def door(self) -> tuple[str, str]:
        return self.method, self.path

    @property
    def for_operators(self) -> bool:
        """May be had on a listener of its own, away from those who bring work."""
        return self.roles == ADMINS or self.path == "/metrics"

    @property
    def weight(self) -> Weight:
        """Under pressure new work is refused first, and who only asks whether we live never."""
        if self.method in ("GET", "OPTIONS"):
            return "none" if self.roles is None else "reading"
        if self.streams:
            return "reading"  # most of its time passes on the sender's line, and others go on
        return "making" if "QUOTA_EXCEEDED" in self.codes else "moving"

    @property
    def is_a_page(self) -> bool:
        """For a person to look at."""
        return SHOWN in self.answers.values()

    @property
    def takes_a_body(self) -> bool:
        return self.body is not None or bool(self.streams)

    @property
    def takes_any_body(self) -> bool:
        return self.body is msgspec.Raw

    def all_codes(self) -> tuple[str, ...]:
        codes = [*ALWAYS, *self.codes]
        codes += WITH_TOKEN if self.roles is not None else ()
        codes += WITH_BODY if self.takes_a_body else ()
        codes += WITH_PATH if "{" in self.path else ()
        codes += WITH_WRITE if self.method not in ("GET", "OPTIONS") else ()
        return tuple(sorted(set(codes)))


def status_of(code: str, definitions: list[Definition]) -> int:
    """The HTTP status of a code, the engine's or a workflow's own."""
    for definition in definitions:
        if code in definition.workflow.codes:
            return definition.workflow.codes[code]
    return STATUS_OF_CODE[code]
