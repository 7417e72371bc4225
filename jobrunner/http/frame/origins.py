"""Where a request comes from: from which client, to which of our names, out of which page.

Where everybody who reaches the port is the admin, a browser on this machine reaches it for every
page that it shows. So there the name that we are called by must be this machine's, or the one that
the operator gave us: a stranger's name that leads here does not do. And what a page of elsewhere
asks for is refused, unless the operator lists its origin; to look at a page of ours, a link from
anywhere will do.
"""

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from aiohttp import web

from jobrunner.errors import Refused

Network = IPv4Network | IPv6Network
HOPS_MAX = 32
SOCKET = "unix:"
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#\s]+)(?::(\d{0,5}))?")
PORTS = {"http": "80", "https": "443"}
FORWARDED = re.compile(
    r"forwarded|via|x-(forwarded|original).*|x-real-ip|(x-)?((true|cluster)-)?client-ip|cf-.*",
    re.IGNORECASE,
)


def client_of(
    request: web.Request, trusted: tuple[Network, ...], trusts_socket: bool = False
) -> str:
    """The address of the client. What a proxy that is trusted says of it counts, seen from our end:
    the first one that no trusted proxy has. What anybody else says counts for nothing.

    At a Unix socket nobody has an address, and one whose connection is gone has none any more."""
    remote = SOCKET if request.remote == "" else request.remote or ""
    here = _address(remote) if trusted else None
    is_trusted = here is not None and _within(here, trusted)
    if not (is_trusted or (trusts_socket and remote == SOCKET)):
        return remote
    said = ",".join(request.headers.getall("X-Forwarded-For", ())).rsplit(",", HOPS_MAX)
    for text in reversed(said):
        hop = _address(_without_port(text.strip()))
        if hop is None:
            break
        here = hop
        if not _within(here, trusted):
            break
    return str(here or remote)


def is_direct(headers: Mapping[str, str]) -> bool:
    """Say whether a request was meant for this machine, and no proxy says that it passed it on."""
    passed_on = any(FORWARDED.fullmatch(name) for name in headers)
    return not passed_on and is_this_machine(headers.get("Host", ""))


def is_this_machine(host: str) -> bool:
    """A loopback name or address, whatever port."""
    name = _name_in(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(name)
    return address is not None and address.is_loopback


def check_page(
    request: web.Request, public_url: str, cors: tuple[str, ...] = (), *, of_a_page: bool = False
) -> None:
    """Raises: Refused FORBIDDEN, for names that are not ours and pages that are not either."""
    headers = request.headers
    host = headers.get("Host", "")
    if not is_this_machine(host) and not _is_named_so(host, public_url):
        detail = "use localhost or 127.0.0.1, or set server.public_url to the name of this service"
        raise _refused(f"Host is {host[:80]!r}: {detail}")
    if of_a_page and request.method == "GET" and headers.get("Sec-Fetch-Mode") == "navigate":
        return
    origins = headers.getall("Origin", ())
    foreign = [one for one in origins if one not in cors and not _is_ours(one, host, public_url)]
    if foreign:
        raise _refused(f"Origin is {foreign[0][:80]!r}: pages of elsewhere may ask nothing here")
    is_listed = bool(origins) and set(origins) <= set(cors)
    if not is_listed and "cross-site" in headers.getall("Sec-Fetch-Site", ()):
        raise _refused("Sec-Fetch-Site is 'cross-site': pages of elsewhere may ask nothing here")


def _is_named_so(host: str, public_url: str) -> bool:
    """Say whether this is one of our names; what is no name is none of them."""
    name = _name_in(host)
    return bool(name) and name == _name_in(urlsplit(public_url).netloc)


def _refused(detail: str) -> Refused:
    return Refused("FORBIDDEN", f"auth.mode is 'none', and {detail}")


def _is_ours(origin: str, host: str, public_url: str) -> bool:
    """The page was had from the name and port that are asked now, or from where others reach us."""
    scheme, _, netloc = origin.strip().lower().partition("://")
    if scheme not in PORTS:
        return False
    public = urlsplit(public_url.lower())
    places = {_place(host, scheme)}
    places |= {_place(public.netloc, scheme)} if public.scheme == scheme else set()
    return _place(netloc, scheme) in places - {None}


def _place(netloc: str, scheme: str) -> tuple[str, str] | None:
    match = HOST.fullmatch(netloc.strip().lower())
    return (match[1].rstrip("."), match[2] or PORTS[scheme]) if match else None


def _name_in(host: str) -> str:
    match = HOST.fullmatch(host.strip().lower())
    return match[1].strip("[]").rstrip(".") if match else ""


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _without_port(text: str) -> str:
    """``192.0.2.7:80`` and ``[2001:db8::7]:80`` are written by some proxies."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _within(address: IPv4Address | IPv6Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def is_local(address: str | None, headers: Mapping[str, str]) -> bool:
    """Say whether a request comes from this machine, by its own name, and for nobody elsewhere."""
    try:
        here = ip_address(address or "").is_loopback
    except ValueError:
        return False
    return here and is_direct(headers)
