"""The settings as one frozen struct: every section, every key, its default and what is allowed.

Every key has a default, so no file is needed. A size is a number of bytes or a text like "256KiB";
a duration a number of seconds or a text like "30m".

What stands under ``[workflows.NAME]`` is only read here; whether the states and job types it
names exist is known to ``overrides``, once the declarations are loaded.
"""

import difflib
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from jobrunner.config.environment import fold
from jobrunner.core.declaration.happenings import NAMES, Happening
from jobrunner.core.declaration.states import TokenRole
from jobrunner.core.features.schedules.schedules import CatchUp, Overlap
from jobrunner.core.features.turns.rates import RATE_ALLOWED, RateLimit, rate_of

ORIGIN = r"https?://[a-z0-9._-]+(:\d{1,5})?|https?://\[[0-9a-f:.]+\](:\d{1,5})?"
SOCKET = "unix:"
PUBLIC_URL = r"https?://[^\s/?#@]+(/[^\s?#]*)?"

Size = Annotated[int, Meta(ge=1, le=2**53, description='a size: bytes, or text like "256KiB"')]
Duration = Annotated[
    float, Meta(ge=0, le=10**9, description='a duration: seconds, or text like "30m"')
]
Port = Annotated[int, Meta(ge=0, le=65535, description="a port, 0 to 65535; 0 takes a free one")]
PerSecond = Annotated[float, Meta(ge=0, le=10**6, description="requests a second, a number from 0")]
Path = Annotated[str, Meta(description="a path, or nothing")]
Worded = Annotated[str, Meta(description="text, or nothing")]
BearerRole = Annotated[TokenRole, Meta(description='"user", "workflow", "admin" or "reader"')]
SocketFor = Annotated[
    Literal["owner", "group", "everybody"], Meta(description='"owner", "group" or "everybody"')
]
Listener = Annotated[str, Meta(description="a host to listen on, or nothing")]
Folder = Annotated[str, Meta(description="a folder, or empty text")]
Count = Annotated[int, Meta(ge=1, description="a whole number from 1")]
Amount = Annotated[int, Meta(ge=0, description="a whole number from 0")]
Factor = Annotated[float, Meta(ge=1, description="a number from 1")]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Text = Annotated[str, Meta(min_length=1, description="text that is not empty")]
Texts = Annotated[tuple[Text, ...], Meta(description="a list of texts")]
Space = Annotated[int, Meta(ge=0, le=2**53, description='a size, 0 for none: like "256MiB"')]
Address = Annotated[str, Meta(description="a URL with http or https, or empty text")]
QUOTED = [f'"{name}"' for name in NAMES]
Happenings = Annotated[
    tuple[Happening, ...], Meta(description=f"a list of {', '.join(QUOTED[:-1])} and {QUOTED[-1]}")
]
Security = Annotated[Literal["tls", "none"], Meta(description='"tls" or "none"')]
Mode = Annotated[Literal["tokens", "none"], Meta(description='"tokens" or "none"')]
LogFormat = Annotated[
    Literal["auto", "human", "json"], Meta(description='"auto", "human" or "json"')
]
LogLevel = Annotated[
    Literal["info", "warning", "error"], Meta(description='"info", "warning" or "error"')
]
Keeping = Annotated[Literal["disk", "s3"], Meta(description='"disk" or "s3"')]
BucketStyle = Annotated[Literal["path", "host"], Meta(description='"path" or "host"')]
Checksum = Annotated[Literal["sha256", "off"], Meta(description='"sha256" or "off"')]
RateText = Annotated[str, Meta(description=RATE_ALLOWED)]
Record = Annotated[Literal["off", "decisions"], Meta(description='"off" or "decisions"')]
Anything = Annotated[Any, Meta(description="any value")]
OverlapOf = Annotated[Overlap, Meta(description='"skip", "queue", "replace" or "allow"')]
CatchUpOf = Annotated[CatchUp, Meta(description='"latest" or "each"')]
PriorityOf = Annotated[int, Meta(ge=-100, le=100, description="a whole number, -100 to 100")]


class ServerSection(Struct, frozen=True):
    """``max_body`` and ``max_upload`` in bytes."""

    host: Text = "127.0.0.1"
    port: Port = 8080
    max_body: Size = 256 * 1024
    max_upload: Size = 2 * 1024**3
    upload_expires: Duration = 24 * 3600
    drain_seconds: Duration = 30
    admin_host: Listener = ""
    admin_port: Port = 8081
    public_url: Address = ""
    trusted_proxies: Texts = ()
    socket: Path = ""
    socket_for: SocketFor = "group"
    cors: Texts = ()
    gzip: Space = 16 * 1024


class StoreSection(Struct, frozen=True):
    """Paths are relative to the working folder. ``min_free`` bytes of the disk of the files are
    left alone by stages. ``wal_max`` is how large the write-ahead log may be before it is cut."""

    path: Text = "data/jobrunner.db"
    assets: Text = "data/assets"
    min_free: Space = 256 * 1024**2
    wal_max: Size = 64 * 1024**2


