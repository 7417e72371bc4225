"""The running service, asked over HTTP."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from jobrunner.cli.options import Asking
from jobrunner.config import Config
from jobrunner.errors import Refused, Unreachable

LOOPBACK_OF = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound
PATIENCE = aiohttp.ClientTimeout(total=90, connect=5)


class Service:
    """One conversation. Every answer that is not a success is raised as what it says."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        return await self.ask("GET", path, query=query)

    async def post(self, path: str, body: Any) -> Any:
        return await self.ask("POST", path, body=body)

    async def ask(
        self, method: str, path: str, *, body: Any = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with self._session.request(
                method, self._url + path, params=given, data=data, headers=headers
            ) as response:
                return _read(response.status, await response.read())
        except (aiohttp.ClientConnectionError, TimeoutError) as error:
            raise Unreachable(f"no answer from {self._url} ({error}); is it running?") from None


@asynccontextmanager
async def service(asking: Asking) -> AsyncIterator[Service]:
    config = asking.load()
    token = asking.token or _admin_token(config)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(headers=headers, timeout=PATIENCE) as session:
        yield Service(session, asking.url or url_of(config))


def url_of(config: Config) -> str:
    """Where this machine reaches a service with these settings."""
    host = LOOPBACK_OF.get(config.server.host, config.server.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{config.server.port}"


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
