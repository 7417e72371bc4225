"""Kinds of defects that authors plant into their plugins without meaning to, each as somebody might
have written it, and how the proof tells it."""

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
from jobrunner_hello import definition as hello
from msgspec import Struct
from msgspec.structs import replace

from jobrunner import (
    Context,
    Definition,
    Done,
    Edge,
    PermanentFailure,
    PlainContext,
    Reply,
    RetryableFailure,
    Stage,
)

ORDERS = "https://studio.invalid/orders"
SOUND = "hello.greet"


class Planted(Struct, frozen=True):
    """``run`` is the stage; ``told`` a pattern of what the proof says; ``line`` the text of the
    line that must be named, or empty where the stage's first line must be."""

    run: Callable[..., Any]
    told: str
    line: str = ""


def studio(asked: Any) -> Reply:
    """A provider that takes orders."""
    body = msgspec.json.encode({"number": "n-1"})
    return Reply(200, {"content-type": "application/json"}, body, asked.url)


async def order(ctx: Context[Any], key: str | None) -> str:
    headers = {"Idempotency-Key": key} if key else {}
    reply = await ctx.http.post(ORDERS, json={"name": ctx.params.name}, headers=headers)
    return str(reply.json()["number"])


async def passing(seconds: float) -> None:
    """Simulated time goes by."""
    with anyio.move_on_after(seconds):
        await anyio.sleep_forever()


# ---------------------------------------------------------------- effects


async def no_key(ctx: Context[Any]) -> Done:
    number = await ctx.once("order", lambda: order(ctx, None))
    return Done(result=number)


async def random_key(ctx: Context[Any]) -> Done:
    number = await ctx.once("order", lambda: order(ctx, str(uuid.uuid4())))
    return Done(result=number)


async def key_of_the_attempt(ctx: Context[Any]) -> Done:
    key = f"{ctx.job_id}-{ctx.attempt}"
    number = await ctx.once("order", lambda: order(ctx, key))
    if ctx.attempt == 1:
        raise RetryableFailure("BUSY", "not yet")
    return Done(result=number)


async def effect_before_once(ctx: Context[Any]) -> Done:
    number = await order(ctx, None)
    told = await ctx.await_callback(await ctx.once("number", lambda: kept(number)), 60)
    return Done(result=told)


async def kept(value: Any) -> Any:
    return value


async def changing_name(ctx: Context[Any]) -> Done:
    key = ctx.idempotency_key("order")
    number = await ctx.once(f"order-{len(ctx.kept)}", lambda: order(ctx, key))
    await passing(5)
    return Done(result=number)


# ---------------------------------------------------------------- leaving, being left


async def swallowed_cancellation(ctx: Context[Any]) -> Done:
    try:
        await passing(20)
    except BaseException:  # noqa: BLE001 - as authors do
        ctx.log("whatever it was, it goes on")
    return Done()


async def swallowed_parking(ctx: Context[Any]) -> Done:
    try:
        told = await ctx.await_callback("number", 60)
    except BaseException:  # noqa: BLE001 - as authors do
        told = "nobody answers"
    return Done(result=told)


async def endless_farewell(ctx: Context[Any]) -> Done:
    try:
        await passing(20)
    finally:
        for _ in range(100):
            try:
                await passing(3600)
            except asyncio.CancelledError:
                continue
    return Done()


async def left_task(ctx: Context[Any]) -> Done:
    asyncio.create_task(anyio.sleep_forever())  # noqa: RUF006
    return Done()


def left_process(ctx: PlainContext[Any]) -> Done:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    return Done()


async def thread_in_the_loop(ctx: Context[Any]) -> Done:
    threading.Thread(target=print, daemon=True).start()
    return Done()


def left_thread(ctx: PlainContext[Any]) -> Done:
    threading.Thread(target=OVER.wait, args=(30,), daemon=True).start()
    return Done()


OVER = threading.Event()


def left_file(ctx: PlainContext[Any]) -> Done:
    with open(os.path.join(WHERE[0], f"planted-{ctx.job_id}"), "w", encoding="ascii") as file:
        file.write("a report")
    return Done()


WHERE = [""]

# ---------------------------------------------------------------- the loop, the world


async def process_in_the_loop(ctx: Context[Any]) -> Done:
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return Done()


async def real_process(ctx: Context[Any]) -> Done:
    await asyncio.create_subprocess_exec(sys.executable, "-c", "pass")
    return Done()


def network_beside(ctx: PlainContext[Any]) -> Done:
    with urllib.request.urlopen("http://127.0.0.1:1/orders") as answer:
        return Done(result=answer.read().decode())


