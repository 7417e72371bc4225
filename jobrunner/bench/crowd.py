"""A client that asks at a fixed rate whatever it is answered, which a program in Python is too slow
for: it is built with the C compiler of the machine, where there is one."""

import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import msgspec
from msgspec import Struct

SOURCE = Path(__file__).with_name("open_loop.c")
COMPILERS = ("cc", "gcc", "clang")


class NoCompiler(Exception):
    """Nothing here can build the client."""


class Crowd(Struct, frozen=True):
    """The result of so many requests. ``unanswered`` are those that were under way at the end."""

    sent: int
    made: int
    refused: int
    other: int
    broken: int
    unanswered: int
    without_retry_after: int
    made_p50_ms: float
    made_p99_ms: float
    refused_p50_ms: float
    refused_p99_ms: float


async def built(folder: Path) -> Path:
    """The client. Raises: NoCompiler."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoCompiler(f"this needs a C compiler, one of {', '.join(COMPILERS)}")
    program = folder / "open_loop"
    await anyio.run_process([compiler, "-O2", "-D_GNU_SOURCE", "-o", str(program), str(SOURCE)])
    return program


async def crowd(
    program: Path, url: str, token: str, rate: float, seconds: float, connections: int, body: bytes
) -> Crowd:
    """Send so many requests a second for so long, over so many connections."""
    words = [urlsplit(url).port, rate, seconds, connections, body.decode()]
    ran = await anyio.run_process(
        [str(program), *map(str, words)], env={**os.environ, "JOBRUNNER_TOKEN": token}, stderr=None
    )
    return msgspec.json.decode(ran.stdout, type=Crowd)
