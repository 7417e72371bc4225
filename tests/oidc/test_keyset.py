"""The keys of an issuer: asked for seldom, kept while it is silent, believed from nobody else."""

from typing import Any

import anyio
import msgspec
import pytest
from joserfc.jwk import ECKey, RSAKey

from jobrunner.errors import RetryableFailure
from jobrunner.oidc.keyset import AGAIN_S, UNKNOWN_EVERY_S, KeySet

pytestmark = pytest.mark.anyio

ISSUER = "https://id.example.com/realm"
PLACE = "https://keys.example.com/all"
ONE, TWO = (ECKey.generate_key("P-256", {"kid": kid}) for kid in ("one", "two"))


class Time:
    """A clock whose sleepers wait for the test; ``naps`` are how long they mean to."""

    def __init__(self) -> None:
        self.at, self.naps = 0.0, list[float]()
        self.woken = anyio.Event()

    def now(self) -> int:
        return int(self.at * 1000)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.woken = anyio.Event()
        await self.woken.wait()
        self.at += seconds


class World:
    """What is at which place; an exception is raised."""

    def __init__(self, **options: Any) -> None:
        self.clock, self.asked = Time(), list[str]()
        self.events, self.changes = list[str](), 0
        self.there: dict[str, Any] = {f"{ISSUER}/.well-known/openid-configuration": described()}
        self.holds(ONE)
        place = options.get("place", "")
        self.keys = KeySet(ISSUER, place, 3600, self._fetch, self.clock, self._log, self._changed)

    def holds(self, *keys: Any, place: str = PLACE) -> None:
        self.there[place] = {"keys": [key.as_dict(private=False) for key in keys]}

    async def _fetch(self, place: str) -> bytes:
        self.asked.append(place)
        found = self.there.get(place)
        if found is None:
            raise RetryableFailure("REMOTE_FAILED", f"{place} is silent")
        return found if isinstance(found, bytes) else msgspec.json.encode(found)

    def _log(self, event: str, **fields: Any) -> None:
        self.events.append(event)

    def _changed(self) -> None:
        self.changes += 1

    @property
    def fetches(self) -> int:
        return self.asked.count(PLACE)


def described(issuer: str = ISSUER, place: str = PLACE) -> dict[str, str]:
    return {"issuer": issuer, "jwks_uri": place}


async def test_whoever_names_unknown_keys_makes_us_ask_seldom() -> None:
    """Everybody can name one: a hundred names, one question; after a while there is another one."""
    world = World()
    assert await world.keys.find("one", "ES256") is not None
    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(world.keys.find, f"no {number}", "ES256")
    assert world.fetches == 1
    world.clock.at += UNKNOWN_EVERY_S
    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(world.keys.find, f"no {number}", "ES256")
    assert world.fetches == 2


async def test_a_known_key_asks_nobody() -> None:
    """Also where it is not for this algorithm."""
    world = World()
    await world.keys.find("one", "ES256")
    world.clock.at += 10 * UNKNOWN_EVERY_S
    assert await world.keys.find("one", "ES256") is not None
    assert await world.keys.find("one", "RS256") is None
    assert world.fetches == 1


async def test_they_are_fetched_again_and_sooner_while_that_fails() -> None:
    world = World()
    async with anyio.create_task_group() as group:
        group.start_soon(world.keys.watch)
        for is_silent in (False, True, True, False):
            await anyio.wait_all_tasks_blocked()
            world.there.pop(PLACE, None)
            if not is_silent:
                world.holds(ONE)
            world.clock.woken.set()
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert world.clock.naps == [3600, 3600, AGAIN_S, AGAIN_S, 3600]
    assert world.events == ["oidc.keys", "oidc.fault", "oidc.keys"]


async def test_while_the_issuer_is_silent_the_old_ones_stay() -> None:
    world = World()
    assert await world.keys.find("one", "ES256") is not None
    world.there.clear()
    world.clock.at += UNKNOWN_EVERY_S
    assert await world.keys.find("two", "ES256") is None
    assert await world.keys.find("one", "ES256") is not None
    assert world.events == ["oidc.keys", "oidc.fault"]
    assert world.changes == 0


@pytest.mark.parametrize(
    "found", [{"keys": []}, {"keys": [{"kty": "oct", "k": "AAAA"}]}, b"<html>", {}, {"keys": 7}]
)
async def test_what_is_no_set_of_keys_changes_nothing(found: Any) -> None:
    world = World()
    assert await world.keys.find("one", "ES256") is not None
    world.there[PLACE] = found
    world.clock.at += UNKNOWN_EVERY_S
    assert await world.keys.find("two", "ES256") is None
    assert await world.keys.find("one", "ES256") is not None


async def test_a_key_that_is_gone_or_another_one_is_told() -> None:
    """What was verified with it is believed no longer; one that comes beside it takes nothing."""
    world = World()
    await world.keys.find("one", "ES256")
    for keys, changes in (((ONE, TWO), 0), ((TWO,), 1), ((named_like(TWO),), 2)):
        world.holds(*keys)
        world.clock.at += UNKNOWN_EVERY_S
        await world.keys.find("nobody's", "ES256")
        assert world.changes == changes


def named_like(other: Any) -> Any:
    return ECKey.generate_key("P-256", {"kid": other.kid})


@pytest.mark.parametrize(
    "document",
    [
        described("https://other.example.com"), described(ISSUER + "/"), {"jwks_uri": PLACE},
        described(place="http://keys.example.com/all"), described(place="file:///etc/keys"), b"no",
    ],
)  # fmt: skip
async def test_only_the_issuers_own_document_leads_to_keys(document: Any) -> None:
    world = World()
    world.holds(ONE, place="http://keys.example.com/all")
    world.there[f"{ISSUER}/.well-known/openid-configuration"] = document
    assert await world.keys.find("one", "ES256") is None
    assert not world.keys.ready
    assert world.events == ["oidc.fault"]


async def test_keys_may_have_an_address_of_their_own() -> None:
    world = World(place=PLACE)
    assert await world.keys.find("one", "ES256") is not None
    assert world.asked == [PLACE]


async def test_without_a_name_the_only_one_that_fits_will_do() -> None:
    world = World()
    world.holds(ONE, RSAKey.generate_key(2048, {"kid": "rsa"}))
    assert await world.keys.find(None, "ES256") is not None
    assert await world.keys.find(None, "RS256") is not None
    world.holds(ONE, TWO)
    world.clock.at += UNKNOWN_EVERY_S
    await world.keys.find("new", "ES256")
    assert await world.keys.find(None, "ES256") is None


async def test_a_key_signs_by_the_algorithm_that_it_is_for() -> None:
    world = World()
    key = RSAKey.generate_key(2048, {"kid": "rsa"})
    world.there[PLACE] = {"keys": [{**key.as_dict(private=False), "alg": "PS256", "use": "sig"}]}
    assert await world.keys.find("rsa", "PS256") is not None
    assert await world.keys.find("rsa", "RS256") is None
