"""One entry of the table: what may be called, by whom, with what, and what may come back."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from jobrunner.actors import Facade, StoreReader
from jobrunner.actors.features.plugins import PluginTroubles
from jobrunner.actors.keeping.backups import Backups
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.features.meter import SILENT, Meter, Readings
from jobrunner.core.job import Actor
from jobrunner.core.keeping.standby import StandbyState
from jobrunner.errors import STATUS_OF_CODE, Refused
from jobrunner.files.incoming import Arrivals
from jobrunner.http.frame.auth import Keyring
from jobrunner.http.frame.limits import HttpLimits, Weight
from jobrunner.http.frame.origins import Network
from jobrunner.http.frame.sources import Sources
from jobrunner.ports import Clock, Ids

JSON = "application/json"
PROBLEM = "application/problem+json"

FromWorkflows = Literal["workflows", "params", "commands"]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

SHOWN = "text/html"
ANYBODY = frozenset({"user", "workflow", "admin"})
OWNERS = frozenset({"user", "admin"})
WORKERS = frozenset({"workflow", "admin"})
ADMINS = frozenset({"admin"})
READERS = frozenset({"reader"})

# What may befall any call, any call with a token, any with a body, any that names a job.
ALWAYS = ("VALIDATION_ERROR", "INTERNAL", "RATE_LIMITED", "OVERLOADED", "FORBIDDEN")
WITH_TOKEN = ("UNAUTHORIZED",)
WITH_BODY = ("BODY_TOO_LARGE", "BODY_TIMEOUT", "UNSUPPORTED_MEDIA_TYPE")
WITH_PATH = ("NOT_FOUND",)
WITH_WRITE = ("STORAGE_FULL", "LEASE_OVER", "OUTCOME_UNKNOWN", "OVERLOADED", "DRAINING")

# Among the codes of what submits or moves a job: the workflows' own codes go with them.
DECLARED = "DECLARED"
SUBMITTING = (
    DECLARED,
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
    DECLARED,
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


class Settings(Struct, frozen=True, kw_only=True, dict=True):
    """``read_timeout_s`` is how long a client may take to send a body, all in all; of a file it may
    be silent for ``upload_idle_s``, and must send ``upload_rate`` bytes a second beyond that.
    ``upload_expires_s`` is how long an upload may be resumed;
    ``write_timeout_s`` how long to take a piece of a stream. ``public_url`` is where others reach
    us, and ``trusted_proxies`` are believed about whom they ask for; with ``trusts_socket``, so is
    who speaks at the Unix socket. A session of the dashboard is good for ``session_s`` (0: nobody
    signs in). ``cors`` are the origins whose pages may ask, and answers of ``gzip`` bytes and more
    are packed (0: none). ``told`` are settings, by their keys, that figures show."""

    auth: Literal["tokens", "none"] = "tokens"
    max_body: int = 256 * 1024
    max_upload: int = 2 * 1024**3
    upload_idle_s: float = 30
    upload_rate: int = 8 * 1024
    upload_expires_s: float = 24 * 3600
    read_timeout_s: float = 30
    keepalive_s: float = 30
    initial_credits: int = 25
    session_s: float = 12 * 3600
    shutdown_s: float = 5
    write_timeout_s: float = 10
    public_url: str = ""
    trusted_proxies: tuple[Network, ...] = ()
    trusts_socket: bool = False
    cors: tuple[str, ...] = ()
    gzip: int = 0
    told: Mapping[str, float] = {}

    @cached_property
    def base_path(self) -> str:
        """The path that all links begin with."""
        return urlsplit(self.public_url).path.rstrip("/")


class HttpDoor(Struct, frozen=True, eq=False, kw_only=True):
    """``health`` answers by check's name what is wrong with it (empty: nothing); ``check_db`` lists
    the faults of the stored file; ``log`` takes an event's name and its fields, and ``troubles``
    remembers those of plugins. ``assets`` is the folder of all files, ``arrivals`` those that are
    coming in. ``meter`` is told what happens here, and ``exposition`` turns readings into the text
    of all figures, with its media type. ``refusal`` says why nobody may be answered, empty while
    they may; ``standby`` how the copy of everything stands, from which another machine can take
    over."""

    facade: Facade
    reader: StoreReader
    clock: Clock
    ids: Ids
    keyring: Keyring
    settings: Settings
    webhooks: Sources
    log: Callable[..., None]
    troubles: PluginTroubles
    health: Callable[[], Awaitable[Mapping[str, str]]]
    check_db: Callable[[], Awaitable[list[str]]]
    backups: Backups
    limits: HttpLimits
    arrivals: Arrivals
    assets: str
    version: str = "0"
    refusal: Callable[[], str] = lambda: ""
    standby: Callable[[], StandbyState | None] = lambda: None
    meter: Meter = SILENT
    exposition: Callable[[Readings], tuple[bytes, str]] = lambda readings: (b"", JSON)

    def warnings(self) -> dict[str, str]:
        """Name what an operator should look at, though all goes on."""
        state = self.standby()
        found = {"standby": state.warning} if state is not None and state.warning else {}
        return self.backups.warnings() | self.facade.file_moves.warnings() | found


class HttpCall(NamedTuple):
    """One request, after token and body were looked at. ``body`` and ``query`` are the endpoint's
    structs; ``raw`` the body as it came, for endpoints whose struct depends on the job; ``stream``
    the body before anybody has read it, for endpoints that take a file; ``address`` where the
    client is. Whoever only waits from here on calls ``leave``: its place is for others. ``gone``
    says whether nobody is there any more to hear the answer."""

    door: HttpDoor
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
    gone: Callable[[], bool] = lambda: False


class HttpReply(Struct, frozen=True):
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


Handler = Callable[[HttpCall], Awaitable[HttpReply]]


class Query(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of every query. Names in ``many`` may be repeated."""

    many: ClassVar[frozenset[str]] = frozenset()


