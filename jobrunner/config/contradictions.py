"""Settings that make no sense together, though each by itself is allowed."""

import ipaddress
import os
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from jobrunner.config.schedules import schedule_faults
from jobrunner.config.settings import ORIGIN, PUBLIC_URL, SOCKET, Config
from jobrunner.core.features.turns.rates import RATE_ALLOWED

FAR = "s3://"
LEASE_LEAST_S = 1
WAL_MIN = 8 * 1024**2
TIMEOUT_MIN_S, TIMEOUT_MAX_S = 1, 3600
PART_MIN = 5 * 1024**2
PRESIGN_MAX_S = 7 * 86400
BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
OBJECT_PREFIX = r"([A-Za-z0-9_-][A-Za-z0-9._-]*/)*"


def contradictions(config: Config) -> list[str]:
    """List every such fault, with the key, its value and what is allowed."""
    found = (
        *(_of_downloads, _of_server, _of_telemetry, _of_auth, _of_oidc, _of_store, _of_rates),
        _of_objects,
        _of_standby,
        schedule_faults,
    )
    return [fault for faults_of in found for fault in faults_of(config)]


def _of_downloads(config: Config) -> Iterator[str]:
    for address in config.downloads.allow_private:
        if not _is_address(address):
            yield (
                f"downloads.allow_private = {address!r}: must be an address with a port, "
                'like "127.0.0.1:9000" or "[::1]:9000"'
            )
    for host in config.downloads.allow_hosts:
        if not re.fullmatch(r"[\w-]+(\.[\w-]+)*\.?", host):
            yield (
                f"downloads.allow_hosts = {host!r}: must be the name of a host alone, like "
                '"cdn.example.com", without scheme, port or path'
            )


def _of_objects(config: Config) -> Iterator[str]:
    at = config.objects
    if at.place == "s3" and not at.bucket:
        yield 'objects.place = "s3": needs objects.bucket, which says where they go'
    if at.bucket and not re.fullmatch(BUCKET, at.bucket):
        yield (
            f"objects.bucket = {at.bucket!r}: must be the name of a bucket alone: 3 to 63 small "
            "letters, digits, dots and hyphens; the address of the store is objects.endpoint"
        )
    if not re.fullmatch(OBJECT_PREFIX, at.prefix):
        yield (
            f"objects.prefix = {at.prefix!r}: must be empty, or names of letters, digits, '.', '_' "
            'and "-", each followed by a slash, like "jobrunner/"'
        )
    if at.presign > PRESIGN_MAX_S:
        yield f"objects.presign = {at.presign:g}: the store takes at most 7 days"
    if not TIMEOUT_MIN_S <= at.timeout <= TIMEOUT_MAX_S:
        yield f"objects.timeout = {at.timeout:g}: must be a duration from 1s to 1h"
    if at.part < PART_MIN:
        yield f"objects.part = {at.part}: the store takes no less than 5 MiB"


def _of_server(config: Config) -> Iterator[str]:
    if config.server.public_url and not re.fullmatch(PUBLIC_URL, config.server.public_url):
        yield (
            f"server.public_url = {config.server.public_url!r}: must be where others reach this "
            'service, like "https://jobs.example.com", or empty'
        )
    for origin in config.server.cors:
        if not _is_origin(origin):
            yield (
                f"server.cors = {origin!r}: must be an origin as browsers write it, like "
                '"https://app.example.com": in small letters, with a port where it is not the '
                "usual one, without a path; no wildcard"
            )
    for network in config.server.trusted_proxies:
        if network != SOCKET and not _is_network(network):
            yield (
                f"server.trusted_proxies = {network!r}: must be an address or a network, like "
                f'"127.0.0.1" or "10.0.0.0/8", or "{SOCKET}" for who speaks at server.socket'
            )


def _of_telemetry(config: Config) -> Iterator[str]:
    if not re.fullmatch(f"({PUBLIC_URL})?", config.telemetry.otlp_endpoint):
        yield (
            f"telemetry.otlp_endpoint = {config.telemetry.otlp_endpoint!r}: must be where traces "
            'are taken, like "http://127.0.0.1:4318", or empty'
        )


