"""The outcomes of an attempt: three outcomes that a stage returns, three failures that it raises
(``errors.RetryableFailure``, ``PermanentFailure``, ``Rejected``).

A failure is classed by whoever knows best, the author. Retryable: the network, a provider's time
limit, a disk or a store that is busy, a rate limit. Permanent: what will be wrong next time too, as
a codec that nobody reads, a key without permission, an input that is damaged. Rejected: a policy
says no, ours or the provider's.

Of what a stage lets pass, the host knows these, and they are retryable: ``TimeoutError`` (TIMEOUT),
``ConnectionError`` (NETWORK), and an ``OSError`` of a full, busy or failing disk (STORAGE). What is
none of these is a bug of the stage and permanent (STAGE_CRASHED), as is its death.

What a failure says is shown to the job's owner. What somebody else said, as the body of an error or
the text of an exception, is its ``excerpt``, which admins find with the attempt.
"""

import errno
import os
import re
import traceback
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jobrunner.core.declaration.spelling import ARTIFACT
from jobrunner.core.features.families.parentage import JobsAwaited
from jobrunner.core.features.webhooks import name_of
from jobrunner.core.job import Asset, Failure
from jobrunner.core.messages import Ended, Report
from jobrunner.errors import Rejected, RetryableFailure, StageFault
from jobrunner.stages.sources import SOURCE

TEXT_MAX = 2_000
DETAIL_MAX = 20_000
KEY_MAX = 255
REPORT_MAX = 4 * 1024 * 1024
NESTED_MAX = 64
STORAGE = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN, errno.EBUSY, errno.ESTALE}
TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*(?=:|\Z)")
CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
Saved = Iterable[tuple[Asset, str]]
READ = msgspec.json.Decoder(Ended).decode


class Done(Struct, frozen=True):
    """The stage did its work."""

    result: Any = None
    artifacts: dict[str, Any] = {}
    assets: tuple[Asset, ...] = ()


class Partial(Struct, frozen=True):
    """Some of the work is done, and ``message`` says what is not."""

    message: str
    result: Any = None
    artifacts: dict[str, Any] = {}
    assets: tuple[Asset, ...] = ()


class AwaitCallback(Struct, frozen=True):
    """The rest happens elsewhere: park the job until a callback with this key comes. The same as
    ``ctx.await_callback``, for a stage that has nothing to do with the answer."""

    key: str
    timeout_s: float = 0
    source: str = ""


Outcome = Done | Partial | AwaitCallback


class Parked(BaseException):
    """Unwinds a stage that awaits a callback, or ``jobs``. No failure: let it pass."""

    def __init__(
        self, key: str, timeout_s: float, source: str = "", jobs: JobsAwaited | None = None
    ) -> None:
        super().__init__(key)
        self.key = key
        self.timeout_s = timeout_s
        self.source = source
        self.jobs = jobs


class Fenced(BaseException):
    """The attempt is over for everybody but this thread: let it pass."""


def returned(outcome: object, saved: Saved = ()) -> Ended:
    """How an attempt ended whose stage came back with this; ``saved`` are the files it kept."""
    ended = _outcome(outcome, saved)
    try:
        data = msgspec.json.encode(ended)
        if len(data) <= REPORT_MAX and not _is_deep(data, ended.report.result):
            return _checked(READ(data))
        text = f"what the stage returned is too much: {len(data)} bytes, or too deep"
    except (TypeError, ValueError, RecursionError) as error:
        return crashed("what the stage returned cannot be stored: it is no JSON", said(error))
    return crashed(text)


def raised(fault: BaseException) -> Ended:
    """The same for what a stage raised. An unknown exception is permanent, and its traceback stays
    with the attempt. Of a group, as task groups raise it, the fault that says most counts."""
    if isinstance(fault, BaseExceptionGroup):
        fault = _telling(fault)
    if isinstance(fault, Parked):
        return _parked(fault.key, fault.timeout_s, fault.source, fault.jobs)
    if isinstance(fault, Rejected):
        return Ended(0, "rejected", failure=_failure(fault, retryable=False))
    if isinstance(fault, StageFault):
        return Ended(0, "failed", failure=_failure(fault, isinstance(fault, RetryableFailure)))
    if isinstance(fault, MemoryError):
        return failed("MEMORY_LIMIT", "the stage took more memory than it may")
    if isinstance(fault, OSError) and (known := _known(fault)):
        text = f"the stage ran into {type(fault).__name__}{_reason(fault)}"
        return failed(known, text, retryable=known != "FILE_LIMIT", detail=_trace(fault))
    text = f"the stage raised {type(fault).__name__}; admins find where among the attempts"
    return crashed(text, _trace(fault))


def _telling(group: BaseExceptionGroup) -> BaseException:
    """Find the first that no retry helps, else the first; the group itself where an unknown one is
    in it: its traceback has them all."""
    faults = [
        _telling(one) if isinstance(one, BaseExceptionGroup) else one for one in group.exceptions
    ]
    if not all(isinstance(one, StageFault | Parked) for one in faults):
        return group
    final = (one for one in faults if not isinstance(one, RetryableFailure | Parked))
    return next(final, faults[0])


def crashed(text: str, detail: str = "") -> Ended:
    return failed("STAGE_CRASHED", text, detail=detail)


def failed(code: str, text: str, *, retryable: bool = False, detail: str = "") -> Ended:
    failure = Failure(code, plain(text), retryable=retryable, detail=plain(detail, DETAIL_MAX))
    return Ended(0, "failed", failure=failure)


