"""Pages of other origins: those that the operator lists may ask and may read what is said; all
others are told nothing."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jobrunner.config.settings import LimitsSection, ServerSection
from jobrunner.http.frame.headers import SAID, TOLD
from tests.http.fronting import Shut, connected, gate, submission
from tests.http.serving import Caller, House, Said, definitions, opened

pytestmark = pytest.mark.anyio

APP = "https://app.example.com"
OTHER = "http://localhost:5173"
STRANGERS = (
    "https://evil.example.com",
    "https://app.example.com.evil.example.com",
    "http://app.example.com",
    "https://app.example.com:444",
    "HTTPS://APP.EXAMPLE.COM",
    f"{APP},{OTHER}",
    "null",
    "*",
    "",
)
SERVER = ServerSection(port=0, drain_seconds=1, cors=(APP, OTHER))


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder, registry = tmp_path_factory.mktemp("cors"), definitions(names=("howera",))
    limits = LimitsSection(lag=0, patience=0)
    async with opened(folder, server=SERVER, registry=registry, limits=limits) as house:
        yield house


@pytest.fixture(scope="module")
async def open_house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """Everybody on this machine is the admin here."""
    folder, registry = tmp_path_factory.mktemp("open"), definitions(names=("howera",))
    async with opened(folder, mode="none", server=SERVER, registry=registry) as house:
        yield house


def browser(house: House, token: str | None = None) -> Caller:
    """Preflights are no part of the document."""
    return Caller(house.session, house.service.url, None, token)


async def preflight(house: House, origin: str, path: str = "/jobs", **more: str) -> Said:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST", **more}
    return await browser(house).ask("OPTIONS", path, headers=asked)


def names(said: Said, header: str) -> set[str]:
    return {name.strip() for name in said.headers.get(header, "").split(",")}


def is_told_nothing(said: Said) -> bool:
    return not [name for name in said.headers if name.lower().startswith("access-control-")]


@pytest.mark.parametrize("path", ["/jobs", "/uploads", "/jobs/x/cancel", "/assets/x", "/nowhere"])
@pytest.mark.parametrize("origin", [APP, OTHER])
async def test_a_listed_page_may_ask(house: House, origin: str, path: str) -> None:
    """Before it has said who it is: a browser puts no token into a preflight."""
    said = await preflight(house, origin, path)
    assert (said.status, said.raw) == (204, b"")
    assert said.headers["Access-Control-Allow-Origin"] == origin
    assert said.headers["Vary"] == "Origin"
    assert {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"} == names(
        said, "Access-Control-Allow-Methods"
    )
    allowed = names(said, "Access-Control-Allow-Headers")
    taken = {name for name in SAID if not name.startswith("webhook-")}
    assert {"Authorization", "Content-Type", "Last-Event-ID"} | taken <= allowed
    assert "Access-Control-Allow-Credentials" not in said.headers
    assert "*" not in said.headers.values()


@pytest.mark.parametrize("origin", STRANGERS)
async def test_a_page_that_is_not_listed_is_told_nothing(house: House, origin: str) -> None:
    for path in ("/jobs", "/uploads"):
        said = await preflight(house, origin, path)
        assert is_told_nothing(said)
        assert said.headers["Vary"] == "Origin"
    said = await browser(house, house.ada.token).get("/jobs", Origin=origin)
    assert said.status == 200
    assert is_told_nothing(said)
    assert "Origin" in names(said, "Vary")


async def test_options_that_are_no_preflight_are_what_they_were(house: House) -> None:
    said = await house.nobody.ask("OPTIONS", "/uploads", headers={"Origin": APP})
    assert said.headers["Tus-Version"] == "1.0.0"
    said = await browser(house).ask("OPTIONS", "/jobs", headers={"Origin": APP})
    assert said.status == 405


async def test_what_a_listed_page_may_read(house: House) -> None:
    """Everything that we say in headers, refusals included."""
    ada = browser(house, house.ada.token)
    made = await ada.post("/jobs", {"workflow": "howera"}, Origin=APP)
    missing = await ada.get("/jobs/nobody", Origin=APP)
    stranger = await browser(house).get("/jobs", Origin=APP)
    nowhere = await ada.get("/nowhere", Origin=APP)
    for said, status in ((made, 201), (missing, 404), (stranger, 401), (nowhere, 404)):
        assert said.status == status
        assert said.headers["Access-Control-Allow-Origin"] == APP
        exposed = names(said, "Access-Control-Expose-Headers")
        assert set(TOLD) - {"Accept-Encoding", "Allow"} <= exposed
        assert {"ETag", "Location", "X-Request-Id", "Retry-After", "Upload-Offset"} <= exposed
        assert "Access-Control-Allow-Credentials" not in said.headers


async def test_a_stream_may_be_read_too(house: House) -> None:
    job = await house.ada.submit("howera")
    headers = {"Authorization": f"Bearer {house.ada.token}", "Origin": APP}
    url = f"{house.service.url}/jobs/{job['id']}/events"
    async with house.session.get(url, headers=headers) as response:
        assert response.status == 200
        assert response.headers["Access-Control-Allow-Origin"] == APP


async def test_refusals_of_the_front_may_be_read_too(house: House) -> None:
    """They are written before anybody has read the request."""
    with Shut(gate(house)):
        for origin, allowed in ((APP, APP), (STRANGERS[0], None)):
            async with connected(house) as wire:
                more = f"Origin: {origin}\r\n".encode()
                await wire.say(submission(house, more=more))
                said = await wire.heard()
            assert said.status == 503
            assert said.headers.get("Access-Control-Allow-Origin") == allowed
            assert said.headers["Vary"] == "Origin"


async def test_an_origin_in_the_body_is_none(house: House) -> None:
    body = b'{"workflow":"howera"}\r\n\r\nx\r\norigin: ' + APP.encode() + b"\r\n"
    with Shut(gate(house)):
        async with connected(house) as wire:
            await wire.say(submission(house, body))
            said = await wire.heard()
    assert said.status == 503
    assert is_told_nothing(said)


async def test_without_tokens_a_listed_page_passes(open_house: House) -> None:
    said = await preflight(open_house, APP, **{"Sec-Fetch-Site": "cross-site"})
    assert said.status == 204
    headers = {"Origin": APP, "Sec-Fetch-Site": "cross-site"}
    for method, path, body in (("GET", "/jobs", None), ("POST", "/jobs", {"workflow": "howera"})):
        said = await browser(open_house).ask(method, path, body, headers=headers)
        assert said.status in (200, 201), said.raw
        assert said.headers["Access-Control-Allow-Origin"] == APP


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": STRANGERS[0]},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": APP, "Host": "attacker.example.com"},
    ],
    ids=str,
)
async def test_without_tokens_nobody_else_does(open_house: House, headers: dict[str, str]) -> None:
    """Nor does a listed page where a stranger's name leads here."""
    order: Any = {"name": "eve", "role": "admin"}
    said = await browser(open_house).ask("POST", "/admin/tokens", order, headers=headers)
    assert (said.status, said.code) == (403, "FORBIDDEN")
    asked = headers | {"Access-Control-Request-Method": "POST"}
    said = await browser(open_house).ask("OPTIONS", "/jobs", headers=asked)
    assert said.status in (403, 405)


async def test_two_origins_are_as_good_as_the_worse_one(open_house: House) -> None:
    async with connected(open_house) as wire:
        lines = b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nOrigin: %s\r\nOrigin: %s\r\n\r\n"
        await wire.say(lines % (APP.encode(), STRANGERS[0].encode()))
        assert (await wire.heard()).status == 403


async def test_where_no_origin_is_listed_nothing_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path, registry=definitions(names=("howera",))) as house:
        said = await preflight(house, APP)
        assert said.status == 405
        assert is_told_nothing(said)
        assert "Vary" not in said.headers
