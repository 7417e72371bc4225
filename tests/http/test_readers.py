"""Tokens of role reader: they read whatever an admin reads, and nothing that they send changes
anything, on any route."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from jobrunner.http.frame.endpoint import ADMINS, ANYBODY, Endpoint
from jobrunner.http.routes.plugins import endpoints_of
from jobrunner.http.routes.table import CORE
from tests.http.serving import Caller, House, definitions, opened
from tests.store.factory import raw

pytestmark = pytest.mark.anyio

REGISTRY = definitions()
LOADED = [one for one in map(REGISTRY.current, REGISTRY.names()) if one is not None]
TABLE = [*CORE, *endpoints_of(LOADED)]
ACTING = [one for one in TABLE if one.method != "GET" and one.roles is not None]
FLUSH = re.compile(
    rb'"(?:flush_ms|lag_ms|free_bytes|wal_bytes|writes_waiting)":[0-9.]+|^\{"at":"[^"]*"'
)  # measured anew for everybody who asks
READING = [one for one in TABLE if one.method == "GET" and one.roles in (ANYBODY, ADMINS)]
STREAM_S = 0.3
# What differs between two who ask, and between two moments at which one asks.
PASSING = re.compile(rb'"allowed":\{[^}]*\}|"correlation_id":"[^"]*"|"user_id":"(root|auditor)"')
BODIES: tuple[Any, ...] = (None, {}, {"to": "CANCELLED"}, {"workflow": "howera"})


def named(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


@pytest.fixture(scope="module")
async def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readers")


@pytest.fixture(scope="module")
async def house(folder: Path) -> AsyncIterator[House]:
    async with opened(folder, registry=definitions()) as house:
        yield house


async def bearer(house: House, name: str) -> Caller:
    made = await house.admin.post("/admin/tokens", {"name": name, "role": "reader"})
    assert made.status == 201, made.raw
    return house.caller(made.json["token"])


@pytest.fixture(scope="module")
async def readers(house: House) -> list[Caller]:
    """One has the name of nobody else, one that of an owner of jobs."""
    return [await bearer(house, "auditor"), await bearer(house, "ada")]


@pytest.fixture(scope="module")
async def fill(house: House) -> dict[str, str]:
    """Names for the blanks of every path, of things that are there."""
    job = await house.ada.submit("howera", labels={"kept": "yes"})
    event: dict[str, Any] = {
        "event_id": "e1",
        "status": "UPLOADED",
        "occurred_at": "2026-01-01T00:00:00Z",
    }
    event |= {"artifact_updates": {"video_uri": "file:v"}}
    event |= {"assets": [{"asset_type": "video", "url": "https://films.invalid/v"}]}
    path = f"/internal/jobs/{job['id']}/status"
    assert (await house.worker.post(path, event)).status == 204
    tokens = (await house.admin.get("/admin/tokens")).json["tokens"]
    found = {"name": "video_uri", "command": "cancel", "user": "ada", "source": "replicate"}
    found |= {"key": "active_jobs"}
    return found | {
        "id": job["id"],
        "delivery": job["id"],
        "part": "docs.js",
        "token": tokens[0]["id"],
    }


def addressed(endpoint: Endpoint, fill: dict[str, str]) -> str:
    path = endpoint.path
    if "/tokens/" in path:
        path = path.replace("{id}", fill["token"])
    if path.startswith(("/workflows/", "/admin/workflows/")):
        path = path.replace("{name}", "howera")
    for name, value in fill.items():
        path = path.replace(f"{{{name}}}", quote(value))
    assert "{" not in path, path
    return path


def stored(folder: Path) -> list[str]:
    """Everything in the file, row by row, but for what the service counts by the clock."""
    with raw(folder) as db:
        return [line for line in db.iterdump() if not line.startswith('INSERT INTO "charts"')]


@pytest.mark.parametrize("endpoint", ACTING, ids=named)
async def test_a_reader_changes_nothing(
    house: House, folder: Path, readers: list[Caller], fill: dict[str, str], endpoint: Endpoint
) -> None:
    """403 whatever the body, before it is looked at; also of a reader who is called like the owner
    of the job."""
    before = stored(folder)
    for reader in readers:
        for body in BODIES:
            said = await reader.ask(endpoint.method, addressed(endpoint, fill), body)
            assert (said.status, said.code) == (403, "FORBIDDEN"), said.raw
    assert stored(folder) == before


async def read(caller: Caller, path: str) -> tuple[int, bytes]:
    """A stream has no end, so of it what comes within a moment."""
    headers = {"Authorization": f"Bearer {caller.token}"}
    told = b""
    async with caller.session.get(caller.url + path, headers=headers) as response:
        streams = "event-stream" in response.headers.get("Content-Type", "")
        with anyio.move_on_after(STREAM_S if streams else 20):
            async for piece in response.content.iter_any():
                told += piece
        return response.status, b"" if streams else PASSING.sub(b"", told)


@pytest.mark.parametrize("endpoint", READING, ids=named)
async def test_a_reader_reads_what_an_admin_reads(
    house: House, folder: Path, readers: list[Caller], fill: dict[str, str], endpoint: Endpoint
) -> None:
    before = stored(folder)
    path = addressed(endpoint, fill)
    path += "?user_id=ada" if path.startswith("/credits") else ""
    seen = await read(house.admin, path)
    for reader in readers:
        found = await read(reader, path)
        assert found[0] == seen[0], found
        if endpoint.path != "/metrics":
            assert FLUSH.sub(b"", found[1]) == FLUSH.sub(b"", seen[1])
    assert stored(folder) == before


async def test_it_is_told_of_nothing_that_it_may_do(
    readers: list[Caller], fill: dict[str, str]
) -> None:
    for reader in readers:
        job = (await reader.get(f"/jobs/{fill['id']}")).json
        assert job["allowed"] == {"statuses": [], "commands": []}


async def test_secrets_are_not_for_readers(readers: list[Caller]) -> None:
    """With one it could sign, in the name of an owner who is called like it."""
    for reader in readers:
        assert (await reader.get("/notifications/secret")).status == 403


async def test_looking_at_an_upload_does_not_finish_it(
    house: House, folder: Path, readers: list[Caller]
) -> None:
    """All bytes are there, and the service died before they were an asset: whoever sends it and
    asks how far it is, finishes it."""
    tus = {"Tus-Resumable": "1.0.0", "Upload-Length": "4"}
    made = await house.ada.ask("POST", "/uploads", headers=tus)
    place = made.headers["Location"]
    (folder / "assets" / ".incoming" / f"{place.rpartition('/')[2]}.part").write_bytes(b"film")
    for reader in readers:
        seen = (await reader.get(place)).json
        assert (seen["offset"], seen["asset_id"]) == (4, None)
    assert (await house.ada.get(place)).json["asset_id"] is not None
