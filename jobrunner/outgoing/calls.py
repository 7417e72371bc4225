"""Requests that leave this machine, as data: an exchange over HTTP, a download, and their answers.

Light on purpose: every stage's process imports this, and it must not bring the HTTP library."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypedDict

import msgspec
from msgspec import Struct
from typing_extensions import Unpack

from jobrunner.errors import PermanentFailure, RetryableFailure

REDIRECTS_MAX = 3
ANSWER_MAX = 16 * 1024**2
BAD_REQUEST = "BAD_REQUEST"


class Patience(Struct, frozen=True):
    """How long to wait: for a connection, for the next bytes, for everything together."""

    connect_s: float = 5
    idle_s: float = 30
    total_s: float = 600


PATIENCE = Patience()


class Exchange(Struct, frozen=True, tag=True):
    """A request to make. ``good``: an answer that is not 2xx is a failure."""

    method: str
    url: str
    data: Any = None
    headers: dict[str, str] = {}
    max_size: int = ANSWER_MAX
    redirects: int = REDIRECTS_MAX
    patience: Patience = PATIENCE
    good: bool = True


class Download(Struct, frozen=True, tag=True):
    """A file to fetch into the attempt's scratch folder. ``types`` None: of any type."""

    url: str
    name: str
    max_size: int | None = None
    types: tuple[str, ...] | None = None
    headers: dict[str, str] = {}
    patience: Patience = PATIENCE


class Reply(Struct, frozen=True, tag=True):
    """An answer, whole. The names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    url: str

    def json(self) -> Any:
        """Raises: RetryableFailure, for what answers with something else is not itself."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            place = "/".join(self.url.split("/")[:3])
            text = f"{place} answered {self.status} with what is no JSON"
            raise RetryableFailure("REMOTE_FAILED", text) from error

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class Fetched(Struct, frozen=True, tag=True):
    """A file that came, whole: its type is what it looks like, ``final_url`` is where the redirects
    ended."""

    path: str
    size: int
    sha256: str
    content_type: str
    final_url: str


class Options(TypedDict, total=False):
    """The options of a request beside its method and URL."""

    json: Any
    data: Any
    headers: Mapping[str, str] | None
    max_size: int
    redirects: int
    patience: Patience


class Http:
    """HTTP going out, guarded: public places, and the origins in the workflow's settings.

    ``data`` is bytes, a text or a form; ``json`` any value. An answer is held in memory, so larger
    ones than ``max_size`` are refused: ``ctx.download`` is for files. Only GET and HEAD follow
    redirects. All raise RetryableFailure (network, timeout) and PermanentFailure (refused, too
    large); ``get``, ``post`` and ``request`` also for every status that is not 2xx, retryable when
    it is 408, 425, 429 (with its Retry-After) or 5xx. ``exchange`` returns any answer."""

    def __init__(self, ask: Callable[[Exchange], Awaitable[Reply]]) -> None:
        self._ask = ask

    async def get(self, url: str, **options: Unpack[Options]) -> Reply:
        return await self._ask(asked("GET", url, True, options))

    async def post(self, url: str, **options: Unpack[Options]) -> Reply:
        return await self._ask(asked("POST", url, True, options))

    async def request(self, method: str, url: str, **options: Unpack[Options]) -> Reply:
        return await self._ask(asked(method, url, True, options))

    async def exchange(self, method: str, url: str, **options: Unpack[Options]) -> Reply:
        return await self._ask(asked(method, url, False, options))


class PlainHttp:
    """The same verbs, which return when there is an answer."""

    def __init__(
        self,
        ask: Callable[[Exchange], Coroutine[Any, Any, Reply]],
        wait: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> None:
        self._ask = ask
        self._wait = wait

    def get(self, url: str, **options: Unpack[Options]) -> Reply:
        return self._answered(asked("GET", url, True, options))

    def post(self, url: str, **options: Unpack[Options]) -> Reply:
        return self._answered(asked("POST", url, True, options))

    def request(self, method: str, url: str, **options: Unpack[Options]) -> Reply:
        return self._answered(asked(method, url, True, options))

    def exchange(self, method: str, url: str, **options: Unpack[Options]) -> Reply:
        return self._answered(asked(method, url, False, options))

    def _answered(self, exchange: Exchange) -> Reply:
        reply: Reply = self._wait(self._ask(exchange))
        return reply


def asked(method: str, url: str, good: bool, options: Options) -> Exchange:
    headers = dict(options.get("headers") or {})
    data = options.get("data")
    if options.get("json") is not None:
        data = _encoded(options["json"])
        if not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
    return Exchange(
        method,
        url,
        data,
        headers,
        options.get("max_size", ANSWER_MAX),
        options.get("redirects", REDIRECTS_MAX),
        options.get("patience", PATIENCE),
        good,
    )


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        text = "what is to be sent does not fit into JSON"
        raise PermanentFailure(BAD_REQUEST, text, excerpt=str(error)) from error
