"""The client for programs that wait: the standard library's HTTP, a connection for each thread that
asks at the same time."""

import http.client
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import urlencode

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
from jobrunner.ports import rest as let_rest

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R", bound=Struct)

BLOCK = 256 * 1024
KEPT_S = 10.0
BROKEN = (OSError, http.client.HTTPException)


class BlockingLine:
    """Connections to one place. One that rested for long is not used again: the other side may be
    about to close it."""

    def __init__(self, place: ServicePlace, timeout_s: float, trust: ssl.SSLContext | None) -> None:
        self.place = place
        self._trust = trust
        self._timeout_s = timeout_s
        self._clock = SystemClock()
        self._kept: list[tuple[float, http.client.HTTPConnection]] = []

    def ask(self, request: WireRequest) -> WireAnswer:
        """Raises: Unreachable, Unanswered."""
        connection = self._connection(self._timeout_s + request.wait_s)
        try:
            with closing(self._sent(connection, request)) as response:
                body = response.read()
                _check_head(response, request)
        except BROKEN as error:
            connection.close()
            raise self._unanswered(error) from None
        self._keep(connection, response)
        return WireAnswer(response.status, _small(response), body)

    @contextmanager
    def pour(
        self, request: WireRequest, silence_s: float
    ) -> Iterator[tuple[int, dict[str, str], Iterator[bytes]]]:
        """An answer that comes piece by piece. Raises: also CallerError."""
        connection = self._connection(silence_s)
        try:
            response = self._sent(connection, request)
            _check_head(response, request)
        except BROKEN as error:
            connection.close()
            raise self._unanswered(error) from None
        with closing(connection), closing(response):
            if response.status >= 400:
                raise refusal_in(
                    response.status, _small(response), b"".join(self._blocks(response))
                )
            yield response.status, _small(response), self._blocks(response)

    def close(self) -> None:
        while self._kept:
            self._kept.pop()[1].close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        while self._kept:
            since, connection = self._kept.pop()
            if self._clock.monotonic() - since < KEPT_S and connection.sock is not None:
                connection.sock.settimeout(timeout_s)
                return connection
            connection.close()
        at = self.place
        if at.tls:
            connection = http.client.HTTPSConnection(
                at.host, at.port, timeout=timeout_s, context=self._trust
            )
        else:
            connection = http.client.HTTPConnection(at.host, at.port, timeout=timeout_s)
        try:
            connection.connect()
        except OSError as error:
            raise Unreachable(f"no answer from {at.url} ({error}); is it running?") from None
        return connection

    def _sent(
        self, connection: http.client.HTTPConnection, request: WireRequest
    ) -> http.client.HTTPResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        path = f"{self.place.prefix}{request.path}{query}"
        headers = {**self.place.headers, **request.headers}
        connection.request(request.method, path, body=request.body, headers=headers)
        return connection.getresponse()

    def _keep(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        if response.will_close:
            connection.close()
        else:
            self._kept.append((self._clock.monotonic(), connection))

    def _blocks(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        while True:
            try:
                block = response.read1(BLOCK)
            except BROKEN as error:
                raise self._unanswered(error) from None
            if not block:
                return
            yield block

    def _unanswered(self, error: Exception) -> Unanswered:
        return Unanswered(f"{self.place.url} did not answer to the end ({error!r})")


def _check_head(response: http.client.HTTPResponse, request: WireRequest) -> None:
    """A head that broke off reads like a shorter one, to whom no length of a body is nothing new.

    Raises: HTTPException."""
    bare = request.method == "HEAD" or response.status in (204, 304)
    if not bare and "Content-Length" not in response.headers and not response.chunked:
        raise http.client.HTTPException("the head of the answer broke off")


def _small(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _said(call: Callable[P, Talk[T]]) -> Callable[Concatenate["Client", P], T]:
    @wraps(call)
    def method(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return client.hold(call(*args, **kwargs))

    return method


def _listed(
    call: Callable[P, asking.PagedList[R]],
) -> Callable[Concatenate["Client", P], Iterator[R]]:
    @wraps(call)
    def method(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        listing, cursor = call(*args, **kwargs), None
        while True:
            rows, cursor = client.hold(listing.page(cursor))
            yield from rows
            if cursor is None:
                return

    return method


def _heard(
    call: Callable[P, EventStream],
) -> Callable[Concatenate["Client", P], Iterator[JobEvent]]:
    @wraps(call)
    def method(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[JobEvent]:
        stream = call(*args, **kwargs)
        while True:
            error = None
            try:
                with client.line.pour(stream.request, SILENCE_S) as (status, _, blocks):
                    for block in blocks:
                        yield from stream.take(block)
                        if stream.over:
                            return
            except JobrunnerError as broken:
                error = broken
            else:
                if status == 204:
                    return
            client.rest(stream.rest_s(error))

    return method


def _fetched(call: Callable[P, Fetching]) -> Callable[Concatenate["Client", P], int]:
    @wraps(call)
    def method(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> int:
        fetching = call(*args, **kwargs)
        while True:
            try:
                with client.line.pour(fetching.request, SILENCE_S) as (status, headers, blocks):
                    fetching.begin(status, headers)
                    for block in blocks:
                        fetching.take(block)
                return fetching.done()
            except JobrunnerError as broken:
                client.rest(fetching.rest_s(broken))

    return method


class Client:
    """The service, asked by a program that waits for its answers. ``url`` and ``token`` come from
    JOBRUNNER_URL and JOBRUNNER_TOKEN where they are not given. ``trust`` is for certificates that
    this machine does not know. Several threads may use it."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        limits: RetryLimits = USUAL,
        timeout_s: float = 30,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self.line = BlockingLine(place_of(url, token, os.environ), timeout_s, trust)
        self._limits = limits
        self._clock = SystemClock()
        self._ids = SystemIds(self._clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.line.close()

    def hold(self, talk: Talk[T], limits: RetryLimits | None = None) -> T:
        """Hold a conversation to its end, with the client's limits or others."""
        whole = patient(talk, limits or self._limits)
        try:
            step = next(whole)
            while True:
                try:
                    done = self._done(step)
                except JobrunnerError as error:
                    step = whole.throw(error)
                else:
                    step = whole.send(done)
        except StopIteration as end:
            result: T = end.value
            return result

    def _done(self, step: Step) -> Any:
        match step:
            case WireRequest():
                return self.line.ask(step)
            case Rest(seconds=seconds):
                return self.rest(seconds)
            case Now():
                return self._clock.monotonic()
            case FreshKey():
                return self._ids.fresh()
            case Aside(work=work):
                return work()

    def rest(self, seconds: float) -> None:
        let_rest(seconds * (1 + self._ids.jitter() / 4))

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
