"""Where HTTP going out may lead: rules over addresses, URLs and origins. Pure: no socket is here.

1. What counts is the final address, so ``judge`` is asked for each connection, after names were
   looked up. A URL is judged before (``judge_url``) only for what an address cannot tell.
2. Public means: global by the standard library *and* in none of the networks below, because its
   tables are older than the registries and take tunnels into the private world for public ones.
3. The operator opens more in two ways: one address with its port, for everybody; or an origin,
   written into a plugin's settings, for the stages of that plugin alone.
"""

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from msgspec import Struct
from yarl import URL

Address = IPv4Address | IPv6Address
Origin = tuple[str, str, int]

PORTS = {"http": 80, "https": 443}

# Beside what is_global says: several of these it takes for public.
NOT_PUBLIC_4 = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # public by number, but a cloud's host answers there
    )
)  # fmt: skip
UNICAST_6 = ip_network("2000::/3")
NOT_PUBLIC_6 = tuple(
    ip_network(text)
    for text in (
        "2001::/23",  # protocols, not hosts; Teredo, which wraps IPv4, is 2001::/32
        "2001:db8::/32", "3fff::/20",  # for documents
        "2002::/16",  # 6to4 wraps IPv4
        "3ffe::/16",  # given back
    )
)  # fmt: skip

# A name that the operator wrote may lead inside the house, never to these.
NEVER_NAMED = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",
    )
)  # fmt: skip
PRIVATE_6 = (ip_network("::1/128"), ip_network("fc00::/7"))

HOST = re.compile(r"(?=.{1,254}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")


class Rules(Struct, frozen=True):
    """The operator's permissions. ``hosts`` empty: any public one."""

    hosts: frozenset[str] = frozenset()
    private: frozenset[tuple[Address, int]] = frozenset()


def rules_of(allow_hosts: Iterable[str], allow_private: Iterable[str]) -> Rules:
    """Make rules of the texts of the settings, whose form has been checked."""
    return Rules(frozenset(map(_folded, allow_hosts)), frozenset(map(_place, allow_private)))


def judge(address: str, port: int, rules: Rules) -> str | None:
    """Why no connection may be made to this address; None when it may."""
    place = parsed(address)
    if place is None:
        return f"{address!r} is not a plain address"
    if (place, port) in rules.private:
        return None
    if not is_public(place):
        shown = f"[{place}]" if place.version == 6 else str(place)
        return (
            f"{place} is not a public address; the operator can open it with "
            f'[downloads] allow_private = ["{shown}:{port}"]'
        )
    if port not in PORTS.values():
        return f"port {port} is not one of 80 and 443"
    return None


def judge_named(address: str) -> str | None:
    """The same for the origins of a plugin, which may be inside the house; what answers at the
    link itself, to a group or to nobody is not a place that a name can mean."""
    place = parsed(address)
    if place is None:
        return f"{address!r} is not a plain address"
    if place.version == 6:
        meant = is_public(place) or any(place in network for network in PRIVATE_6)
    else:
        meant = not any(place in network for network in NEVER_NAMED)
    return None if meant else f"{place} is no address of a host"


def judge_url(url: URL, rules: Rules, origins: Iterable[Origin] = ()) -> str | None:
    """Why this URL is not asked at all; None when its address may decide."""
    host = url.raw_host or ""
    if url.scheme not in PORTS:
        return f"scheme {url.scheme!r} is not one of http and https"
    if not (HOST.fullmatch(host) or parsed(host)):
        return f"{host!r} is not a host"
    if url.user is not None or url.password is not None:
        return "the URL carries credentials; send them in a header"
    if origin_of(url) in origins or not rules.hosts or _folded(host) in rules.hosts:
        return None
    if (parsed(host), url.port) in rules.private:
        return None
    return f"host {host!r} is not in [downloads] allow_hosts"


def origins_of(settings: Any) -> frozenset[Origin]:
    """The origins of all URLs that stand in a plugin's settings, however deep."""
    found = map(_origin, _texts(settings))
    return frozenset(origin for origin in found if origin is not None)


def origin_of(url: URL) -> Origin:
    """Scheme, host and port. Two spellings of one host are one origin."""
    host = url.raw_host or ""
    return url.scheme, str(parsed(host) or _folded(host)), url.port or 0


def redirected(url: URL, location: str) -> URL | None:
    """Find where a redirect leads, still to be judged; None when it leads nowhere that is at least
    as safe. A scheme without a host is read differently by everybody, so it is nowhere."""
    try:
        there = URL(location)
        target = url.join(there).with_fragment(None)
    except ValueError:
        return None
    blurred = there.scheme and not there.raw_host
    weaker = url.scheme == "https" and target.scheme != "https"
    return None if blurred or weaker else target


def is_public(place: Address) -> bool:
    if isinstance(place, IPv4Address):
        return place.is_global and not any(place in network for network in NOT_PUBLIC_4)
    plain = place in UNICAST_6 and not any(place in network for network in NOT_PUBLIC_6)
    return plain and place.is_global


def parsed(text: str) -> Address | None:
    """The address that a text is, unwrapped when it is IPv4 in the clothes of IPv6; None for a
    name, and for an address that only means something on one link."""
    try:
        place = ip_address(text)
    except ValueError:
        return None
    if isinstance(place, IPv6Address):
        return None if place.scope_id is not None else place.ipv4_mapped or place
    return place


def _place(text: str) -> tuple[Address, int]:
    host, _, port = text.rpartition(":")
    place = parsed(host.strip("[]"))
    assert place is not None, f"{text!r} is not an address with a port"
    return place, int(port)


def _folded(host: str) -> str:
    """Fold a host as hosts are compared: lower case, in ASCII, without the dot of the root."""
    if not host.isascii():
        host = URL.build(scheme="http", host=host).raw_host or host
    return host.lower().rstrip(".")


def _origin(text: str) -> Origin | None:
    try:
        url = URL(text)
    except ValueError:
        return None
    return origin_of(url) if url.scheme in PORTS and url.raw_host else None


def _texts(settings: Any) -> Iterator[str]:
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, dict):
        for value in settings.values():
            yield from _texts(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from _texts(value)
