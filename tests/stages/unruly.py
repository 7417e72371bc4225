"""A workflow whose stage, in a process of its own, does what its params say: mostly what no stage
should do."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import Any, NoReturn

from msgspec import Struct

from jobrunner import (
    Definition,
    Done,
    Edge,
    JobType,
    Lock,
    Partial,
    PermanentFailure,
    PlainContext,
    Rejected,
    Retry,
    RetryableFailure,
    State,
    Workflow,
    stage,
)

MIB = 1024 * 1024
MANY = 400  # of a thousand a second


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    """``mark`` goes into the name of every process that is left behind on purpose."""

    does: str = "work"
    mark: str = ""
    gate: str = ""


class Unreadable(Exception):
    """An exception that cannot even say what it is."""

    def __str__(self) -> str:
        raise ZeroDivisionError


@stage("unruly.stage", memory=512 * MIB, cpu_s=5, file_size=8 * MIB, output=2 * MIB, processes=32)
def misbehave(ctx: PlainContext[Params]) -> Any:
    ctx.log(f"about to {ctx.params.does}")
    return DEEDS[ctx.params.does](ctx)


@stage("unruly.thread", how="thread")
def misbehave_in_thread(ctx: PlainContext[Params]) -> Any:
    return DEEDS[ctx.params.does](ctx)


@stage("unruly.awaiting", how="process")
async def misbehave_awaiting(ctx: Any) -> Done:
    await ctx.progress(10, "awaiting")
    value = await ctx.once("draw", drawn)
    return Done(result={"drawn": value, "name": ctx.params.mark})


async def drawn() -> int:
    return 7


def work(ctx: PlainContext[Params]) -> Done:
    ctx.progress(40, "half way")
    return Done(result={"pid": os.getpid(), "nice": os.nice(0), "mark": ctx.params.mark})


def hang(ctx: PlainContext[Params]) -> NoReturn:
    """Deaf to being asked."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(0.05)


def spin(ctx: PlainContext[Params]) -> NoReturn:
    while True:
        pass


def fork(ctx: PlainContext[Params]) -> NoReturn:
    """Grandchildren of every kind: in its group, in a session of their own, without a parent."""
    for _ in range(4):
        sleeper(ctx.params.mark)
        sleeper(ctx.params.mark, start_new_session=True)
        orphan(ctx.params.mark)
    hang(ctx)


def flee(ctx: PlainContext[Params]) -> Done:
    """Comes back as if nothing were, and leaves processes behind."""
    sleeper(ctx.params.mark, start_new_session=True)
    orphan(ctx.params.mark)
    return Done()


def multiply(ctx: PlainContext[Params]) -> NoReturn:
    for _ in range(60):
        sleeper(ctx.params.mark)
    hang(ctx)


def sleeper(mark: str, **how: Any) -> None:
    subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)", mark], **how)


def orphan(mark: str) -> None:
    if os.fork() == 0:
        os.setsid()
        sleeper(mark)
        os._exit(0)


def eat(ctx: PlainContext[Params]) -> NoReturn:
    eaten = [b""]
    while True:
        eaten.append(bytes(8 * MIB) + eaten[-1][:1])


def fill(ctx: PlainContext[Params]) -> NoReturn:
    with open(os.path.join(ctx.scratch, "waste"), "wb") as file:
        while file.write(b"\0" * MIB):
            file.flush()
    raise AssertionError


def chatter(ctx: PlainContext[Params]) -> Done:
    for _ in range(100):
        print("x" * MIB)
    return Done()


def segfault(ctx: PlainContext[Params]) -> Done:
    ctypes.string_at(0)
    return Done()


def nonsense(ctx: PlainContext[Params]) -> Any:
    return {"result": "is no outcome"}


def unstorable(ctx: PlainContext[Params]) -> Done:
    return Done(result={"object": object()})


def garbage(ctx: PlainContext[Params]) -> Done:
    """Writes whatever it likes to every pipe that it can find."""
    for number in range(3, 40):
        try:
            os.write(number, b"\xff" * 64)
        except OSError:
            continue
    return Done()


def swallow(ctx: PlainContext[Params]) -> NoReturn:
    signal.signal(signal.SIGTERM, lambda *_: None)
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:  # noqa: BLE001
            continue


def mumble(ctx: PlainContext[Params]) -> NoReturn:
    raise Unreadable


