"""The running service, asked over HTTP."""

import re
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from cyclopts import CycloptsError

from jobrunner.cli.frame.options import Asking
from jobrunner.client import AsyncClient, RetryLimits
from jobrunner.client.talk import ONCE
from jobrunner.client.talks import asking
from jobrunner.client.talks.asking import value_in
from jobrunner.config.settings import PUBLIC_URL, Config
from jobrunner.errors import Refused, Unreachable

LOOPBACK_OF = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - not bound
PATIENCE_S = 90
NOT_MODIFIED = 304
UNKNOWN = "OUTCOME_UNKNOWN"
INSIST = RetryLimits(tries=4, first_s=0.7)

Query = Mapping[str, Any] | Iterable[tuple[str, Any]]


class RunningService:
    """One conversation. Every answer that is not a success is raised as what it says. Nothing is
    asked twice by itself: whoever typed it can do so again."""

    def __init__(self, client: AsyncClient) -> None:
        self.client = client

    async def get(self, path: str, query: Query = ()) -> Any:
        return await self.ask("GET", path, query=query)

    async def post(self, path: str, body: Any) -> Any:
        return await self.ask("POST", path, body=body)

    async def insist(self, path: str, body: Any, key: str) -> Any:
        """Again under the same key while nobody says whether it was done: between two tries the
        service may stop and start."""
        asked = asking.ask("POST", path, body=body, repeatable=True)
        try:
            return value_in(await self.client.hold(asked, INSIST))
        except (Refused, Unreachable) as silence:
            if isinstance(silence, Refused) and silence.code != UNKNOWN:
                raise
            text = f"{silence}\nwhether it was done is not known; repeat it with --key {key}"
            raise Unreachable(text) from silence

    async def ask(self, method: str, path: str, *, body: Any = None, query: Query = ()) -> Any:
        answer = await self.client.ask(method, path, body=body, query=list(_pairs(query)))
        return value_in(answer) if answer.body else {}

    async def newer(self, path: str, seen: str, wait_s: int) -> tuple[str, Any]:
        """The job as soon as it is no longer what ``seen`` (its ETag) says; None if time is up."""
        headers = {"If-None-Match": seen} if seen else {}
        query = {"wait": wait_s, "progress": "true"} if seen else {}
        answer = await self.client.ask("GET", path, query=query, headers=headers, wait_s=wait_s)
        found = None if answer.status == NOT_MODIFIED else value_in(answer)
        return answer.headers.get("etag", ""), found


def _pairs(query: Query) -> Iterable[tuple[str, Any]]:
    return query.items() if isinstance(query, Mapping) else query


@asynccontextmanager
async def service(typed: Asking) -> AsyncIterator[RunningService]:
    config = typed.load()
    url = typed.url or url_of(config)
    if not _is_address(url):
        raise CycloptsError(msg=f'--url {url!r}: must be like "http://127.0.0.1:8080"')
    token = typed.token or _admin_token(config)
    async with AsyncClient(url, token, limits=ONCE, timeout_s=PATIENCE_S) as client:
        yield RunningService(client)


def _is_address(url: str) -> bool:
    try:
        return bool(re.fullmatch(PUBLIC_URL, url)) and urlsplit(url).port != 0
    except ValueError:
        return False


def url_of(config: Config) -> str:
    """Return where this machine reaches a service with these settings: the operators' listener
    where there is one, since it has all routes."""
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
