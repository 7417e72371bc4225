"""One attempt of ``image.generate``: with the built-in sketcher, and with providers on loopback
with which everything goes wrong that can."""

import io
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from jobrunner_image_generation.params import ImageParams
from jobrunner_image_generation.stage import FILE_MAX, generate
from PIL import Image

from jobrunner import Reply
from jobrunner.testing import Attempt, run_stage, run_stage_live
from jobrunner.testing.providers import (
    Cut,
    Endless,
    Fault,
    Hang,
    Made,
    Nonsense,
    OpenAILike,
    Page,
    Plan,
    Redirected,
    Refusal,
    ReplicateLike,
    Slow,
    Status,
    busy,
)

pytestmark = pytest.mark.anyio

HILL = ImageParams(prompt="a hill", size="320x200")
BY_URL = ImageParams(prompt="a hill", options={"response_format": "url"})
FINE = "done"
Said = tuple[str, str, bool]


def openai(provider: OpenAILike, **more: Any) -> dict[str, Any]:
    return {"provider": "openai", "base_url": f"{provider.url}/v1", "model": "fake-1", **more}


def replicate(provider: ReplicateLike, **more: Any) -> dict[str, Any]:
    return {"provider": "replicate", "base_url": f"{provider.url}/v1", "model": "a/b", **more}


def said(attempt: Attempt) -> Said:
    failure = attempt.failure
    return attempt.outcome, failure.code if failure else "", bool(failure and failure.retryable)


def one_original(attempt: Attempt) -> Image.Image:
    """The only file, which is the artifact too."""
    assert said(attempt) == (FINE, "", False), attempt.failure
    (asset,) = attempt.assets
    assert (asset.asset_type, asset.url) == ("image", attempt.artifacts["original"])
    return Image.open(io.BytesIO(attempt.files[asset.url]))


# ---------------------------------------------------------------- the sketcher


def test_without_a_provider_it_is_sketched() -> None:
    """I24 I26"""
    done = run_stage(generate, HILL)
    picture = one_original(done)
    assert picture.size == (320, 200)
    assert done.result == {
        "provider": "sketch",
        "model": "",
        "content_type": "image/png",
        "width": 320,
        "height": 200,
        "seed": int(picture.info["Seed"]),
    }


def test_an_attempt_after_the_sketch_draws_no_second_one() -> None:
    """I26: whatever befell the first attempt after it was written down."""
    first = run_stage(generate, HILL)
    picture = {"original": next(iter(first.files.values()))}
    again = run_stage(generate, HILL, artifacts=first.artifacts, files=picture, attempt=2)
    assert (again.outcome, again.assets, again.result) == (FINE, (), first.result)


def test_a_picture_that_was_damaged_meanwhile_is_not_passed_off() -> None:
    first = run_stage(generate, HILL)
    again = run_stage(generate, HILL, artifacts=first.artifacts, attempt=2)
    assert said(again) == ("failed", "CORRUPT_INPUT", False)


def test_what_another_run_had_is_not_this_ones() -> None:
    before = {"original": "/assets/1/content", "provider_result": {"run_id": "run-0", "url": "x"}}
    one_original(run_stage(generate, HILL, artifacts=before))


@pytest.mark.parametrize(
    ("settings", "params", "code"),
    [
        ({"provider": "oracle"}, HILL, "PROVIDER_UNKNOWN"),
        ({}, ImageParams(prompt="a hill", size="9999x10"), "SIZE_UNSUPPORTED"),
        (
            {"provider": "openai", "models": ["small"]},
            ImageParams(prompt="a hill", model="dear"),
            "MODEL_UNKNOWN",
        ),
    ],
)
def test_what_will_never_do_is_permanent(
    settings: dict[str, Any], params: ImageParams, code: str
) -> None:
    assert said(run_stage(generate, params, settings=settings)) == ("failed", code, False)


def test_a_key_that_is_not_there_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    settings = {"provider": "openai", "key_env": "NO_SUCH_KEY"}
    failed = run_stage(generate, HILL, settings=settings)
    assert said(failed) == ("failed", "PROVIDER_KEY_MISSING", True)


# ---------------------------------------------------------------- OpenAI-like


