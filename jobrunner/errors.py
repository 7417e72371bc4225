"""The one tree of errors, branched by who must act.

    JobrunnerError
      Refused         the caller asked for something that cannot be: told once, nothing written
      StageFault      a plugin misbehaved: it costs one attempt, or its own workflow
        RetryableFailure, PermanentFailure, Rejected   the three ways in which an attempt fails
      PluginFault     a function of a workflow failed, or is gone: nothing was decided
      Misconfigured   the operator must change a file or a setting before the service starts
      Unreachable     the operator must start the service, or say where it listens
    StorageError    the operator must look at the disk
        StorageFull     a plain no: rolled back, reads go on
          LeaseOver     another machine may serve: nothing was written
        OutcomeUnknown  a commit that may or may not have happened: stop, and recover from disk

Bugs are not in the tree: they crash into the supervisor.

A refusal is data before it is an exception: the pure core *returns* it, the actors raise it at
whoever is waiting, and one function in ``http`` renders it. Its code is stable and its status
follows from the code. Workflows may add codes of their own; the engine knows none of them.
"""

import os
import traceback
from typing import Any

CHAIN_MAX, FRAMES_MAX, WORDS_MAX = 16, 40, 200
STATUS_OF_CODE: dict[str, int] = {
    "VALIDATION_ERROR": 400,
    "DIGEST_MISMATCH": 400,
    "UNAUTHORIZED": 401,
    "INSUFFICIENT_CREDITS": 402,
    "FORBIDDEN": 403,
    "NOT_FOUND": 404,
    "UNKNOWN_COMMAND": 404,
    "UNKNOWN_UPLOAD": 404,
    "METHOD_NOT_ALLOWED": 405,
    "NOT_ACCEPTABLE": 406,
    "BODY_TIMEOUT": 408,
    "ILLEGAL_TRANSITION": 409,
    "TERMINAL_STATE": 409,
    "JOB_VERSION_CONFLICT": 409,
    "JOB_ALREADY_RUNNING": 409,
    "JOB_NOT_SETTLED": 409,
    "CHILDREN_OPEN": 409,
    "BATCH_CLOSED": 409,
    "BATCH_NOT_ENDED": 409,
    "JOB_LOCKED": 409,
    "JOB_PAUSED": 409,
    "STALE_RUN": 409,
    "OTHER_DECLARATION": 409,
    "ALREADY_EXISTS": 409,
    "ARTIFACT_VERSION_CONFLICT": 409,
    "ANSWER_GIVEN": 409,
    "CALLBACK_OUT_OF_ORDER": 409,
    "CALLBACK_UNEXPECTED": 409,
    "EVENT_ID_PAYLOAD_MISMATCH": 409,
    "IDEMPOTENCY_MISMATCH": 409,
    "RESULT_MISSING": 409,
    "ENDPOINT_DISABLED": 409,
    "UPLOAD_IN_PROGRESS": 409,
    "UPLOAD_OFFSET_MISMATCH": 409,
    "ASSET_ATTACHED": 409,
    "BACKUP_UNDER_WAY": 409,
    "SCHEDULE_OF_FILE": 409,
    "PLACE_OF_SETTINGS": 409,
    "JOB_GONE": 410,
    "ANSWER_OVER": 410,
    "ASSET_GONE": 410,
    "TUS_VERSION_UNSUPPORTED": 412,
    "BODY_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "RANGE_NOT_SATISFIABLE": 416,
    "INVALID_PARAMS": 422,
    "UNKNOWN_WORKFLOW": 422,
    "UNKNOWN_JOB_TYPE": 422,
    "QUOTA_EXCEEDED": 429,
    "RATE_LIMITED": 429,
    "TOO_MANY_STREAMS": 429,
    "CHECKSUM_MISMATCH": 460,
    "INTERNAL": 500,
    "OVERLOADED": 503,
    "DRAINING": 503,
    "STORAGE_FULL": 503,
    "OUTCOME_UNKNOWN": 503,
    "LEASE_OVER": 503,
    "WORKFLOW_UNAVAILABLE": 503,
    "FILES_UNREACHABLE": 503,
}


class JobrunnerError(Exception):
    """Every error that this project raises on purpose."""


class Refused(JobrunnerError):
    """The caller asked for something that cannot be.

    ``extra`` holds what the code needs beside its text (``current_status``, ``run_id`` …) and
    becomes members of the problem body. ``noted``: the log has a line about it.
    """

    def __init__(self, code: str, detail: str, *, status: int = 0, **extra: Any) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.status = status or STATUS_OF_CODE.get(code, 409)
        self.extra = extra
        self.noted = False

    def __repr__(self) -> str:
        return f"Refused({self.code}, {self.detail!r}, {self.extra!r})"


