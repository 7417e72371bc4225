"""The stages ``cutx.static_ad``, ``cutx.ugc_video`` and ``cutx.tts``: ordered from a provider that
speaks as Replicate does, which says by webhook when it is done.

The order is made once in a run, whatever falls over meanwhile; while the provider is at work the
job holds nothing. What the provider made is brought home before the job may say that it is done;
where it lies there is noted first, so a download that fails is no reason to order again.
"""

from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import msgspec

from jobrunner import Context, Done, RetryableFailure, cut_short, openai_like, replicate_like, stage
from jobrunner_cutx.accounts import account
from jobrunner_cutx.params import StaticAd, Tts, UgcVideo

SOURCE = "replicate"
AWAIT_S = 900.0
ASKS = {
    "static_ad": "A picture that advertises a product",
    "ugc_video": "A short film of a customer who tells about a product",
}
PICTURES = ("image/png", "image/jpeg", "image/webp")
FILMS = ("video/mp4", "video/webm")
SOUNDS = ("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac")
ENDINGS = {
    "image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "video/mp4": "mp4",
    "video/webm": "webm", "audio/wav": "wav", "audio/mpeg": "mp3", "audio/ogg": "ogg",
    "audio/flac": "flac",
}  # fmt: skip


async def _abandon(ctx: Context[Any]) -> None:
    """Nobody waits for it any more: the provider may stop, and charge us no further."""
    if prediction_id := str(ctx.kept.get("prediction") or ""):
        asked = replicate_like.cancel(_provider(ctx), prediction_id)
        reply = await ctx.http.exchange(asked.method, asked.url, **asked.options)
        replicate_like.prediction_in(reply)


@stage("cutx.static_ad", abandon=_abandon)
async def static_ad(ctx: Context[StaticAd]) -> Done:
    return await _made(ctx, PICTURES, "image")


@stage("cutx.ugc_video", abandon=_abandon)
async def ugc_video(ctx: Context[UgcVideo]) -> Done:
    return await _made(ctx, FILMS, "video")


@stage("cutx.tts", abandon=_abandon)
async def tts(ctx: Context[Tts]) -> Done:
    return await _made(ctx, SOUNDS, "audio")


async def _made(ctx: Context[Any], types: tuple[str, ...], asset_type: str) -> Done:
    url = _noted(ctx)
    if not url:
        prediction_id = await ctx.once("prediction", lambda: _ordered(ctx))
        await ctx.progress(20, "ordered")
        wait_s = float(ctx.settings.get("await_s") or AWAIT_S)
        said = await ctx.await_callback(prediction_id, wait_s, source=SOURCE)
        prediction = msgspec.convert(said, replicate_like.Prediction)
        url = replicate_like.addresses_in(prediction)[0]
        await ctx.checkpoint(prediction={"run_id": ctx.run_id, "id": prediction_id, "url": url})
    await ctx.progress(70, "bringing it home")
    found = await ctx.download(_at_home(ctx, url), "output", types=types)
    if await anyio.to_thread.run_sync(cut_short, found.path, found.content_type):
        text = f"of the {asset_type} that the provider made only a part came; it is fetched again"
        raise RetryableFailure("DOWNLOAD_INCOMPLETE", text)
    name = f"{ctx.job_type}.{ENDINGS[found.content_type]}"
    asset = await ctx.save(name, found.path, asset_type=asset_type, artifact="output")
    result = {"asset_id": asset.id, "content_type": found.content_type, "file_size": found.size}
    return Done(result=result)


async def _ordered(ctx: Context[Any]) -> str:
    models = ctx.settings.get("models")
    model = models.get(ctx.job_type, "") if isinstance(models, dict) else ""
    asked = replicate_like.order(
        _provider(ctx),
        given(ctx.job_type, msgspec.to_builtins(ctx.params), bool(ctx.settings.get("built_in"))),
        model=str(model),
        webhook=ctx.callback_url(SOURCE),
        repeat_key=ctx.idempotency_key("prediction"),
    )
    reply = await ctx.http.exchange(asked.method, asked.url, **asked.options)
    return replicate_like.prediction_in(reply).id


def given(job_type: str, params: dict[str, Any], built_in: bool) -> dict[str, Any]:
    """Make the order: the parameters that were given. Models want a prompt, so one without gets
    what there is to say of the product; the built-in provider draws from the rest."""
    known = {name: value for name, value in params.items() if value is not None}
    if not built_in and job_type in ASKS and "prompt" not in known:
        product = {name: value for name, value in known.get("product", {}).items() if value}
        names = (product.get(name) for name in ("name", "brand", "category", "description"))
        style = str(known.get("style", "")).replace("_", " ")
        parts = (ASKS[job_type], style, *names, *product.get("features", ()), known.get("script"))
        known["prompt"] = ". ".join(str(part).strip(" .") for part in parts if part)
    return {"type": job_type, **known}


def _noted(ctx: Context[Any]) -> str:
    """Where an earlier attempt of this run knows the output to be."""
    found = ctx.artifacts.get("prediction")
    if not isinstance(found, dict) or found.get("run_id") != ctx.run_id:
        return ""
    return str(found.get("url", ""))


def _at_home(ctx: Context[Any], url: str) -> str:
    """The built-in provider may have another port since it said where its output is."""
    if not ctx.settings.get("built_in"):
        return url
    here = urlsplit(str(ctx.settings.get("provider_url")))
    return urlsplit(url)._replace(scheme=here.scheme, netloc=here.netloc).geturl()


def _provider(ctx: Context[Any]) -> openai_like.Account:
    return account(ctx.settings, "provider_url", "provider_key_env")