@pytest.mark.parametrize(
    ("settings", "seconds", "wait_s"),
    [({}, 120, 100), ({}, 0, 100), ({"timeout_s": 7}, 120, 7), ({}, 60, 55), ({}, 3, 1)],
)
def test_a_provider_may_think_but_not_longer_than_the_attempt(
    settings: dict[str, Any], seconds: float, wait_s: float
) -> None:
    """I29: so that it is the provider's timeout, said as such, and not the attempt's."""
    heard = []

    def http(asked: Any) -> Reply:
        heard.append(asked.patience)
        return Reply(500, {}, b"", asked.url)

    run_stage(
        generate, HILL, settings=settings | {"provider": "openai"}, seconds=seconds, http=http
    )
    assert [(one.idle_s, one.total_s) for one in heard] == [(wait_s, wait_s)]


async def test_a_picture_inside_of_the_answer(
    openai_like: OpenAILike, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I24: asked once, with the operator's model and key and the key of this step."""
    monkeypatch.setenv("PICTURE_KEY", "sk-1")
    params = ImageParams(prompt="a hill", seed=7, options={"quality": "high"})
    settings = openai(openai_like, key_env="PICTURE_KEY")
    done = await run_stage_live(generate, params, settings=settings)
    assert one_original(done).size == (16, 16)
    (call,) = openai_like.calls
    assert call.json == {
        "prompt": "a hill",
        "n": 1,
        "model": "fake-1",
        "size": "1024x1024",
        "quality": "high",
        "seed": 7,
    }
    assert (call.key, call.headers["authorization"]) == ("job-1:working:run-1:image", "Bearer sk-1")
    assert done.result == {
        "provider": "openai",
        "model": "fake-1",
        "content_type": "image/png",
        "width": 16,
        "height": 16,
    }


async def test_a_picture_by_its_address(openai_like: OpenAILike) -> None:
    """I24 I25: what is kept is our own copy."""
    done = await run_stage_live(generate, BY_URL, settings=openai(openai_like))
    one_original(done)
    assert [call.route for call in openai_like.calls] == ["images", "files"]
    assert done.artifacts["provider_result"]["url"].startswith(openai_like.url)


async def test_a_slow_answer_is_an_answer(openai_like: OpenAILike) -> None:
    openai_like.script("images", Slow(piece=64, pause_s=0.01))
    one_original(await run_stage_live(generate, HILL, settings=openai(openai_like)))


ASKING: list[tuple[str, Fault, Said]] = [
    ("hangs", Hang(), ("failed", "NETWORK_TIMEOUT", True)),
    ("500", Status(500), ("failed", "REMOTE_FAILED", True)),
    ("503 done", Status(503, done=True), ("failed", "REMOTE_FAILED", True)),
    ("429", busy(7), ("failed", "RATE_LIMITED", True)),
    ("400", Status(400), ("failed", "REMOTE_REFUSED", False)),
    ("401", Status(401), ("failed", "REMOTE_REFUSED", False)),
    ("unsafe", Refusal(), ("rejected", "SAFE_BLOCK", False)),
    ("moderated", Refusal("moderation_blocked"), ("rejected", "SAFE_BLOCK", False)),
    ("no JSON", Nonsense(), ("failed", "BAD_ANSWER", False)),
    ("other JSON", Nonsense('{"data": 1}'), ("failed", "BAD_ANSWER", False)),
    ("no picture", Nonsense('{"data": []}'), ("failed", "BAD_ANSWER", False)),
    ("no base64", Nonsense('{"data": [{"b64_json": "*"}]}'), ("failed", "BAD_ANSWER", False)),
    ("half a PNG", Nonsense('{"data": [{"b64_json": "iVBORw0KGgo="}]}'),
     ("failed", "BAD_ANSWER", False)),
    ("a page in it", Page(), ("failed", "BAD_ANSWER", False)),
    ("led inside", Redirected(), ("failed", "REMOTE_REFUSED", False)),
    ("cut", Cut(), ("failed", "NETWORK_ERROR", True)),
    ("cut late", Cut(after=50), ("failed", "NETWORK_ERROR", True)),
    ("endless", Endless(), ("failed", "DOWNLOAD_TOO_LARGE", False)),
    ("an inner address", Nonsense('{"data": [{"url": "http://169.254.169.254/x"}]}'),
     ("failed", "DOWNLOAD_REFUSED", False)),
    ("no address", Nonsense('{"data": [{"url": "file:///etc/passwd"}]}'),
     ("failed", "DOWNLOAD_REFUSED", False)),
]  # fmt: skip


def patient(fault: Fault) -> dict[str, Any]:
    return {"timeout_s": 0.3} if isinstance(fault, Hang) else {}


@pytest.mark.parametrize(("fault", "wanted"), [r[1:] for r in ASKING], ids=[r[0] for r in ASKING])
async def test_what_goes_wrong_when_it_is_asked_for(
    openai_like: OpenAILike, fault: Fault, wanted: Said
) -> None:
    """I29 I34: classed by what may work next time, with nothing left behind."""
    openai_like.always("images", fault)
    settings = openai(openai_like, **patient(fault))
    failed = await run_stage_live(generate, HILL, settings=settings)
    assert said(failed) == wanted, failed.failure
    assert failed.assets == ()
    assert failed.failure is not None
    assert failed.failure.retry_after_s == (7 if wanted[1] == "RATE_LIMITED" else 0)


FETCHING: list[tuple[str, Fault, Said]] = [
    ("hangs", Hang(), ("failed", "NETWORK_TIMEOUT", True)),
    ("500", Status(500), ("failed", "REMOTE_FAILED", True)),
    ("429", busy(7), ("failed", "RATE_LIMITED", True)),
    ("404", Status(404), ("failed", "REMOTE_REFUSED", False)),
    ("a page", Page(), ("failed", "DOWNLOAD_WRONG_TYPE", False)),
    ("a page called PNG", Page("image/png"), ("failed", "DOWNLOAD_WRONG_TYPE", False)),
    ("nonsense", Nonsense(), ("failed", "DOWNLOAD_WRONG_TYPE", False)),
    ("half a PNG", Nonsense("GIF89a"), ("failed", "BAD_ANSWER", False)),
    ("led inside", Redirected(), ("failed", "DOWNLOAD_REFUSED", False)),
    ("cut", Cut(), ("failed", "NETWORK_ERROR", True)),
    ("cut late", Cut(after=20), ("failed", "NETWORK_ERROR", True)),
    ("endless", Endless(), ("failed", "DOWNLOAD_TOO_LARGE", False)),
]


@pytest.mark.parametrize(
    ("fault", "wanted"), [row[1:] for row in FETCHING], ids=[r[0] for r in FETCHING]
)
async def test_what_goes_wrong_when_it_is_fetched(
    openai_like: OpenAILike, fault: Fault, wanted: Said
) -> None:
    """I25 I29: and the next attempt goes on behind the answer, which was paid for."""
    openai_like.always("files", fault)
    failed = await run_stage_live(generate, BY_URL, settings=openai(openai_like, **patient(fault)))
    assert said(failed) == wanted, failed.failure
    assert failed.assets == ()
    assert failed.failure is not None
    assert wanted[1] != "DOWNLOAD_TOO_LARGE" or str(FILE_MAX) in failed.failure.message
    openai_like.always("files", None)
    again = await run_stage_live(
        generate, BY_URL, settings=openai(openai_like), artifacts=failed.artifacts, attempt=2
    )
    one_original(again)
    assert len(openai_like.calls.of("images")) == 1


# ---------------------------------------------------------------- Replicate-like


async def test_a_prediction_is_ordered_looked_after_and_fetched(
    replicate_like: ReplicateLike,
) -> None:
    replicate_like.usually(Plan(takes_s=0.3))
    params = ImageParams(prompt="a hill", size="640x480", seed=7, options={"steps": 4})
    done = await run_stage_live(generate, params, settings=replicate(replicate_like))
    one_original(done)
    (create,) = replicate_like.calls.of("create")
    assert create.path == "/v1/models/a/b/predictions"
    assert create.json == {
        "input": {"prompt": "a hill", "width": 640, "height": 480, "seed": 7, "steps": 4}
    }
    assert create.key == "job-1:working:run-1:image"
    assert len(replicate_like.calls.of("get")) >= 2


async def test_a_version_is_asked_for_instead_of_a_model(replicate_like: ReplicateLike) -> None:
    settings = replicate(replicate_like, version="5c7d")
    one_original(await run_stage_live(generate, HILL, settings=settings))
    (create,) = replicate_like.calls.of("create")
    assert (create.path, create.json["version"]) == ("/v1/predictions", "5c7d")


PREDICTING: list[tuple[str, Plan, Said]] = [
    ("failed", Plan("failed", "out of memory"), ("failed", "PREDICTION_FAILED", False)),
    ("unsafe", Plan("failed", "NSFW content detected"), ("rejected", "SAFE_BLOCK", False)),
    ("canceled", Plan("canceled"), ("failed", "PREDICTION_FAILED", False)),
]


@pytest.mark.parametrize(
    ("plan", "wanted"), [row[1:] for row in PREDICTING], ids=[r[0] for r in PREDICTING]
)
async def test_how_a_prediction_ends(
    replicate_like: ReplicateLike, plan: Plan, wanted: Said
) -> None:
    """I7 I34"""
    replicate_like.plan(plan)
    failed = await run_stage_live(generate, HILL, settings=replicate(replicate_like))
    assert said(failed) == wanted
    assert failed.assets == ()


@pytest.mark.parametrize("route", ["create", "get", "files"])
@pytest.mark.parametrize("fault", [Hang(done=True), Status(500), busy(7), Cut(after=9)])
async def test_a_prediction_is_ordered_once(
    replicate_like: ReplicateLike, route: str, fault: Fault
) -> None:
    """I29: whichever step fails, the next attempt goes on behind it, or under the same key."""
    replicate_like.script(route, fault)
    settings = replicate(replicate_like)
    failed = await run_stage_live(generate, HILL, settings=settings | patient(fault))
    assert failed.failure is not None
    assert failed.failure.retryable
    again = await run_stage_live(
        generate, HILL, settings=settings, artifacts=failed.artifacts, attempt=2
    )
    one_original(again)
    assert len(replicate_like.predictions) == 1
    assert len(replicate_like.calls.of("create")) == (2 if route == "create" else 1)
    replicate_like.never_twice("create")


@pytest.mark.parametrize("output", [None, [], "no address", 7, {"a": 1}])
async def test_a_prediction_without_a_file(output: Any) -> None:
    async with ReplicateLike(produce=lambda asked: output) as provider:
        failed = await run_stage_live(generate, HILL, settings=replicate(provider))
    assert said(failed) == ("failed", "BAD_ANSWER", False)


@pytest.mark.parametrize("kind", ["gif", "png", "jpeg", "webp"])
async def test_a_picture_that_ends_before_its_end(kind: str) -> None:
    """The first frame of it may be there, or all but its last bytes."""
    frames = [Image.effect_noise((64, 64), 60 + n).convert("RGB") for n in range(3)]
    out = io.BytesIO()
    frames[0].save(out, kind, **({"save_all": True, "append_images": frames[1:]}
                                 if kind in ("gif", "webp") else {}))  # fmt: skip
    whole = out.getvalue()
    ending = {"jpeg": "jpg"}.get(kind, kind)
    for content, outcome in ((whole[:-8], "failed"), (whole, "done")):
        made = Made(content, f"image/{kind}", ending)
        async with ReplicateLike(produce=lambda _, made=made: made) as provider:
            tried = await run_stage_live(generate, HILL, settings=replicate(provider))
        assert tried.outcome == outcome, tried.failure


@pytest.mark.parametrize(
    "answer", [{"id": "", "status": "starting"}, {"status": "starting"}, {"id": 1}, []]
)
def test_an_order_without_a_number(answer: Any) -> None:
    def http(asked: Any) -> Reply:
        return Reply(201, {}, msgspec.json.encode(answer), asked.url)

    scripted: Callable[[Any], Reply] = http
    failed = run_stage(generate, HILL, settings={"provider": "replicate"}, http=scripted)
    assert said(failed) == ("failed", "BAD_ANSWER", False)
