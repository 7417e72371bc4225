"""The stage ``howera.transcribe``: what is said, in pieces with their times.

Either the recogniser on this machine, which needs no network and knows English, or any provider
that speaks as OpenAI does. Long recordings are worked on in windows that are cut where it is quiet,
so memory stays small and progress is real.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jobrunner import Done, PermanentFailure, PlainContext, RetryableFailure, openai_like, stage
from jobrunner_howera import film

if TYPE_CHECKING:
    import numpy as np

RATE = 16_000
WINDOW_S = 120.0
QUIET_S = 20.0
PART_S = 900.0
MIB = 1024 * 1024
RECOGNISER, RECOGNISER_SIZE = "recogniser", 512 * MIB
CONTAINER = "/sys/fs/cgroup/memory.max"  # "max" where nothing is less than the machine's
DOUBTFUL = 0.6
ENGLISH = 0.6
FOREIGN = (
    "this is likely not English, which is all that this recogniser knows: what it wrote is guessed."
    ' Have a provider listen (transcriber = "openai"), or write the transcript yourself'
)


class Heard(Struct, frozen=True):
    """A piece of what is said; ``sure`` says of each of its words how sure the recogniser is, where
    it does."""

    start_s: float
    end_s: float
    text: str
    sure: list[float] = []


def _recognisers() -> int:
    """As many as the cores allow that leave one to the service, and as half of the memory does."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError), open(CONTAINER, encoding="ascii") as file:
        memory = min(memory, int(file.read()))
    return max(1, min(cores - 1, memory // 2 // RECOGNISER_SIZE))


@stage(
    "howera.transcribe",
    memory=8192 * MIB,
    resources={RECOGNISER: 1},
    supply={RECOGNISER: _recognisers()},
)
def transcribe(ctx: PlainContext) -> Done:
    audio = ctx.file("audio_uri")
    began = time.monotonic()
    seconds = film.looked_into(audio).seconds
    chosen = str(ctx.settings.get("transcriber") or "moonshine")
    if chosen not in RECOGNISERS:
        known = ", ".join(RECOGNISERS)
        text = f"[workflows.{ctx.workflow}.settings] transcriber = {chosen!r} is none of {known}"
        raise PermanentFailure("PROVIDER_UNKNOWN", text)
    pieces = [piece for piece in RECOGNISERS[chosen](ctx, audio, seconds) if piece.text]
    if not pieces:
        text = "nobody is heard to speak: the recording is silent, or too quiet"
        raise PermanentFailure("SPEECH_MISSING", text)
    return _stored(ctx, pieces, seconds, chosen, time.monotonic() - began)


def _stored(
    ctx: PlainContext, pieces: list[Heard], seconds: float, who: str, took_s: float
) -> Done:
    sure = [share for one in pieces for share in one.sure]
    told = {"confidence": round(sum(sure) / len(sure), 3)} if sure else {}
    transcript: dict[str, Any] = {
        "recogniser": who,
        "seconds": round(seconds, 2),
        **told,
        "warnings": _warned(ctx, told),
        "segments": [_segment(one) for one in pieces],
    }
    data = json.dumps(transcript, ensure_ascii=False, indent=1).encode()
    ctx.save("transcript.json", data, asset_type="transcript", artifact="transcript_uri")
    known = ctx.artifacts.get("metrics")
    words = sum(len(one.text.split()) for one in pieces)
    doubtful = {"doubtful_words": sum(share < DOUBTFUL for share in sure)} if sure else {}
    more = {"words": words, "transcribe_seconds": round(took_s, 1), **told, **doubtful}
    metrics = {**(known if isinstance(known, dict) else {}), **more}
    return Done(artifacts={"metrics": metrics, **_to_review(ctx, transcript)})


def _to_review(ctx: PlainContext, transcript: dict[str, Any]) -> dict[str, Any]:
    """Return what a person corrects, where somebody is to look at it before it is used."""
    return {"transcript": transcript} if ctx.settings.get("review_transcript") else {}


def _warned(ctx: PlainContext, told: dict[str, float]) -> list[str]:
    if told.get("confidence", 1.0) >= ENGLISH:
        return []
    ctx.progress(None, FOREIGN)
    ctx.log(FOREIGN)
    return [FOREIGN]


def _segment(one: Heard) -> dict[str, Any]:
    """``doubtful`` are the places of words in the text, counted from 0."""
    known = {"start_s": round(one.start_s, 2), "end_s": round(one.end_s, 2), "text": one.text}
    doubtful = [place for place, share in enumerate(one.sure) if share < DOUBTFUL]
    return {**known, "doubtful": doubtful} if doubtful else known


def _here(ctx: PlainContext, audio: str, seconds: float) -> Iterator[Heard]:
    """The recogniser on this machine, with the model that came with it."""
    from moonshine_voice import ModelArch, get_model_path
    from moonshine_voice.transcriber import Transcriber

    from jobrunner_howera.confidence import Judge

    folder = str(get_model_path("tiny-en"))
    recogniser, judge = Transcriber(folder, ModelArch.TINY), Judge(folder)
    try:
        for start_s, samples in _windows(audio):
            found = recogniser.transcribe_without_streaming(samples.tolist(), RATE)
            for line in found.lines:
                begin = start_s + line.start_time
                text = _clean(line.text)
                sure = judge.of_words(text, line.audio_data or ())
                yield Heard(begin, begin + line.duration, text, sure)
            done_s = start_s + len(samples) / RATE
            ctx.progress(min(int(100 * done_s / max(seconds, 1)), 99), f"{done_s:.0f} s heard")
    finally:
        recogniser.close()


def _windows(audio: str) -> "Iterator[tuple[float, np.ndarray]]":
    """Cut in the quietest moment of the last seconds of each window."""
    import numpy as np

    held, start_s = np.zeros(0, np.float32), 0.0
    for block in film.samples_of(audio, WINDOW_S):
        fresh = np.frombuffer(block, "<i2").astype(np.float32) / 32768
        held = np.concatenate([held, fresh])
        while len(held) > WINDOW_S * RATE:
            cut = _quietest(held[: int(WINDOW_S * RATE)])
            yield start_s, held[:cut]
            held, start_s = held[cut:], start_s + cut / RATE
    if len(held) > RATE // 10:
        yield start_s, held


def _quietest(window: "np.ndarray") -> int:
    import numpy as np

    step = RATE // 5
    first = len(window) - int(QUIET_S * RATE)
    loudness = [float(np.abs(window[at : at + step]).mean()) for at in range(first, len(window) - step, step)]  # fmt: skip # noqa: E501
    return first + int(np.argmin(loudness)) * step + step // 2


def _there(ctx: PlainContext, audio: str, seconds: float) -> Iterator[Heard]:
    """Sent small, a quarter of an hour at a time, cut where it is quiet. A part that came back is
    kept, and not paid for again when the attempt is interrupted."""
    parts = [(0.0, seconds)] if seconds <= PART_S else _parts(audio)
    for number, (start_s, length_s) in enumerate(parts):
        ctx.progress(100 * number // len(parts), f"sending part {number + 1} of {len(parts)}")
        heard = ctx.once(f"part-{number}", partial(_heard, ctx, audio, start_s, length_s))
        for begin, end, text in heard:
            yield Heard(start_s + begin, start_s + min(end or length_s, length_s), _clean(text))


def _parts(audio: str) -> list[tuple[float, float]]:
    """Windows put together as long as they fit; start and length of each part."""
    parts: list[tuple[float, float]] = []
    for start_s, samples in _windows(audio):
        length_s = len(samples) / RATE
        if parts and parts[-1][1] + length_s <= PART_S:
            parts[-1] = (parts[-1][0], parts[-1][1] + length_s)
        else:
            parts.append((start_s, length_s))
    return parts


def _heard(
    ctx: PlainContext, audio: str, start_s: float, length_s: float
) -> list[tuple[float, float, str]]:
    small = os.path.join(ctx.scratch, "speech.mp3")
    film.spoken(audio, small, start_s, length_s)
    with open(small, "rb") as file:
        data = file.read()
    asked = openai_like.transcription(
        account(ctx),
        data,
        "speech.mp3",
        model=str(ctx.settings.get("transcribe_model") or "whisper-1"),
        language=str(ctx.settings.get("language") or ""),
        repeat_key=ctx.idempotency_key(f"transcribe:{start_s:.0f}"),
    )
    answer = ctx.http.exchange(asked.method, asked.url, **asked.options)
    return [(one.start_s, one.end_s, one.text) for one in openai_like.transcript_in(answer)]


def account(ctx: PlainContext) -> openai_like.Account:
    """Where the provider is, and the key from the environment variable that is named for it."""
    variable = str(ctx.settings.get("key_env") or "")
    key = os.environ.get(variable, "") if variable else ""
    if variable and not key:
        text = f"the environment has no {variable}, which key_env names: set it and start again"
        raise RetryableFailure("PROVIDER_KEY_MISSING", text)
    base_url = str(ctx.settings.get("base_url") or "https://api.openai.com/v1")
    return openai_like.Account(base_url, key)


def _clean(text: str) -> str:
    return " ".join(text.replace(",,", ",").split())


RECOGNISERS: dict[str, Any] = {"moonshine": _here, "openai": _there}
