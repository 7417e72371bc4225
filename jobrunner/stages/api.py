"""What a stage's author writes against: a context in, an outcome out."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from jobrunner.core.job import Asset
from jobrunner.errors import StageFault


class Context:
    """What an attempt may know and do. ``idempotency_key`` is stable across the retries of this
    step, so a provider can recognise a call that it has had before."""

    def __init__(
        self,
        *,
        job_id: str,
        user_id: str,
        job_type: str,
        state: str,
        run_id: str,
        attempt: int,
        params: Any,
        artifacts: dict[str, Any],
        settings: dict[str, Any],
        on_progress: Callable[[int | None, str | None], Awaitable[None]],
    ) -> None:
        self.job_id = job_id
        self.user_id = user_id
        self.job_type = job_type
        self.run_id = run_id
        self.attempt = attempt
        self.params = params
        self.artifacts = artifacts
        self.settings = settings
        self.idempotency_key = f"{job_id}:{state}:{run_id}"
        self._on_progress = on_progress

    async def progress(self, percent: int | None = None, message: str | None = None) -> None:
        """How far it is (0 to 100), or just that it goes on."""
        await self._on_progress(percent, message)


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
    """The rest happens elsewhere: park the job until a callback with this key comes."""

    key: str
    timeout_s: float = 0


Outcome = Done | Partial | AwaitCallback


class RetryableFailure(StageFault):
    """It may work next time: network, timeout, storage, rate limit (``retry_after_s``)."""

    def __init__(self, code: str, detail: str, retry_after_s: float = 0) -> None:
        super().__init__(code, detail)
        self.retry_after_s = retry_after_s


class PermanentFailure(StageFault):
    """It will not work next time either."""


class Rejected(StageFault):
    """A policy, ours or the provider's, says no."""


class Stage(Struct, frozen=True):
    """A named piece of work: what an entry point of the group ``jobrunner.stages`` leads to."""

    name: str
    run: Callable[[Context], Awaitable[Outcome]]
