"""Large answers are packed for who takes them so, unless they carry an ETag, and streams never."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import make_mocked_request

from jobrunner.config.settings import ServerSection
from jobrunner.http.frame.endpoint import HttpReply
from jobrunner.http.frame.packing import AT_ONCE, Packing, takes
from tests.http.serving import House, Said, definitions, opened

pytestmark = pytest.mark.anyio

SIZE = 2000


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    server = ServerSection(port=0, drain_seconds=1, gzip=SIZE)
    folder, registry = tmp_path_factory.mktemp("packed"), definitions(names=("howera",))
    async with opened(folder, server=server, registry=registry) as house:
        for number in range(20):
            await house.ada.submit("howera", labels={"number": str(number)})
        yield house


async def heard(house: House, path: str, accepts: str | None = "gzip", method: str = "GET") -> Said:
    """As it came over the wire."""
    headers = {"Authorization": f"Bearer {house.ada.token}"}
    headers |= {} if accepts is None else {"Accept-Encoding": accepts}
    skip = ["Accept-Encoding"] if accepts is None else []
    async with (
        ClientSession(auto_decompress=False, skip_auto_headers=skip) as session,
        session.request(method, house.service.url + path, headers=headers) as response,
    ):
        return Said(response.status, response.headers, await response.read())


def is_packed(said: Said) -> bool:
    return bool(said.headers.get("Content-Encoding") == "gzip")


async def test_a_large_answer_is_packed(house: House) -> None:
    plain, packed = await heard(house, "/jobs", None), await heard(house, "/jobs")
    assert len(plain.raw) >= SIZE
    assert not is_packed(plain)
    assert is_packed(packed)
    assert gzip.decompress(packed.raw) == plain.raw
    assert int(packed.headers["Content-Length"]) == len(packed.raw) < len(plain.raw) / 4
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert packed.headers["Content-Type"] == plain.headers["Content-Type"]


@pytest.mark.parametrize("path", ["/jobs?limit=1", "/credits", "/jobs/nobody", "/healthz"])
async def test_a_small_one_is_not(house: House, path: str) -> None:
    said = await heard(house, path)
    assert not is_packed(said)
    assert "Vary" not in said.headers


@pytest.mark.parametrize("path", ["/openapi.json", "/workflows/howera"])
async def test_whatever_it_is(house: House, path: str) -> None:
    assert is_packed(await heard(house, path))


async def test_a_jobs_tag_names_its_bytes(house: House) -> None:
    """However large the job is; and so does the tag of a page's part."""
    reason = {"artifact_updates": {"video_uri": "file:" + "v" * 3 * SIZE}, "to": "UPLOADED"}
    job = await house.ada.submit("howera")
    moved = await house.worker.post(f"/jobs/{job['id']}/transitions", reason)
    assert moved.status == 200, moved.raw
    said = await heard(house, f"/jobs/{job['id']}")
    assert "ETag" in said.headers
    assert not is_packed(said)
    said = await heard(house, "/docs/swagger-ui.css")
    assert len(said.raw) > SIZE
    assert not is_packed(said)


async def test_a_stream_is_never_packed(house: House) -> None:
    job = (await house.ada.get("/jobs?limit=1")).json["jobs"][0]
    headers = {"Authorization": f"Bearer {house.ada.token}", "Accept-Encoding": "gzip"}
    url = f"{house.service.url}/jobs/{job['id']}/events"
    async with house.session.get(url, headers=headers) as response:
        assert "Content-Encoding" not in response.headers
        with anyio.fail_after(120):
            assert (await response.content.readline()).startswith(b"retry:")


async def test_what_changes_something_is_answered_plainly(house: House) -> None:
    headers = {"Accept-Encoding": "gzip"}
    order = {"command": "cancel", "filter": {"workflow": "howera"}, "dry_run": True}
    said = await house.admin.ask("POST", "/admin/bulk", order, headers=headers)
    assert len(said.raw) > SIZE
    assert "Content-Encoding" not in said.headers


async def test_head_says_nothing_of_it(house: House) -> None:
    assert not is_packed(await heard(house, "/jobs", method="HEAD"))


async def test_while_enough_are_packed_the_next_leave_as_they_are() -> None:
    packing = Packing(10)
    request = make_mocked_request("GET", "/jobs", {"Accept-Encoding": "gzip"})
    others = [object() for _ in range(AT_ONCE)]
    for other in others:
        packing.places.acquire_on_behalf_of_nowait(other)
    reply = HttpReply(body=b"x" * 100)
    with anyio.fail_after(120):
        busy = await packing.pack(request, reply)
        packing.places.release_on_behalf_of(others[0])
        later = await packing.pack(request, reply)
    assert "Content-Encoding" not in busy.headers
    assert busy.body == b"x" * 100
    assert later.headers["Content-Encoding"] == "gzip"


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    server = ServerSection(port=0, drain_seconds=1, gzip=0)
    async with opened(tmp_path, server=server, registry=definitions(names=("howera",))) as house:
        said = await heard(house, "/openapi.json")
        assert not is_packed(said)
        assert "Vary" not in said.headers


@pytest.mark.parametrize(
    ("accepted", "is_taken"),
    [
        ("gzip", True), ("GZIP", True), ("deflate, gzip;q=0.5, br", True), ("*", True),
        ("gzip ; q=1.0", True), ("br;q=1, gzip;q=0", False), ("*;q=0", False), ("", False),
        ("identity", False), ("*, gzip;q=0", False), ("gzip;q=0.000", False),
        ("gzip;q=nonsense", False), ("xgzip", False), ("gzip;q=-1", False), ("gzip;q=nan", False),
    ],
)  # fmt: skip
def test_who_takes_it(accepted: str, *, is_taken: bool) -> None:
    assert takes(accepted) is is_taken
