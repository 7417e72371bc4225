"""The network of a simulation: requests take simulated time, are answered by what the author gave,
and now and then get lost before or behind the provider's work."""

import asyncio
import hashlib
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any

from yarl import URL

from jobrunner.errors import PermanentFailure, RetryableFailure, StageFault
from jobrunner.files.kinds import HEAD_SIZE, sniff
from jobrunner.outgoing.calls import Download, Exchange, Fetched, Reply
from jobrunner.outgoing.downloads import WRONG_TYPE
from jobrunner.outgoing.exchange import TOO_LARGE, raise_for_status
from jobrunner.outgoing.gate import Outlets
from jobrunner.testing.providers.provider import Provider
from jobrunner.testing.providers.webhooks import Post
from jobrunner.testing.simulation.loop import SimLoop

TAKES_S = (0.0, 0.01, 0.3, 2.0, 20.0)
Answering = Callable[[Exchange], Reply | Awaitable[Reply]]


class SimOutlets(Outlets):
    """``fails`` is the share of requests that get lost, asked anew each time."""

    def __init__(
        self, loop: SimLoop, answering: Answering, chance: random.Random, fails: Callable[[], float]
    ) -> None:
        super().__init__()
        self._loop = loop
        self._answering = answering
        self._chance = chance
        self._fails = fails
        self._outside = copy_context()

    async def exchange(self, asked: Exchange, settings: Mapping[str, Any]) -> Reply:
        await asyncio.sleep(self._chance.choice(TAKES_S))
        self._maybe_lost("did not come through", asked.url)
        reply = await self._answered(asked)
        await asyncio.sleep(self._chance.choice(TAKES_S))
        self._maybe_lost("hung up before its answer was read", asked.url)
        return judged(asked, reply)

    def exchange_at_once(self, asked: Exchange) -> Reply:
        """Exchange for a plain function, whose whole pass is one moment."""
        self._maybe_lost("did not come through", asked.url)
        reply = self._outside.copy().run(_driven, self._answering, asked)
        assert isinstance(reply, Reply), f"http= answered {reply!r}, which is no Reply"
        self._maybe_lost("hung up before its answer was read", asked.url)
        return judged(asked, reply)

    async def download(self, asked: Download, path: str, settings: Mapping[str, Any]) -> Fetched:
        return fetched(asked, path, await self.exchange(getting(asked), settings))

    def download_at_once(self, asked: Download, path: str) -> Fetched:
        return fetched(asked, path, self.exchange_at_once(getting(asked)))

    async def _answered(self, asked: Exchange) -> Reply:
        """Let somebody answer who lives on when the service dies."""
        answer: asyncio.Future[Reply] = self._loop.create_future()
        task = self._loop.create_task(
            self._ask(asked), name="provider", context=self._outside.copy()
        )
        task.add_done_callback(partial(_hand_over, answer))
        return await answer

    async def _ask(self, asked: Exchange) -> Reply:
        answer = self._answering(asked)
        reply = answer if isinstance(answer, Reply) else await answer
        assert isinstance(reply, Reply), f"http= answered {reply!r}, which is no Reply"
        return reply

    def _maybe_lost(self, how: str, url: str) -> None:
        if self._chance.random() < self._fails():
            place = "/".join(url.split("/")[:3])
            raise RetryableFailure("NETWORK_ERROR", f"{place}: the connection {how}")


def answering(http: Any, chance: random.Random, post: Post) -> Answering:
    """Make one answer of a function, a provider, or several by where they are."""
    if not isinstance(http, Mapping):
        return _one(http, chance, post)
    known = {str(URL(origin).origin()): _one(one, chance, post) for origin, one in http.items()}

    def by_origin(asked: Exchange) -> Reply | Awaitable[Reply]:
        found = known.get(str(URL(asked.url).origin()))
        if found is None:
            text = f"http= answers for {', '.join(known)}, and not for {asked.url}"
            raise PermanentFailure("NOBODY_THERE", text)
        return found(asked)

    return by_origin


def _one(http: Any, chance: random.Random, post: Post) -> Answering:
    if isinstance(http, Provider):
        http.simulate(chance, post)
        return http.reply
    one: Answering = http
    return one


def fetched(asked: Download, path: str, reply: Reply) -> Fetched:
    """A file as a download brings it, whole or not at all."""
    raise_for_status(URL(reply.url), reply.status, reply.headers, reply.body)
    kind = sniff(reply.body[:HEAD_SIZE])
    if asked.types is not None and kind not in asked.types:
        raise PermanentFailure(WRONG_TYPE, f"the file looks like {kind}")
    if asked.max_size is not None and len(reply.body) > asked.max_size:
        raise PermanentFailure(TOO_LARGE, f"the file is larger than {asked.max_size} bytes")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(reply.body)
    digest = hashlib.sha256(reply.body).hexdigest()
    return Fetched(path, len(reply.body), digest, kind, reply.url)


def getting(asked: Download) -> Exchange:
    """The request that a download makes."""
    return Exchange("GET", asked.url, headers=asked.headers)


def judged(asked: Exchange, reply: Reply) -> Reply:
    """Raises: StageFault, for what is not 2xx, where only that is good."""
    if asked.good:
        raise_for_status(URL(reply.url), reply.status, reply.headers, reply.body)
    return reply


def _driven(answering: Answering, asked: Exchange) -> Reply:
    """An answer that nobody has to wait for."""
    answer: Any = answering(asked)
    if not asyncio.iscoroutine(answer):
        return answer  # type: ignore[no-any-return]
    try:
        while True:
            waits = answer.send(None)
            assert waits is None, "a plain function cannot be simulated with who answers later"
    except StopIteration as done:
        reply: Reply = done.value
        return reply


def _hand_over(answer: "asyncio.Future[Reply]", task: "asyncio.Task[Reply]") -> None:
    if answer.done() or task.cancelled():
        return
    error = task.exception()
    if error is None:
        answer.set_result(task.result())
    elif isinstance(error, StageFault):
        answer.set_exception(error)
    else:
        answer.set_exception(AssertionError(f"http= stumbled: {error!r}"))