def rush(ctx: PlainContext[Params]) -> Done:
    """A thousand times a second, for a second, or for as long as a busy machine needs for many."""
    began = time.monotonic()
    count = 0
    while time.monotonic() < began + 1 or count < MANY:
        ctx.progress(count % 100, f"step {count}")
        count += 1
        time.sleep(0.0005)
    ctx.progress(99, "the last one")
    return Done(result={"reported": count, "took_s": time.monotonic() - began})


def leave(ctx: PlainContext[Params]) -> NoReturn:
    raise SystemExit(3)


def vanish(ctx: PlainContext[Params]) -> NoReturn:
    os._exit(0)


def wait(ctx: PlainContext[Params]) -> Done:
    while not os.path.exists(ctx.params.gate):
        time.sleep(0.01)
        ctx.heartbeat()
    return Done()


def deaf(ctx: PlainContext[Params]) -> Done:
    while not os.path.exists(ctx.params.gate):
        time.sleep(0.01)
    return Done()


def look(ctx: PlainContext[Params]) -> Done:
    """What it finds around it."""
    return Done(
        result={
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            "stdin": sys.stdin.read(),
            "session": os.getsid(0) == os.getpid(),
            "key": ctx.idempotency_key("provider"),
            "left": ctx.seconds_left(),
        }
    )


def offered(ctx: PlainContext[Params]) -> Done:
    """To the kernel, when it has to end somebody."""
    with open("/proc/self/oom_score_adj") as file:
        return Done(result={"first_to_go": int(file.read())})


def library(ctx: PlainContext[Params]) -> Done:
    ctx.save("text.txt", b"a text", asset_type="text", artifact="text_uri")
    return Done()


def litter(ctx: PlainContext[Params]) -> Any:
    """One file is the job's for good, one belongs to a result that is kept, one is delivered by
    nobody, unless it is done; then it ends as ``mark`` says."""
    ctx.save("sure.txt", b"sure", asset_type="text", artifact="text_uri")
    ctx.checkpoint()
    ctx.once("shelf", lambda: ctx.save("kept.txt", b"kept", asset_type="text").storage_path)
    ctx.save("lost.txt", b"lost", asset_type="text")
    return DEEDS[ctx.params.mark](ctx)


def retry(ctx: PlainContext[Params]) -> Done:
    raise RetryableFailure("RATE_LIMITED", "slow down", retry_after_s=0.01)


def never(ctx: PlainContext[Params]) -> Done:
    raise PermanentFailure("NO_PERMISSION", "the key is wrong")


def refuse(ctx: PlainContext[Params]) -> Done:
    raise Rejected("POLICY", "not this")


def half(ctx: PlainContext[Params]) -> Partial:
    return Partial("one of two")


def network(ctx: PlainContext[Params]) -> Done:
    raise ConnectionResetError("the provider hung up")


def call_back(ctx: PlainContext[Params]) -> Done:
    ticket = ctx.once("order", lambda: f"ticket-{os.getpid()}")
    answer = ctx.await_callback(ctx.params.mark, 60)
    return Done(result={"ticket": ticket, "answer": answer, "by": os.getpid()})


DEEDS = {
    deed.__name__: deed
    for deed in (
        work, hang, spin, fork, flee, multiply, eat, fill, chatter, segfault, nonsense, unstorable,
        garbage, swallow, mumble, rush, leave, vanish, wait, deaf, look, library, offered, retry,
        never, refuse, half, network, call_back, litter,
    )
}  # fmt: skip


def definition_of(name: str, stage_name: str, limit_s: float = 60, tries: int = 1) -> Definition:
    """A queue, the stage, and an end for every outcome."""
    return Definition(
        Workflow(
            name=name,
            version="1",
            initial="queued",
            states=(
                State("queued", "queued", onward={"*": "working"}),
                State(
                    "working",
                    "active",
                    stage={"*": stage_name},
                    done="done",
                    rejected="rejected",
                    limit_s=limit_s,
                    retry=Retry("inside", failed=("failed",), max=tries, base_s=0.01, jitter=0),
                ),
                State("done", "final", entry=100, ends="completed"),
                State("rejected", "final", ends="rejected"),
                State("failed", "final", ends="failed", fails=("failure_message",)),
                State("canceled", "final", ends="canceled"),
            ),
            edges=(
                Edge("queued", "working", by=("engine",)),
                Edge("queued", "canceled", by=("user", "admin")),
                Edge("working", "done", by=("stage",)),
                Edge("working", "rejected", by=("stage",)),
                Edge("working", "failed", by=("stage", "timer", "engine")),
                Edge("working", "canceled", by=("user", "admin")),
            ),
            job_types=(JobType("any", params="params"),),
            locks=(Lock("job", guarded=("working",)),),
        ),
        structs={"params": Params},
    )