def _of_auth(config: Config) -> Iterator[str]:
    listeners = {"host": config.server.host, "admin_host": config.server.admin_host}
    for key, host in listeners.items():
        if config.auth.mode == "none" and host and not is_loopback(host):
            yield (
                f"auth.mode = 'none': with server.{key} = {host!r} everybody would be an "
                'admin; it is allowed on loopback only ("127.0.0.1")'
            )


def _of_oidc(config: Config) -> Iterator[str]:
    oidc = config.auth.oidc
    if not oidc.issuer:
        return
    if not re.fullmatch(PUBLIC_URL, oidc.issuer) or not _is_safe(oidc.issuer):
        yield (
            f"auth.oidc.issuer = {oidc.issuer!r}: must be the issuer as its tokens name it, "
            'like "https://id.example.com/realm", with https where it is not on this machine'
        )
    if oidc.keys.startswith("http") and not _is_safe(oidc.keys):
        yield (
            f"auth.oidc.keys = {oidc.keys!r}: must be an address with https, a path, or empty: "
            "whoever can change the keys on their way can sign for anybody"
        )
    if not oidc.audience:
        yield (
            "auth.oidc.audience = '': must be what tokens for this service have as their audience; "
            "without it a token for any other service of the issuer would do here"
        )
    if not oidc.roles:
        yield (
            "auth.oidc.roles = {}: must say which role here is what auth.oidc.role_claim says, "
            'like { "job-admins" = "admin", "*" = "user" }; it says nothing for anybody'
        )
    if config.auth.mode == "none":
        yield "auth.mode = 'none': asks nobody for a token; leave auth.oidc.issuer empty then"


def _is_safe(url: str) -> bool:
    place = urlsplit(url)
    return place.scheme == "https" or is_loopback(place.hostname or "")


def _of_store(config: Config) -> Iterator[str]:
    if os.path.abspath(config.store.path) == os.path.abspath(config.store.assets):
        yield f"store.assets = {config.store.assets!r}: must not be store.path itself"
    assets, backups = os.path.abspath(config.store.assets), os.path.abspath(config.backup.path)
    if config.backup.path and os.path.commonpath([assets, backups]) == assets:
        yield (
            f"backup.path = {config.backup.path!r}: must not be in store.assets, where only files "
            "of jobs lie"
        )

    if config.store.wal_max < WAL_MIN:
        yield (
            f"store.wal_max = {config.store.wal_max!r}: must be at least {WAL_MIN} (8MiB): the log "
            "is written back by the 4 MiB, so a smaller one would be over its limit all the time"
        )


def _of_standby(config: Config) -> Iterator[str]:
    own = config.standby
    assets, copy = os.path.abspath(config.store.assets), os.path.abspath(own.path)
    if own.path.startswith(FAR):
        yield from _of_far_standby(config)
    elif own.path and os.path.commonpath([assets, copy]) == assets:
        yield (
            f"standby.path = {own.path!r}: must not be in store.assets, where only files of jobs "
            "lie"
        )
    if own.lease < LEASE_LEAST_S:
        yield (
            f"standby.lease = {own.lease!r}: must be at least {LEASE_LEAST_S} s: it is renewed "
            "five times in it, and a disk may take its time"
        )


def _of_far_standby(config: Config) -> Iterator[str]:
    """Keep the copy apart from the files of jobs: who clears those knows nothing of it."""
    own, at = config.standby.path, config.objects
    bucket, _, prefix = own.removeprefix(FAR).partition("/")
    prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    if not (re.fullmatch(BUCKET, bucket) and re.fullmatch(OBJECT_PREFIX, prefix)):
        yield f"standby.path = {own!r}: must name a bucket and a prefix, as s3://copies/jobs"
    elif bucket == at.bucket and (prefix.startswith(at.prefix) or at.prefix.startswith(prefix)):
        yield (
            f"standby.path = {own!r}: must not be where objects.prefix = {at.prefix!r} is; give "
            "each a prefix of its own"
        )


def _of_rates(config: Config) -> Iterator[str]:
    for name, settings in config.rates.items():
        if settings.rate is None:
            yield f"rates.{name} = {settings.limit!r}: must be {RATE_ALLOWED}"


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_origin(text: str) -> bool:
    usual = re.fullmatch(r"http://.*:80|https://.*:443", text)
    return bool(re.fullmatch(ORIGIN, text)) and not usual


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
