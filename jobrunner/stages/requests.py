"""The requests of a stage beyond its own job, and their answers: an exchange over HTTP, a
download, a file of its owner, a look into the library. All of it is data, so that a stage asks in
the same words wherever it runs; who answers is its host's business.

Light on purpose: it is imported by every stage's process, and must not bring the HTTP library.
"""

from typing import Any

from msgspec import UNSET, Struct

from jobrunner.core.features.families.parentage import JobsAwaited
from jobrunner.core.job import Asset
from jobrunner.errors import PermanentFailure, Rejected, RetryableFailure, StageFault
from jobrunner.outgoing.calls import Download, Exchange, Fetched, Reply


class Find(Struct, frozen=True, tag=True):
    """A file of the job's owner."""

    asset_id: str


class Browse(Struct, frozen=True, tag=True):
    """The files of the job's owner."""

    asset_type: str | None = None
    limit: int = 1000


class Recall(Struct, frozen=True, tag=True):
    """An artifact of the job in one of its versions."""

    name: str
    version: int


class Posing(Struct, frozen=True, tag=True):
    """A question to somebody outside, under a name. ``struct`` names the form of its answer."""

    name: str
    struct: str = ""
    text: str = ""
    by: tuple[str, ...] = ()
    timeout_s: float = 0
    default: Any = UNSET


class PosedToken(Struct, frozen=True, tag=True):
    """The token of a stored question; whoever has it may answer. Empty: the token cannot be told
    again."""

    token: str


class JobSubmission(Struct, frozen=True, tag=True):
    """A child of the job, known to its run by this key."""

    workflow: str
    params: dict[str, Any]
    key: str
    job_type: str = ""
    priority: int | None = None
    labels: dict[str, str] = {}


class OutcomesAsked(Struct, frozen=True, tag=True):
    """How these children of the job stand."""

    ids: tuple[str, ...]


class Held(Struct, frozen=True, tag=True):
    """A file of the library as it was recorded. It is there to be read, not to be changed."""

    asset: Asset
    path: str


class Found(Struct, frozen=True, tag=True):
    assets: tuple[Asset, ...]


class Recalled(Struct, frozen=True, tag=True):
    value: Any


class JobSubmitted(Struct, frozen=True, tag=True):
    job_id: str


class JobsSeen(Struct, frozen=True, tag=True):
    """Says whether enough of the children that are awaited have ended."""

    is_met: bool


class JobOutcome(Struct, frozen=True):
    """A child as it stands. ``ended_as`` names its end in words that all workflows share:
    completed, partial, failed, canceled, rejected, expired; it is empty while the child goes on. Of
    one that was ``deleted`` only how it ended is known."""

    id: str
    key: str
    status: str
    ended_as: str = ""
    result: Any = None
    artifacts: dict[str, Any] = {}
    failure_code: str = ""
    failure_message: str = ""
    deleted: bool = False

    @property
    def well(self) -> bool:
        return self.ended_as in ("completed", "partial")


class JobOutcomes(Struct, frozen=True, tag=True):
    jobs: tuple[JobOutcome, ...]


class CarriedFault(Struct, frozen=True, tag=True):
    """A failure on its way into another process."""

    kind: str
    code: str
    detail: str
    retry_after_s: float = 0
    excerpt: str = ""

    def fault(self) -> StageFault:
        said = {"excerpt": self.excerpt}
        if self.kind == "retryable":
            return RetryableFailure(self.code, self.detail, self.retry_after_s, **said)
        kind = Rejected if self.kind == "rejected" else PermanentFailure
        return kind(self.code, self.detail, **said)


Beyond = Exchange | Download | Find | Browse | Recall | JobSubmission | JobsAwaited | OutcomesAsked
Question = Beyond | Posing
Answer = (
    Reply | Fetched | Held | Found | Recalled | PosedToken | JobSubmitted | JobsSeen | JobOutcomes
)


def carried(fault: StageFault) -> CarriedFault:
    if isinstance(fault, RetryableFailure):
        patience_s = fault.retry_after_s
        return CarriedFault("retryable", fault.code, fault.detail, patience_s, fault.excerpt)
    kind = "rejected" if isinstance(fault, Rejected) else "permanent"
    return CarriedFault(kind, fault.code, fault.detail, excerpt=fault.excerpt)
