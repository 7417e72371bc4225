"""What handlers are given and what they give back; the ``Door`` holds all that is injected."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field

from jobrunner.actors import Supervisor
from jobrunner.core.job import Actor
from jobrunner.core.queries import Reader
from jobrunner.http.auth import Keyring
from jobrunner.ports import Clock, Ids

JSON = "application/json"
PROBLEM = "application/problem+json"


class Settings(Struct, frozen=True, kw_only=True):
    """``read_timeout_s`` is how long a client may take to send a body, all in all."""

    auth: Literal["tokens", "none"] = "tokens"
    max_body: int = 256 * 1024
    read_timeout_s: float = 30
    keepalive_s: float = 30
    initial_credits: int = 25
    shutdown_s: float = 5


class Door(Struct, frozen=True, eq=False, kw_only=True):
    """``health`` answers by check's name what is wrong with it (empty: nothing); ``check_db`` lists
    the faults of the stored file; ``log`` takes an event's name and its fields."""

    supervisor: Supervisor
    reader: Reader
    clock: Clock
    ids: Ids
    keyring: Keyring
    settings: Settings
    log: Callable[..., None]
    health: Callable[[], Awaitable[Mapping[str, str]]]
    check_db: Callable[[], Awaitable[list[str]]]
    version: str = "0"


class Call(NamedTuple):
    """One request, after token and body were looked at. ``body`` and ``query`` are the endpoint's
    structs; ``raw`` the body as it came, for endpoints whose struct depends on the job."""

    door: Door
    actor: Actor
    correlation_id: str
    path: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any = None
    query: Any = None
    raw: bytes = b""


class Reply(Struct, frozen=True):
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = JSON


Handler = Callable[[Call], Awaitable[Reply]]
