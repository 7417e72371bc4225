"""What an attempt may come to: three outcomes that a stage returns, three failures that it raises
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

from typing import Any

from msgspec import Struct

from jobrunner.core.job import Asset


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
    """Unwinds a stage that awaits a callback. No failure: let it pass."""

    def __init__(self, key: str, timeout_s: float, source: str = "") -> None:
        super().__init__(key)
        self.key = key
        self.timeout_s = timeout_s
        self.source = source


class Fenced(BaseException):
    """The attempt is over for everybody but this thread: let it pass."""
