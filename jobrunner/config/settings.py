"""The settings: ``config.toml``, overlaid by ``JOBRUNNER_SECTION__KEY``, as one frozen struct.

Every key has a default, so no file is needed. Everything that is wrong is told at once, each
fault with the key, the value and what is allowed. A size is a number of bytes or a text like
"256KiB"; a duration a number of seconds or a text like "30m".

What stands under ``[workflows.NAME]`` is only read here; whether the states and job types it
names exist is known to ``overrides``, once the declarations are loaded.
"""

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from jobrunner.config.environment import FromEnvironment, fold, overlay
from jobrunner.errors import Misconfigured

PUBLIC_URL = r"https?://[^\s/?#@]+(/[^\s?#]*)?"

Size = Annotated[int, Meta(ge=1, le=2**53, description='a size: bytes, or text like "256KiB"')]
Duration = Annotated[
    float, Meta(ge=0, le=10**9, description='a duration: seconds, or text like "30m"')
]
Port = Annotated[int, Meta(ge=0, le=65535, description="a port, 0 to 65535; 0 takes a free one")]
PerSecond = Annotated[float, Meta(ge=0, le=10**6, description="requests a second, a number from 0")]
Listener = Annotated[str, Meta(description="a host to listen on, or nothing")]
Count = Annotated[int, Meta(ge=1, description="a whole number from 1")]
Amount = Annotated[int, Meta(ge=0, description="a whole number from 0")]
Factor = Annotated[float, Meta(ge=1, description="a number from 1")]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]
Text = Annotated[str, Meta(min_length=1, description="text that is not empty")]
Texts = Annotated[tuple[Text, ...], Meta(description="a list of texts")]
Space = Annotated[int, Meta(ge=0, le=2**53, description='a size, 0 for none: like "256MiB"')]
Address = Annotated[str, Meta(description="a URL with http or https, or empty text")]
Happenings = Annotated[
    tuple[Literal["ended", "settled", "waiting", "stuck", "transition"], ...],
    Meta(description='a list of "ended", "settled", "waiting", "stuck" and "transition"'),
]
Mode = Annotated[Literal["tokens", "none"], Meta(description='"tokens" or "none"')]
Anything = Annotated[Any, Meta(description="any value")]


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


class StoreSection(Struct, frozen=True):
    """Paths are relative to the working folder. ``min_free`` bytes of the disk of the files are
    left alone by stages."""

    path: Text = "data/jobrunner.db"
    assets: Text = "data/assets"
    min_free: Space = 256 * 1024**2


class AuthSection(Struct, frozen=True):
    mode: Mode = "tokens"


class LimitsSection(Struct, frozen=True):
    """0 of a rate, of ``submissions``, of ``pending_writes``, of ``lag`` and of ``free_disk`` is
    no limit; of ``patience`` it is none."""

    active_jobs: Count = 64
    queued_jobs: Count = 100_000
    per_user_active: Count = 8
    requests_per_second: PerSecond = 0
    anonymous_per_second: PerSecond = 100
    burst: Count = 1000
    connections: Count = 4096
    streams: Count = 1024
    streams_per_user: Count = 16
    submissions: Amount = 96
    patience: Duration = 0.16
    pending_writes: Amount = 64
    lag: Duration = 1
    free_disk: Space = 64 * 1024**2
    bulk_per_second: Amount = 200


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


class PluginsSection(Struct, frozen=True):
    enabled: Texts = ("*",)
    path: Text = "plugins.d"


class NotifySection(Struct, frozen=True):
    """``secrets_env``: the names of environment variables, newest first, whose texts are the
    secrets of the service. Without any they are in ``notify.secret`` beside the database."""

    secrets_env: Texts = ()


class RetrySettings(Struct, frozen=True):
    """What is None stays as the workflow declares it; so in all structs below."""

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
    settings: dict[str, Anything] = {}


class RetentionSection(Struct, frozen=True):
    """``keys``: how long what tells a repeat from a first time outlives its job; 0 is for good."""

    keys: Duration = 30 * 86400


class WebhookSettings(Struct, frozen=True):
    """``secrets_env``: the names of environment variables, each with one ``whsec_`` secret."""

    secrets_env: Texts = ()


