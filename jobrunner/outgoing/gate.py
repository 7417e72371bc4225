"""The one way out of the service for stages: a gate for all, opened when somebody first needs it;
what stands in the settings of a workflow is open to its own stages, and to nobody else.

The HTTP library is imported here at the first use, because a command line has none.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import anyio

from jobrunner.core.features.notifications import Post, TryAnswer
from jobrunner.errors import PermanentFailure
from jobrunner.files.space import Room
from jobrunner.outgoing.calls import BAD_REQUEST, Download, Exchange, Fetched, Reply
from jobrunner.ports import Children, Connector

if TYPE_CHECKING:
    from jobrunner.outgoing.downloads import Downloader
    from jobrunner.outgoing.exchange import OutgoingClient, OutgoingGate


class Outlets:
    """Without a connector nothing leads out, and every request is refused."""

    def __init__(
        self,
        connector: Connector | None = None,
        children: Children | None = None,
        allow_hosts: Iterable[str] = (),
        allow_private: Iterable[str] = (),
        max_size: int = 0,
        room: Room | None = None,
    ) -> None:
        self._connector = connector
        self._children = children
        self._allowed = tuple(allow_hosts), tuple(allow_private)
        self._max_size = max_size
        self._room = room or Room()
        self._gate: OutgoingGate | None = None

    def client(self, settings: Mapping[str, Any] | None = None) -> "OutgoingClient":
        """Make a client for whoever these settings belong to; without any, for public places
        only."""
        from jobrunner.outgoing.exchange import OutgoingClient
        from jobrunner.outgoing.rules import origins_of

        return OutgoingClient(self.gate(), origins_of(settings))

    def downloader(self, settings: Mapping[str, Any] | None = None) -> "Downloader":
        from jobrunner.outgoing.downloads import Downloader
        from jobrunner.outgoing.rules import origins_of

        assert self._children is not None, "what leads out has threads to write in"
        return Downloader(
            self.gate(), self._children, self._max_size, origins_of(settings), self._room
        )

    async def exchange(self, asked: Exchange, settings: Mapping[str, Any]) -> Reply:
        client = self.client(settings)
        ask = client.request if asked.good else client.exchange
        try:
            return await ask(
                asked.method,
                asked.url,
                data=asked.data,
                headers=asked.headers,
                max_size=asked.max_size,
                redirects=asked.redirects,
                patience=asked.patience,
            )
        except (TypeError, ValueError, LookupError) as error:
            raise _impossible(error) from error

    async def download(self, asked: Download, path: str, settings: Mapping[str, Any]) -> Fetched:
        try:
            done = await self.downloader(settings).fetch(
                asked.url,
                path,
                max_size=asked.max_size,
                types=asked.types,
                headers=asked.headers,
                patience=asked.patience,
            )
        except (TypeError, ValueError, LookupError) as error:
            raise _impossible(error) from error
        return Fetched(path, done.size, done.sha256, done.content_type, done.final_url)

    async def tell(self, post: Post) -> TryAnswer:
        """A notification: one request, and what came back of it."""
        from jobrunner.outgoing.posts import tell

        return await tell(self.gate(), post)

    def misfit_url(self, url: str) -> str | None:
        """Why a client may not be told there; None when it may."""
        from jobrunner.outgoing.posts import misfit_url
        from jobrunner.outgoing.rules import rules_of

        return misfit_url(url, rules_of(*self._allowed))

    async def aclose(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            with anyio.CancelScope(shield=True):
                await gate.aclose()

    def gate(self) -> "OutgoingGate":
        """The one for all, opened when somebody first needs it."""
        from jobrunner.outgoing.exchange import OutgoingGate
        from jobrunner.outgoing.rules import rules_of

        if self._connector is None:
            raise PermanentFailure("NO_WAY_OUT", "nothing leads out of this service to the network")
        if self._gate is None:
            self._gate = OutgoingGate(self._connector, rules_of(*self._allowed))
        return self._gate


def _impossible(error: Exception) -> PermanentFailure:
    """Recognise what the HTTP library will not send: a header with a line in it, a body of no known
    kind."""
    text = f"this request cannot be sent ({type(error).__name__})"
    return PermanentFailure(BAD_REQUEST, text, excerpt=str(error))
