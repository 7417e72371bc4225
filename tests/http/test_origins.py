"""Where a request comes from: which client, to which of our names, out of which page."""

from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from jobrunner.config.settings import LimitsSection, ServerSection
from jobrunner.http.frame.origins import client_of, is_direct, is_this_machine
from tests.http.serving import Caller, House, definitions, opened

pytestmark = pytest.mark.anyio

PUBLIC = "https://jobs.example.com:8443/runner"
STRANGER = {"Host": "attacker.example"}
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    """Everybody is the admin here."""
    server = ServerSection(port=0, drain_seconds=1, public_url=PUBLIC)
    folder, registry = tmp_path_factory.mktemp("open"), definitions(names=("howera",))
    async with opened(folder, mode="none", server=server, registry=registry) as house:
        yield house


ASKED: list[tuple[str, str, Any]] = [
    ("GET", "/jobs", None),
    ("POST", "/jobs", {"workflow": "howera"}),
    ("POST", "/admin/tokens", {"name": "eve", "role": "admin"}),
    ("POST", "/admin/credits/local/grant", {"amount": 5, "reason": "why not"}),
    ("GET", "/events", None),
    ("GET", "/jobs/nobody/events", None),
    ("POST", "/assets", None),
    ("POST", "/uploads", None),
    ("OPTIONS", "/uploads", None),
    ("PUT", "/jobs/nobody/upload", None),
    ("POST", "/webhooks/replicate", {}),
    ("GET", "/metrics", None),
    ("GET", "/openapi.json", None),
    ("GET", "/healthz", None),
    ("GET", "/docs", None),
    ("GET", "/docs/docs.js", None),
]


async def refused(house: House, headers: dict[str, str]) -> None:
    """Whatever is asked like this, it is 403 and has no effect."""
    for method, path, body in ASKED:
        said = await house.nobody.ask(method, path, body, headers=headers)
        assert (said.status, said.code) == (403, "FORBIDDEN"), (method, path, said.raw)
        assert "auth.mode is 'none'" in said.json["detail"]
    assert (await house.nobody.get("/admin/tokens")).json["tokens"] == []
    assert (await house.nobody.get("/jobs")).json["jobs"] == []
    assert (await house.nobody.get("/assets")).json["assets"] == []


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example", "attacker.example:8080", "127.0.0.1.attacker.example", "192.0.2.7",
        "localhost.attacker.example", "127.0.0.1@attacker.example", "attacker.example#127.0.0.1",
        "0.0.0.0", "[::]", "xlocalhost", "jobs.example.com.attacker.example", "example.com",
    ],
)  # fmt: skip
async def test_a_name_that_is_not_ours_is_refused(house: House, host: str) -> None:
    """A name of somebody else's that leads to this machine makes nobody an admin."""
    await refused(house, {"Host": host})


