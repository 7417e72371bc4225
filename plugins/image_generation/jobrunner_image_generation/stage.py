"""The stage ``image.generate``: a picture is made or ordered, brought home, and put on the shelf.

What the provider answered is written down before anything is done with it, so an attempt that is
cut off, or whose download fails, goes on behind the call: nobody pays twice for one picture. The
picture itself appears in the library in the commit that ends the job, or in the commit that writes
the answer down when the answer is the picture; in neither case can there be a second one.
"""

import os
import time
from hashlib import sha256
from typing import Any

from jobrunner import (
    Done,
    Patience,
    PermanentFailure,
    PlainContext,
    RetryableFailure,
    cut_short,
    openai_like,
    replicate_like,
    stage,
)
from jobrunner_image_generation import sketcher
from jobrunner_image_generation.params import ImageParams
from jobrunner_image_generation.pictures import ENDINGS, NoPicture, Shot, looked_at

FILE_MAX = 64 * 1024**2
TIMEOUT_S = 100.0
LAST_S = 5.0
POLL_S, POLL_GROWS, POLL_S_MAX = 0.25, 1.5, 3.0
Ctx = PlainContext[ImageParams]


@stage("image.generate")
def generate(ctx: Ctx) -> Done:
    """Draw with the ``provider`` of the settings: ``sketch``, ``openai`` or ``replicate``."""
    made = _noted(ctx)
    if "picture" in made and "original" in ctx.artifacts:
        ctx.file("original")
        return Done(result=made["picture"])
    provider = str(ctx.settings.get("provider") or "sketch")
    draw = PROVIDERS.get(provider)
    if draw is None:
        known = ", ".join(PROVIDERS)
        text = f"[workflows.{ctx.workflow}.settings] provider = {provider!r} is none of {known}"
        raise PermanentFailure("PROVIDER_UNKNOWN", text)
    told = draw(ctx)
    ctx.progress(90, "stored")
    return Done(result=told)


# ---------------------------------------------------------------- without a provider


def _sketch(ctx: Ctx) -> dict[str, Any]:
    ctx.progress(20, "drawing")
    path = os.path.join(ctx.scratch, "sketch.png")
    seed = _seed(ctx)
    try:
        sketcher.draw(path, ctx.params.prompt, ctx.params.size, seed)
    except sketcher.TooLarge as error:
        raise PermanentFailure("SIZE_UNSUPPORTED", str(error)) from error
    told = _told("sketch", "", looked_at(path)) | {"seed": seed}
    ctx.save("original.png", path, asset_type="image", artifact="original")
    _note(ctx, provider="sketch", picture=told)
    return told


def _seed(ctx: Ctx) -> int:
    """Any will do where none was named, but the same one in every attempt."""
    if ctx.params.seed is not None:
        return ctx.params.seed
    return int.from_bytes(sha256(ctx.job_id.encode()).digest()[:4])


# ---------------------------------------------------------------- as OpenAI speaks


def _openai(ctx: Ctx) -> dict[str, Any]:
    """An answer with the picture in it is stored at once; one with an address only is noted."""
    if not (url := _noted(ctx).get("url", "")):
        asked = _image_wanted(ctx)
        ctx.progress(10, "asking the provider")
        picture = openai_like.picture_in(_answered(ctx, asked))
        if picture.data:
            return _keep(ctx, picture.data)
        url = picture.url
        _note(ctx, provider="openai", url=url)
    return _fetch(ctx, "openai", url)


def _image_wanted(ctx: Ctx) -> Any:
    """Put the order together; options cannot say again what the submission says itself."""
    own = {"account", "prompt", "n", "model", "size", "repeat_key", "seed"}
    options = {name: value for name, value in ctx.params.options.items() if name not in own}
    if ctx.params.seed is not None:
        options["seed"] = ctx.params.seed
    return openai_like.image(
        _account(ctx, "https://api.openai.com/v1"),
        ctx.params.prompt,
        model=_model(ctx),
        size=ctx.params.size,
        repeat_key=ctx.idempotency_key("image"),
        **options,
    )


def _keep(ctx: Ctx, data: bytes) -> dict[str, Any]:
    shot = _sound(data)
    told = _told("openai", _model(ctx), shot)
    ctx.save(f"original.{shot.ending}", data, asset_type="image", artifact="original")
    _note(ctx, provider="openai", picture=told)
    return told


# ---------------------------------------------------------------- as Replicate speaks


def _replicate(ctx: Ctx) -> dict[str, Any]:
    account = _account(ctx, "https://api.replicate.com/v1")
    noted = _noted(ctx)
    if not (url := noted.get("url", "")):
        prediction_id = noted.get("prediction", "") or _ordered(ctx, account)
        url = replicate_like.addresses_in(_awaited(ctx, account, prediction_id))[0]
        _note(ctx, provider="replicate", prediction=prediction_id, url=url)
    return _fetch(ctx, "replicate", url)