class ObjectsSection(Struct, frozen=True):
    """``bucket`` empty: there is no store of objects. ``place`` is where files go that come from
    now on; ``keep_local`` for how long they lie on the disk, too. ``presign`` above 0: a download
    is sent to the store, by an address that is good for so long. ``keep_deleted`` is for how long
    an object outlives its file. ``credentials`` is a file; empty: the environment has them."""

    bucket: Worded = ""
    place: Keeping = "disk"
    endpoint: Address = ""
    region: Text = "us-east-1"
    prefix: Worded = ""
    credentials: Path = ""
    style: BucketStyle = "path"
    checksum: Checksum = "sha256"
    part: Size = 8 * 1024**2
    timeout: Duration = 30
    at_once: Count = 4
    keep_local: Duration = 3600
    keep_deleted: Duration = 7 * 86400
    presign: Duration = 0


class OidcSection(Struct, frozen=True):
    """``keys``: where those of the issuer are, a URL or a path; empty: where the issuer says.
    ``roles``: what ``role_claim`` may say, and which role that is here; "*" is everybody."""

    issuer: Address = ""
    audience: Worded = ""
    keys: Path = ""
    user_claim: Text = "sub"
    role_claim: Text = "roles"
    roles: dict[str, BearerRole] = {}
    leeway: Duration = 60
    refresh: Duration = 3600


class AuthSection(Struct, frozen=True):
    """``session`` is how long one stays signed in at the dashboard; at 0 nobody signs in."""

    mode: Mode = "tokens"
    session: Duration = 12 * 3600
    oidc: OidcSection = OidcSection()


class LimitsSection(Struct, frozen=True):
    """0 of a rate, of ``submissions``, of ``pending_writes``, of ``lag`` and of ``free_disk`` is
    no limit; of ``patience`` it is none, and of ``kept_jobs`` no job is."""

    active_jobs: Count = 64
    queued_jobs: Count = 100_000
    per_user_active: Count = 8
    requests_per_second: PerSecond = 0
    anonymous_per_second: PerSecond = 100
    burst: Count = 1000
    connections: Count = 4096
    streams: Count = 1024
    streams_per_user: Count = 16
    submissions: Amount = 64
    patience: Duration = 0.16
    pending_writes: Amount = 256
    lag: Duration = 1
    free_disk: Space = 64 * 1024**2
    bulk_per_second: Amount = 200
    kept_jobs: Space = 32 * 1024**2
    rate_hold: Duration = 3600
    rate_holds: Amount = 20
    children_per_job: Count = 10_000
    child_generations: Count = 8


class RateSettings(Struct, frozen=True):
    """A text alone is the ``limit``. ``burst``: how many may start at once; a tenth of it where
    nothing is said."""

    limit: RateText = ""
    burst: Count | None = None

    @property
    def rate(self) -> RateLimit | None:
        return rate_of(self.limit, self.burst or 0)


class ClusterSection(Struct, frozen=True):
    """``scheduler`` empty: no cluster. ``listen``: the address (and port) under which workers reach
    this service; empty: the one by which it reaches the scheduler. ``silence`` is after how long
    without a sign a worker is lost, ``patience`` how long a stage may go on that is to stop."""

    scheduler: Worded = ""
    listen: Worded = ""
    ca: Path = ""
    cert: Path = ""
    key: Path = ""
    security: Security = "tls"
    silence: Duration = 30
    patience: Duration = 10


class CreditsSection(Struct, frozen=True):
    initial: Amount = 25


class DownloadsSection(Struct, frozen=True):
    """``allow_hosts`` empty: any public host. ``allow_private``: addresses with a port."""

    allow_hosts: Texts = ()
    allow_private: Texts = ()
    max_size: Size = 1024**3


class TelemetrySection(Struct, frozen=True):
    """``otlp_endpoint``: where traces go; empty: nowhere, or where ``OTEL_*`` variables say."""

    otlp_endpoint: Address = ""


class LogSection(Struct, frozen=True):
    """``file`` empty: the error output. ``max_size`` 0: it is never renamed, or others do it;
    ``keep`` is how many full ones stay."""

    format: LogFormat = "auto"
    level: LogLevel = "info"
    file: Path = ""
    max_size: Space = 64 * 1024**2
    keep: Count = 5


class PluginsSection(Struct, frozen=True):
    enabled: Texts = ("*",)
    path: Text = "plugins.d"


class NotifySection(Struct, frozen=True):
    """``secrets_env``: the names of environment variables, newest first, whose texts are the
    secrets of the service. Without any they are in ``notify.secret`` beside the database."""

    secrets_env: Texts = ()


class RetrySettings(Struct, frozen=True):
    """Retries. A value of None stays as the workflow declares it; so in all structs below."""

    max: Count | None = None
    base: Duration | None = None
    factor: Factor | None = None
    cap: Duration | None = None
    jitter: Share | None = None


class QuotaSettings(Struct, frozen=True):
    open_jobs: Amount | None = None
    per_minute: Amount | None = None
    per_day: Amount | None = None


class NotifySettings(Struct, frozen=True):
    """``secret_env``: a variable with one or more ``whsec_`` secrets, newest first."""

    url: Text | None = None
    on: Happenings | None = None
    secret_env: Text | None = None