class View(Struct, frozen=True, kw_only=True):
    """The base of every answer."""


class Endpoint(Struct, frozen=True):
    """A route, which decorates its handler: the handler's name says the operation (``list_jobs``:
    listJobs), the first line of its docstring the summary.

    ``roles`` None: no token is asked for. ``body`` None: none is read; ``Raw``: the job decides
    which struct it must be, and ``shown_body`` is what the document says instead, or what the
    fields of ``command`` are. ``empty`` allows no body at all. The bytes of a ``plain`` body are
    read and not looked at. ``answers`` maps a status to what comes with it: a view, a media type,
    any JSON (``dict``) or nothing (None). ``codes`` are the refusals beyond those that any call may
    get. ``streams``: the body is a file of this media type, which the handler reads itself.
    ``local``: who asks from this machine needs no token. ``events`` are what a stream tells, by
    name. What is not ``listed`` is served and not in the document: it stands there already."""

    method: Method
    path: str
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
    media: tuple[str, ...] = ()
    local: bool = False
    listed: bool = True
    events: dict[str, type[View]] = {}
    max_body: int = 0
    name: str = ""
    summary: str = ""
    handler: Handler | None = None

    def __call__(self, handler: Handler) -> "Endpoint":
        first, *rest = handler.__name__.split("_")
        name = self.name or first + "".join(word.capitalize() for word in rest)
        summary = self.summary or (handler.__doc__ or "").partition("\n")[0].rstrip(".")
        return replace(self, handler=handler, name=name, summary=summary)

    @property
    def door(self) -> tuple[str, str]:
        return self.method, self.path

    @property
    def callers(self) -> frozenset[str] | None:
        """The roles that come in. A reader sees what everybody or an admin may see, and does
        nothing; what is an owner's own, secrets above all, is not for it either."""
        seen = self.method == "GET" and self.roles in (ANYBODY, ADMINS)
        return self.roles | READERS if seen and self.roles is not None else self.roles

    @property
    def for_operators(self) -> bool:
        """May be had on a listener of its own, away from those who bring work."""
        return self.roles == ADMINS or self.path == "/metrics"

    @property
    def weight(self) -> Weight:
        """Say how soon this is refused under pressure: new work first, a question whether we live
        never."""
        if self.method in ("GET", "OPTIONS"):
            return "none" if self.roles is None else "reading"
        if self.streams:
            return "reading"  # most of its time passes on the sender's line, and others go on
        return "making" if "QUOTA_EXCEEDED" in self.codes else "moving"

    @property
    def is_a_page(self) -> bool:
        """Say whether this is for a person to look at."""
        return SHOWN in (*self.answers.values(), *self.media)

    @property
    def takes_a_body(self) -> bool:
        return self.body is not None or bool(self.streams)

    @property
    def takes_any_body(self) -> bool:
        return self.body is msgspec.Raw

    def all_codes(self) -> tuple[str, ...]:
        codes = [*ALWAYS, *(code for code in self.codes if code != DECLARED)]
        codes += WITH_TOKEN if self.roles is not None else ()
        codes += WITH_BODY if self.takes_a_body else ()
        codes += WITH_PATH if "{" in self.path else ()
        codes += WITH_WRITE if self.method not in ("GET", "OPTIONS") else ()
        return tuple(sorted(set(codes)))


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of every body: unknown fields are refused. ``rules`` are what its schema says beyond
    its fields one by one; ``from_workflows`` names the fields that loaded workflows decide upon,
    and what they decide."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = ()
    from_workflows: ClassVar[dict[str, FromWorkflows]] = {}


def status_of(code: str, definitions: list[Definition]) -> int:
    """The HTTP status of a code, the engine's or a workflow's own."""
    for definition in definitions:
        if code in definition.workflow.codes:
            return definition.workflow.codes[code]
    return STATUS_OF_CODE[code]
