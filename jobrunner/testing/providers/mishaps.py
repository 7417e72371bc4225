"""Mishaps between a provider and its caller, one struct a kind, and how each is done.

``done`` is what the caller cannot see: whether the work was done before it went wrong.
"""

import anyio
from aiohttp import web
from msgspec import Struct

from jobrunner.errors import PermanentFailure, RetryableFailure
from jobrunner.outgoing.calls import Exchange, Reply

PIECE = 64 * 1024
INSIDE = "http://169.254.169.254/latest/meta-data/"
PAGE = b"<!doctype html>\n<html><head><title>Sorry</title></head><body>Sorry</body></html>\n"


class Hang(Struct, frozen=True):
    """Give no answer, until the caller gives up or the provider stops."""

    done: bool = False


class Status(Struct, frozen=True):
    """An answer with this status, worded as the provider would. See ``busy`` for 429."""

    status: int = 500
    headers: dict[str, str] = {}
    done: bool = False


class Nonsense(Struct, frozen=True):
    """200, and a body that is no JSON or not the one that was promised."""

    text: str = '{"data": ['
    done: bool = True


class Page(Struct, frozen=True):
    """HTML where something else belongs. For a picture that is sent inside of JSON, in it."""

    content_type: str = "text/html"
    done: bool = True


class Redirected(Struct, frozen=True):
    """Redirect elsewhere; by default to where no caller should let itself be led."""

    to: str = INSIDE
    status: int = 302
    done: bool = False


class Slow(Struct, frozen=True):
    """The right answer, in small pieces with pauses."""

    piece: int = 1
    pause_s: float = 0.05
    done: bool = True


class Endless(Struct, frozen=True):
    """An answer that goes on until the caller has enough, or ``size_max`` bytes."""

    size_max: int = 1024**3
    done: bool = True


class Cut(Struct, frozen=True):
    """The connection ends: before the answer, or after some bytes of its body."""

    after: int = 0
    done: bool = False


class Refusal(Struct, frozen=True):
    """The provider's policy says no. ``spoken``: a chat says so in its answer, with 200."""

    code: str = "content_policy_violation"
    spoken: bool = False
    done: bool = False


Fault = Hang | Status | Nonsense | Page | Redirected | Slow | Endless | Cut | Refusal


def busy(retry_after_s: int | str = 1) -> Status:
    """429 with ``Retry-After``."""
    return Status(429, {"Retry-After": str(retry_after_s)})


class WholeAnswer(Struct, frozen=True):
    """The answer of a provider, before anything befalls it."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = {}

    def sent(self) -> web.Response:
        return web.Response(
            status=self.status,
            body=self.body,
            headers={"Content-Type": self.content_type, **self.headers},
        )

    def reply(self, url: str) -> Reply:
        headers = {"content-type": self.content_type, **self.headers}
        return Reply(self.status, {k.lower(): v for k, v in headers.items()}, self.body, url)


def works(fault: Fault | None) -> bool:
    """The provider does what it was asked to, whatever its caller gets to know of it."""
    return fault is None or fault.done or (isinstance(fault, Cut) and fault.after > 0)


def told_without_socket(fault: Fault | None, answer: WholeAnswer, asked: Exchange) -> Reply:
    """The answer as the way out of a stage would bring it.

    Raises: RetryableFailure, PermanentFailure."""
    place = "/".join(asked.url.split("/")[:3])
    match fault:
        case Hang():
            raise RetryableFailure("NETWORK_TIMEOUT", f"{place} took too long")
        case Cut():
            raise RetryableFailure("NETWORK_ERROR", f"{place}: the connection ended")
        case Endless():
            raise PermanentFailure("DOWNLOAD_TOO_LARGE", f"{place}: the answer has no end")
        case Redirected():
            raise PermanentFailure("DOWNLOAD_REFUSED", f"{place} leads to {fault.to}")
        case Nonsense():
            answer = WholeAnswer(body=fault.text.encode())
        case Page():
            answer = WholeAnswer(body=PAGE, content_type=fault.content_type)
    return answer.reply(asked.url)


async def suffered(
    fault: Fault, request: web.Request, answer: WholeAnswer, stopped: anyio.Event
) -> web.StreamResponse:
    """The answer as its caller gets it: the right one, where the work was done."""
    match fault:
        case Hang():
            await stopped.wait()
            return _gone(request)
        case Nonsense():
            return web.Response(text=fault.text, content_type="application/json")
        case Page():
            return web.Response(body=PAGE, content_type=fault.content_type)
        case Redirected():
            return web.Response(status=fault.status, headers={"Location": fault.to})
        case Slow():
            return await _dripping(fault, request, answer)
        case Endless():
            return await _endless(fault, request, answer)
        case Cut():
            return await _cut(fault, request, answer)
        case Status() | Refusal():
            return answer.sent()


async def _dripping(fault: Slow, request: web.Request, answer: WholeAnswer) -> web.StreamResponse:
    response = await _begun(request, answer, len(answer.body))
    for start in range(0, len(answer.body), fault.piece):
        await response.write(answer.body[start : start + fault.piece])
        await anyio.sleep(fault.pause_s)
    return response


async def _endless(fault: Endless, request: web.Request, answer: WholeAnswer) -> web.StreamResponse:
    response = await _begun(request, answer, None)
    await response.write(answer.body)
    for _ in range(len(answer.body), fault.size_max, PIECE):
        await response.write(bytes(PIECE))
    return response


async def _cut(fault: Cut, request: web.Request, answer: WholeAnswer) -> web.StreamResponse:
    if not fault.after:
        return _gone(request)
    response = await _begun(request, answer, len(answer.body))
    await response.write(answer.body[: fault.after])
    _gone(request)
    return response


def _gone(request: web.Request) -> web.Response:
    """Send what was written, and nothing else ever."""
    if request.transport is not None:
        request.transport.close()
    return web.Response()


async def _begun(
    request: web.Request, answer: WholeAnswer, length: int | None
) -> web.StreamResponse:
    response = web.StreamResponse(
        status=answer.status, headers={"Content-Type": answer.content_type}
    )
    response.content_length = length
    await response.prepare(request)
    return response
