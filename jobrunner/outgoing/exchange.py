"""HTTP going out, for stages: guarded, bounded in time and size, its failures classed.

Every connection is judged by its final address, in the moment before its socket would exist; the
verdict travels out of the HTTP library as the failure it is. Redirects are followed here and
nowhere else, so that each is judged like a first request, and what the caller sent along stays at
the origin that it was meant for.

Two pools: one for the public world, one for the origins that operators wrote into the settings of
plugins. A request uses the second only when the stage itself, or such an origin, leads there: a
stranger's redirect does not.

Deliberately absent: cookies, proxies from the environment, retries (the lifecycle's business).
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import anyio
import msgspec
from msgspec import Struct
from yarl import URL

from jobrunner.errors import PermanentFailure, RetryableFailure
from jobrunner.outgoing.calls import ANSWER_MAX, PATIENCE, REDIRECTS_MAX, Patience, Reply
from jobrunner.outgoing.rules import (
    Origin,
    Rules,
    judge,
    judge_named,
    judge_url,
    origin_of,
    redirected,
)
from jobrunner.ports import Connector
from jobrunner.providers.responses import refuse_status

REFUSED = "DOWNLOAD_REFUSED"
TOO_LARGE = "DOWNLOAD_TOO_LARGE"
MOVED = {301, 302, 303, 307, 308}
FOLLOWING = {"GET", "HEAD"}
HEADERS = {"User-Agent": "jobrunner", "Accept-Encoding": "identity"}


class OutgoingRequest(Struct, frozen=True):
    """A request to make. ``decompress`` only for answers that stay in memory under a cap."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    data: Any = None
    redirects: int = REDIRECTS_MAX
    patience: Patience = PATIENCE
    decompress: bool = False


