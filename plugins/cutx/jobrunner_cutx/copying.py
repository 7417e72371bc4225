"""The stage ``cutx.copy``: five variants of a text, from the built-in copywriter or from a provider
that speaks as OpenAI does."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from jobrunner import Context, Done, PermanentFailure, openai_like, stage
from jobrunner_cutx import copywriter
from jobrunner_cutx.accounts import account
from jobrunner_cutx.params import Copy

ORDER = (
    "You write advertisements. Answer with one JSON object: "
    '{"variants": [{"angle": text, "headline": text, "text": text, "call_to_action": text}]} with '
    "exactly five variants, each from another angle. Say nothing of the product that is not given."
)


class Written(Struct, frozen=True):
    variants: Annotated[list[copywriter.Variant], Meta(min_length=5, max_length=5)]


@stage("cutx.copy")
async def write(ctx: Context[Copy]) -> Done:
    if ctx.settings.get("writer") == "openai":
        variants = await _asked(ctx)
    else:
        variants = copywriter.write(ctx.params)
    return Done(result={"variants": msgspec.to_builtins(variants)})


async def _asked(ctx: Context[Copy]) -> list[copywriter.Variant]:
    asked = openai_like.chat(
        account(ctx.settings, "writer_url", "writer_key_env", "https://api.openai.com/v1"),
        [
            {"role": "system", "content": ORDER},
            {"role": "user", "content": msgspec.json.encode(ctx.params).decode()},
        ],
        model=str(ctx.settings.get("writer_model") or "gpt-4o-mini"),
        repeat_key=ctx.idempotency_key("copy"),
        response_format={"type": "json_object"},
    )
    reply = await ctx.http.exchange(asked.method, asked.url, **asked.options)
    return read(openai_like.text_in(reply))


def read(answer: str) -> list[copywriter.Variant]:
    """Raises: PermanentFailure BAD_ANSWER."""
    bare = answer.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        variants = msgspec.json.decode(bare.encode(), type=Written).variants
    except msgspec.DecodeError as error:
        text = "the writer left the format"
        raise PermanentFailure("BAD_ANSWER", text, excerpt=str(error)) from error
    if not all(one.headline.strip() and one.text.strip() for one in variants):
        raise PermanentFailure("BAD_ANSWER", "the writer left a variant empty")
    return variants
