"""The stage ``howera.draft``: out of what was said, an instruction in steps, each with its time and
a picture of that moment.

Without a provider the steps are drawn from the transcript itself: cut where the speaker pauses or
turns to something new, titled with the words that carry most. With one, a language model writes
them, and is held to the same shape.
"""

import json
import math
import os
import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from jobrunner import Done, PermanentFailure, PlainContext, openai_like, stage
from jobrunner_howera import film, slides
from jobrunner_howera.audio import video_of
from jobrunner_howera.outline import STEPS_MAX, Segment, Step, Transcript, extracted, titled
from jobrunner_howera.transcribing import account

MIB = 1024 * 1024


class Written(Struct):
    """The shape that a language model is held to."""

    title: Annotated[str, Meta(min_length=1, max_length=200)]
    steps: Annotated[list["WrittenStep"], Meta(min_length=1, max_length=STEPS_MAX)]


class WrittenStep(Struct):
    title: Annotated[str, Meta(min_length=1, max_length=200)]
    text: Annotated[str, Meta(min_length=1)]
    start_s: float
    end_s: float


@stage("howera.draft", memory=8192 * MIB)
def draft(ctx: PlainContext) -> Done:
    transcript = transcript_of(ctx)
    segments = transcript.segments
    ctx.progress(10, "writing the steps")
    if ctx.settings.get("writer") == "openai":
        title, steps = _asked(ctx, segments)
    else:
        title, steps = titled(segments), extracted(segments)
    _illustrate(ctx, steps)
    value: dict[str, Any] = {"title": title, "steps": [msgspec.to_builtins(step) for step in steps]}
    if transcript.warnings:
        value["warnings"] = transcript.warnings
    data = json.dumps(value, ensure_ascii=False, indent=1).encode()
    ctx.save("draft.json", data, asset_type="draft", artifact="draft_uri")
    return Done(artifacts={"draft": value})


def transcript_of(ctx: PlainContext) -> Transcript:
    """As a person corrected it, else as it was heard."""
    corrected = ctx.artifacts.get("transcript")
    if corrected is not None:
        return read_transcript(msgspec.json.encode(corrected))
    with open(ctx.file("transcript_uri"), "rb") as file:
        return read_transcript(file.read())


def read_transcript(data: bytes) -> Transcript:
    """Raises: PermanentFailure CORRUPT_INPUT."""
    try:
        return msgspec.json.decode(data, type=Transcript)
    except msgspec.DecodeError as error:
        text = "the transcript is not in this stage's format"
        raise PermanentFailure("CORRUPT_INPUT", text, excerpt=str(error)) from error


def _illustrate(ctx: PlainContext, steps: list[Step]) -> None:
    """A picture a step, where the film has pictures. They are files of the job like the rest. A
    film that is gone by now takes its pictures with it, not the words."""
    try:
        path = video_of(ctx)
        shows = film.looked_into(path).pictures
    except PermanentFailure as fault:
        ctx.log(f"a draft without pictures: {fault.detail}")
        return
    for number, step in enumerate(steps if shows else (), 1):
        shots = slides.shown(path, step.start_s, step.end_s, os.path.join(ctx.scratch, step.id))
        urls = [
            ctx.save(os.path.basename(one.path), one.path, asset_type="frame").url for one in shots
        ]
        if urls:
            step.image, step.image_s, step.images = urls[0], shots[0].moment_s, urls[1:]
        ctx.progress(20 + 75 * number // len(steps), f"picture {number} of {len(steps)}")


def _asked(ctx: PlainContext, segments: list[Segment]) -> tuple[str, list[Step]]:
    """Raises: PermanentFailure BAD_ANSWER, when the model does not keep to the shape."""
    said = "\n".join(f"[{one.start_s:.1f}-{one.end_s:.1f}] {one.text}" for one in segments)
    asked = openai_like.chat(
        account(ctx),
        [{"role": "system", "content": ORDER}, {"role": "user", "content": said}],
        model=str(ctx.settings.get("model") or "gpt-4o-mini"),
        repeat_key=ctx.idempotency_key("draft"),
        response_format={"type": "json_object"},
    )
    answer = openai_like.text_in(ctx.http.exchange(asked.method, asked.url, **asked.options))
    written = read_written(answer, segments[-1].end_s)
    steps = [
        Step(f"step-{number}", one.title, one.text, one.start_s, one.end_s)
        for number, one in enumerate(written.steps, 1)
    ]
    return written.title, steps


def read_written(answer: str, seconds: float) -> Written:
    """Times that lie outside the film are brought inside. A fence around the JSON is forgiven."""
    bare = re.sub(r"^```(?:json)?\s*|\s*```$", "", answer.strip())
    try:
        written = msgspec.json.decode(bare.encode(), type=Written, strict=False)
    except msgspec.DecodeError as error:
        text = "the model did not keep to the format"
        raise PermanentFailure("BAD_ANSWER", text, excerpt=str(error)) from error
    for step in written.steps:
        if not math.isfinite(step.start_s) or not math.isfinite(step.end_s):
            raise PermanentFailure("BAD_ANSWER", f"the model gave no time for {step.title!r}")
        step.start_s = round(min(max(step.start_s, 0), seconds), 2)
        step.end_s = round(min(max(step.end_s, step.start_s), seconds), 2)
    return written


ORDER = (
    "You turn the transcript of an instructional video into a written instruction. Each line is "
    '[start-end] text, in seconds. Answer with one JSON object: {"title": text, "steps": [{"title":'
    ' text, "text": text, "start_s": number, "end_s": number}]}. Keep to what is said; write steps '
    "that a person can follow; use the speaker's language."
)