async def test_what_is_no_name_is_not_ours_where_we_have_none(tmp_path: Path) -> None:
    async with opened(tmp_path, mode="none", registry=definitions(names=("howera",))) as house:
        for host in ("localhost@attacker.example", "a b", "[::1", "a:123456", ""):
            said = await house.nobody.ask("GET", "/jobs", None, headers={"Host": host})
            assert (said.status, said.code) == (403, "FORBIDDEN"), host


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LOCALHOST:1", "localhost.", "jobs.localhost:80", "127.0.0.1", "127.9.9.9:9",
        "[::1]", "[::1]:8080", "jobs.example.com", "Jobs.Example.com:8443", "jobs.example.com:1",
    ],
)  # fmt: skip
async def test_our_own_names_are_fine(house: House, host: str) -> None:
    said = await house.nobody.ask("GET", "/admin/tokens", headers={"Host": host})
    assert said.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://attacker.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://localhost:1"},
        {"Origin": "file://127.0.0.1"},
        {"Origin": "chrome-extension://abcdef"},
        {"Origin": "http://jobs.example.com:8443"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Origin": "http://attacker.example", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
async def test_pages_of_elsewhere_may_ask_nothing(house: House, headers: dict[str, str]) -> None:
    await refused(house, headers)


async def test_our_own_page_may_ask(house: House) -> None:
    """From the address that is asked, or from where others reach us."""
    here = house.service.url
    for origin in (here, here.upper(), "https://jobs.example.com:8443"):
        headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
        said = await house.nobody.ask("GET", "/jobs", headers=headers)
        assert said.status == 200, origin
    typed = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
    assert (await house.nobody.ask("GET", "/jobs", headers=typed)).status == 200


async def test_a_link_from_anywhere_leads_to_a_page_and_to_nothing_else(house: House) -> None:
    asked = [(method, path, body) for method, path, body in ASKED if path != "/docs"]
    for method, path, body in asked:
        said = await house.nobody.ask(method, path, body, headers=NAVIGATION)
        assert (said.status, said.code) == (403, "FORBIDDEN"), (method, path)
    assert (await house.nobody.ask("GET", "/docs", headers=NAVIGATION)).status == 200
    assert (await house.nobody.ask("HEAD", "/docs", headers=NAVIGATION)).status == 403
    strange = NAVIGATION | STRANGER
    assert (await house.nobody.ask("GET", "/docs", headers=strange)).status == 403


async def test_the_listener_of_operators_is_as_careful(tmp_path: Path) -> None:
    apart = ServerSection(port=0, drain_seconds=1, admin_host="127.0.0.1", admin_port=0)
    async with opened(tmp_path, mode="none", server=apart) as house:
        inside = Caller(house.session, house.service.admin_url, house.contract)
        assert (await inside.get("/admin/tokens")).status == 200
        for headers in (STRANGER, {"Origin": house.service.url}, {"Sec-Fetch-Site": "cross-site"}):
            said = await inside.ask("POST", "/admin/tokens", {"name": "e"}, headers=headers)
            assert (said.status, said.code) == (403, "FORBIDDEN")


async def test_where_tokens_are_asked_for_the_name_does_not_matter(tmp_path: Path) -> None:
    """A browser adds no token by itself; a proxy may have any name."""
    async with opened(tmp_path, registry=definitions(names=("howera",))) as house:
        for headers in (STRANGER, {"Origin": "https://a.example"}, NAVIGATION):
            assert (await house.ada.ask("GET", "/jobs", headers=headers)).status == 200


# ---------------------------------------------------------------- figures without a token


@pytest.mark.parametrize(
    "headers",
    [
        STRANGER, {"Host": "192.0.2.7:8080"}, {"X-Forwarded-Proto": "https"},
        {"Forwarded": "for=a"}, {"X-Forwarded-For": "127.0.0.1"},
        {"CF-Connecting-IP": "127.0.0.1"}, {"Via": "1.1 a"},
        {"X-Real-IP": "127.0.0.1"}, {"True-Client-IP": "127.0.0.1"}, {"X-Original-URL": "/"},
    ],
    ids=str,
)  # fmt: skip
async def test_behind_a_proxy_the_figures_need_a_token(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with opened(tmp_path, registry=definitions(names=("howera",))) as house:
        said = await house.nobody.ask("GET", "/metrics", headers=headers)
        assert (said.status, said.code) == (401, "UNAUTHORIZED")
        assert (await house.admin.ask("GET", "/metrics", headers=headers)).status == 200
        assert (await house.nobody.get("/metrics")).status == 200


def test_whose_name_is_this_machines() -> None:
    assert is_this_machine("localhost:80")
    assert is_this_machine("[::ffff:127.0.0.1]")
    assert not is_this_machine("")
    assert not is_this_machine("[localhost]:")
    assert is_direct({"Host": "localhost"})
    assert not is_direct({})
    assert not is_direct({"Host": "localhost", "x-forwarded-port": "1"})


# ---------------------------------------------------------------- clients behind proxies


def seen(remote: str, *said: str, trusted: tuple[str, ...] = ("10.0.0.0/8", "::1")) -> str:
    headers = CIMultiDict([("X-Forwarded-For", one) for one in said])
    request = make_mocked_request("GET", "/", headers=headers).clone(remote=remote)
    return client_of(request, tuple(ip_network(one) for one in trusted))


@pytest.mark.parametrize(
    ("remote", "said", "client"),
    [
        ("192.0.2.1", ("198.51.100.7",), "192.0.2.1"),
        ("10.0.0.1", ("198.51.100.7",), "198.51.100.7"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("198.51.100.7, 10.9.9.9",), "198.51.100.7"),
        ("10.0.0.1", ("203.0.113.9, 198.51.100.7, 10.9.9.9",), "198.51.100.7"),
        ("10.0.0.1", ("203.0.113.9", "198.51.100.7", "10.9.9.9"), "198.51.100.7"),
        ("10.0.0.1", ("198.51.100.7, unknown",), "10.0.0.1"),
        ("10.0.0.1", ("198.51.100.7, , 10.9.9.9",), "10.9.9.9"),
        ("10.0.0.1", ("198.51.100.7:4711",), "198.51.100.7"),
        ("10.0.0.1", ("[2001:db8::7]:4711",), "2001:db8::7"),
        ("::1", ("2001:db8::7",), "2001:db8::7"),
        ("::ffff:10.0.0.1", ("198.51.100.7",), "198.51.100.7"),
        ("10.0.0.1", ("10.1.1.1, 10.2.2.2",), "10.1.1.1"),
        ("10.0.0.1", ("198.51.100.7" + ", 10.1.1.1" * 5000,), "10.1.1.1"),
        ("", ("198.51.100.7",), "unix:"),
    ],
)
def test_whom_a_trusted_proxy_asks_for(remote: str, said: tuple[str, ...], client: str) -> None:
    """The last one that no trusted proxy has: what stands before it anybody can write."""
    assert seen(remote, *said) == client


def test_nobody_is_believed_where_nobody_is_trusted() -> None:
    assert seen("127.0.0.1", "198.51.100.7", trusted=()) == "127.0.0.1"


async def test_guesses_are_charged_to_who_makes_them(tmp_path: Path) -> None:
    """Behind one proxy, one guesses and another has forgotten its token."""
    server = ServerSection(port=0, drain_seconds=1, trusted_proxies=("127.0.0.0/8",))
    limits = LimitsSection(anonymous_per_second=0.1, burst=5)
    registry = definitions(names=("howera",))
    async with opened(tmp_path, server=server, limits=limits, registry=registry) as house:

        async def statuses(client: str, times: int) -> list[int]:
            headers = {"X-Forwarded-For": f"127.0.0.1, {client}, 127.0.0.9"}
            asked = [await house.nobody.ask("GET", "/jobs", headers=headers) for _ in range(times)]
            return [said.status for said in asked]

        assert await statuses("198.51.100.7", 7) == [401] * 5 + [429] * 2
        assert await statuses("198.51.100.8", 5) == [401] * 5
        assert await statuses("2001:db8:1:2::1", 5) == [401] * 5
        assert await statuses("2001:db8:1:2::2", 1) == [429]
        lines = [line for line in house.logged if line["event"] == "http.refused"]
        assert [line["address"] for line in lines[:7]] == ["198.51.100.7"] * 7
        assert lines[-1]["address"] == "2001:db8:1:2::2"


async def test_what_is_refused_says_to_whom(tmp_path: Path) -> None:
    """Nobody is trusted here, so what a header says of the client is not believed."""
    async with opened(tmp_path, registry=definitions(names=("howera",))) as house:
        await house.nobody.ask("GET", "/jobs", headers={"X-Forwarded-For": "198.51.100.7"})
        (line,) = [line for line in house.logged if line["event"] == "http.refused"]
        assert (line["address"], line["error_code"]) == ("127.0.0.1", "UNAUTHORIZED")
