"""Webhooks that are not genuine: refused, all alike, and nothing is written."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from multidict import CIMultiDict

from jobrunner.config.settings import LimitsSection
from jobrunner.core.features.signatures import verified
from tests.http.hostile_webhooks import BODY, Hostile, listed, made
from tests.http.posting import (
    KEY,
    STRANGER,
    TYPE,
    VARIABLE,
    Provider,
    listening,
    saying,
    secret,
    signed,
)

pytestmark = pytest.mark.anyio

AT_ONCE = 50
REQUEST = ("X-Request-Id", "the-same-for-all")


@pytest.fixture(scope="module")
async def provider(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[Provider]:
    """A job awaits what all of them speak of, and nobody counts how often they are refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, secret(KEY))
        folder = tmp_path_factory.mktemp("hostile")
        async with listening(folder, limits=LimitsSection(anonymous_per_second=0)) as provider:
            await provider.listens("awaited", timeout_s=10**6)
            yield provider


async def refused(provider: Provider, hostile: Iterable[Hostile]) -> tuple[int, set[bytes]]:
    """How many there were, and everything that was said of them."""
    before = provider.written()
    bodies: set[bytes] = set()
    count = 0

    async def one(name: str, headers: list[tuple[str, str]], body: bytes) -> None:
        said = await provider.post([*headers, *TYPE, REQUEST], body)
        assert said.status == 401, f"{name}: {said.status} {said.raw[:200]!r}"
        bodies.add(said.raw)

    left = iter(hostile)
    while batch := list(islice(left, AT_ONCE)):
        count += len(batch)
        await asyncio.gather(*(one(*each) for each in batch))
    assert provider.written() == before
    return count, bodies


async def test_the_listed_ones(provider: Provider) -> None:
    """R-P8: none is accepted, and nobody learns from the answer what was wrong."""
    count, bodies = await refused(provider, listed())
    assert count >= 500
    assert len(bodies) == 1
    assert provider.lines("http.fault") == []


async def test_a_flood_of_them_does_not_fill_the_log(provider: Provider) -> None:
    """A line of the log has neither what was sent nor what it was to be signed with."""
    await refused(provider, (made(seed) for seed in range(100)))
    lines = provider.lines("webhook.refused")
    assert 1 <= len(lines) <= 30
    assert {line["level"] for line in lines} == {"warning"}
    assert {key for line in lines for key in line} <= {
        "event", "level", "source", "bytes", "left_out"
    }  # fmt: skip


async def test_generated_ones(provider: Provider) -> None:
    count, bodies = await refused(provider, (made(seed) for seed in range(2_000)))
    assert (count, len(bodies)) == (2_000, 1)


@pytest.mark.long
async def test_a_hundred_thousand_generated_ones(provider: Provider) -> None:
    def all_of_them() -> Iterator[Hostile]:
        return (made(seed) for seed in range(10_000, 110_000))

    count, bodies = await refused(provider, all_of_them())
    assert (count, len(bodies)) == (100_000, 1)


async def test_the_corpus_would_find_an_open_door(provider: Provider) -> None:
    """What all of it is made from is accepted, so that each was refused for what was changed."""
    said = await provider.post([*signed("genuine", BODY), *TYPE], BODY)
    assert (said.status, said.json) == (200, {"applied": True})
    again = saying("awaited")
    assert (await provider.post(signed("genuine", again), again)).json["reason"] == "replayed"


def test_the_judge_itself_refuses_what_no_http_client_can_send() -> None:
    """Without a server between: line ends, NUL and lone surrogates in each header."""
    now = 1_700_000_000.0
    good = dict(signed("w-1", BODY, at=str(int(now))))
    assert verified(good, BODY, [KEY], now) == "w-1"
    assert verified(CIMultiDict(good), BODY, [KEY], now) == "w-1"
    for name, value in good.items():
        for wrong in ("\n", "\r\n", "\0", "\t", "\x7f", "\ud800", "\u2028", "x"):
            for spoiled in (value + wrong, wrong + value, wrong):
                assert verified({**good, name: spoiled}, BODY, [KEY], now) is None, (name, wrong)
        twice = CIMultiDict([*good.items(), (name.title(), value)])
        assert verified(twice, BODY, [KEY], now) is None, name
    assert verified(good, BODY, [], now) is None
    for gap_s in (-300.5, 300.5, 10**9):
        assert verified(good, BODY, [KEY], now + gap_s) is None


async def test_who_forges_is_slowed_down_and_the_source_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-P8: refused signatures are charged to their address, and what is signed never is."""
    monkeypatch.setenv(VARIABLE, secret(KEY))
    limits = LimitsSection(anonymous_per_second=0.1, burst=10)
    async with listening(tmp_path, limits=limits) as provider:
        body = saying("p-1")
        forged = [*signed("w-1", body, key=STRANGER), *TYPE]
        said = [await provider.post(forged, body) for _ in range(20)]
        assert [one.status for one in said] == [401] * 10 + [429] * 10
        assert int(said[-1].headers["Retry-After"]) >= 1
        for number in range(12):
            heard = await provider.say(f"w-{number}", "p-1")
            assert heard == {"applied": False, "reason": "kept"}
        assert (await provider.admin.get("/jobs")).status == 200
        assert (await provider.post(forged, body)).status == 429
