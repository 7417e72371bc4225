"""The running service, asked over HTTP."""

import re
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from cyclopts import CycloptsError

from jobrunner.cli.frame.options import Asking
from jobrunner.cli.frame.system import clock
from jobrunner.config.settings import PUBLIC_URL, Config
from jobrunner.errors import Refused, Unreachable

LOOPBACK_OF = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound
PATIENCE = aiohttp.ClientTimeout(total=90, connect=5)
UNHURRIED = aiohttp.ClientTimeout(total=None, connect=5, sock_read=90)
NOT_MODIFIED = 304
UNKNOWN = "OUTCOME_UNKNOWN"
INSIST_S = (0, 0.2, 1, 5)

Query = Mapping[str, Any] | Iterable[tuple[str, Any]]


class RunningService:
    """One conversation. Every answer that is not a success is raised as what it says."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def get(self, path: str, query: Query = ()) -> Any:
        return await self.ask("GET", path, query=query)

    async def post(self, path: str, body: Any) -> Any:
        return await self.ask("POST", path, body=body)

    async def insist(self, path: str, body: Any, key: str) -> Any:
        """Again under the same key while nobody says whether it was done: between two tries the
        service may stop and start."""
        silence: Exception | None = None
        for wait_s in INSIST_S:
            await clock.sleep(wait_s)
            try:
                return await self.post(path, body)
            except Unreachable as silent:
                silence = silent
            except Refused as refused:
                if refused.code != UNKNOWN:
                    raise
                silence = refused
        text = f"{silence}\nwhether it was done is not known; repeat it with --key {key}"
        raise Unreachable(text) from silence

    async def ask(self, method: str, path: str, *, body: Any = None, query: Query = ()) -> Any:
        return (await self._send(method, path, body, query, {}))[1]

    async def newer(self, path: str, seen: str, wait_s: int) -> tuple[str, Any]:
        """The job as soon as it is no longer what ``seen`` (its ETag) says; None if time is up."""
        headers = {"If-None-Match": seen} if seen else {}
        query = {"wait": wait_s, "progress": "true"} if seen else {}
        return await self._send("GET", path, None, query, headers)

    async def exchange(
        self, method: str, path: str, *, headers: dict[str, str], body: Any = None
    ) -> Mapping[str, str]:
        """A request that says everything in headers, perhaps with a file; so does its answer."""
        try:
            async with self._session.request(
                method, self._url + path, headers=headers, data=body, timeout=UNHURRIED
            ) as response:
                raw = await response.read()
                if response.status >= 400 and not raw:
                    raise Refused(f"HTTP_{response.status}", path, status=response.status)
                _read(response.status, raw if response.status >= 400 else b"")
                return response.headers
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"no answer from {self._url} ({error}); is it running?") from None

    async def download(self, path: str, start: int) -> AsyncIterator[bytes]:
        """Stream the file from this byte on."""
        headers = {"Range": f"bytes={start}-"} if start else {}
        try:
            async with self._session.get(
                self._url + path, headers=headers, timeout=UNHURRIED
            ) as response:
                if response.status >= 400:
                    _read(response.status, await response.read())
                if start and response.status != 206:
                    raise Unreachable(f"{self._url} does not go on where it stood")
                async for block in response.content.iter_any():
                    yield block
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"no answer from {self._url} ({error}); is it running?") from None

    async def _send(
        self, method: str, path: str, body: Any, query: Query, headers: dict[str, str]
    ) -> tuple[str, Any]:
        """The answer's ETag, and what it says."""
        pairs = query.items() if isinstance(query, Mapping) else query
        given = [(name, str(value)) for name, value in pairs if value is not None]
        data = None if body is None else msgspec.json.encode(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        try:
            async with self._session.request(
                method, self._url + path, params=given, data=data, headers=headers | kind
            ) as response:
                found = _read(response.status, await response.read())
                return response.headers.get("ETag", ""), found
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"no answer from {self._url} ({error}); is it running?") from None


@asynccontextmanager
async def service(asking: Asking) -> AsyncIterator[RunningService]:
    config = asking.load()
    url = asking.url or url_of(config)
    if not _is_address(url):
        raise CycloptsError(msg=f'--url {url!r}: must be like "http://127.0.0.1:8080"')
    token = asking.token or _admin_token(config)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(headers=headers, timeout=PATIENCE) as session:
        yield RunningService(session, url.rstrip("/"))


def _is_address(url: str) -> bool:
    try:
        return bool(re.fullmatch(PUBLIC_URL, url)) and urlsplit(url).port != 0
    except ValueError:
        return False


def url_of(config: Config) -> str:
    """Where this machine reaches a service with these settings; where operators do, if they have
    a listener of their own, which has all routes."""
    at = config.server
    host, port = (at.admin_host, at.admin_port) if at.admin_host else (at.host, at.port)
    host = LOOPBACK_OF.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def part(text: str) -> str:
    """One segment of a path, whatever it contains."""
    return quote(text, safe="")


def _admin_token(config: Config) -> str | None:
    path = Path(config.store.path).with_name("admin.token")
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        print(f"{path}: cannot be read ({error}); asking without a token", file=sys.stderr)
        return None


def _read(status: int, data: bytes) -> Any:
    if status == NOT_MODIFIED:
        return None
    try:
        found = msgspec.json.decode(data) if data else {}
    except msgspec.DecodeError:
        raise Unreachable(f"an answer with status {status} that is not JSON: who is it?") from None
    if status < 400:
        return found
    problem = found if isinstance(found, dict) else {}
    detail = problem.get("detail") or problem.get("title") or "no reason given"
    paths = [f"{fault['path']}: {fault['message']}" for fault in problem.get("errors", ())]
    text = "\n  ".join([str(detail), *paths])
    raise Refused(problem.get("error_code", f"HTTP_{status}"), text, status=status)
