"""What handlers are given and what they give back; the ``Door`` holds all that is injected."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct, field

from jobrunner.actors import Facade
from jobrunner.core.features.meter import SILENT, Meter, Readings
from jobrunner.core.job import Actor
from jobrunner.core.questions import Reader
from jobrunner.errors import Refused
from jobrunner.files.incoming import Arrivals
from jobrunner.http.frame.auth import Keyring
from jobrunner.http.frame.limits import Limits
from jobrunner.http.frame.origins import Network
from jobrunner.http.routes.workers.sources import Sources
from jobrunner.ports import Clock, Ids

JSON = "application/json"
PROBLEM = "application/problem+json"


class Settings(Struct, frozen=True, kw_only=True):
    """``read_timeout_s`` is how long a client may take to send a body, all in all; of a file it may
    be silent for ``upload_idle_s``, and must send ``upload_rate`` bytes a second beyond that.
    ``upload_expires_s`` is how long an upload may be resumed;
    ``write_timeout_s`` how long to take a piece of a stream. ``public_url`` is where others reach
    us, and ``trusted_proxies`` are believed about whom they ask for."""

    auth: Literal["tokens", "none"] = "tokens"
    max_body: int = 256 * 1024
    max_upload: int = 2 * 1024**3
    upload_idle_s: float = 30
    upload_rate: int = 8 * 1024
    upload_expires_s: float = 24 * 3600
    read_timeout_s: float = 30
    keepalive_s: float = 30
    initial_credits: int = 25
    shutdown_s: float = 5
    write_timeout_s: float = 10
    public_url: str = ""
    trusted_proxies: tuple[Network, ...] = ()

    @property
    def base_path(self) -> str:
        """What the paths of all links begin with."""
        return urlsplit(self.public_url).path.rstrip("/")


class Door(Struct, frozen=True, eq=False, kw_only=True):
    """``health`` answers by check's name what is wrong with it (empty: nothing); ``check_db`` lists
    the faults of the stored file; ``log`` takes an event's name and its fields. ``assets`` is the
    folder of all files, ``arrivals`` those that are coming in. ``meter`` is told what happens here,
    and ``exposition`` turns readings into the text of all figures, with its media type."""

    facade: Facade
    reader: Reader
    clock: Clock
    ids: Ids
    keyring: Keyring
    settings: Settings
    webhooks: Sources
    log: Callable[..., None]
    health: Callable[[], Awaitable[Mapping[str, str]]]
    check_db: Callable[[], Awaitable[list[str]]]
    limits: Limits
    arrivals: Arrivals
    assets: str
    version: str = "0"
    meter: Meter = SILENT
    exposition: Callable[[Readings], tuple[bytes, str]] = lambda readings: (b"", JSON)


class Call(NamedTuple):
    """One request, after token and body were looked at. ``body`` and ``query`` are the endpoint's
    structs; ``raw`` the body as it came, for endpoints whose struct depends on the job; ``stream``
    the body before anybody has read it, for endpoints that take a file; ``address`` where the
    client is. Whoever only waits from here on calls ``leave``: its place is for others."""

    door: Door
    actor: Actor
    correlation_id: str
    path: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any = None
    query: Any = None
    raw: bytes = b""
    stream: Any = None
    address: str = ""
    leave: Callable[[], None] = lambda: None


class Reply(Struct, frozen=True):
    """``events`` instead of a body: what is told as it happens, each piece at once. ``pour`` writes
    the answer itself, given the request; the rest then only says what it will be. ``refused``: what
    this says in other words."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = JSON
    pour: Callable[[Any], Awaitable[Any]] | None = None
    events: AsyncIterator[bytes] | None = None
    refused: Refused | None = None


Handler = Callable[[Call], Awaitable[Reply]]