def _ordered(ctx: Ctx, account: openai_like.Account) -> str:
    width, _, height = ctx.params.size.partition("x")
    own = {"prompt": ctx.params.prompt, "width": int(width), "height": int(height)}
    given = {**ctx.params.options, **own}
    if ctx.params.seed is not None:
        given["seed"] = ctx.params.seed
    asked = replicate_like.order(
        account,
        given,
        model=_model(ctx),
        version=str(ctx.settings.get("version") or ""),
        repeat_key=ctx.idempotency_key("image"),
    )
    ctx.progress(10, "ordering")
    prediction = replicate_like.prediction_in(_answered(ctx, asked))
    _note(ctx, provider="replicate", prediction=prediction.id)
    return prediction.id


def _awaited(
    ctx: Ctx, account: openai_like.Account, prediction_id: str
) -> replicate_like.Prediction:
    """Asked for until it is over; the attempt's own limit ends what takes too long."""
    asked = replicate_like.look(account, prediction_id)
    pause_s = POLL_S
    while True:
        prediction = replicate_like.prediction_in(_answered(ctx, asked))
        if prediction.over:
            return prediction
        ctx.progress(50, f"the provider is at it: {prediction.status}")
        time.sleep(pause_s)
        pause_s = min(pause_s * POLL_GROWS, POLL_S_MAX)


# ---------------------------------------------------------------- bringing it home


def _fetch(ctx: Ctx, provider: str, url: str) -> dict[str, Any]:
    """Checked by what is in it, whatever the provider calls it."""
    ctx.progress(70, "fetching the picture")
    kinds = tuple(ENDINGS)
    found = ctx.download(url, "original", max_size=FILE_MAX, types=kinds, patience=_patience(ctx))
    shot = _sound(found.path)
    name = f"original.{shot.ending}"
    ctx.save(name, found.path, asset_type="image", artifact="original")
    return _told(provider, _model(ctx), shot)


def _sound(picture: str | bytes) -> Shot:
    try:
        shot = looked_at(picture)
    except NoPicture as error:
        text = "what the provider sent as a picture is none"
        raise PermanentFailure("BAD_ANSWER", text, excerpt=str(error)) from error
    if cut_short(picture, shot.content_type):
        text = "of the picture that the provider sent only a part came"
        raise PermanentFailure("BAD_ANSWER", text)
    return shot


def _told(provider: str, model: str, shot: Shot) -> dict[str, Any]:
    return {
        "provider": provider,
        "model": model,
        "content_type": shot.content_type,
        "width": shot.width,
        "height": shot.height,
    }


def _note(ctx: Ctx, **known: Any) -> None:
    """Durable from here on, with every file that was saved so far."""
    ctx.checkpoint(provider_result={"run_id": ctx.run_id, **known})


def _noted(ctx: Ctx) -> dict[str, Any]:
    """Find what an earlier attempt of this run had from the provider."""
    found = ctx.artifacts.get("provider_result")
    return found if isinstance(found, dict) and found.get("run_id") == ctx.run_id else {}


# ---------------------------------------------------------------- what the operator set


def _model(ctx: Ctx) -> str:
    """The operator's own, unless the submission names one that it may name."""
    wanted, open_to_all = ctx.params.model, ctx.settings.get("models") or []
    if wanted == "default":
        return str(ctx.settings.get("model") or "")
    if open_to_all and wanted not in open_to_all:
        known = ", ".join(["default", *map(str, open_to_all)])
        raise PermanentFailure("MODEL_UNKNOWN", f"model {wanted!r} is none of {known}")
    return wanted


def _account(ctx: Ctx, base_url: str) -> openai_like.Account:
    """Where the provider is, and the key from the environment variable that is named for it."""
    variable = str(ctx.settings.get("key_env") or "")
    key = os.environ.get(variable, "") if variable else ""
    if variable and not key:
        text = f"the environment has no {variable}, which key_env names: set it and start again"
        raise RetryableFailure("PROVIDER_KEY_MISSING", text)
    return openai_like.Account(str(ctx.settings.get("base_url") or base_url), key)


def _patience(ctx: Ctx) -> Patience:
    """A model may think for long before its first byte. Giving up is left to this rather than to
    the attempt's limit, because it can say whom it waited for."""
    wait_s = float(ctx.settings.get("timeout_s") or TIMEOUT_S)
    left_s = ctx.seconds_left()
    if left_s is not None:
        wait_s = min(wait_s, max(left_s - LAST_S, 1.0))
    return Patience(idle_s=wait_s, total_s=wait_s)


def _answered(ctx: Ctx, asked: Any) -> Any:
    return ctx.http.exchange(asked.method, asked.url, patience=_patience(ctx), **asked.options)


PROVIDERS = {"sketch": _sketch, "openai": _openai, "replicate": _replicate}
