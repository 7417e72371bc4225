"""The stage ``asset.generation``: every input is made into files of the wanted format and sizes.

One input after the other is finished and written down with its files, so an attempt that is cut
off goes on with the next one. An input that will not do costs itself: the job ends ``partial`` with
an error that names it, and fails only when nothing at all could be made. A disk that will not do is
no input's fault, and costs the attempt.
"""

import os
import time
from contextlib import suppress
from typing import Any

from msgspec import Struct

from jobrunner import Done, Partial, PermanentFailure, PlainContext, RetryableFailure, stage
from jobrunner_asset_pattern import pictures
from jobrunner_asset_pattern.params import Generation
from jobrunner_asset_pattern.pictures import ENDINGS, TYPES

INPUT_MAX = 256 * 1024**2
TRIES = 3
PAUSE_S_MAX = 30.0
PAGE = 20
NAMED_MAX = 10
OURS = "STORAGE"
Ctx = PlainContext[Generation]


class Made(Struct, frozen=True):
    """The outcome of one input: the ids of its files, or why there are none."""

    source: str
    assets: list[str] = []
    error: str = ""


@stage("asset.generation")
def generate(ctx: Ctx) -> Done | Partial:
    sources = ctx.params.inputs
    if not sources:
        text = "there is nothing to work on: name uploaded assets or https addresses in inputs"
        raise PermanentFailure("NO_INPUTS", text)
    made = _known(ctx)
    ctx.progress(_percent(len(made), len(sources)), f"{len(made)} of {len(sources)}")
    for number in range(len(made), len(sources)):
        made.append(_made(ctx, number, sources[number]))
        _tell(ctx, made, len(sources))
    ctx.progress(75, "stored")
    return _outcome(made)


# ---------------------------------------------------------------- one input


def _made(ctx: Ctx, number: int, source: str) -> Made:
    """Nothing is put on the shelf before all of its files are there."""
    scratch = []
    try:
        path, is_ours = _fetched(ctx, number, source)
        scratch += [] if is_ours else [path]
        names = _drawn(ctx, number, path)
    except PermanentFailure as fault:
        return Made(source, error=fault.detail)
    finally:
        for path in scratch:
            with suppress(FileNotFoundError):
                os.unlink(path)
    kept = [ctx.save(os.path.basename(path), path, asset_type=kind) for path, kind in names]
    return Made(source, [asset.id for asset in kept])


def _fetched(ctx: Ctx, number: int, source: str) -> tuple[str, bool]:
    """Its path, and whether it lies in the library. Another try only helps against what is
    retryable; then the input is given up."""
    if not source.startswith(("http://", "https://")):
        return ctx.asset(source).path, True
    for attempt in range(1, TRIES + 1):
        try:
            found = ctx.download(source, f"input-{number + 1}", types=TYPES, max_size=INPUT_MAX)
            return found.path, False
        except RetryableFailure as fault:
            if fault.code.startswith(OURS):
                raise
            error = fault
        if attempt < TRIES:
            ctx.heartbeat()
            time.sleep(min(max(error.retry_after_s, 2.0 ** (attempt - 1)), PAUSE_S_MAX))
    text = f"given up after {TRIES} tries: {error.detail}"
    raise PermanentFailure("INPUT_UNREACHABLE", text)


def _drawn(ctx: Ctx, number: int, path: str) -> list[tuple[str, str]]:
    """The files of one input, with their types. A size that is wanted twice is made once."""
    picture = pictures.read(path)
    kind = picture.kind if ctx.params.format == "original" else ctx.params.format
    made = []
    for edge in dict.fromkeys(ctx.params.sizes or [0]):
        size = f"{edge}px" if edge else "full"  # a figure at its end would be taken for a number
        target = os.path.join(ctx.scratch, f"{number + 1:04d}-{size}.{ENDINGS[kind]}")
        pictures.write(picture, edge, kind, target)
        made.append((target, "thumbnail" if edge else "image"))
    return made


# ---------------------------------------------------------------- what is finished


def _known(ctx: Ctx) -> list[Made]:
    """Find what earlier attempts of this run have finished."""
    made: list[Made] = []
    while len(made) % PAGE == 0:
        kept = ctx.artifacts.get(_page(len(made)))
        if not isinstance(kept, dict) or kept.get("run_id") != ctx.run_id:
            break
        made += [Made(**one) for one in kept["inputs"]]
    return made


def _tell(ctx: Ctx, made: list[Made], total: int) -> None:
    """Durable, then said. In pages, so that what was written once is not written with every
    input that comes after it."""
    first = (len(made) - 1) // PAGE * PAGE
    inputs = [
        {"source": one.source, "assets": one.assets, "error": one.error} for one in made[first:]
    ]
    ctx.checkpoint(**{_page(first): {"run_id": ctx.run_id, "inputs": inputs}})
    ctx.progress(_percent(len(made), total), f"{len(made)} of {total}")


def _page(first: int) -> str:
    return f"finished_{first // PAGE + 1}"


def _percent(done: int, total: int) -> int:
    """Half way is said as such, whatever the number of inputs."""
    return 50 if done == (total + 1) // 2 else 25 + 50 * done // total


def _outcome(made: list[Made]) -> Done | Partial:
    failed = [one for one in made if one.error]
    result: dict[str, Any] = {
        "asset_count": sum(len(one.assets) for one in made),
        "failed": [{"input": one.source, "error": one.error} for one in failed],
    }
    if not failed:
        return Done(result=result)
    text = listed([f"{one.source[:200]}: {one.error[:200]}" for one in failed])
    if len(failed) == len(made):
        raise PermanentFailure("NOTHING_MADE", f"none of the inputs could be used: {text}")
    return Partial(f"{len(failed)} of {len(made)} inputs failed: {text}", result=result)


def listed(faults: list[str]) -> str:
    """The first ones by name; all of them are in the result."""
    more = len(faults) - NAMED_MAX
    return "; ".join(faults[:NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")