class Config(Struct, frozen=True):
    server: ServerSection = ServerSection()
    store: StoreSection = StoreSection()
    auth: AuthSection = AuthSection()
    limits: LimitsSection = LimitsSection()
    resources: dict[str, Amount] = msgspec.field(default_factory=lambda: {"gpu": 1})
    credits: CreditsSection = CreditsSection()
    downloads: DownloadsSection = DownloadsSection()
    notify: NotifySection = NotifySection()
    telemetry: TelemetrySection = TelemetrySection()
    plugins: PluginsSection = PluginsSection()
    workflows: dict[str, WorkflowSettings] = {}
    webhooks: dict[str, WebhookSettings] = {}
    retention: RetentionSection = RetentionSection()

    def workflow(self, name: str) -> WorkflowSettings:
        """What is set for one workflow; a name from the environment is compared folded."""
        by_fold = {fold(key): settings for key, settings in self.workflows.items()}
        return self.workflows.get(name) or by_fold.get(fold(name)) or WorkflowSettings()

    def webhook(self, source: str) -> WebhookSettings:
        """The same for one source of webhooks."""
        by_fold = {fold(key): settings for key, settings in self.webhooks.items()}
        return self.webhooks.get(source) or by_fold.get(fold(source)) or WebhookSettings()

    def unheard(self, sources: Iterable[str]) -> list[str]:
        """For which names something is set, and none of the sources has them."""
        known = {fold(source) for source in sources}
        return [name for name in self.webhooks if fold(name) not in known]


def load(path: Path | None, environ: Mapping[str, str]) -> Config:
    """Read ``path``, or without one ``config.toml`` of the working folder if it is there.

    Raises: Misconfigured, with every fault.
    """
    faults: list[str] = []
    tree = _file(path, faults)
    overlay(tree, environ, get_type_hints(Config), faults)
    config = _read(Config, tree, "", faults)
    if not faults:
        faults += _contradictions(config)
    if faults:
        raise Misconfigured(*faults)
    assert isinstance(config, Config)
    return config


