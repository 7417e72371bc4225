"""A conversation with the service, whichever client carries it: what is sent, what comes back, and
when the same is sent again.

A conversation is a generator. It yields what it wants of the world (a request, a rest, the time, a
key, a piece of a file) and is given it; it returns its result. It neither opens a connection nor
waits, so the blocking client and the one for a loop run the very same ones.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from jobrunner.client.refusing import TryLater, Unanswered, refusal_in
from jobrunner.errors import JobrunnerError, Unreachable

T = TypeVar("T")

PASSES = frozenset(
    {
        "RATE_LIMITED",
        "TOO_MANY_STREAMS",
        "OVERLOADED",
        "DRAINING",
        "STORAGE_FULL",
        "LEASE_OVER",
        "HTTP_503",
    }
)
UNKNOWN = "OUTCOME_UNKNOWN"


class WireRequest(Struct, frozen=True, kw_only=True):
    """``repeatable``: being done twice, it has the effect of being done once. ``wait_s`` is for how
    long the service may hold the answer back. ``once``: the conversation looks after failures
    itself."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    wait_s: float = 0
    repeatable: bool = False
    once: bool = False


class WireAnswer(Struct, frozen=True):
    """One answer, whole. Names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Rest(Struct, frozen=True):
    """Wait for so long, or a little longer."""

    seconds: float


class Now(Struct, frozen=True):
    """The time, in seconds since whenever."""


class FreshKey(Struct, frozen=True):
    """A text that nobody has said before."""


class Aside(Struct, frozen=True):
    """Something of this machine that takes a moment: a piece of a file."""

    work: Callable[[], Any]


class RetryLimits(Struct, frozen=True, kw_only=True):
    """How often something is tried in all, and for how long it is waited for in all. The first rest
    is ``first_s``, each next one twice as long, and none shorter than what the service asks for."""

    tries: int = 6
    total_s: float = 60
    first_s: float = 0.2

    def rest_s(self, failures: int, error: JobrunnerError) -> float:
        asked_s = error.retry_after_s if isinstance(error, TryLater) else 0.0
        return max(self.first_s * 2.0**failures, asked_s)


Step = WireRequest | Rest | Now | FreshKey | Aside
Talk = Generator[Step, Any, T]

USUAL = RetryLimits()
ON_THE_WAY = RetryLimits(first_s=0.5)
ONCE = RetryLimits(tries=1)


def patient(talk: Talk[T], limits: RetryLimits) -> Talk[T]:
    """Hold this conversation, sending again what may be sent again."""
    try:
        step = next(talk)
        while True:
            if not isinstance(step, WireRequest):
                step = talk.send((yield step))
                continue
            try:
                answer = yield from _asked(step, limits)
            except JobrunnerError as error:
                step = talk.throw(error)
            else:
                step = talk.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def _asked(request: WireRequest, limits: RetryLimits) -> Talk[WireAnswer]:
    """Raises: Refused, Unreachable."""
    failures, rested_s = 0, 0.0
    while True:
        try:
            answer: WireAnswer = yield request
            if answer.status < 400:
                return answer
            raise refusal_in(answer.status, answer.headers, answer.body)
        except JobrunnerError as error:
            rest_s = limits.rest_s(failures, error)
            failures, rested_s = failures + 1, rested_s + rest_s
            if request.once or failures >= limits.tries or rested_s > limits.total_s:
                raise
            if not may_be_repeated(request, error):
                raise
        yield Rest(rest_s)


def may_be_repeated(request: WireRequest, error: JobrunnerError) -> bool:
    """Say whether the same may be sent again: always when it was refused before anything was done;
    when it was perhaps done, only where that makes no difference."""
    if isinstance(error, Unanswered) or getattr(error, "code", "") == UNKNOWN:
        return request.repeatable
    return isinstance(error, Unreachable) or getattr(error, "code", "") in PASSES
