"""What providers are asked and how their answers are read, byte by byte and without a network."""

import base64
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from jobrunner import openai_like, replicate_like
from jobrunner.errors import PermanentFailure, Rejected, RetryableFailure, StageFault

ACCOUNT = openai_like.Account("http://127.0.0.1:1/v1/", "secret")
Prediction = replicate_like.Prediction


class Answered(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


def said(body: Any, status: int = 200, **headers: str) -> Answered:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answered(status, names, raw)


def refused(code: str, status: int = 400) -> Answered:
    return said({"error": {"message": "no", "type": "invalid_request_error", "code": code}}, status)


def test_a_picture_is_asked_for() -> None:
    asked = openai_like.image(ACCOUNT, "a cat", size="64x64", repeat_key="k", seed=0)
    assert (asked.method, asked.url) == ("POST", "http://127.0.0.1:1/v1/images/generations")
    assert asked.json == {"prompt": "a cat", "n": 1, "size": "64x64", "seed": 0}
    assert asked.headers == {"Authorization": "Bearer secret", "Idempotency-Key": "k"}


def test_a_picture_comes_as_an_address_or_as_bytes() -> None:
    by_url = said({"data": [{"url": "https://x.example/1.png", "revised_prompt": "a cat"}]})
    assert openai_like.picture_in(by_url).url == "https://x.example/1.png"
    in_it = said({"data": [{"b64_json": base64.b64encode(b"PNG").decode()}]})
    assert openai_like.picture_in(in_it).data == b"PNG"


@pytest.mark.parametrize("code", sorted(openai_like.UNSAFE))
def test_a_refusal_of_the_content_is_a_rejection(code: str) -> None:
    """I34: whatever status it comes with."""
    for status in (400, 403, 422):
        with pytest.raises(Rejected) as fault:
            openai_like.picture_in(refused(code, status))
        assert fault.value.code == "SAFE_BLOCK"


FAULTS: list[tuple[Answered, type[StageFault], str]] = [
    (said({"error": "busy"}, 500), RetryableFailure, "REMOTE_FAILED"),
    (said(b"<html>bad gateway</html>", 502), RetryableFailure, "REMOTE_FAILED"),
    (said(b"", 408), RetryableFailure, "REMOTE_FAILED"),
    (refused("rate_limit_exceeded", 429), RetryableFailure, "RATE_LIMITED"),
    (refused("insufficient_quota", 429), PermanentFailure, "PROVIDER_QUOTA"),
    (refused("invalid_api_key", 401), PermanentFailure, "REMOTE_REFUSED"),
    (refused("model_not_found", 404), PermanentFailure, "REMOTE_REFUSED"),
    (said(b"<html>hello</html>"), PermanentFailure, "BAD_ANSWER"),
    (said(b""), PermanentFailure, "BAD_ANSWER"),
    (said([]), PermanentFailure, "BAD_ANSWER"),
    (said({}), PermanentFailure, "BAD_ANSWER"),
    (said({"error": ["?"]}, 400), PermanentFailure, "REMOTE_REFUSED"),
]


@pytest.mark.parametrize("read", [openai_like.picture_in, openai_like.text_in,
                                  openai_like.transcript_in])  # fmt: skip
@pytest.mark.parametrize(("answer", "kind", "code"), FAULTS)
def test_every_fault_has_its_class(
    answer: Answered, kind: type[StageFault], code: str, read: Any
) -> None:
    """H45 H47 I29: what may be better next time, and what will not be."""
    with pytest.raises(kind) as fault:
        read(answer)
    assert type(fault.value) is kind
    assert fault.value.code == code


def test_an_answer_without_what_was_asked_for_is_a_bad_one() -> None:
    empty = [
        (openai_like.picture_in, {"data": []}),
        (openai_like.picture_in, {"data": [{}]}),
        (openai_like.picture_in, {"data": [{"b64_json": "not base64!"}]}),
        (openai_like.text_in, {"choices": []}),
        (openai_like.text_in, {"choices": [{"message": {"content": " "}}]}),
    ]
    for read, body in empty:
        with pytest.raises(PermanentFailure) as fault:
            read(said(body))
        assert fault.value.code == "BAD_ANSWER", body


def test_how_long_to_wait_is_what_the_provider_says() -> None:
    with pytest.raises(RetryableFailure) as fault:
        openai_like.text_in(said({}, 429, retry_after="7"))
    assert fault.value.retry_after_s == 7


def test_a_text_and_its_refusals() -> None:
    asked = openai_like.chat(ACCOUNT, [{"role": "user", "content": "hi"}], model="m", temperature=0)
    assert asked.json == {
        "messages": [{"role": "user", "content": "hi"}], "model": "m", "temperature": 0,
    }  # fmt: skip
    good = said({"choices": [{"message": {"role": "assistant", "content": "hello"}}]})
    assert openai_like.text_in(good) == "hello"
    for choice in (
        {"message": {"content": None, "refusal": "I will not"}},
        {"message": {"content": "half"}, "finish_reason": "content_filter"},
    ):
        with pytest.raises(Rejected):
            openai_like.text_in(said({"choices": [choice]}))


def test_a_transcript_with_and_without_times() -> None:
    asked = openai_like.transcription(ACCOUNT, b"\x00sound\r\n--", "a.mp3", model="whisper-1")
    assert asked.data is not None
    head, _, rest = asked.data.partition(b"\x00sound\r\n--")
    assert b'name="file"; filename="a.mp3"' in head
    assert b'name="model"\r\n\r\nwhisper-1\r\n' in head
    assert rest.endswith(f"--{openai_like.BOUNDARY}--\r\n".encode())
    assert b"language" not in head
    timed = said({"text": "a b", "segments": [{"start": 0, "end": 1.5, "text": " a "}]})
    assert openai_like.transcript_in(timed) == [openai_like.Spoken(0.0, 1.5, "a")]
    plain = said({"text": " a b ", "duration": 3.0})
    assert openai_like.transcript_in(plain) == [openai_like.Spoken(0.0, 3.0, "a b")]


def test_an_order_and_how_it_goes() -> None:
    asked = replicate_like.order(
        ACCOUNT, {"prompt": "x"}, model="o/n", webhook="https://h.example/w", repeat_key="k"
    )
    assert asked.url == "http://127.0.0.1:1/v1/models/o/n/predictions"
    assert asked.json["webhook_events_filter"] == ["completed"]
    assert asked.headers["Idempotency-Key"] == "k"
    by_version = replicate_like.order(ACCOUNT, {}, model="o/n", version="v1")
    assert by_version.url.endswith("/v1/predictions")
    assert by_version.json == {"input": {}, "version": "v1"}
    assert replicate_like.look(ACCOUNT, "a/../b").url.endswith("/predictions/a%2F..%2Fb")
    assert replicate_like.cancel(ACCOUNT, "p").url.endswith("/predictions/p/cancel")
    assert replicate_like.prediction_in(said({"id": "p", "status": "starting"}, 201)).over is False
    with pytest.raises(PermanentFailure):
        replicate_like.prediction_in(said({"id": "", "status": "starting"}))


@pytest.mark.parametrize(
    "output",
    ["https://x.example/1", ["https://x.example/1"], {"url": "https://x.example/1"},
     ["data:,x", "https://x.example/1"]],
)  # fmt: skip
def test_where_the_output_is(output: Any) -> None:
    done = Prediction("p", "succeeded", output)
    assert replicate_like.addresses_in(done) == ["https://x.example/1"]


@pytest.mark.parametrize(
    ("prediction", "kind", "code"),
    [
        (Prediction("p", "failed", error="NSFW content detected"), Rejected, "SAFE_BLOCK"),
        (Prediction("p", "failed", error="CUDA out of memory"), PermanentFailure,
         "PREDICTION_FAILED"),
        (Prediction("p", "canceled"), PermanentFailure, "PREDICTION_FAILED"),
        (Prediction("p", "succeeded"), PermanentFailure, "BAD_ANSWER"),
        (Prediction("p", "succeeded", ["file:///etc/passwd"]), PermanentFailure, "BAD_ANSWER"),
    ],
)  # fmt: skip
def test_what_failed_there_was_paid_for(
    prediction: Prediction, kind: type[StageFault], code: str
) -> None:
    with pytest.raises(kind) as fault:
        replicate_like.addresses_in(prediction)
    assert fault.value.code == code
