"""The client for programs that run in a loop (asyncio), by aiohttp, which is loaded with the first
request."""

import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from io import BytesIO
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import urlencode

import anyio
from msgspec import Struct

from jobrunner.client.place import ServicePlace, place_of
from jobrunner.client.records import JobEvent
from jobrunner.client.refusing import Unanswered, refusal_in
from jobrunner.client.talk import (
    USUAL,
    Aside,
    FreshKey,
    Now,
    Rest,
    RetryLimits,
    Step,
    Talk,
    WireAnswer,
    WireRequest,
    patient,
)
from jobrunner.client.talks import answers as telling
from jobrunner.client.talks import asking, carrying, hearing, remote, scheduling, upgrading
from jobrunner.client.talks import batches as together
from jobrunner.client.talks.carrying import Fetching
from jobrunner.client.talks.hearing import SILENCE_S, EventStream
from jobrunner.errors import JobrunnerError, Unreachable
from jobrunner.ports import SystemClock, SystemIds

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R", bound=Struct)

CONNECT_S = 10.0
KEPT_S = 10.0

Opened = tuple[int, dict[str, str], AsyncIterator[bytes]]


class LoopLine:
    """Connections to one place, as aiohttp keeps them."""

    def __init__(self, place: ServicePlace, timeout_s: float, trust: ssl.SSLContext | None) -> None:
        self.place = place
        self._trust = trust
        self._timeout_s = timeout_s
        self._session: ClientSession | None = None

    async def ask(self, request: WireRequest) -> WireAnswer:
        """Raises: Unreachable, Unanswered."""
        async with self._sent(request, self._timeout_s + request.wait_s) as response:
            try:
                body = await response.read()
            except _broken() as error:
                raise self._unanswered(error) from None
            return WireAnswer(response.status, _small(response), body)

    @asynccontextmanager
    async def pour(self, request: WireRequest, silence_s: float) -> AsyncIterator[Opened]:
        """An answer that comes piece by piece. Raises: also CallerError."""
        async with self._sent(request, silence_s) as response:
            if response.status >= 400:
                raise refusal_in(response.status, _small(response), await response.read())
            yield response.status, _small(response), self._blocks(response)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def _sent(
        self, request: WireRequest, silence_s: float
    ) -> "AsyncIterator[ClientResponse]":
        from aiohttp import ClientConnectorError, ClientTimeout
        from yarl import URL

        query = f"?{urlencode(request.query)}" if request.query else ""
        address = URL(f"{self.place.url}{request.path}{query}", encoded=True)
        timeout = ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s)
        try:
            response = await self._open_session().request(
                request.method,
                address,
                data=None if request.body is None else BytesIO(request.body),
                headers=request.headers,
                timeout=timeout,
                allow_redirects=False,
            )
        except ClientConnectorError as error:
            text = f"no answer from {self.place.url} ({error}); is it running?"
            raise Unreachable(text) from None
        except _broken() as error:
            raise self._unanswered(error) from None
        async with response:
            yield response

    def _open_session(self) -> "ClientSession":
        from aiohttp import ClientSession, TCPConnector

        if self._session is None:
            connector = TCPConnector(keepalive_timeout=KEPT_S, ssl=self._trust or True)
            self._session = ClientSession(connector=connector, headers=self.place.headers)
        return self._session

    async def _blocks(self, response: "ClientResponse") -> AsyncIterator[bytes]:
        blocks = response.content.iter_any()
        while True:
            try:
                block = await anext(blocks, b"")
            except _broken() as error:
                raise self._unanswered(error) from None
            if not block:
                return
            yield block

    def _unanswered(self, error: BaseException) -> Unanswered:
        return Unanswered(f"{self.place.url} did not answer to the end ({error!r})")


def _broken() -> tuple[type[BaseException], ...]:
    from aiohttp import ClientError

    return ClientError, TimeoutError, OSError


