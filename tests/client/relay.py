"""A line to the service that breaks when a test says so: a relay on loopback."""

import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

BLOCK = 65536


@dataclass
class Cut:
    """A connection is broken once so many bytes went to the service, or came from it; those are the
    last that pass."""

    sent: int | None = None
    told: int | None = None


class Relay:
    """Each connection takes the next of ``cuts``; when there is none left, it holds."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.upstream = (parts.hostname or "", parts.port or 0)
        self.cuts: deque[Cut] = deque()
        self.connections = 0
        self.refused = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def break_all(self) -> None:
        """Break every line that is open now."""
        while self._open:
            _shut(self._open.pop())

    def close(self) -> None:
        with suppress(OSError):  # wakes who accepts
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.break_all()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                cut = self.cuts.popleft() if self.cuts else Cut()
                try:
                    service = socket.create_connection(self.upstream)
                except OSError:
                    self.refused += 1
                    _shut(client)
                    continue
                self._open += [client, service]
                for here, there, most in ((client, service, cut.sent), (service, client, cut.told)):
                    threading.Thread(target=_pump, args=(here, there, most), daemon=True).start()


def _pump(here: socket.socket, there: socket.socket, most: int | None) -> None:
    passed = 0
    with suppress(OSError):
        while block := here.recv(BLOCK):
            left = len(block) if most is None else min(len(block), most - passed)
            there.sendall(block[:left])
            passed += left
            if passed == most:
                break
    _shut(here)
    _shut(there)


def _shut(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()


@contextmanager
def relayed(url: str) -> Iterator[Relay]:
    relay = Relay(url)
    try:
        yield relay
    finally:
        relay.close()
