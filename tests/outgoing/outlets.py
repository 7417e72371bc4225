"""What the tests of HTTP going out share: a connector that watches, a resolver that lies, and the
notations in which an address can hide."""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import BaseConnector
from aiohttp.abc import AbstractResolver, ResolveResult

from jobrunner.ports import SystemConnector

PUBLIC = "93.184.215.14"

# None of these may ever be met.
INSIDE_4 = (
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.8.9.10", "169.254.169.254",
    "172.16.0.1", "192.0.0.8", "192.168.1.1", "198.18.0.1", "224.0.0.1", "255.255.255.255",
)  # fmt: skip
INSIDE_6 = (
    "::", "::1", "fe80::1", "febf::1", "fec0::1", "fc00::1", "fd12:3456:789a::1", "ff02::1",
    "ff0e::1", "100::1", "2001:db8::1", "3fff::1", "2001::1", "2001:10::1", "2001:20::1",
    "2002:7f00:1::", "2002:a00:1::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::7f00:1", "64:ff9b::808:808", "4000::1", "5f00::1", "::7f00:1", "::ffff:0:7f00:1",
)  # fmt: skip


class Lies(AbstractResolver):
    """Answers every name with what it was told to, in turn; the last answer stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in found
        ]

    async def close(self) -> None:
        pass


class Loopback(socket.socket):
    """Connects to this machine and to nothing else, even where a guard is broken."""

    def connect(self, address: Any, /) -> None:
        assert address[0] == "127.0.0.1", f"a test would have connected to {address}"
        super().connect(address)


def no_socket(family: int, kind: int, protocol: int) -> socket.socket:
    raise OSError(101, "no sockets here")


class Watched(SystemConnector):
    """Counts the connections that the judge let pass. A socket is made only by ``make_socket``,
    which the tests of hostile URLs do without."""

    def __init__(
        self,
        make_socket: Callable[[int, int, int], socket.socket] = no_socket,
        resolver: AbstractResolver | None = None,
    ) -> None:
        super().__init__(self._counted, resolver or Lies(["127.0.0.1"]))
        self._make = make_socket
        self.sockets = 0
        self.passed: list[tuple[str, int]] = []

    def guarded(self, judge: Callable[[str, int], None]) -> BaseConnector:
        def watching(address: str, port: int) -> None:
            judge(address, port)
            self.passed.append((address, port))

        return super().guarded(watching)

    def _counted(self, family: int, kind: int, protocol: int) -> socket.socket:
        self.sockets += 1
        return self._make(family, kind, protocol)


def notations(address: str) -> list[str]:
    """One IPv4 address as hosts that some parser or resolver takes for it."""
    a, b, c, d = (int(part) for part in address.split("."))
    number = int(ipaddress.IPv4Address(address))
    low, high = number & 0xFFFF, number >> 16
    inverted = number ^ 0xFFFFFFFF
    return [
        address,
        f"{address}.",
        str(number),
        hex(number),
        f"0{number:o}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a}.{(b << 16) + low}",
        f"{a}.{b}.{low}",
        f"{a:03}.{b:03}.{c:03}.{d:03}",
        "".join(chr(0xFF10 + int(letter)) if letter != "." else "。" for letter in address),
        "".join(chr(0x0660 + int(letter)) if letter != "." else "." for letter in address),
        "".join(chr(0x1D7CE + int(letter)) if letter != "." else "．" for letter in address),
        "".join(f"%{ord(letter):02x}" for letter in address),
        f"[::ffff:{address}]",
        f"[::ffff:{high:x}:{low:x}]",
        f"[0:0:0:0:0:ffff:{high:04x}:{low:04x}]",
        f"[::{address}]",
        f"[::ffff:0:{high:x}:{low:x}]",
        f"[64:ff9b::{address}]",
        f"[64:ff9b:1::{high:x}:{low:x}]",
        f"[2002:{high:x}:{low:x}::]",
        f"[2001:0:4136:e378:8000:63bf:{inverted >> 16:x}:{inverted & 0xFFFF:x}]",
        f"user@{address}",
        f"{PUBLIC}@{address}",
        f"{PUBLIC}:80@{address}",
        f"{address}:8080",
        f"{address}:22",
    ]


def hostile() -> list[str]:
    """URLs that lead inside, out of HTTP, or to a port that is none of ours."""
    hosts = [host for address in INSIDE_4 for host in notations(address)]
    hosts += [f"[{address}]" for address in INSIDE_6]
    hosts += [f"[{address}%25eth0]" for address in ("fe80::1", "::1", "2606:4700::1111")]
    urls = [f"http://{host}/x" for host in hosts]
    urls += [f"https://{host}/x" for host in INSIDE_4]
    urls += [f"http://{PUBLIC}:{port}/" for port in (0, 1, 22, 25, 81, 444, 3306, 6379, 8080)]
    return urls + ODD


ODD = [
    "http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://localhost:80/",
    "http://localhost.localdomain/", "http://ip6-localhost/", "http://metadata.google.internal/",
    "http://127.0.0.1.nip.example/", "http://rebound.example/", "http://①②⑦.⓪.⓪.①/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", "http://localhost%00.example/", "http://127.0.0.1%2f.example/",
    "http://127.0.0.1\\@example.com/", "http://example.com\\@127.0.0.1/",
    "http://example.com@127.0.0.1/", "http://example.com:80@127.0.0.1/",
    "http://example.com%40127.0.0.1/", "http://example.com#@127.0.0.1/",
    "http://example.com?@127.0.0.1/", "http://127.0.0.1#@example.com/",
    "http://127.0.0.1:80:80/", "http://127.0.0.1:80@example.com:80@127.0.0.1/",
    "http://[::1", "http://::1/", "http://[127.0.0.1]/", "http://[::1]x/", "http://[]/",
    "http://[::ffff:127.0.0.1%25lo]/", "http://[v1.127]/", "http:///127.0.0.1/", "http:/127.0.0.1/",
    "http:127.0.0.1", "//127.0.0.1/", "127.0.0.1", "localhost:80", "", " ", "http://", "http://.",
    "http://../", "http://a..b/", "http://exa mple.com/", "http://127.0.0.1\t/", "\thttp://127.1/",
    "http://127.0.0.1:99999/", "http://127.0.0.1:-80/", "http://127.0.0.1:８０/",
    f"http://{'a' * 64}.example/", f"http://{'a.' * 130}example/",
    "file:///etc/passwd", "file://127.0.0.1/etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1/",
    "dict://127.0.0.1:11211/", "ldap://127.0.0.1/", "unix:///run/docker.sock", "tcp://127.0.0.1/",
    "ws://127.0.0.1/", "wss://127.0.0.1/", "data:text/plain,x", "javascript:1", "jar:http://x!/",
    "netdoc:///etc/passwd", "HTTP+UNIX://%2Frun%2Fx.sock/", "http+unix://x/", "blob:http://x/",
]  # fmt: skip
