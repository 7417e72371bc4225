"""What a stage may ask for beyond its own job, and what it is answered: an exchange over HTTP, a
download, a file of its owner, a look into the library. All of it is data, so that a stage asks in
the same words wherever it runs; who answers is its host's business.

Light on purpose: it is imported by every stage's process, and must not bring the HTTP library.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypedDict

import msgspec
from msgspec import Struct
from typing_extensions import Unpack

from jobrunner.core.job import Asset
from jobrunner.errors import StageFault
from jobrunner.stages.outcomes import PermanentFailure, Rejected, RetryableFailure

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


class Find(Struct, frozen=True, tag=True):
    """A file of the job's owner."""

    asset_id: str


class Browse(Struct, frozen=True, tag=True):
    """The files of the job's owner."""

    asset_type: str | None = None
    limit: int = 1000


class Recall(Struct, frozen=True, tag=True):
    """An artifact of the job in one of its versions."""

    name: str
    version: int


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


class Held(Struct, frozen=True, tag=True):
    """A file of the library as it was recorded. It is there to be read, not to be changed."""

    asset: Asset
    path: str


class Found(Struct, frozen=True, tag=True):
    assets: tuple[Asset, ...]


class Recalled(Struct, frozen=True, tag=True):
    value: Any


class Problem(Struct, frozen=True, tag=True):
    """A failure on its way into another process."""

    kind: str
    code: str
    detail: str
    retry_after_s: float = 0
    excerpt: str = ""

    def fault(self) -> StageFault:
        said = {"excerpt": self.excerpt}
        if self.kind == "retryable":
            return RetryableFailure(self.code, self.detail, self.retry_after_s, **said)
        kind = Rejected if self.kind == "rejected" else PermanentFailure
        return kind(self.code, self.detail, **said)


Question = Exchange | Download | Find | Browse | Recall
Answer = Reply | Fetched | Held | Found | Recalled


def problem_of(fault: StageFault) -> Problem:
    if isinstance(fault, RetryableFailure):
        patience_s = fault.retry_after_s
        return Problem("retryable", fault.code, fault.detail, patience_s, fault.excerpt)
    kind = "rejected" if isinstance(fault, Rejected) else "permanent"
    return Problem(kind, fault.code, fault.detail, excerpt=fault.excerpt)


class Options(TypedDict, total=False):
    """What a request may say beside its method and URL."""

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