class OutgoingGate:
    """The one way out. One for the service, until ``aclose``."""

    def __init__(self, connector: Connector, rules: Rules) -> None:
        self._rules = rules
        self._public = _session(connector, self._meet_public)
        self._named = _session(connector, self._meet_named)

    async def aclose(self) -> None:
        await self._public.close()
        await self._named.close()

    @asynccontextmanager
    async def answered(
        self, call: OutgoingRequest, origins: Iterable[Origin]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer to a call, headers read, body not. The caller's time with it counts."""
        url = _url(call.url)
        with _classed(_shown(url)):
            with anyio.fail_after(call.patience.total_s):
                async with AsyncExitStack() as stack:
                    yield await self._follow(stack, call, url, frozenset(origins))

    async def _follow(
        self, stack: AsyncExitStack, call: OutgoingRequest, url: URL, origins: frozenset[Origin]
    ) -> aiohttp.ClientResponse:
        headers = dict(call.headers)
        named = origin_of(url) in origins
        for _ in range(call.redirects + 1):
            _refuse(judge_url(url, self._rules, origins if named else ()), url)
            session = self._named if named else self._public
            asked = _request(session, call, url, headers)
            answer: aiohttp.ClientResponse = await stack.enter_async_context(asked)
            target = _target(answer, url) if call.method in FOLLOWING else None
            if target is None:
                return answer
            answer.close()
            if origin_of(target) != origin_of(url):
                headers = {name: headers[name] for name in headers if name.lower() == "accept"}
                named = named and origin_of(target) in origins
            url = target
        raise PermanentFailure(REFUSED, f"{_shown(url)}: more than {call.redirects} redirects")

    def _meet_public(self, address: str, port: int) -> None:
        _refuse(judge(address, port, self._rules))

    def _meet_named(self, address: str, port: int) -> None:
        _refuse(judge_named(address))


class OutgoingClient:
    """HTTP for the stages of one plugin. ``origins`` are its own, and may grow while it runs."""

    def __init__(self, gate: OutgoingGate, origins: Iterable[Origin] = ()) -> None:
        self._gate = gate
        self.origins = set(origins)

    async def get(self, url: str, **options: Any) -> Reply:
        return await self.request("GET", url, **options)

    async def post(self, url: str, **options: Any) -> Reply:
        return await self.request("POST", url, **options)

    async def request(self, method: str, url: str, **options: Any) -> Reply:
        """Do as ``exchange`` does, but raise an answer that is not 2xx.

        Raises: RetryableFailure (network, timeout, 408, 425, 429, 5xx), PermanentFailure."""
        reply = await self.exchange(method, url, **options)
        raise_for_status(URL(reply.url), reply.status, reply.headers, reply.body)
        return reply

    async def exchange(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        max_size: int = ANSWER_MAX,
        redirects: int = REDIRECTS_MAX,
        patience: Patience = PATIENCE,
    ) -> Reply:
        """Send a request and return whatever was answered. Only GET and HEAD follow redirects.

        Raises: RetryableFailure (network, timeout), PermanentFailure (refused, too large)."""
        sent = dict(headers or {})
        if json is not None:
            data = msgspec.json.encode(json)
            sent.setdefault("Content-Type", "application/json")
        call = OutgoingRequest(method, url, sent, data, redirects, patience, decompress=True)
        async with self._gate.answered(call, self.origins) as answer:
            body = await _read(answer, max_size)
            return Reply(answer.status, headers_of(answer), body, str(answer.url))


def raise_for_status(url: URL, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
    """Raises: RetryableFailure or PermanentFailure, for everything that is not 2xx."""
    refuse_status(_shown(url), status, headers, body)


def headers_of(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


async def _read(answer: aiohttp.ClientResponse, max_size: int) -> bytes:
    """The whole body; the count is of what it unpacks to."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > max_size:
            text = (
                f"{_shown(answer.url)}: the answer is larger than {max_size} bytes; what may be "
                "large is fetched as a file, with ctx.download"
            )
            raise PermanentFailure(TOO_LARGE, text)
    return bytes(body)


def _session(connector: Connector, meet: Any) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector.guarded(meet),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=HEADERS,
        trust_env=False,
    )


def _request(
    session: aiohttp.ClientSession, call: OutgoingRequest, url: URL, headers: Mapping[str, str]
) -> Any:
    waits = aiohttp.ClientTimeout(
        total=None, sock_connect=call.patience.connect_s, sock_read=call.patience.idle_s
    )
    return session.request(
        call.method,
        url,
        headers=headers,
        data=call.data,
        allow_redirects=False,
        auto_decompress=call.decompress,
        timeout=waits,
    )


def _target(answer: aiohttp.ClientResponse, url: URL) -> URL | None:
    """Find where a redirect leads; None when the answer is none."""
    location = answer.headers.get("Location")
    if answer.status not in MOVED or location is None:
        return None
    target = redirected(url, location)
    if target is None:
        _refuse("it redirects to what is no URL, or from https to something weaker", url)
    return target


def _url(text: str) -> URL:
    try:
        return URL(text)
    except ValueError as error:
        text = "this is no URL that can be asked"
        raise PermanentFailure(REFUSED, text, excerpt=str(error)) from error


def _refuse(reason: str | None, url: URL | None = None) -> None:
    if reason is not None:
        raise PermanentFailure(REFUSED, f"{_shown(url)}: {reason}" if url else reason)


@contextmanager
def _classed(place: str) -> Iterator[None]:
    """The library's errors in our words. Texts name the origin only: a path may be a secret."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise PermanentFailure(REFUSED, f"{place}: its certificate is not valid") from error
    except aiohttp.InvalidURL as error:
        raise PermanentFailure(REFUSED, f"{place}: this is no URL that can be asked") from error
    except TimeoutError as error:
        raise RetryableFailure("NETWORK_TIMEOUT", f"{place} took too long") from error
    except (aiohttp.ClientError, ConnectionError) as error:
        raise RetryableFailure("NETWORK_ERROR", f"{place}: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """Name the cause without the library's own text, in which the whole URL may stand."""
    inner = getattr(error, "os_error", error)
    return getattr(inner, "strerror", None) or type(inner).__name__


def _shown(url: URL) -> str:
    scheme, host, port = origin_of(url)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