class StageFault(JobrunnerError):
    """A plugin misbehaved; ``code`` says how and becomes the attempt's failure code. ``detail`` is
    our sentence, for everybody; ``excerpt`` what a stranger or a library said, for admins."""

    def __init__(self, code: str, detail: str, *, excerpt: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.excerpt = excerpt


class RetryableFailure(StageFault):
    """It may work next time: network, timeout, storage, rate limit (``retry_after_s``)."""

    def __init__(
        self, code: str, detail: str, retry_after_s: float = 0, *, excerpt: str = ""
    ) -> None:
        super().__init__(code, detail, excerpt=excerpt)
        self.retry_after_s = retry_after_s


class PermanentFailure(StageFault):
    """It will not work next time either."""


class Rejected(StageFault):
    """A policy, ours or the provider's, says no."""


class PluginFault(JobrunnerError):
    """A function that a workflow names raised, answered something else than it may, or is not
    there today (``missing``). Nothing was decided; what it raised is the cause of this."""

    def __init__(self, workflow: str, function: str, detail: str, *, missing: bool = False) -> None:
        super().__init__(f"{function} of workflow {workflow} {detail}")
        self.workflow = workflow
        self.function = function
        self.missing = missing

    def refusal(self) -> Refused:
        """Make the refusal that whoever asked is told."""
        if self.missing:
            text = f"workflow {self.workflow} needs {self.function}, which its plugin lacks today"
            return Refused("WORKFLOW_UNAVAILABLE", text, missing=[self.function])
        text = (
            f"{self.function} of workflow {self.workflow} failed, and nothing was changed; "
            "the operator's log has the details"
        )
        return Refused("WORKFLOW_UNAVAILABLE", text)


class Misconfigured(JobrunnerError):
    """The service cannot start like this. ``faults`` lists everything that is wrong, not only
    the first thing."""

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class Unreachable(JobrunnerError):
    """Nobody answers where the service should be, or somebody else does."""


class StorageError(JobrunnerError):
    """The file that holds everything did not do what it was asked."""


class StorageFull(StorageError):
    """No room: the write did not happen. Reads go on, and the next write may succeed."""


class LeaseOver(StorageFull):
    """The copy's token could not be renewed in time, so another machine may have it: the write did
    not happen. The next may, when the copy's place is there again."""


class FilesUnreachable(StorageError):
    """The store of objects did not do what it was asked. ``lasting``: not before an operator has
    seen to it; anything else may pass by itself."""

    def __init__(self, detail: str, *, lasting: bool = False) -> None:
        super().__init__(detail)
        self.lasting = lasting


class OutcomeUnknown(StorageError):
    """A commit failed in a way that leaves open whether it happened. Only the disk knows."""


def bug_named(bug: BaseException) -> str:
    """Say what kind of exception it is, and its words where they are nobody's.

    An exception that nobody foresaw may quote a prompt, a transcript or a file, and the log is for
    none of them. What stands in the code word for word, and what the system says, quotes nobody.
    """
    kind = type(bug).__name__
    words = _own_words(bug)
    return f"{kind}: {words[:WORDS_MAX]}" if words else kind


def bug_places(bug: BaseException) -> str:
    """A traceback without what the exceptions say."""
    lines = [line for one in _chain(bug) for line in (*_frames(one), bug_named(one))]
    return "\n".join(lines)


def bug_told(bug: BaseException) -> dict[str, str]:
    """The fields by which the log tells of it."""
    return {"error": bug_named(bug), "traceback": bug_places(bug)}


def _own_words(bug: BaseException) -> str:
    if isinstance(bug, OSError):
        return os.strerror(bug.errno) if isinstance(bug.errno, int) else ""
    words = bug.args[0] if bug.args and isinstance(bug.args[0], str) else ""
    if isinstance(bug, StorageError | BaseExceptionGroup):
        return words
    written = any(
        words in frame.f_code.co_consts for frame, _ in traceback.walk_tb(bug.__traceback__)
    )
    return words if written else ""


def _chain(bug: BaseException) -> list[BaseException]:
    """List its causes, first, and the errors in it; each once."""
    found: list[BaseException] = []
    ahead = [bug]
    while ahead and len(found) < CHAIN_MAX:
        one = ahead.pop()
        if any(one is known for known in found):
            continue
        found.append(one)
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        ahead += [before] if before else []
        ahead += one.exceptions if isinstance(one, BaseExceptionGroup) else ()
    return found[::-1]


def _frames(bug: BaseException) -> list[str]:
    frames = [
        f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}'
        for frame, line in traceback.walk_tb(bug.__traceback__)
    ]
    return ["Traceback (most recent call last):", *frames[-FRAMES_MAX:]]