def _small(response: "ClientResponse") -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _said(
    call: Callable[P, Talk[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    @wraps(call)
    async def method(client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await client.hold(call(*args, **kwargs))

    return method


def _listed(
    call: Callable[P, asking.PagedList[R]],
) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[R]]:
    @wraps(call)
    async def method(
        client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[R]:
        listing, cursor = call(*args, **kwargs), None
        while True:
            rows, cursor = await client.hold(listing.page(cursor))
            for row in rows:
                yield row
            if cursor is None:
                return

    return method


def _heard(
    call: Callable[P, EventStream],
) -> Callable[Concatenate["AsyncClient", P], AsyncGenerator[JobEvent, None]]:
    @wraps(call)
    async def method(
        client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncGenerator[JobEvent, None]:
        stream = call(*args, **kwargs)
        while True:
            error = None
            try:
                async with client.line.pour(stream.request, SILENCE_S) as (status, _, blocks):
                    async for block in blocks:
                        for event in stream.take(block):
                            yield event
                        if stream.over:
                            return
            except JobrunnerError as broken:
                error = broken
            else:
                if status == 204:
                    return
            await client.rest(stream.rest_s(error))

    return method


def _fetched(
    call: Callable[P, Fetching],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, int]]:
    @wraps(call)
    async def method(client: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> int:
        fetching = call(*args, **kwargs)
        while True:
            try:
                async with client.line.pour(fetching.request, SILENCE_S) as opened:
                    status, headers, blocks = opened
                    fetching.begin(status, headers)
                    async for block in blocks:
                        fetching.take(block)
                return fetching.done()
            except JobrunnerError as broken:
                await client.rest(fetching.rest_s(broken))

    return method


class AsyncClient:
    """The service, asked from a loop. ``url`` and ``token`` come from JOBRUNNER_URL and
    JOBRUNNER_TOKEN where they are not given. ``trust`` is for certificates that this machine does
    not know. Several tasks may use it."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        limits: RetryLimits = USUAL,
        timeout_s: float = 30,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self.line = LoopLine(place_of(url, token, os.environ), timeout_s, trust)
        self._limits = limits
        self._clock = SystemClock()
        self._ids = SystemIds(self._clock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.line.close()

    async def hold(self, talk: Talk[T], limits: RetryLimits | None = None) -> T:
        """Hold a conversation to its end, with the client's limits or others."""
        whole = patient(talk, limits or self._limits)
        try:
            step = next(whole)
            while True:
                try:
                    done = await self._done(step)
                except JobrunnerError as error:
                    step = whole.throw(error)
                else:
                    step = whole.send(done)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _done(self, step: Step) -> Any:
        match step:
            case WireRequest():
                return await self.line.ask(step)
            case Rest(seconds=seconds):
                return await self.rest(seconds)
            case Now():
                return self._clock.monotonic()
            case FreshKey():
                return self._ids.fresh()
            case Aside(work=work):
                return await anyio.to_thread.run_sync(work)

    async def rest(self, seconds: float) -> None:
        await self._clock.sleep(seconds * (1 + self._ids.jitter() / 4))

    submit = _said(asking.submit)
    job = _said(asking.job)
    jobs = _listed(asking.jobs)
    wait = _said(asking.wait)
    changed = _said(asking.changed)
    command = _said(asking.command)
    cancel = _said(asking.cancel)
    pause = _said(asking.pause)
    resume = _said(asking.resume)
    rerun = _said(asking.rerun)
    delete_job = _said(asking.delete_job)
    explain = _said(asking.explain)
    history = _listed(asking.history)
    attempts = _listed(asking.attempts)
    answers = _listed(telling.answers)
    give_answer = _said(telling.give_answer)
    artifact = _said(asking.artifact)
    edit_artifact = _said(asking.edit_artifact)
    file = _said(asking.file)
    files = _listed(asking.files)
    delete_file = _said(asking.delete_file)
    upload = _said(carrying.upload)
    upload_at_once = _said(carrying.upload_at_once)
    upload_for = _said(carrying.upload_for)
    submit_batch = _said(together.submit_batch)
    add_to_batch = _said(together.add_to_batch)
    batch = _said(together.batch)
    batches = _listed(together.batches)
    wait_batch = _said(together.wait_batch)
    close_batch = _said(together.close_batch)
    cancel_batch = _said(together.cancel_batch)
    rerun_batch = _said(together.rerun_batch)
    delete_batch = _said(together.delete_batch)
    credits = _said(asking.credits_of)
    ledger = _listed(asking.ledger)
    grant = _said(asking.grant)
    workflows = _said(asking.workflows)
    workflow = _said(asking.workflow)
    schedules = _said(scheduling.schedules)
    schedule = _said(scheduling.schedule)
    keep_schedule = _said(scheduling.keep_schedule)
    remove_schedule = _said(scheduling.remove_schedule)
    pause_schedule = _said(scheduling.pause_schedule)
    resume_schedule = _said(scheduling.resume_schedule)
    trigger_schedule = _said(scheduling.trigger_schedule)
    backfill_schedule = _said(scheduling.backfill_schedule)
    firings = _listed(scheduling.firings)
    declarations = _said(upgrading.declarations)
    migrate = _said(upgrading.migrate)
    upgrades = _said(upgrading.upgrades)
    upgrade = _said(upgrading.upgrade)
    abort_upgrade = _said(upgrading.abort_upgrade)
    ask = _said(asking.ask)
    claims = _said(remote.claims)
    beat = _said(remote.beat)
    outcome = _said(remote.outcome)
    checkpoint = _said(remote.checkpoint)
    keep = _said(remote.keep)
    send = _said(remote.send)
    file_for = _said(remote.file_for)
    events = _heard(hearing.of_job)
    all_events = _heard(hearing.of_jobs)
    download = _fetched(carrying.fetch)
