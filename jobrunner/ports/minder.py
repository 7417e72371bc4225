"""The program that started this one and minds it, where it wants to hear from it (systemd)."""

import os
import socket
from collections.abc import Mapping

FED_PER_LIMIT = 3


class SystemMinder:
    """Sends one datagram for each thing that is said, to the socket that the environment names.
    Nobody waits for it, and nothing fails with it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        named = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{named[1:]}" if named.startswith("@") else named
        self._limit_us = _limit_us(environ) if named else 0

    @property
    def every_s(self) -> float:
        """How often it wants a sign of life; 0 is never. A third of what it waits for one."""
        return self._limit_us / 1e6 / FED_PER_LIMIT

    def say(self, **words: str) -> bool:
        """Tell it; say whether it took the words, or nobody is there to take them."""
        if not self._address:
            return True
        data = "\n".join(f"{name}={value}" for name, value in words.items()).encode()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
                told.setblocking(False)
                told.sendto(data, self._address)
        except OSError:
            return False
        return True


def _limit_us(environ: Mapping[str, str]) -> int:
    """How long it waits for a sign of life of this process, and not of one that started it."""
    whose, limit = environ.get("WATCHDOG_PID", ""), environ.get("WATCHDOG_USEC", "")
    if whose not in ("", str(os.getpid())) or not limit.isdecimal():
        return 0
    return int(limit)
