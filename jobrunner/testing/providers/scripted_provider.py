"""A provider of any kind: its routes are yours to say, everything else is as with the others."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from jobrunner.testing.providers.made import Made
from jobrunner.testing.providers.mishaps import Refusal, WholeAnswer
from jobrunner.testing.providers.provider import Provider, Routes
from jobrunner.testing.providers.record import RecordedCall
from jobrunner.testing.providers.webhooks import (
    Delivery,
    insisted,
    is_loopback,
    made_secret,
    send,
)

Route = tuple[str, str, Callable[[RecordedCall], Any]]


class ScriptedProvider(Provider):
    """``routes`` by name: method, path ("/orders/{number}"), and a function that answers a call:
    with a value for JSON, with a ``Made`` file, or with a status and one of them. ``secret`` signs
    its webhooks."""

    def __init__(
        self, routes: Mapping[str, Route], *, secret: str = "", port: int = 0, token: str = ""
    ) -> None:
        self.secret = secret or made_secret(secrets.token_bytes(24))
        self._declared = dict(routes)
        self._sending: set[asyncio.Task[None]] = set()
        super().__init__(port=port, token=token)

    def routes(self) -> Routes:
        return {
            name: (method.upper(), (path,), partial(_worked, answer))
            for name, (method, path, answer) in self._declared.items()
        }

    def tell(
        self, hook: str, value: Any, *, later_s: float = 0, how: Delivery | None = None
    ) -> None:
        """Send a webhook, after a while: to be called by the function of a route, with the address
        that the call brought. It is lost, doubled or forged as ``how`` says."""
        assert is_loopback(hook), f"{hook}: this provider speaks to loopback only"
        body = msgspec.json.encode(value)
        self._later(self._deliver(hook, body, later_s, how or Delivery()))

    def complaint(self, status: int) -> WholeAnswer:
        return WholeAnswer(status, msgspec.json.encode({"error": f"status {status}"}))

    def refusal(self, call: RecordedCall, fault: Refusal) -> WholeAnswer:
        return WholeAnswer(400, msgspec.json.encode({"error": fault.code}))

    async def settle(self) -> None:
        sending = list(self._sending)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    def forget(self) -> None:
        super().forget()
        self._sending = set()

    def _later(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(doing, name="webhook")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _deliver(self, hook: str, body: bytes, later_s: float, how: Delivery) -> None:
        await anyio.sleep(later_s + how.delay_s)
        webhook_id = f"msg_{self.token_of(12)}"
        if how.forged:
            lie = msgspec.json.encode({"forged": True})
            forged_id = f"msg_{self.token_of(12)}"
            await send(hook, self.secret, forged_id, body, how.forged, lie, self.post)
        await insisted(how, partial(send, hook, self.secret, webhook_id, body, post=self.post))


def _worked(answer: Callable[[RecordedCall], Any], call: RecordedCall) -> WholeAnswer:
    said, status = answer(call), 200
    if isinstance(said, tuple):
        status, said = said
    if isinstance(said, Made):
        return WholeAnswer(status, said.content, said.content_type)
    if isinstance(said, Struct | dict | list | str | int | float | bool) or said is None:
        return WholeAnswer(status, msgspec.json.encode(said))
    raise TypeError(f"a route answers with JSON or with a Made file, not {type(said).__name__}")
