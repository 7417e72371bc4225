"""Sending a notification: one POST through the guard, without redirects, its answer hardly read.

The status line decides. Of a refusal's body a line is kept for whoever looks at the log; of a
success nothing is read at all, so that an endpoint that never ends its answer costs nothing.
"""

import aiohttp
from yarl import URL

from jobrunner.core.features.notifications import Post, TryAnswer
from jobrunner.errors import PermanentFailure, RetryableFailure
from jobrunner.outgoing.calls import Patience
from jobrunner.outgoing.exchange import OutgoingGate, OutgoingRequest, headers_of
from jobrunner.outgoing.rules import Rules, judge, judge_url, origin_of, parsed
from jobrunner.providers.responses import retry_after_s

PATIENCE = Patience(connect_s=5, idle_s=15, total_s=15)
BODY_READ = 1024
EXCERPT_MAX = 300
KIND = {"Content-Type": "application/json"}
LOCAL = ("localhost", ".localhost", ".local", ".internal", ".home.arpa")


async def tell(gate: OutgoingGate, post: Post, patience: Patience = PATIENCE) -> TryAnswer:
    """Send it and return the answer. Never raises for what an endpoint does."""
    headers = {**post.headers, **KIND}
    call = OutgoingRequest("POST", post.url, headers, post.body, redirects=0, patience=patience)
    try:
        origins = {origin_of(URL(post.url))} if post.trusted else ()
        async with gate.answered(call, origins) as answer:
            return await _heard(answer)
    except PermanentFailure as refused:
        return TryAnswer(error=refused.detail, hopeless=True)
    except RetryableFailure as failed:
        return TryAnswer(error=failed.detail)


def misfit_url(text: str, rules: Rules) -> str | None:
    """Why a client may not be told there, as far as the URL itself says; None when it may.

    Plain HTTP is for addresses that the operator opened by number: everywhere else the body and
    its signature would travel for all to see."""
    try:
        url = URL(text)
        port = url.port
    except ValueError as error:
        return f"this is no URL: {error}"
    if reason := judge_url(url, rules):
        return reason
    if url.fragment:
        return "it has a fragment, which is never sent"
    host = (url.raw_host or "").lower().rstrip(".")
    place = parsed(host)
    opened = place is not None and (place, port) in rules.private
    if place is not None and not opened:
        return judge(host, port or 0, rules) or _weak(url)
    if host.endswith(LOCAL) or host in LOCAL:
        return f"{host!r} is a name inside this house"
    if not opened and port not in (80, 443):
        return f"port {port} is not 443"
    return None if opened else _weak(url)


def _weak(url: URL) -> str | None:
    return None if url.scheme == "https" else f"scheme {url.scheme!r}: it must be https"


async def _heard(answer: aiohttp.ClientResponse) -> TryAnswer:
    status = answer.status
    if 200 <= status < 300:
        return TryAnswer(status)
    wait_s = retry_after_s(headers_of(answer))
    if 300 <= status < 400:
        return TryAnswer(status, f"answered {status}: redirects are not followed", wait_s)
    return TryAnswer(status, f"answered {status}{await _excerpt(answer)}", wait_s)


async def _excerpt(answer: aiohttp.ClientResponse) -> str:
    """A stranger's words, short and on one line; none where they do not come."""
    try:
        data = await answer.content.read(BODY_READ)
    except (aiohttp.ClientError, ConnectionError, TimeoutError):
        return ""
    text = " ".join(data.decode(errors="replace").split())[:EXCERPT_MAX]
    shown = "".join(letter for letter in text if letter.isprintable())
    return f": {shown}" if shown else ""
