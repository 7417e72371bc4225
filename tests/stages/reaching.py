"""A workflow whose stage reaches beyond its job, in the loop, in a thread and in a process. What a
context that awaits gives is awaited; the deeds are the same."""

import inspect
import os
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jobrunner import (
    Asset,
    Context,
    Definition,
    Done,
    Fetched,
    Held,
    Patience,
    PermanentFailure,
    PlainContext,
    Reply,
    stage,
)
from jobrunner.outgoing.calls import Download, Exchange
from jobrunner.stages import Registry
from jobrunner.stages.requests import Browse
from tests.stages import unruly

FORMS = ("loop", "thread", "process")


class Params(Struct, frozen=True):
    does: str = "get"
    url: str = ""
    name: str = "one.png"


@stage("reaching.loop")
async def in_loop(ctx: Context[Params]) -> Done:
    ctx.log(f"about to {ctx.params.does}")
    found = DEEDS[ctx.params.does](ctx)
    return Done(result=told(ctx, await found if inspect.isawaitable(found) else found))


@stage("reaching.thread", how="thread")
def in_thread(ctx: PlainContext[Params]) -> Done:
    ctx.log(f"about to {ctx.params.does}")
    return Done(result=told(ctx, DEEDS[ctx.params.does](ctx)))


@stage("reaching.process")
def in_process(ctx: PlainContext[Params]) -> Done:
    ctx.log(f"about to {ctx.params.does}")
    return Done(result=told(ctx, DEEDS[ctx.params.does](ctx)))


def given(ctx: Any) -> str:
    """The address in the settings, or the one in the params."""
    return str(ctx.settings.get("base_url", "")) + str(ctx.params.url)


DEEDS: dict[str, Any] = {
    "get": lambda ctx: ctx.http.get(given(ctx)),
    "exchange": lambda ctx: ctx.http.exchange("GET", given(ctx)),
    "post": lambda ctx: ctx.http.post(given(ctx), json={"a": [1]}, headers={"X-Mine": "yes"}),
    "send": lambda ctx: ctx.http.post(given(ctx), data=b"x" * int(ctx.params.name)),
    "large": lambda ctx: ctx.http.get(given(ctx), max_size=64 * 1024 * 1024),
    "odd": lambda ctx: ctx.http.post(given(ctx), data=object()),
    "split": lambda ctx: ctx.http.get(given(ctx), headers={"X-Mine": "a\r\nX-Other: b"}),
    "download": lambda ctx: ctx.download(given(ctx), ctx.params.name, types={"image/png"}),
    "asset": lambda ctx: ctx.asset(ctx.params.url),
    "library": lambda ctx: ctx.library(ctx.params.url or None),
    "save": lambda ctx: ctx.save("a.txt", ctx.params.url.encode(), asset_type="text"),
    "where": lambda ctx: ctx.callback_url("provider"),
    "setting": lambda ctx: ctx.settings.get("base_url"),
    "scratch": lambda ctx: os.listdir(ctx.scratch),
}


def around_the_context(ctx: Any) -> Any:
    """From a process: straight into the pipe, past every check that the context makes."""
    question = LIES[ctx.params.name](given(ctx))
    pipe = ctx._host._pipe
    pipe.say(question)
    if ctx.params.name == "twice":
        pipe.say(question)
    answer = pipe.hear()
    return [type(answer).__name__, getattr(answer, "code", ""), getattr(answer, "detail", "")]


LIES: dict[str, Any] = {
    "name": lambda url: Download(url, "../../../out.png"),
    "patience": lambda url: Exchange("GET", url, patience=Patience(total_s=float("nan"))),
    "redirects": lambda url: Exchange("GET", url, redirects=10**9),
    "size": lambda url: Exchange("GET", url, max_size=10**12),
    "method": lambda url: Exchange("GET / HTTP/1.1\r\nX: y\r\n\r\nGET", url),
    "scheme": lambda url: Exchange("GET", "file:///etc/passwd"),
    "limit": lambda url: Browse(None, 10**9),
    "twice": lambda url: Exchange("GET", url),
}
DEEDS["lie"] = around_the_context


def told(ctx: Any, found: Any) -> Any:
    match found:
        case Reply():
            return {"status": found.status, "body": found.text[:100], "size": len(found.body)}
        case Fetched():
            if os.path.dirname(found.path) != ctx.scratch:
                raise PermanentFailure("LOST", f"{found.path} is not in {ctx.scratch}")
            with open(found.path, "rb") as file:
                size = len(file.read())
            return {"size": size, "sha256": found.sha256, "type": found.content_type}
        case Held():
            with open(found.path, encoding="utf-8") as text:
                return {"id": found.asset.id, "text": text.read()}
        case Asset():
            return {"id": found.id}
        case [*many]:
            return [one.id if isinstance(one, Asset) else one for one in many]
    return found


def definition_of(form: str, settings: dict[str, Any], limit_s: float = 60) -> Definition:
    made = unruly.definition_of(form, f"reaching.{form}", limit_s)
    workflow = replace(made.workflow, settings=settings)
    return Definition(workflow, structs={"params": Params})


def registry(settings: dict[str, Any] | None = None, limit_s: float = 60) -> Registry:
    made = Registry()
    for one in (in_loop, in_thread, in_process):
        made.add(one)
    for form in FORMS:
        made.add(definition_of(form, settings or {}, limit_s))
    assert not made.refused["workflows"], made.refused["workflows"]
    return made
