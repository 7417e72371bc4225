"""Settings that are allowed each by itself but make no sense together, or in no form at all."""

import ipaddress
import os
import re
from collections.abc import Iterator

from jobrunner.config.settings import ORIGIN, PUBLIC_URL, SOCKET, Config


def contradictions(config: Config) -> list[str]:
    """List every such fault, with the key, its value and what is allowed."""
    found = (_of_downloads, _of_server, _of_telemetry, _of_auth, _of_store)
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


def _of_store(config: Config) -> Iterator[str]:
    if os.path.abspath(config.store.path) == os.path.abspath(config.store.assets):
        yield f"store.assets = {config.store.assets!r}: must not be store.path itself"


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