def nearest(name: str, known: list[str]) -> str:
    """A hint that ends a fault: the known name that was probably meant, or all of them."""
    by_fold = {fold(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(fold(name), list(by_fold), n=1)
    if close:
        return f"did you mean {by_fold[close[0]]!r}?"
    return f"known: {', '.join(sorted(known))}" if known else "there are none here"


def _file(path: Path | None, faults: list[str]) -> dict[str, Any]:
    chosen = path or Path("config.toml")
    if path is None and not chosen.exists():
        return {}
    try:
        return tomllib.loads(chosen.read_text(encoding="utf-8"))
    except OSError as error:
        faults.append(f"{chosen}: cannot be read: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        faults.append(f"{chosen}: is not TOML: {error}")
    return {}


# ---------------------------------------------------------------- from values to structs


def _read(kind: Any, raw: Any, path: str, faults: list[str]) -> Any:
    """``raw`` as ``kind``; what does not fit is noted and None returned in its place."""
    kind = _without_none(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _read_struct(kind, raw, path, faults)
    if get_origin(kind) is dict:
        return _read_table(get_args(kind)[1], raw, path, faults)
    return _read_value(kind, raw, path, faults)


def _without_none(kind: Any) -> Any:
    optional = NoneType in get_args(kind)
    return next(part for part in get_args(kind) if part is not NoneType) if optional else kind


def _read_struct(kind: type[Struct], raw: Any, path: str, faults: list[str]) -> Any:
    if not _is_table(raw, path, faults):
        return None
    hints = get_type_hints(kind, include_extras=True)
    for key in raw:
        if key not in hints:
            origin = f" (from {raw[key].variable})" if isinstance(raw[key], FromEnvironment) else ""
            hint = nearest(key, list(hints))
            faults.append(f"{_join(path, key)}: no such key; {hint}{origin}")
    if kind is WorkflowSettings and isinstance(raw.get("stages"), dict):
        raw = raw | {"stages": _flat(raw["stages"])}
    return kind(
        **{
            key: _read(hint, raw[key], _join(path, key), faults)
            for key, hint in hints.items()
            if key in raw
        }
    )


def _read_table(kind: Any, raw: Any, path: str, faults: list[str]) -> Any:
    if not _is_table(raw, path, faults):
        return None
    defaults = Config().resources if path == "resources" else {}
    return defaults | {key: _read(kind, raw[key], _join(path, key), faults) for key in raw}


def _is_table(raw: Any, path: str, faults: list[str]) -> bool:
    if isinstance(raw, dict):
        return True
    faults.append(_fault(path, raw, "a table of keys"))
    return False


def _flat(stages: dict[str, Any]) -> dict[str, Any]:
    """TOML reads an unquoted ``processing.tts`` as a table in a table; it means the same."""
    flat: dict[str, Any] = {}
    for key, value in stages.items():
        nested = value if isinstance(value, dict) else {}
        flat |= {f"{key}.{job_type}": stage for job_type, stage in nested.items()}
        if not nested:
            flat[key] = value
    return flat


def _read_value(kind: Any, raw: Any, path: str, faults: list[str]) -> Any:
    allowed = _allowed(kind)
    try:
        value = _plain(kind, raw)
        if kind in (Size, Space, Duration) and isinstance(value, str):
            whole = kind is not Duration
            value = _measure(value, SIZES if whole else DURATIONS, whole=whole)
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError):
        faults.append(_fault(path, raw, allowed))
        return None


def _allowed(kind: Any) -> str:
    return next(
        note.description
        for note in getattr(kind, "__metadata__", ())
        if isinstance(note, Meta) and note.description
    )


def _plain(kind: Any, raw: Any) -> Any:
    """Without any text that still stands for a value, however deep it hides."""
    if isinstance(raw, FromEnvironment):
        return _from_text(kind, raw.text)
    if isinstance(raw, dict):
        return {key: _plain(Anything, value) for key, value in raw.items()}
    return raw


def _from_text(kind: Any, text: str) -> Any:
    """What a variable's text says: itself where text is wanted, else a value as TOML writes it."""
    if kind in (Text, Address, Mode):
        return text
    if kind is Texts and not text.lstrip().startswith("["):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


SIZES = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4}
SIZES |= {"kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4}
DURATIONS = {"": 1, "ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _measure(text: str, units: Mapping[str, float], *, whole: bool) -> float:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", text)
    if not match or match[2].lower() not in units:
        raise ValueError(text)
    value = float(match[1]) * units[match[2].lower()]
    return int(value) if whole else value


def _fault(path: str, raw: Any, allowed: str) -> str:
    if isinstance(raw, FromEnvironment):
        return f"{path} = {raw.text!r}: must be {allowed} (from {raw.variable})"
    return f"{path} = {raw!r}: must be {allowed}"


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# ---------------------------------------------------------------- what fits alone but not together


def _contradictions(config: Config) -> list[str]:
    faults = [
        f"downloads.allow_private = {address!r}: must be an address with a port, "
        'like "127.0.0.1:9000" or "[::1]:9000"'
        for address in config.downloads.allow_private
        if not _is_address(address)
    ]
    faults += [
        f"downloads.allow_hosts = {host!r}: must be the name of a host alone, like "
        '"cdn.example.com", without scheme, port or path'
        for host in config.downloads.allow_hosts
        if not re.fullmatch(r"[\w-]+(\.[\w-]+)*\.?", host)
    ]
    if config.server.public_url and not re.fullmatch(PUBLIC_URL, config.server.public_url):
        faults.append(
            f"server.public_url = {config.server.public_url!r}: must be where others reach this "
            'service, like "https://jobs.example.com", or empty'
        )
    faults += [
        f"server.trusted_proxies = {network!r}: must be an address or a network, like "
        '"127.0.0.1" or "10.0.0.0/8"'
        for network in config.server.trusted_proxies
        if not _is_network(network)
    ]
    if not re.fullmatch(f"({PUBLIC_URL})?", config.telemetry.otlp_endpoint):
        faults.append(
            f"telemetry.otlp_endpoint = {config.telemetry.otlp_endpoint!r}: must be where traces "
            'are taken, like "http://127.0.0.1:4318", or empty'
        )
    listeners = {"host": config.server.host, "admin_host": config.server.admin_host}
    faults += [
        f"auth.mode = 'none': with server.{key} = {host!r} everybody would be an "
        'admin; it is allowed on loopback only ("127.0.0.1")'
        for key, host in listeners.items()
        if config.auth.mode == "none" and host and not is_loopback(host)
    ]
    if os.path.abspath(config.store.path) == os.path.abspath(config.store.assets):
        faults.append(f"store.assets = {config.store.assets!r}: must not be store.path itself")
    return faults


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_network(text: str) -> bool:
    try:
        return bool(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return False


def _is_address(text: str) -> bool:
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d{1,5})", text)
    if not match or not 0 < int(match[3]) <= 65535:
        return False
    try:
        return bool(ipaddress.ip_address(match[1] or match[2]))
    except ValueError:
        return False
