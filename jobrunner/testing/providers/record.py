"""The record of a provider: every call with its key, and whether it was new."""

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import msgspec
from msgspec import Struct


class RecordedCall(Struct):
    """One request. ``route`` is the provider's word for it (``images`` …); ``key`` its
    ``Idempotency-Key``; ``form`` the fields of a form, files as bytes; ``fault`` what went wrong by
    script; ``worked``: this call made the provider do something; ``replayed``: it was answered as
    an earlier one with its key. ``status`` is 0 where nothing was answered."""

    number: int
    route: str
    method: str
    path: str
    key: str
    headers: dict[str, str]
    body: bytes = b""
    form: dict[str, Any] = {}
    fault: str = ""
    status: int = 0
    worked: bool = False
    replayed: bool = False

    @property
    def json(self) -> Any:
        """The body; None where it is no JSON."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None

    @property
    def wish(self) -> bytes:
        """The content of the request, without its key."""
        form = repr(sorted(self.form.items())).encode() if self.form else b""
        return self.path.encode() + b"\n" + self.body + form


class Calls:
    """In the order in which they came."""

    def __init__(self) -> None:
        self._every: list[RecordedCall] = []
        self._news = anyio.Event()

    def __iter__(self) -> Iterator[RecordedCall]:
        return iter(list(self._every))

    def __len__(self) -> int:
        return len(self._every)

    def add(self, call: RecordedCall) -> None:
        self._every.append(call)
        self.stir()

    def stir(self) -> None:
        """Wake whoever waits: something is different."""
        self._news.set()
        self._news = anyio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._news.wait()

    def of(self, route: str) -> list[RecordedCall]:
        return [call for call in self._every if call.route == route]

    def keys(self, route: str) -> list[str]:
        """List each key once, in the order in which they came."""
        return list(dict.fromkeys(call.key for call in self.of(route)))

    def twice(self, route: str) -> dict[bytes, list[str]]:
        """List requests without a key, or under more than one: wish → its keys."""
        keys: dict[bytes, list[str]] = {}
        for call in self.of(route):
            known = keys.setdefault(call.wish, [])
            if not call.key or call.key not in known:
                known.append(call.key)
        return {wish: known for wish, known in keys.items() if len(known) > 1 or "" in known}