class RetentionSettings(Struct, frozen=True):
    """``ages`` stand in the section itself, by the names of statuses; ``keep`` is of all others."""

    keep: Amount | None = None
    ages: dict[str, Duration] = {}


class WorkflowSettings(Struct, frozen=True):
    """``stages`` has the flat form: ``*``, ``STATE`` or ``STATE.job_type``."""

    stages: dict[str, Text] = {}
    retry: dict[str, RetrySettings] = {}
    deadline: dict[str, Duration] = {}
    limit: dict[str, Duration] = {}
    quota: QuotaSettings = QuotaSettings()
    prices: dict[str, Amount] = {}
    lease: Duration | None = None
    notify: NotifySettings = NotifySettings()
    retention: RetentionSettings = RetentionSettings()
    record: Record = "off"
    settings: dict[str, Anything] = {}


class RetentionSection(Struct, frozen=True):
    """How long what is over is kept; 0 is for good. ``keys`` is of what tells a repeat from a first
    time, and outlives its job; ``files`` of those that no job names."""

    ended: Duration = 0
    keys: Duration = 30 * 86400
    files: Duration = 0
    audit: Duration = 0
    dead_letters: Duration = 0
    firings: Duration = 30 * 86400
    batches: Duration = 30 * 86400


class BackupSection(Struct, frozen=True):
    """``path``: where the service makes backups by itself; empty or with ``every`` 0: only when it
    is asked. The oldest go, so that ``keep`` are left."""

    path: Folder = ""
    every: Duration = 86400
    keep: Count = 7


class StandbySection(Struct, frozen=True):
    """``path``: the place of a copy from which another machine may take over; empty: there is none.
    ``lag`` is how old a commit may be that is acknowledged and not copied; ``lease`` how long this
    service may serve when it cannot reach the place."""

    path: Folder = ""
    lag: Duration = 1
    lease: Duration = 15


class WebhookSettings(Struct, frozen=True):
    """``secrets_env``: the names of environment variables, each with one ``whsec_`` secret."""

    secrets_env: Texts = ()


class ScheduleSettings(Struct, frozen=True):
    """``user`` is whose jobs these are, and who pays. Either ``cron`` or ``every`` says when;
    ``catch_up`` is for how long a moment may be late, ``jitter`` up to how much later it fires."""

    workflow: Worded = ""
    job_type: Worded = ""
    params: dict[str, Anything] = {}
    user: Worded = ""
    cron: Worded = ""
    every: Duration = 0
    zone: Text = "UTC"
    overlap: OverlapOf = "skip"
    catch_up: Duration = 3600
    catch_up_policy: CatchUpOf = "latest"
    jitter: Duration = 0
    labels: dict[str, Text] = {}
    priority: PriorityOf = 0
    notify_url: Address = ""
    notify_on: Happenings = ()


class Config(Struct, frozen=True):
    server: ServerSection = ServerSection()
    store: StoreSection = StoreSection()
    objects: ObjectsSection = ObjectsSection()
    auth: AuthSection = AuthSection()
    limits: LimitsSection = LimitsSection()
    resources: dict[str, Amount] = msgspec.field(default_factory=lambda: {"gpu": 1})
    rates: dict[str, RateSettings] = {}
    credits: CreditsSection = CreditsSection()
    cluster: ClusterSection = ClusterSection()
    downloads: DownloadsSection = DownloadsSection()
    notify: NotifySection = NotifySection()
    telemetry: TelemetrySection = TelemetrySection()
    log: LogSection = LogSection()
    plugins: PluginsSection = PluginsSection()
    workflows: dict[str, WorkflowSettings] = {}
    webhooks: dict[str, WebhookSettings] = {}
    retention: RetentionSection = RetentionSection()
    backup: BackupSection = BackupSection()
    standby: StandbySection = StandbySection()
    schedules: dict[str, ScheduleSettings] = {}

    def workflow(self, name: str) -> WorkflowSettings:
        """Find the settings of one workflow; a name from the environment is compared folded."""
        by_fold = {fold(key): settings for key, settings in self.workflows.items()}
        return self.workflows.get(name) or by_fold.get(fold(name)) or WorkflowSettings()

    def webhook(self, source: str) -> WebhookSettings:
        """Find the settings of one source of webhooks, in the same way."""
        by_fold = {fold(key): settings for key, settings in self.webhooks.items()}
        return self.webhooks.get(source) or by_fold.get(fold(source)) or WebhookSettings()

    def unheard(self, sources: Iterable[str]) -> list[str]:
        """List the names with settings that none of the sources has."""
        known = {fold(source) for source in sources}
        return [name for name in self.webhooks if fold(name) not in known]


def nearest(name: str, known: list[str]) -> str:
    """A hint that ends a fault: the known name that was probably meant, or all of them."""
    by_fold = {fold(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(fold(name), list(by_fold), n=1)
    if close:
        return f"did you mean {by_fold[close[0]]!r}?"
    return f"known: {', '.join(sorted(known))}" if known else "there are none here"