async def sleeping(ctx: Context[Any]) -> Done:
    time.sleep(0.05)
    return Done()


async def computing(ctx: Context[Any]) -> Done:
    number = 0
    while ctx.params is not None:
        number += 1
    return Done(result=number)


async def spinning(ctx: Context[Any]) -> Done:
    while ctx.params is not None:
        await asyncio.sleep(0)
    return Done()


# ---------------------------------------------------------------- what decides, what comes out

SEEN: list[str] = []


async def global_state(ctx: Context[Any]) -> Done:
    SEEN.append(ctx.job_id)
    return Done(result=len(SEEN))


async def wall_clock(ctx: Context[Any]) -> Done:
    raise PermanentFailure(f"AT_{time.time_ns() // 1000 % 10_000}", "an odd moment")


async def chance(ctx: Context[Any]) -> Done:
    raise PermanentFailure(f"DREW_{random.randrange(10_000)}", "not today")


async def nonsense(ctx: Context[Any]) -> Any:
    return {"done": True}


async def exits(ctx: Context[Any]) -> Done:
    sys.exit(1)


async def bug(ctx: Context[Any]) -> Done:
    return Done(result=ctx.settings["no_such_setting"])


async def never_done(ctx: Context[Any]) -> Done:
    raise PermanentFailure("NO_KEY", "the environment has no key")


PLANTED: dict[str, Planted] = {
    "no idempotency key": Planted(no_key, "made again without a key", "reply = await ctx.http"),
    "random idempotency key": Planted(
        random_key, "one effect under two keys", "reply = await ctx.http"
    ),
    "key of the attempt": Planted(
        key_of_the_attempt, "one effect under two keys", "reply = await ctx.http"
    ),
    "effect before once": Planted(effect_before_once, "before its once", "reply = await ctx.http"),
    "changing name of once": Planted(changing_name, "the name must stay", "ctx.once(f"),
    "swallowed cancellation": Planted(swallowed_cancellation, "swallows its cancellation"),
    "swallowed parking": Planted(swallowed_parking, "swallows what parks it", "ctx.await_callback"),
    "a finally without end": Planted(endless_farewell, "after it was cancelled"),
    "left task": Planted(left_task, "left a task behind", "asyncio.create_task"),
    "left process": Planted(left_process, "left a process behind", "subprocess.Popen"),
    "left thread": Planted(left_thread, "left a thread behind", "target=OVER.wait"),
    "a thread of the loop": Planted(thread_in_the_loop, "starts a thread", "target=print"),
    "left file": Planted(left_file, "left .*planted-.* behind", "with open(os.path.join(WHERE"),
    "a process that the loop waits for": Planted(
        process_in_the_loop, "starts a process", "subprocess.run"
    ),
    "a process of the loop": Planted(real_process, "reaches for", "asyncio.create_subprocess"),
    "network beside the context": Planted(
        network_beside, "reaches for the network beside", "urllib.request.urlopen"
    ),
    "sleeping in the loop": Planted(sleeping, "holds the loop.* it sleeps", "time.sleep(0.05)"),
    "computing in the loop": Planted(computing, "holds the loop.* computed"),
    "spinning": Planted(spinning, "Livelock.*stage hello.greet"),
    "global state": Planted(global_state, "went two ways.*stage hello.greet"),
    "wall clock": Planted(wall_clock, "went two ways.*stage hello.greet"),
    "chance": Planted(chance, "went two ways.*stage hello.greet"),
    "nonsense": Planted(nonsense, "ends as no stage may.*dict"),
    "sys.exit": Planted(exits, "it raises SystemExit", "sys.exit(1)"),
    "a bug": Planted(bug, "it raises KeyError", 'ctx.settings["no_such_setting"]'),
    "an empty proof": Planted(never_done, "never came to done .*NO_KEY"),
}


def stage_of(planted: Planted) -> Stage:
    return Stage(SOUND, planted.run)


def forgetful() -> Definition:
    """A workflow that holds credits and, when the stage fails, keeps them."""
    workflow = hello.workflow
    edges = tuple(_without(edge) for edge in workflow.edges)
    priced = tuple(replace(one, price=2) for one in workflow.job_types)
    birth = replace(workflow.birth, money="hold")
    whole = replace(workflow, edges=edges, job_types=priced, birth=birth)
    return Definition(whole, hello.functions, hello.structs, settings=hello.settings)


def _without(edge: Edge) -> Edge:
    return replace(edge, money="capture" if edge.target == "greeted" else None)
