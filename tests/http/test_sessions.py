"""Signing in at the dashboard: a session is its token's and nothing more, and acts only where a
page of this service asks."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from jobrunner.config.settings import LimitsSection, ServerSection
from jobrunner.http.frame.sessions import COOKIE, PROOF
from tests.http.serving import Caller, House, Said, definitions, opened
from tests.store.factory import raw

pytestmark = pytest.mark.anyio

PAGE = {PROOF: "1"}
HOWERA = {"workflow": "howera"}
DEFAULT_S = 12 * 3600


@asynccontextmanager
async def served(folder: Path, **more: object) -> AsyncIterator[House]:
    async with opened(folder, registry=definitions(names=("howera",)), **more) as house:  # type: ignore[arg-type]
        yield house


@pytest.fixture(scope="module")
async def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sessions")


@pytest.fixture(scope="module")
async def house(folder: Path) -> AsyncIterator[House]:
    async with served(folder) as house:
        yield house


async def sign_in(house: House, token: str | None, **headers: str) -> Said:
    sent = PAGE | {name.replace("_", "-"): value for name, value in headers.items()}
    return await house.nobody.ask("POST", "/session", {"token": token}, headers=sent)


def kept(said: Said) -> dict[str, str]:
    """What a browser sends from then on."""
    assert said.status == 200, said.raw
    found = re.match(rf"{COOKIE}=([^;]+);", said.headers["Set-Cookie"])
    assert found
    return {"Cookie": f"other=1; {COOKIE}={found[1]}; more=2"}


async def signed_in(house: House, caller: Caller) -> dict[str, str]:
    return kept(await sign_in(house, caller.token))


async def test_a_token_opens_a_session_that_stands_for_it(house: House) -> None:
    said = await sign_in(house, house.ada.token)
    assert (said.json["name"], said.json["role"], said.json["auth"]) == ("ada", "user", "tokens")
    browser = kept(said)
    job = await house.ada.submit("howera")
    seen = await house.nobody.ask("GET", f"/jobs/{job['id']}", headers=browser)
    assert seen.json == (await house.ada.get(f"/jobs/{job['id']}")).json
    who = await house.nobody.ask("GET", "/session", headers=browser)
    assert who.json == said.json


async def test_the_cookie_is_for_the_browser_alone(house: House) -> None:
    told = (await sign_in(house, house.ada.token)).headers["Set-Cookie"]
    value, *rules = told.split("; ")
    assert house.ada.token not in value
    assert set(rules) == {"Path=/", f"Max-Age={DEFAULT_S}", "HttpOnly", "SameSite=Strict"}


async def test_behind_tls_and_below_a_path_the_cookie_says_so(tmp_path: Path) -> None:
    server = ServerSection(port=0, drain_seconds=1, public_url="https://jobs.invalid/runner")
    async with served(tmp_path, server=server) as house:
        rules = (await sign_in(house, house.ada.token)).headers["Set-Cookie"].split("; ")[1:]
        assert {"Path=/runner/", "Secure", "HttpOnly", "SameSite=Strict"} <= set(rules)


async def test_only_a_digest_is_in_the_file(house: House, folder: Path) -> None:
    browser = await signed_in(house, house.ada)
    secret = browser["Cookie"].split(f"{COOKIE}=")[1].split(";")[0].encode()
    for file in folder.glob("jobs.db*"):
        assert secret not in file.read_bytes()


async def test_a_session_has_the_rights_of_its_token(house: House) -> None:
    made = await house.admin.post("/admin/tokens", {"name": "looker", "role": "reader"})
    reader = kept(await sign_in(house, made.json["token"]))
    ada = await signed_in(house, house.ada)
    job = await house.ada.submit("howera")
    assert (await house.nobody.ask("GET", "/admin/tokens", headers=ada)).code == "FORBIDDEN"
    assert (await house.nobody.ask("GET", "/admin/tokens", headers=reader)).status == 200
    for path in (f"/jobs/{job['id']}/cancel", "/jobs"):
        body = HOWERA if path == "/jobs" else {}
        said = await house.nobody.ask("POST", path, body, headers=reader | PAGE)
        assert (said.status, said.code) == (403, "FORBIDDEN")
    eve = await signed_in(house, house.eve)
    assert (await house.nobody.ask("GET", f"/jobs/{job['id']}", headers=eve)).status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {},
        PAGE | {"Sec-Fetch-Site": "cross-site"},
        PAGE | {"Sec-Fetch-Site": "same-site"},
        PAGE | {"Sec-Fetch-Site": "none"},
    ],
)
async def test_what_no_page_of_ours_asks_for_changes_nothing(
    house: House, headers: dict[str, str]
) -> None:
    """A browser adds the cookie by itself, also for a page of somebody else."""
    browser = await signed_in(house, house.ada)
    before = (await house.ada.get("/jobs")).json
    for method, path in (("POST", "/jobs"), ("DELETE", f"/jobs/{await any_job(house)}")):
        body = HOWERA if method == "POST" else None
        said = await house.nobody.ask(method, path, body, headers=browser | headers)
        assert (said.status, said.code) == (403, "FORBIDDEN"), method
    for method in ("POST", "DELETE"):
        order = {"token": house.ada.token} if method == "POST" else None
        said = await house.nobody.ask(method, "/session", order, headers=browser | headers)
        assert said.status == 403
    assert len((await house.ada.get("/jobs")).json["jobs"]) == len(before["jobs"]) + 1


async def any_job(house: House) -> str:
    return str((await house.ada.submit("howera"))["id"])


async def test_a_page_of_ours_acts(house: House) -> None:
    browser = await signed_in(house, house.ada)
    for more in ({}, {"Sec-Fetch-Site": "same-origin"}):
        said = await house.nobody.ask("POST", "/jobs", HOWERA, headers=browser | PAGE | more)
        assert (said.status, said.json["user_id"]) == (201, "ada")


async def test_beside_a_token_a_session_does_not_count(house: House) -> None:
    browser = await signed_in(house, house.admin)
    said = await house.eve.ask("GET", "/admin/tokens", headers=browser)
    assert said.code == "FORBIDDEN"
    said = await house.eve.ask("POST", "/jobs", HOWERA, headers=browser)
    assert (said.status, said.json["user_id"]) == (201, "eve")


async def test_a_session_is_no_token_and_a_token_no_session(house: House) -> None:
    browser = await signed_in(house, house.ada)
    secret = browser["Cookie"].split(f"{COOKIE}=")[1].split(";")[0]
    assert (await house.nobody.ask("GET", "/jobs", headers=browser)).status == 200
    assert (await house.caller(secret).get("/jobs")).status == 401
    wrong: dict[str, str] = {"Cookie": f"{COOKIE}={house.ada.token}"}
    assert (await house.nobody.ask("GET", "/jobs", headers=wrong)).status == 401


async def test_signing_out_ends_it_at_once(house: House) -> None:
    browser = await signed_in(house, house.ada)
    other = await signed_in(house, house.ada)
    said = await house.nobody.ask("DELETE", "/session", headers=browser | PAGE)
    assert said.status == 204
    assert "Max-Age=0" in said.headers["Set-Cookie"]
    assert (await house.nobody.ask("GET", "/jobs", headers=browser)).status == 401
    assert (await house.nobody.ask("GET", "/jobs", headers=other)).status == 200


async def test_it_ends_with_its_token(house: House) -> None:
    made = (await house.admin.post("/admin/tokens", {"name": "guest", "role": "user"})).json
    browser = kept(await sign_in(house, made["token"]))
    assert (await house.nobody.ask("GET", "/jobs", headers=browser)).status == 200
    assert (await house.admin.delete(f"/admin/tokens/{made['id']}")).status == 204
    said = await house.nobody.ask("GET", "/jobs", headers=browser)
    assert said.code == "UNAUTHORIZED"
    who = await house.nobody.ask("GET", "/session", headers=browser)
    assert who.json["name"] is None
    assert "Max-Age=0" in who.headers["Set-Cookie"]


async def test_it_ends_no_later_than_its_token(house: House) -> None:
    order = {"name": "guest", "role": "user", "expires_in": 3600}
    made = (await house.admin.post("/admin/tokens", order)).json
    assert (await sign_in(house, made["token"])).json["expires_at"] == made["expires_at"]


async def test_a_wrong_token_opens_nothing_and_is_charged(tmp_path: Path) -> None:
    limits = LimitsSection(lag=0, anonymous_per_second=1, burst=3)
    async with served(tmp_path, limits=limits) as house:
        said = [await sign_in(house, "jr_guess") for _ in range(5)]
        assert {one.status for one in said[:2]} == {401}
        assert said[-1].status == 429
        assert all("Set-Cookie" not in one.headers for one in said)
        assert (await sign_in(house, house.ada.token)).status == 200, "a good one never is"


async def test_guessed_sessions_are_charged(tmp_path: Path) -> None:
    limits = LimitsSection(lag=0, anonymous_per_second=1, burst=3)
    async with served(tmp_path, limits=limits) as house:
        for path in ("/jobs", "/session"):
            guesses = [
                await house.nobody.ask("GET", path, headers={"Cookie": f"{COOKIE}=g{number}"})
                for number in range(5)
            ]
            assert guesses[-1].status == 429


async def test_it_survives_a_restart_and_is_there_in_the_file(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        browser = await signed_in(house, house.admin)
    async with served(tmp_path) as again:
        assert (await again.nobody.ask("GET", "/admin/tokens", headers=browser)).status == 200


async def test_of_one_token_the_newest_32_are_good(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        first = await signed_in(house, house.ada)
        others = [await signed_in(house, house.ada) for _ in range(32)]
        with raw(tmp_path) as db:
            assert db.execute("SELECT count(*) FROM sessions").fetchone() == (32,)
        assert (await house.nobody.ask("GET", "/jobs", headers=others[0])).status == 200
    async with served(tmp_path) as again:
        assert (await again.nobody.ask("GET", "/jobs", headers=first)).status == 401


async def test_sessions_can_be_shut(tmp_path: Path) -> None:
    async with served(tmp_path, session_s=0) as house:
        said = await sign_in(house, house.ada.token)
        assert (said.status, said.code) == (403, "FORBIDDEN")
        assert "auth.session" in said.json["detail"]


async def test_where_nobody_is_asked_everybody_is_signed_in(tmp_path: Path) -> None:
    async with served(tmp_path, mode="none") as house:
        who = (await house.nobody.get("/session")).json
        assert (who["auth"], who["name"], who["role"]) == ("none", "local", "admin")


async def test_a_stream_ends_with_its_session(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobrunner.http.routes.jobs.streams.HEARTBEAT_S", 0.05)
    browser = await signed_in(house, house.ada)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{house.service.url}/events", headers=browser) as stream,
    ):
        assert stream.status == 200
        await stream.content.readuntil(b": still here")
        await house.nobody.ask("DELETE", "/session", headers=browser | PAGE)
        await stream.content.read()
        assert stream.content.at_eof()


async def test_a_link_opens_a_session_once_and_not_after_its_time(tmp_path: Path) -> None:
    async with served(tmp_path) as house:
        keyring, token = house.service.keyring, house.admin.token
        assert token is not None

        async def follow(key: str, **headers: str) -> Said:
            body = {"link": key}
            return await house.nobody.ask("POST", "/session", body, headers=PAGE | headers)

        keyring.welcome("a-key", token, 60)
        assert (await follow("another")).code == "UNAUTHORIZED"
        assert (await follow("a-key", **{"X-Forwarded-For": "203.0.113.7"})).code == "FORBIDDEN"
        assert (await follow("a-key", Host="elsewhere.invalid")).code == "FORBIDDEN"
        said = await follow("a-key")
        assert (said.json["name"], said.json["role"]) == ("admin", "admin")
        here = await house.nobody.ask("GET", "/session", headers=kept(said))
        assert here.json["name"] == "admin"
        assert (await follow("a-key")).code == "UNAUTHORIZED"
        keyring.welcome("late", token, 0)
        assert (await follow("late")).code == "UNAUTHORIZED"
        for odd in ({}, {"token": token, "link": "x"}, {"link": ""}):
            refused = await house.nobody.ask("POST", "/session", odd, headers=PAGE)
            assert refused.status == 400, odd
        assert "a-key" not in vars(keyring).__repr__(), "only its digest is kept"
