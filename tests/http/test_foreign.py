"""Two users, every route of the table, every verb: no byte of one is ever told to the other, and
nothing of hers changes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from jobrunner.http.routes.plugins import endpoints_of
from jobrunner.http.routes.table import CORE
from tests.http.serving import Caller, House, definitions, opened

pytestmark = pytest.mark.anyio

CANARY = "canary-7f3a"
NAMES = ("asset_pattern", "cutx", "howera", "image_generation")
VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REGISTRY = definitions(names=NAMES)
LOADED = [one for one in map(REGISTRY.current, REGISTRY.names()) if one is not None]
TABLE = {endpoint.path: endpoint for endpoint in (*CORE, *endpoints_of(LOADED))}
STREAM_S = 0.3
BODIES: tuple[Any, ...] = (
    None,
    {},
    {"to": "CANCELLED"},
    {"value": "mine"},
    {"event_id": "e", "status": "CANCELLED", "occurred_at": "2026-01-01T00:00:00Z"},
)


class Hers:
    """Everything of ada, full of canaries."""

    def __init__(self, house: House) -> None:
        self._house = house
        self.jobs: list[str] = []
        self.assets: list[str] = []

    async def make(self) -> None:
        ada, worker = self._house.ada, self._house.worker
        wishes: dict[str, Any] = {
            "labels": {CANARY: CANARY},
            "idempotency_key": CANARY,
        }
        job = await ada.submit("howera", **wishes)
        event: dict[str, Any] = {
            "event_id": CANARY,
            "status": "UPLOADED",
            "occurred_at": "2026-01-01T00:00:00Z",
        }
        event |= {"artifact_updates": {"video_uri": f"file:{CANARY}"}}
        event |= {"assets": [{"asset_type": "video", "url": f"https://{CANARY}.example/v"}]}
        said = await worker.post(f"/internal/jobs/{job['id']}/status", event)
        assert said.status == 204, said.raw
        scraped = await ada.submit(
            "cutx", job_type="scrape", params={"url": f"https://{CANARY}.example/"}, **wishes
        )
        self.jobs = [job["id"], scraped["id"]]
        found = (await ada.get("/assets")).json["assets"]
        self.assets = [one["id"] for one in found]
        assert self.assets

    async def seen(self) -> list[bytes]:
        """All that she can see of it."""
        paths = [f"/jobs/{job}{what}" for job in self.jobs for what in ("", "/history", "/assets")]
        paths += ["/jobs", "/assets", "/credits", "/credits/history"]
        return [(await self._house.ada.get(path)).raw for path in paths]


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("foreign")
    async with opened(folder, registry=definitions(names=NAMES)) as house:
        for caller in (house.eve, house.nobody):
            caller.contract = None
        yield house


@pytest.fixture(scope="module")
async def hers(house: House) -> Hers:
    found = Hers(house)
    await found.make()
    return found


def addresses(path: str, hers: Hers) -> list[str]:
    """This route, aimed at everything of hers."""
    if "{" not in path:
        asked = ("", "?user_id=ada", "?limit=100", f"?label={CANARY}:{CANARY}", "?last_event_id=0")
        return [path + one for one in asked]
    whose = [*hers.jobs, *hers.assets, "ada", CANARY]
    fill = {"name": "video_uri", "command": "cancel", "user": "ada", "source": CANARY}
    found = []
    for one in whose:
        address = path.replace("{id}", quote(one))
        for name, value in fill.items():
            address = address.replace(f"{{{name}}}", value)
        while "{" in address:
            start, _, rest = address.partition("{")
            address = start + one + rest.partition("}")[2]
        found.append(address)
    return list(dict.fromkeys(found))


async def answer(caller: Caller, verb: str, path: str, body: Any) -> tuple[int, bytes]:
    """What comes back within a moment: a stream has no end."""
    headers = {"Authorization": f"Bearer {caller.token}"} if caller.token else {}
    told = b""
    async with caller.session.request(
        verb, caller.url + path, json=body, headers=headers, allow_redirects=False
    ) as response:
        told += "\n".join(f"{name}: {value}" for name, value in response.headers.items()).encode()
        with anyio.move_on_after(STREAM_S if "event-stream" in told.decode() else 20):
            async for piece in response.content.iter_any():
                told += piece
        return response.status, told


@pytest.mark.parametrize("path", TABLE)
async def test_no_foreign_byte(house: House, hers: Hers, path: str) -> None:
    """R5: whoever asks, whatever the verb and the body. What she named herself in the request may
    be repeated to her."""
    before = await hers.seen()
    for address in addresses(path, hers):
        asked = address.encode()
        for verb in VERBS:
            for body in BODIES if verb in ("POST", "PUT", "PATCH") else (None,):
                for caller in (house.eve, house.nobody):
                    status, told = await answer(caller, verb, address, body)
                    assert status < 500, (verb, address, told)
                    where = f"{verb} {address} {body}: {told[:600]!r}"
                    assert CANARY.encode() in asked or CANARY.encode() not in told, where
                    assert b'"ada"' not in told, where
                    for one in (*hers.jobs, *hers.assets):
                        assert one.encode() in asked or one.encode() not in told, where
    assert await hers.seen() == before
