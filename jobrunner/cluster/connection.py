"""The connection to Dask's scheduler: who is there, and what it is told to do. The only module that
knows Dask on this side of the line."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from jobrunner.cluster import performing
from jobrunner.cluster.seats import Skills
from jobrunner.config.settings import ClusterSection
from jobrunner.errors import Misconfigured

T = TypeVar("T")
CONNECT_S = 10.0
ANSWER_S = 5.0
SKILLS_S = 60.0
RESTART_S = 30.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class SchedulerLost(Exception):
    """The scheduler does not answer."""


class Present(Struct, frozen=True):
    """A worker, as the scheduler knows it."""

    address: str
    name: str
    labels: dict[str, int]
    threads: int
    has_nanny: bool


class DaskConnection:
    """A connection to one scheduler. It is not repaired: whoever has lost it makes another one."""

    def __init__(self, settings: ClusterSection) -> None:
        self._settings = settings
        self._security = security_of(settings)
        self._client: Any = None
        self.scheduler_id = ""

    async def begin(self) -> None:
        """Raises: SchedulerLost."""
        from distributed import Client

        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            async with asyncio.timeout(CONNECT_S):
                self._client = await Client(
                    self._settings.scheduler,
                    security=self._security,
                    asynchronous=True,
                    set_as_default=False,
                    name="jobrunner",
                    timeout=CONNECT_S,
                )
        except (OSError, TimeoutError, ValueError) as lost:
            raise SchedulerLost(f"{self._settings.scheduler} does not answer") from lost

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                async with asyncio.timeout(ANSWER_S):
                    await client.close(timeout=1)

    @property
    def own_host(self) -> str:
        """The address by which the scheduler is reached."""
        local = str(self._client.scheduler_comm.comm.local_address)
        return urlsplit(local).hostname or LOOPBACK[0]

    @property
    def context(self) -> ssl.SSLContext | None:
        """Make the demand of the door on those who call."""
        found: ssl.SSLContext | None = self._security.get_listen_args("scheduler").get(
            "ssl_context"
        )
        return found

    async def present(self) -> list[Present]:
        """Everybody who is there. Raises: SchedulerLost, also where another one has its place."""
        found = await self._asked(lambda client: client.scheduler.identity(n_workers=-1), ANSWER_S)
        self.scheduler_id = self.scheduler_id or found["id"]
        if found["id"] != self.scheduler_id:
            raise SchedulerLost(f"{self._settings.scheduler} was started anew")
        return [_present(address, one) for address, one in found["workers"].items()]

    async def skills(self, address: str) -> Skills | str:
        """Ask a worker what it has, or learn why it cannot tell. Raises: SchedulerLost."""
        found = await self._run(performing.skills, address, SKILLS_S)
        return found if isinstance(found, Skills) else _why(found)

    async def under_way(self, address: str) -> list[str] | None:
        """List the attempts that run there; None where nobody can say. Raises: SchedulerLost."""
        found = await self._run(performing.under_way, address, ANSWER_S)
        return found if isinstance(found, list) else None

    async def restart(self, address: str) -> str:
        """End a worker with whatever it does, and have it started anew. Returns what is in the
        way. Raises: SchedulerLost."""

        def asking(client: Any) -> Any:
            return client.restart_workers([address], RESTART_S, raise_for_error=False)

        try:
            await self._asked(asking, RESTART_S + ANSWER_S)
        except (ValueError, KeyError) as refused:
            return str(refused)
        return ""

    def submit(self, order: bytes, key: str, address: str, labels: Mapping[str, int]) -> Any:
        """Have the order done there, once. Raises: SchedulerLost."""
        if self._client is None:
            raise SchedulerLost("it was lost just now")
        return self._client.submit(
            performing.perform,
            order,
            key=key,
            workers=[address],
            allow_other_workers=False,
            resources=dict(labels) or None,
            retries=0,
            pure=False,
        )

    async def _run(self, function: Any, address: str, seconds: float) -> Any:
        def asking(client: Any) -> Any:
            return client.run(function, workers=[address], on_error="return")

        found = await self._asked(asking, seconds)
        return found.get(address)

    async def _asked(self, asking: Callable[[Any], Awaitable[Any]], seconds: float) -> Any:
        """Raises: SchedulerLost, also while it is not reached yet."""
        if self._client is None:
            raise SchedulerLost(f"{self._settings.scheduler} is not reached")
        try:
            async with asyncio.timeout(seconds):
                return await asking(self._client)
        except (OSError, TimeoutError) as lost:
            raise SchedulerLost(f"{self._settings.scheduler} does not answer") from lost


def security_of(settings: ClusterSection) -> Any:
    """Raises: Misconfigured, for a way that anybody on the net could go."""
    try:
        from distributed import Security
    except ImportError:
        text = "[cluster] scheduler is set, and distributed is not installed"
        raise Misconfigured(f"{text}: pip install 'jobrunner[dask]'") from None
    host = urlsplit(settings.scheduler).hostname or ""
    proofs = (settings.ca, settings.cert, settings.key)
    if any(proofs) and not all(proofs):
        raise Misconfigured("[cluster] ca, cert and key go together: set all three, or none")
    if not any(proofs) and host not in LOOPBACK and settings.security == "tls":
        text = "who reaches a cluster runs code on it: set [cluster] ca, cert and key"
        raise Misconfigured(f'{text}, or security = "none" where the net is yours alone')
    if not any(proofs):
        return Security()
    roles = {
        f"tls_{role}_{name}": getattr(settings, name)
        for role in ("client", "worker", "scheduler")
        for name in ("cert", "key")
    }
    return Security(tls_ca_file=settings.ca, require_encryption=True, **roles)


def _present(address: str, told: Mapping[str, Any]) -> Present:
    labels = {str(name): int(count) for name, count in told["resources"].items()}
    threads, name = int(told["nthreads"]), str(told["name"])
    return Present(address, name, labels, threads, bool(told["nanny"]))


def _why(found: object) -> str:
    if isinstance(found, ModuleNotFoundError):
        return f"lacks {found.name}; install jobrunner[dask] and the plugins there"
    if isinstance(found, ImportError | AttributeError):
        return f"has another jobrunner than this service ({found})"
    if isinstance(found, msgspec.ValidationError | BaseException):
        return f"cannot say what it has ({type(found).__name__}: {found})"
    return "said nothing of itself"
