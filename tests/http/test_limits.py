"""What is too much is refused at once, in words, with a time to come again; what matters more goes
on."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.config.settings import LimitsSection as Settings
from jobrunner.config.settings import ServerSection
from jobrunner.errors import Refused
from jobrunner.http.frame.limits import KNOWN_MAX, Bounds, HttpLimits, Rate, network_of
from tests.http.serving import House, Said, definitions, opened

pytestmark = pytest.mark.anyio
SUBMISSION = {"workflow": "howera"}


class Hand:
    """A clock that is moved by hand; ids without chance."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.drawn = 0.0

    def now(self) -> int:
        return int(self.at * 1000)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await anyio.lowlevel.checkpoint()

    def jitter(self) -> float:
        return self.drawn

    def fresh(self) -> str:
        return "id"

    def secret(self) -> str:
        return "secret"


@pytest.fixture
async def house(tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    async with opened(tmp_path, registry=definitions(names=("howera",))) as house:
        yield house


@pytest.fixture
def hand() -> Hand:
    return Hand()


def refused(limits: HttpLimits, call: Any, *arguments: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        call(limits, *arguments)
    return caught.value


def test_a_burst_and_then_an_even_pace(hand: Hand) -> None:
    rate = Rate(hand, 10, 5)
    assert [rate.take("a") for _ in range(5)] == [0.0] * 5
    assert rate.take("a") == pytest.approx(0.1)
    assert rate.take("b") == 0.0
    hand.at += 0.1
    assert rate.take("a") == 0.0
    assert rate.take("a") > 0
    hand.at += 60
    assert [rate.take("a") for _ in range(5)] == [0.0] * 5
    assert rate.take("a") > 0


def test_over_a_long_time_no_more_than_the_rate(hand: Hand) -> None:
    rate, taken = Rate(hand, 7, 3), 0
    for _ in range(100_000):
        taken += rate.take("a") == 0.0
        hand.at += 0.001
    assert 700 <= taken <= 703


def test_a_rate_of_zero_is_none(hand: Hand) -> None:
    rate = Rate(hand, 0, 1)
    assert not any(rate.take("a") for _ in range(10_000))


def test_the_table_of_callers_is_bounded(hand: Hand) -> None:
    """R11: whoever is new while it is full shares one place with all who are new."""
    rate = Rate(hand, 1, 1)
    for number in range(KNOWN_MAX):
        assert rate.take(number) == 0.0
    assert rate.take("new") == 0.0
    assert rate.take("newer") > 0
    assert len(rate._due) <= KNOWN_MAX + 1
    hand.at += 60
    assert rate.take("newest") == 0.0
    assert len(rate._due) == 1


def test_who_has_a_network_has_one_place() -> None:
    assert network_of("192.0.2.7") == "192.0.2.7"
    assert network_of("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::"
    assert network_of("2001:db8:1:2:ffff::1") == "2001:db8:1:2::"
    assert network_of("fe80::1%eth0") == "fe80::"
    assert network_of("::ffff:192.0.2.7") == "::ffff:192.0.2.7"


async def test_pressure_is_felt_by_new_work_first(hand: Hand) -> None:
    queue, room = [0], [2**40]
    bounds = Bounds(pending_writes=10, lag=0.5, free_disk=100)
    limits = HttpLimits(hand, hand, bounds, lambda: room[0], lambda: queue[0])
    for weight in ("none", "reading", "moving", "making"):
        limits.admit(weight)
    queue[0] = 10
    limits.admit("moving")
    assert not limits.admission.enter(), "new work waits at the front"
    queue[0] = 40
    limits.admit("reading")
    assert refused(limits, HttpLimits.admit, "moving").code == "OVERLOADED"
    limits.admit("none")
    queue[0] = 0
    limits._lag_s = 0.6
    limits.admit("moving")
    assert refused(limits, HttpLimits.admit, "making").status == 503
    limits._lag_s = 2.1
    assert refused(limits, HttpLimits.admit, "reading").status == 503
    limits.admit("none")
    limits._lag_s, room[0] = 0.0, 99
    async with anyio.create_task_group() as group:
        group.start_soon(limits.watch)
        while limits._room > 99:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    assert refused(limits, HttpLimits.admit, "making").code == "STORAGE_FULL"
    limits.admit("moving")


def test_those_refused_together_do_not_come_back_together(hand: Hand) -> None:
    limits, told = HttpLimits(hand, hand), set()
    for drawn in (0.0, 0.3, 0.6, 0.9):
        hand.drawn = drawn
        told.add(limits.overloaded("x").extra["retry_after_s"])
    assert told == {1, 2, 3, 4}


def test_a_full_disk_is_spoken_of_now_and_then(hand: Hand) -> None:
    limits = HttpLimits(hand, hand)
    assert [limits.full_seen() for _ in range(5)] == [1, 0, 0, 0, 0]
    hand.at += 11
    assert limits.full_seen() == 5


def test_places_for_streams_come_back(hand: Hand) -> None:
    limits = HttpLimits(hand, hand, Bounds(streams=3, streams_per_user=2))
    with limits.stream("ada", lambda: False), limits.stream("eve", lambda: False):
        with limits.stream("ada", lambda: False):
            with pytest.raises(Refused, match="TOO_MANY_STREAMS"), limits.stream("ada", bool):
                pass
            with pytest.raises(Refused, match="OVERLOADED"), limits.stream("bob", bool):
                pass
        with limits.stream("ada", lambda: True), limits.stream("ada", lambda: False):
            pass
    assert limits._streams == {}


@pytest.fixture
async def narrow(tmp_path: Path, anyio_backend: str) -> AsyncIterator[House]:
    limits = Settings(requests_per_second=0.1, anonymous_per_second=0.1, burst=10)
    registry = definitions(names=("howera",))
    async with opened(tmp_path, limits=limits, registry=registry) as house:
        yield house


def counted(said: list[Said]) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for one in said:
        key = one.status, one.code if one.status >= 400 else ""
        found[key] = found.get(key, 0) + 1
    return found


async def test_one_token_asks_too_often_and_others_do_not_notice(narrow: House) -> None:
    said = [await narrow.ada.get("/jobs") for _ in range(14)]
    assert counted(said) == {(200, ""): 10, (429, "RATE_LIMITED"): 4}
    assert 1 <= int(said[-1].headers["Retry-After"]) <= 60
    assert (await narrow.eve.get("/jobs")).status == 200
    assert [(await narrow.ada.get("/healthz")).status for _ in range(20)] == [200] * 20


async def test_guessing_tokens_is_slow(narrow: House) -> None:
    guesses = [await narrow.caller(f"guess-{n}").get("/jobs") for n in range(20)]
    answers = counted(guesses)
    assert set(answers) == {(401, "UNAUTHORIZED"), (429, "RATE_LIMITED")}
    assert answers[401, "UNAUTHORIZED"] <= 10
    assert [(await narrow.nobody.get("/readyz")).status for _ in range(20)] == [200] * 20


@pytest.mark.parametrize("token", [None, "guess", "x" * 600], ids=["none", "wrong", "long"])
async def test_who_guesses_locks_out_nobody_else(narrow: House, token: str | None) -> None:
    """R8: good tokens behind the same address are served, seen before or not, the admin's too."""
    stranger = narrow.caller(token)
    answers = counted([await stranger.get("/jobs") for _ in range(20)])
    assert answers == {(401, "UNAUTHORIZED"): 10, (429, "RATE_LIMITED"): 10}
    made = await narrow.admin.post("/admin/tokens", {"name": "new", "role": "user"})
    assert made.status == 201
    for caller in (narrow.ada, narrow.caller(made.json["token"]), narrow.worker, narrow.admin):
        assert (await caller.get("/jobs")).status == 200
    assert (await stranger.get("/jobs")).status == 429


async def test_who_has_a_good_token_is_not_charged_for_its_first_use(narrow: House) -> None:
    """Six tokens, each seen for the first time, leave the guesses of their address as they were."""
    made = [
        await narrow.admin.post("/admin/tokens", {"name": f"u-{n}", "role": "user"})
        for n in range(6)
    ]
    await narrow.nobody.get("/jobs")
    for one in made:
        assert (await narrow.caller(one.json["token"]).get("/jobs")).status == 200
    said = [await narrow.nobody.get("/jobs") for _ in range(10)]
    assert counted(said) == {(401, "UNAUTHORIZED"): 9, (429, "RATE_LIMITED"): 1}


class StillClock:
    """By it no time to look at the loop comes any more."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep_forever()


async def stilled(limits: Any) -> None:
    """From now on the lag is what the test says: its last measurement is over."""
    limits._clock = StillClock(limits._clock)
    limits._lag_s = -1.0
    with anyio.fail_after(120):
        while limits._lag_s < 0:
            await anyio.sleep(0.01)


async def test_under_pressure_callbacks_go_on_and_submissions_are_refused_unread(
    tmp_path: Path,
) -> None:
    """The body of what is refused is not even looked at: it may be anything."""
    registry = definitions(names=("howera",))
    async with opened(tmp_path, limits=Settings(), registry=registry) as house:
        with anyio.fail_after(120):  # it may be busy elsewhere; this limit is the one tried
            while (made := await house.ada.post("/jobs", SUBMISSION)).status == 503:
                await anyio.sleep(0.01)
        limits = house.service.limits
        await stilled(limits)
        limits._lag_s = 1.8
        for body in (b'{"workflow":"howera"}', b"not json at all", b"x" * 300_000):
            said = await house.ada.ask("POST", "/jobs", data=body)
            assert (said.status, said.code) == (503, "OVERLOADED")
            assert 1 <= int(said.headers["Retry-After"]) <= 5
        event = {"event_id": "e", "status": "UPLOADED", "occurred_at": "2026-01-01T00:00:00Z"}
        said = await house.worker.post(f"/internal/jobs/{made.json['id']}/status", event)
        assert said.status == 204
        limits._lag_s = 30.0
        assert (await house.ada.get("/jobs")).status == 503
        assert (await house.nobody.get("/healthz")).status == 200


async def test_too_little_room_on_the_disk(tmp_path: Path) -> None:
    """What is left is for jobs that exist; the log says so once, not for everybody."""
    limits = Settings(free_disk=2**52, lag=0)
    registry = definitions(names=("howera",))
    async with opened(tmp_path, limits=limits, registry=registry) as house:
        with anyio.fail_after(120):
            while (said := await house.ada.post("/jobs", SUBMISSION)).status == 201:
                await anyio.sleep(0.01)
        assert (said.status, said.code) == (503, "STORAGE_FULL")
        for _ in range(5):
            assert (await house.ada.post("/jobs", SUBMISSION)).code == "STORAGE_FULL"
        full = [line for line in house.logged if line["event"] == "storage.full"]
        assert len(full) == 1
        assert (await house.ada.get("/jobs")).status == 200


async def test_every_answer_carries_what_keeps_browsers_safe(house: House) -> None:
    for said in (
        await house.ada.get("/jobs"),
        await house.nobody.get("/jobs"),
        await house.nobody.get("/nowhere"),
        await house.nobody.get("/healthz"),
        await house.ada.post("/jobs", "no"),
    ):
        assert said.headers["X-Content-Type-Options"] == "nosniff"
        assert said.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert said.headers["Referrer-Policy"] == "no-referrer"
        assert said.headers["Cache-Control"] == "no-store"
        assert said.headers["Server"] == "jobrunner"
        assert said.headers["X-Request-Id"]


async def test_operators_have_a_listener_of_their_own(tmp_path: Path) -> None:
    server = ServerSection(port=0, admin_host="127.0.0.1", admin_port=0, drain_seconds=1)
    registry = definitions(names=("howera",))
    async with opened(tmp_path, server=server, registry=registry) as house:
        inside = house.admin
        assert inside.url == house.service.admin_url != house.service.url
        outside = house.caller(inside.token)
        outside.contract = None
        for path in ("/admin/tokens", "/admin/audit", "/metrics"):
            assert (await outside.get(path)).status == 404, path
        assert (await outside.post("/admin/credits/ada/grant", {})).status == 404
        assert (await inside.get("/admin/tokens")).status == 200
        for caller in (inside, outside):
            assert (await caller.get("/healthz")).status == 200
            assert (await caller.get("/jobs")).status == 200


async def test_a_token_has_an_end(house: House) -> None:
    order = {"name": "tom", "role": "user", "expires_in": 3600}
    made = (await house.admin.post("/admin/tokens", order)).json
    created, ends = made["created_at"], made["expires_at"]
    assert created < ends
    tom = house.caller(made["token"])
    assert (await tom.get("/jobs")).status == 200
    both = order | {"expires_at": "2999-01-01T00:00:00Z"}
    said = await house.admin.post("/admin/tokens", both)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_a_token_is_replaced_while_the_old_one_is_good_for_a_while(house: House) -> None:
    first = (await house.admin.post("/admin/tokens", {"name": "kim", "role": "user"})).json
    said = await house.admin.post("/admin/tokens/kim/rotate", {"grace": 600})
    assert (said.status, said.json["name"], said.json["role"]) == (201, "kim", "user")
    old, new = house.caller(first["token"]), house.caller(said.json["token"])
    assert [(await one.get("/jobs")).status for one in (old, new)] == [200, 200]
    listed = {one["id"]: one for one in (await house.admin.get("/admin/tokens")).json["tokens"]}
    assert listed[first["id"]]["expires_at"] is not None
    assert listed[said.json["id"]]["expires_at"] is None
    said = await house.admin.post(f"/admin/tokens/{said.json['id']}/rotate", {"grace": 0})
    newest = house.caller(said.json["token"])
    assert [(await one.get("/jobs")).status for one in (new, newest)] == [401, 200]
    events = [row["event"] for row in (await house.admin.get("/admin/audit")).json["audit"]]
    assert events[:2] == ["token.rotated", "token.rotated"]


async def test_only_what_is_still_good_is_replaced(house: House) -> None:
    for role in ("user", "workflow"):
        await house.admin.post("/admin/tokens", {"name": "two", "role": role})
    said = await house.admin.post("/admin/tokens/two/rotate")
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    for which in ("nobody", "two"):
        await house.admin.delete("/admin/tokens/two")
        said = await house.admin.post(f"/admin/tokens/{which}/rotate")
        assert (said.status, said.code) == (404, "NOT_FOUND")