def said(fault: BaseException) -> str:
    """Read an exception's own words, if it has any."""
    try:
        return plain(str(fault))
    except BaseException as worse:
        return f"(its text cannot be read: {type(worse).__name__})"


def plain(text: object, longest: int = TEXT_MAX) -> str:
    """Text that can be stored: no lone surrogates, no NUL, and the end of it if it is long."""
    whole = text if isinstance(text, str) else repr(type(text))
    whole = whole.encode("utf-8", "replace").decode().replace("\0", "")
    return whole if len(whole) <= longest else f"…{whole[-longest + 1 :]}"


def places(trace: str) -> str:
    """A traceback without what its exceptions say; empty for what is none."""
    kept: list[str] = []
    before = ""
    for line in trace.splitlines():
        if line.startswith(("Traceback (", "  File ")):
            kept.append(line)
        elif before.startswith("    ") and (raised_there := TYPE.match(line)):
            kept.append(raised_there[0])
        before = line
    return "\n".join(kept) if len(kept) > 1 else ""


def _outcome(outcome: object, saved: Saved) -> Ended:
    match outcome:
        case Done(result, artifacts, assets):
            return Ended(0, "done", _report(result, artifacts, assets, saved))
        case Partial(message, result, artifacts, assets):
            failure = Failure("PARTIAL", plain(message), retryable=False)
            return Ended(0, "partial", _report(result, artifacts, assets, saved), failure)
        case AwaitCallback(key, timeout_s, source):
            return _parked(key, timeout_s, source)
    kind = type(outcome).__name__
    return crashed(f"the stage returned {kind}, which is no outcome; return Done(...)")


def _report(result: Any, artifacts: Any, assets: Any, saved: Saved) -> Report:
    """Files that the stage kept are its own, whether it lists them or not."""
    try:
        listed, values = tuple(assets), dict(artifacts)
    except (TypeError, ValueError):
        return Report(result=result, artifacts=artifacts, assets=assets)
    if own := list(saved):
        ids = {asset.id for asset in listed if isinstance(asset, Asset)}
        listed += tuple(asset for asset, _ in own if asset.id not in ids)
        values = {artifact: asset.url for asset, artifact in own if artifact} | values
    return Report(result=result, artifacts=values, assets=listed)


def _parked(
    key: object, timeout_s: object, source: object, jobs: JobsAwaited | None = None
) -> Ended:
    timed = isinstance(timeout_s, int | float) and 0 <= timeout_s < 10**9
    if jobs is not None and timed:
        return Ended(0, "parked", await_s=float(str(timeout_s)), jobs=jobs)
    if not (isinstance(key, str) and 0 < len(key) <= KEY_MAX and timed):
        return crashed("a stage awaits a key of 1 to 255 characters, for a number of seconds")
    if not (isinstance(source, str) and (not source or SOURCE.fullmatch(source))):
        return crashed(f"a stage awaits a webhook of a source, whose name is {SOURCE.pattern}")
    name = name_of(source, plain(key)) if source else plain(key)
    return Ended(0, "parked", awaits=name, await_s=float(str(timeout_s)), source=source)


def _checked(ended: Ended) -> Ended:
    wrong = [name for name in ended.report.artifacts if not ARTIFACT.fullmatch(name)]
    if wrong:
        return crashed(f"{wrong[0][:80]!r} is no name for an artifact; [a-z][a-z0-9_]{{0,63}} is")
    return ended


def _failure(fault: StageFault, retryable: bool) -> Failure:
    """Make the words of its author fit to be stored."""
    code = str(fault.code)
    after = getattr(fault, "retry_after_s", 0)
    sane = isinstance(after, int | float) and 0 <= after < 10**9
    return Failure(
        code if CODE.fullmatch(code) else "STAGE_FAILED",
        plain(fault.detail),
        retryable=retryable,
        retry_after_s=after if sane else 0,
        detail=plain(getattr(fault, "excerpt", ""), DETAIL_MAX),
    )


def _known(fault: OSError) -> str:
    """Recognise passing trouble: the network, a time limit, the disk."""
    if isinstance(fault, TimeoutError):
        return "TIMEOUT"
    if isinstance(fault, ConnectionError):
        return "NETWORK"
    if fault.errno == errno.EFBIG:
        return "FILE_LIMIT"
    return "STORAGE" if fault.errno in STORAGE else ""


def _reason(fault: OSError) -> str:
    """The system's own words for it, without the path or the address that it is about."""
    return f": {os.strerror(fault.errno)}" if isinstance(fault.errno, int) else ""


def _trace(fault: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(fault))
    except BaseException as worse:
        return f"(its traceback cannot be read: {type(worse).__name__})"


def _is_deep(data: bytes, value: Any) -> bool:
    """Say whether lists and tables are nested too deep, looked at no deeper than is allowed. A few
    of them cannot be."""
    if data.count(b"{") + data.count(b"[") <= NESTED_MAX:
        return False
    level, depth = [value], 0
    while level and depth <= NESTED_MAX:
        inner = [one.values() if isinstance(one, dict) else one for one in level
                 if isinstance(one, dict | list | tuple)]  # fmt: skip
        level = [part for one in inner for part in one]
        depth += 1
    return depth > NESTED_MAX


def for_attempt(ended: Ended, serial: int, log: Iterable[str] = ()) -> Ended:
    return replace(ended, serial=serial, log=tuple(map(plain, log)))
