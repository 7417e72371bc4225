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
from collections import Counter
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from jobrunner import Done, PermanentFailure, PlainContext, openai_like, stage
from jobrunner_howera import film, slides
from jobrunner_howera.audio import video_of
from jobrunner_howera.transcribing import account

MIB = 1024 * 1024
STEP_S = 15.0
STEPS_MAX = 60
TITLE_WORDS, TITLE_MAX = 9, 90
LATER = 0.7
PAUSE_S = 1.2
TURNS = re.compile(
    r"^(first|then|next|now|after|finally|second|third|step|once|when|let's|to start|in short)\b",
    re.IGNORECASE,
)
OPENING = re.compile(
    r"^(?:(?:so|okay|ok|well|now|then|and|but|um+|uh+|alright|right|first of all|you know)"
    r"\b[, ]*)+",
    re.IGNORECASE,
)
COMMON = frozenset(
    "a about after again all also an and any are as at be because been before being but by can "
    "could did do does doing down during each few for from further had has have having he her "
    "here hers him his how i if in into is it its itself just like me more most my no nor not now "
    "of off on once only or other our out over own really said same she so some such than that "
    "the their them then there these they this those through to too under until up us very was "
    "we were what when where which while who whom why will with would you your going got".split()
)


class Step(Struct):
    """A step of the instruction; ``image`` is the address of its picture, ``images`` are those of
    what the film shows further on in it."""

    id: str
    title: str
    text: str
    start_s: float
    end_s: float
    image: str = ""
    images: list[str] = []


class Segment(Struct, frozen=True):
    start_s: float
    end_s: float
    text: str


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
    segments = segments_of(ctx)
    ctx.progress(10, "writing the steps")
    if ctx.settings.get("writer") == "openai":
        title, steps = _asked(ctx, segments)
    else:
        title, steps = titled(segments), extracted(segments)
    _illustrate(ctx, steps)
    value = {"title": title, "steps": [msgspec.to_builtins(step) for step in steps]}
    data = json.dumps(value, ensure_ascii=False, indent=1).encode()
    ctx.save("draft.json", data, asset_type="draft", artifact="draft_uri")
    return Done(artifacts={"draft": value})


def segments_of(ctx: PlainContext) -> list[Segment]:
    with open(ctx.file("transcript_uri"), "rb") as file:
        data = file.read()
    try:
        return msgspec.json.decode(data, type=_Transcript).segments
    except msgspec.DecodeError as error:
        text = "the transcript is not in this stage's format"
        raise PermanentFailure("CORRUPT_INPUT", text, excerpt=str(error)) from error


def extracted(segments: list[Segment]) -> list[Step]:
    """The same transcript always gives the same steps. Nothing of it is left out: what is long gets
    longer steps, not more than a person would follow."""
    step_s = STEP_S
    while len(groups := _grouped(segments, step_s)) > STEPS_MAX:
        step_s *= 1.5
    weights = _weights(segments)
    return [_step(number, group, weights) for number, group in enumerate(groups, 1)]


def _grouped(segments: list[Segment], step_s: float) -> list[list[Segment]]:
    groups: list[list[Segment]] = []
    for segment in segments:
        if not groups or _turns(groups[-1], segment, step_s):
            groups.append([])
        groups[-1].append(segment)
    return groups


def titled(segments: list[Segment]) -> str:
    """By the words that it comes back to most."""
    words = Counter(word for one in segments for word in _words(one.text))
    often = [word for word, count in words.most_common(3) if count > 1] or list(words)[:3]
    return f"How to: {', '.join(often)}" if often else "Instruction"


def _turns(group: list[Segment], segment: Segment, step_s: float) -> bool:
    """A new step begins after a pause, at a word that announces one, or when it gets long; never
    before the step before has something to say."""
    length = segment.start_s - group[0].start_s
    if length < step_s / 5:
        return False
    pause = segment.start_s - group[-1].end_s >= PAUSE_S
    whole = group[-1].text.rstrip().endswith((".", "!", "?"))
    long = (length >= step_s and whole) or length >= 2 * step_s
    return long or pause or bool(TURNS.match(segment.text))


def _weights(segments: list[Segment]) -> dict[str, float]:
    """Words that few segments share tell more."""
    seen = Counter(word for one in segments for word in set(_words(one.text)))
    return {word: math.log(1 + len(segments) / count) for word, count in seen.items()}


def _step(number: int, group: list[Segment], weights: dict[str, float]) -> Step:
    text = prose([one.text for one in group])
    return Step(
        id=f"step-{number}",
        title=_title(text, weights),
        text=text,
        start_s=round(group[0].start_s, 2),
        end_s=round(max(one.end_s for one in group), 2),
    )


def prose(pieces: list[str]) -> str:
    """Sentences out of what a recogniser heard in pieces, each of which it began with a capital."""
    text = ""
    for piece in pieces:
        first = re.match(r"[^\W\d_]+", piece)
        small = bool(first) and first is not None and first[0].lower() in COMMON - {"i"}
        if text and small and not text.endswith((".", "!", "?")):
            text += " " + piece[:1].lower() + piece[1:]
        else:
            text += (" " if text else "") + piece
    return re.sub(r"(^|[.!?]\s+)(\w)", lambda found: found[1] + found[2].upper(), text)


def _title(text: str, weights: dict[str, float]) -> str:
    """The clause of the step that weighs most and is short enough; else how its best one begins."""
    clauses = [
        bare
        for one in re.split(r"[.!?;:,]\s+|[.!?。！？]\s*", text)
        if (bare := OPENING.sub("", one.strip()).strip(".,;:!?。 "))
    ]
    if not clauses:
        return "…"
    short = [one for one in clauses if 3 <= len(one.split()) <= TITLE_WORDS]
    fitting = short or clauses
    later = dict.fromkeys(fitting[1:], LATER)  # what is to be done is mostly said first
    best = max(fitting, key=lambda one: _weight(one, weights) * later.get(one, 1))
    words = best.split()
    title = " ".join(words[:TITLE_WORDS])[:TITLE_MAX]
    return title[:1].upper() + title[1:] + ("…" if title != " ".join(words) else "")


def _weight(sentence: str, weights: dict[str, float]) -> float:
    words = _words(sentence)
    return sum(weights.get(word, 0) for word in words) / (4 + len(words)) if words else 0


def _words(text: str) -> list[str]:
    """Those that mean something, in whatever script."""
    return [word for word in re.findall(r"[^\W\d_]{3,}", text.lower()) if word not in COMMON]


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
        urls = [ctx.save(os.path.basename(one), one, asset_type="frame").url for one in shots]
        step.image, step.images = (urls[0], urls[1:]) if urls else ("", [])
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


class _Transcript(Struct):
    segments: list[Segment]


ORDER = (
    "You turn the transcript of an instructional video into a written instruction. Each line is "
    '[start-end] text, in seconds. Answer with one JSON object: {"title": text, "steps": [{"title":'
    ' text, "text": text, "start_s": number, "end_s": number}]}. Keep to what is said; write steps '
    "that a person can follow; use the speaker's language."
)
