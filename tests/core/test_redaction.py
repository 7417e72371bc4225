"""What is taken out of texts, and what is left in them."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from jobrunner.core.features.redaction import GONE, Redaction, redacted
from jobrunner.core.job import STAGE, Failure
from jobrunner.core.messages import (
    Answered,
    Beat,
    Checkpoint,
    Do,
    Ended,
    Keep,
    Move,
    Report,
    Start,
    Told,
)
from jobrunner.stages.secret_settings import secrets_of_settings
from tests.driving import ADMIN, WORKER

KEY = "kanarie/7+f3 e1"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Bearer abc.DEF-123456 is wrong", f"Bearer {GONE} is wrong"),
        ("Authorization: Basic YWRhOnBhc3N3b3Jk", f"Authorization: Basic {GONE}"),
        ("no: sk-proj-4f8a9b2c7d1e", f"no: {GONE}"),
        ("r8_A1b2C3d4E5f6 and hf_abcdefghijkl", f"{GONE} and {GONE}"),
        ("whsec_MfKQ9r8+KYqrTwj/PD8ILPZIo2LaLaSw==", GONE),
        ("AKIAIOSFODNN7EXAMPLE", GONE),
        ("https://ada:s3cret@host/path", f"https://{GONE}@host/path"),
        ('{"api_key": "0123456789abcdef"}', '{"api_key": "' + GONE + '"}'),
        ("?X-Amz-Signature=8f0a1b2c3d&x=1", f"?X-Amz-Signature={GONE}&x=1"),
        ("password=hunter2hunter2", f"password={GONE}"),
    ],
)
def test_what_looks_like_a_key(text: str, left: str) -> None:
    assert Redaction()(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "the provider at api.example.org answered 401",
        "a token: expected a string, got an integer",
        "the secret is out, the keys are on the table",
        "write to ada@example.org by 10:30",
        "basic training, bearer of good news",
        "the task-force risk-averse at 12345678",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert Redaction()(text) == text


@pytest.mark.parametrize("piece", ["a", "secret=", "token: ", "eyJ-", "eyJaaaaaaaa.", "a://b@"])
def test_no_text_takes_longer_than_it_is_long(piece: str) -> None:
    """Whoever may report something may send as many letters as a body has, and the loop reads them.
    What looked for each beginning in all that follows took minutes."""
    with within_processor_s(2):
        Redaction()("basic " + piece * (100_000 // len(piece)))


@contextmanager
def within_processor_s(seconds: float) -> Iterator[None]:
    """Only against hanging: what this process works, whatever else the machine does."""

    def over(*_: Any) -> None:
        raise AssertionError(f"it took more than {seconds} s of the processor")

    former = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def test_a_secret_behind_a_word_that_is_none_goes() -> None:
    clean = Redaction()
    assert clean("secret= mysecret: hunter2hunter2") == f"secret= mysecret: {GONE}"
    assert clean("a-eyJhbGciOiJI.eyJzdWIiOiIx.sig and eyJ") == f"a-{GONE} and eyJ"
    assert clean("(9http://ada:pw@host)") == f"(9http://{GONE}@host)"


def test_values_are_taken_out_wherever_they_stand() -> None:
    clean = Redaction([KEY, "", "abc"])
    assert clean(f"<{KEY}> kanarie%2F7%2Bf3%20e1 abc") == f"<{GONE}> {GONE} abc"
    assert clean.within({"a": [KEY, 1, {"b": KEY}], KEY: None}) == {
        "a": [GONE, 1, {"b": GONE}],
        GONE: None,
    }
    assert clean.within("Bearer abcdefgh12345") == "Bearer abcdefgh12345"


def test_longer_secrets_go_first() -> None:
    clean = Redaction(["secret"])
    clean.learn(["secretissimo"])
    assert clean("secretissimo secret") == f"{GONE} {GONE}"


MESSAGES: list[Any] = [
    Ended(
        1,
        "failed",
        Report(result={"a": KEY}, artifacts={"b": [KEY]}, message=KEY),
        Failure("X", KEY, detail=KEY),
        log=(KEY, f"it says {KEY}"),
    ),
    Move(WORKER, "failed", Report(failure_message=KEY, result={"a": KEY}), reason=KEY),
    Checkpoint(1, Report(artifacts={"b": KEY})),
    Beat(STAGE, 1, KEY),
    Keep(1, "ordered", {"echo": KEY}),
    Answered(WORKER, "p-1", [KEY]),
    Told("source", "w-1", "p-1", {"error": KEY}),
    Do(ADMIN, "fail", {"failure_message": KEY, "failure_code": "X"}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=[type(one).__name__ for one in MESSAGES])
def test_every_word_that_enters(message: Any) -> None:
    clean = Redaction([KEY])
    assert KEY not in repr(redacted(message, clean))
    assert GONE in repr(redacted(message, clean))
    assert redacted(message, Redaction()) == message
    assert redacted(Start(), clean) == Start()


def test_secrets_of_settings() -> None:
    environ = {"A": "from-a", "B": "from-b", "C": "from-c", "D": "from-d"}
    settings = {
        "key_env": "A",
        "writer_key_env": "B",
        "environment": ["C", "NOT_SET"],
        "nested": {"secret_env": "D", "model": "m"},
        "api_key": "written out",
        "base_url": "https://ada:s3%2Fcret@host/v1",
        "monkey": "no secret",
        "model": "gpt",
        "await_s": 900,
    }
    found = set(secrets_of_settings(settings, environ)) - {""}
    assert found == {"from-a", "from-b", "from-c", "from-d", "written out", "s3/cret"}
