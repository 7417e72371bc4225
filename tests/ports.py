"""Ports for those who must know theirs before anybody listens there, or again after a death.

Not one that the system hands out: between two lives some client elsewhere may be given it for its
end of a connection, and who asks at one where nobody listens may be given the same for its own end,
and so be answered by itself.
"""

import random
import socket
from pathlib import Path

HANDED_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")
OFTEN_THE_FIRST = 32768
LOWEST = 10_000


def free_port() -> int:
    """Nobody listens there, and nobody comes to do so by chance."""
    first = int(HANDED_OUT.read_text().split()[0]) if HANDED_OUT.exists() else OFTEN_THE_FIRST
    return next(port for port in random.sample(range(LOWEST, first), 100) if is_free(port))


def is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
