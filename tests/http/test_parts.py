"""The small parts: instants, tags, cursors, problems, tokens."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode

from jobrunner.core.instants import instant_of, text_of, timed
from jobrunner.core.job import Actor
from jobrunner.core.questions import Token
from jobrunner.errors import JobrunnerError, OutcomeUnknown, Refused, StorageFull
from jobrunner.http.frame.auth import REMEMBERED_MAX, Keyring
from jobrunner.http.frame.inputs import cursor_of, key_of
from jobrunner.http.frame.problems import problem, refusal_of
from jobrunner.ports import digest

pytestmark = pytest.mark.anyio


def test_instants_are_utc_with_milliseconds_and_z() -> None:
    assert text_of(0) == "1970-01-01T00:00:00.000Z"
    assert text_of(1_767_225_600_007) == "2026-01-01T00:00:00.007Z"


@given(st.integers(0, 4_000_000_000_000), st.integers(-14 * 60, 14 * 60))
def test_an_instant_is_the_same_at_every_offset(instant: int, minutes: int) -> None:
    zone = timezone(timedelta(minutes=minutes))
    there = datetime.fromisoformat(text_of(instant)).astimezone(zone)
    assert instant_of(there, "$") == instant


def test_the_edges_of_the_calendar_are_instants_too() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert text_of(instant_of(first, "$")) == "0001-01-01T00:00:00.000Z"
    assert text_of(instant_of(last, "$")) == "9999-12-31T23:59:59.999Z"


FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.mark.parametrize(("edge", "hours"), [(FIRST, 14), (LAST, -14)])
def test_beyond_them_nothing_is_an_instant(edge: datetime, hours: int) -> None:
    """Stored, it could never be shown again: not the job, and no list that it is in."""
    with pytest.raises(Refused, match="VALIDATION_ERROR") as refused:
        instant_of(edge.replace(tzinfo=timezone(timedelta(hours=hours))), "$.run_at")
    assert refused.value.extra["errors"][0]["path"] == "$.run_at"


def test_whole_numbers_under_names_of_instants_become_text() -> None:
    said = {"lease_until": 0, "at": 0, "n": 0, "timers": [{"due_at": 0}], "seen_at": None}
    assert timed(said) == {
        "lease_until": "1970-01-01T00:00:00.000Z",
        "at": "1970-01-01T00:00:00.000Z",
        "n": 0,
        "timers": [{"due_at": "1970-01-01T00:00:00.000Z"}],
        "seen_at": None,
    }


@given(st.integers(0, 2**53))
def test_a_cursor_leads_back(key: int) -> None:
    assert key_of(cursor_of(key)) == key


@pytest.mark.parametrize(
    "cursor", ["", "5", "YzE6NQ", "c1-", "c1--5", "ö", "c1-5\n", "c1-G", "c1-" + "f" * 16]
)
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(Refused):
        key_of(cursor)


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (StorageFull(), "STORAGE_FULL", 503),
        (OutcomeUnknown(), "OUTCOME_UNKNOWN", 503),
        (JobrunnerError("secret"), "INTERNAL", 500),
        (Refused("JOB_LOCKED", "no"), "JOB_LOCKED", 409),
    ],
)
def test_every_error_of_ours_has_a_problem(error: Exception, code: str, status: int) -> None:
    refused = refusal_of(error)
    assert refused is not None
    said = decode(problem(refused, "c-1").body)
    assert (said["error_code"], said["status"], said["correlation_id"]) == (code, status, "c-1")
    assert "secret" not in said["detail"]


def test_a_bug_is_none_of_them() -> None:
    assert refusal_of(KeyError("x")) is None


def test_what_a_code_brings_along_replaces_no_member() -> None:
    refused = Refused("JOB_VERSION_CONFLICT", "no", current_version=7, last_at=0)
    refused.extra["detail"] = "other"
    said = decode(problem(refused, "c").body)
    assert said["detail"] == "no"
    assert said["current_version"] == 7
    assert said["last_at"] == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("code", "header"),
    [("UNAUTHORIZED", "WWW-Authenticate"), ("OVERLOADED", "Retry-After")],
)
def test_headers_that_a_status_needs(code: str, header: str) -> None:
    assert header in problem(Refused(code, "no"), "c").headers


class Tokens:
    """A reader that knows tokens, and counts how often it is asked."""

    def __init__(self) -> None:
        self.known: dict[bytes, Token] = {}
        self.asked = 0

    def add(self, text: str, **more: Any) -> None:
        fields: dict[str, Any] = {"id": text, "name": "ada", "role": "user", "created_at": 0} | more
        self.known[digest(text.encode())] = Token(**fields)

    async def token(self, key: bytes) -> Token | None:
        self.asked += 1
        return self.known.get(key)


class Clock:
    time = 0

    def now(self) -> int:
        return self.time

    def monotonic(self) -> float:
        return self.time / 1000

    async def sleep(self, seconds: float) -> None:
        self.time += int(seconds * 1000)


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keyring(tokens: Tokens, clock: Clock) -> Keyring:
    return Keyring(tokens, clock, "tokens")  # type: ignore[arg-type]


async def refused(keyring: Keyring, header: str | None) -> str:
    with pytest.raises(Refused) as caught:
        await keyring.actor_of(header)
    assert caught.value.code == "UNAUTHORIZED"
    return caught.value.detail


async def test_a_token_is_looked_up_once(keyring: Keyring, tokens: Tokens) -> None:
    tokens.add("abc")
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert await keyring.actor_of(f"{scheme} abc") == Actor("ada", "user", "abc")
    assert tokens.asked == 1


@pytest.mark.parametrize(
    "header", [None, "", "abc", "Basic abc", "Bearer", "Bearer ", "Bearer " + "a" * 600]
)
async def test_no_bearer_token(keyring: Keyring, tokens: Tokens, header: str | None) -> None:
    tokens.add("abc")
    await refused(keyring, header)
    assert tokens.asked == 0


async def test_an_unknown_token_is_not_remembered(keyring: Keyring, tokens: Tokens) -> None:
    await refused(keyring, "Bearer abc")
    tokens.add("abc")
    assert await keyring.actor_of("Bearer abc") == Actor("ada", "user", "abc")


async def test_a_token_expires_while_it_is_remembered(
    keyring: Keyring, tokens: Tokens, clock: Clock
) -> None:
    tokens.add("abc", expires_at=1000)
    await keyring.actor_of("Bearer abc")
    clock.time = 1000
    assert "expired" in await refused(keyring, "Bearer abc")


async def test_a_revoked_token_is_refused_at_once(keyring: Keyring, tokens: Tokens) -> None:
    tokens.add("abc")
    await keyring.actor_of("Bearer abc")
    tokens.add("abc", revoked_at=5)
    keyring.forget()
    assert "revoked" in await refused(keyring, "Bearer abc")


async def test_a_token_read_before_a_change_is_not_remembered_after_it(
    clock: Clock, tokens: Tokens
) -> None:
    """A lookup that overlaps a revocation must not bring the old answer back."""
    tokens.add("abc")

    class Overlapping(Tokens):
        async def token(self, key: bytes) -> Token | None:
            found = tokens.known.get(key)
            overlapped.forget()
            self.asked += 1
            return found

    reader = Overlapping()
    overlapped = Keyring(reader, clock, "tokens")  # type: ignore[arg-type]
    await overlapped.actor_of("Bearer abc")
    await overlapped.actor_of("Bearer abc")
    assert reader.asked == 2


async def test_memory_is_bounded_whatever_tokens_come(keyring: Keyring, tokens: Tokens) -> None:
    for number in range(REMEMBERED_MAX + 10):
        tokens.add(f"t{number}")
        await keyring.actor_of(f"Bearer t{number}")
    assert len(keyring._known) <= REMEMBERED_MAX


async def test_without_tokens_everybody_is_the_local_admin(tokens: Tokens, clock: Clock) -> None:
    keyring = Keyring(tokens, clock, "none")  # type: ignore[arg-type]
    assert await keyring.actor_of(None) == Actor("local", "admin")
