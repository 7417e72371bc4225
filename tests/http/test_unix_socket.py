"""The service at a Unix socket beside its port: who may open the file may speak, and is believed
about whom it speaks for where the operator says so."""

import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from jobrunner.config.settings import ServerSection
from jobrunner.errors import Misconfigured
from tests.http.serving import Caller, House, definitions, opened

pytestmark = pytest.mark.anyio

CLIENT = "203.0.113.9"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "http.sock"


@asynccontextmanager
async def listening(folder: Path, place: Path, **more: Any) -> AsyncIterator[House]:
    server = ServerSection(port=0, drain_seconds=1, socket=str(place), **more)
    async with opened(folder, server=server, registry=definitions(names=("howera",))) as house:
        yield house


@asynccontextmanager
async def through(place: Path, house: House, token: str | None) -> AsyncIterator[Caller]:
    """What is asked, and answered, is part of the same document."""
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(place))) as session:
        yield Caller(session, "http://localhost", house.contract, token)


async def test_it_is_the_same_service(tmp_path: Path, place: Path) -> None:
    async with listening(tmp_path, place) as house:
        async with through(place, house, house.ada.token) as ada:
            job = await ada.submit("howera")
            async with ada.session.get(f"http://localhost/jobs/{job['id']}/events") as refused:
                assert refused.status == 401
            assert (await ada.ask("POST", "/assets?name=a.txt", data=b"hi")).status == 201
        assert (await house.ada.get(f"/jobs/{job['id']}")).status == 200


@pytest.mark.parametrize(
    ("given", "mode"), [("owner", 0o600), ("group", 0o660), ("everybody", 0o666)]
)
async def test_whoever_may_open_it(tmp_path: Path, place: Path, given: str, mode: int) -> None:
    async with listening(tmp_path, place, socket_for=given):
        assert stat.S_IMODE(place.lstat().st_mode) == mode


async def address_of(tmp_path: Path, place: Path, *trusted: str) -> str:
    """Of the client whose new token is audited, where the proxy says for whom it asks."""
    async with (
        listening(tmp_path, place, trusted_proxies=trusted) as house,
        through(place, house, house.admin.token) as admin,
    ):
        order = {"name": "bob", "role": "user"}
        headers = {"X-Forwarded-For": f"198.51.100.1, {CLIENT}"}
        assert (await admin.ask("POST", "/admin/tokens", order, headers=headers)).status == 201
        records = (await admin.get("/admin/audit")).json["audit"]
    made = [one for one in records if one["fields"].get("name") == "bob"]
    return str(made[0]["fields"]["address"])


async def test_a_proxy_there_is_believed_where_it_is_trusted(tmp_path: Path, place: Path) -> None:
    """Its last word only: what its client told it is the client's own word."""
    assert await address_of(tmp_path, place, "unix:") == CLIENT


async def test_and_nowhere_else(tmp_path: Path, place: Path) -> None:
    assert await address_of(tmp_path, place, "127.0.0.1", "::1") == "unix:"


async def test_whoever_speaks_at_the_port_is_not_the_socket(tmp_path: Path, place: Path) -> None:
    async with listening(tmp_path, place, trusted_proxies=("unix:",)) as house:
        await house.nobody.ask("GET", "/jobs", headers={"X-Forwarded-For": CLIENT})
        refused = [line for line in house.logged if line["event"] == "http.refused"]
    assert [line["address"] for line in refused] == ["127.0.0.1"]


async def test_the_figures_need_a_token_there(tmp_path: Path, place: Path) -> None:
    """Who speaks there speaks for somebody, and some proxies do not say so."""
    async with listening(tmp_path, place) as house:
        async with through(place, house, None) as nobody:
            assert (await nobody.get("/metrics")).status == 401
            assert (await nobody.get("/healthz")).status == 200
        async with through(place, house, house.admin.token) as admin:
            assert (await admin.get("/metrics")).status == 200


async def test_what_is_for_operators_stays_with_them(tmp_path: Path, place: Path) -> None:
    more = {"admin_host": "127.0.0.1", "admin_port": 0}
    async with (
        listening(tmp_path, place, **more) as house,
        through(place, house, house.admin.token) as admin,
    ):
        admin.contract = None
        assert (await admin.get("/admin/tokens")).status == 404
        assert (await admin.get("/jobs")).status == 200


async def test_what_a_dead_process_left_is_replaced(tmp_path: Path, place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place))
    async with listening(tmp_path, place) as house, through(place, house, None) as nobody:
        assert (await nobody.get("/healthz")).status == 200
    assert not os.path.lexists(place)


async def test_whoever_answers_there_keeps_it(tmp_path: Path, place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(place))
        living.listen()
        with pytest.raises(Misconfigured, match="somebody answers there"):
            async with listening(tmp_path, place):
                raise AssertionError("it took the socket of another program")
        assert stat.S_ISSOCK(place.lstat().st_mode)


async def test_a_file_that_is_no_socket_is_not_touched(tmp_path: Path, place: Path) -> None:
    place.write_text("precious")
    with pytest.raises(Misconfigured, match=r"server\.socket = .* no socket"):
        async with listening(tmp_path, place):
            raise AssertionError("it replaced a file")
    assert place.read_text() == "precious"


@pytest.mark.parametrize("path", ["missing/http.sock", "x" * 200])
async def test_a_place_that_cannot_be_is_named(tmp_path: Path, path: str) -> None:
    with pytest.raises(Misconfigured, match=r"server\.socket = .* cannot be listened on"):
        async with listening(tmp_path, tmp_path / path):
            raise AssertionError("it listens nowhere")


async def test_it_does_not_remove_what_has_taken_its_place(tmp_path: Path, place: Path) -> None:
    async with listening(tmp_path, place):
        place.unlink()
        place.write_text("another one's")
    assert place.read_text() == "another one's"
