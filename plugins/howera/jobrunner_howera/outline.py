"""Steps out of a transcript, by rules: cut where the speaker pauses or turns to something new, and
titled with what is to be done; where nothing is, with the words that carry most.
"""

import math
import re
from collections import Counter
from typing import Annotated

from msgspec import Meta, Struct

from jobrunner_howera import orders

STEP_S = 15.0
STEPS_MAX = 60
TITLE_WORDS, TITLE_MAX = 9, 90
LATER = 0.7
OPENING_SEGMENTS = 8
INTRODUCTION = "Introduction"
PAUSE_S = 1.2
ORDER_S = 4.0
TURNS = re.compile(
    r"^(?:(?:so|okay|ok|alright|all right|well|right|and|but)\b[, ]*)*"
    r"(first|then|next|now|after|finally|lastly|second|third|step|once|when|let's|to start"
    r"|to begin|in short|the (?:first|next|second|third|last|final) (?:thing|step))\b",
    re.IGNORECASE,
)
SENTENCES = re.compile(
    r"(?<=[.!?])\s+|(?<=,)(?<!okay,)(?<!right,)\s+"
    r"(?=(?:okay|ok|alright|now|next|finally|after that|and then|then)\b)",
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
    """A step of the instruction; ``image`` is the address of its picture, ``image_s`` the
    moment that it shows, ``images`` are those of
    what the film shows further on in it; ``doubtful`` are the places of words in the text, counted
    from 0, of which the recogniser was not sure."""

    id: str
    title: str
    text: str
    start_s: float
    end_s: float
    image: str = ""
    image_s: float | None = None
    images: list[str] = []
    doubtful: list[int] = []


class Segment(Struct, frozen=True):
    """A piece of what is said, and when."""

    start_s: float
    end_s: float
    text: str
    doubtful: list[int] = []


class Transcript(Struct, frozen=True):
    """The form of ``transcript.json``, as far as it is read again."""

    segments: Annotated[list[Segment], Meta(min_length=1)]
    warnings: list[str] = []


def extracted(segments: list[Segment]) -> list[Step]:
    """The same transcript always gives the same steps. Nothing of it is left out: what is long gets
    longer steps, not more than a person would follow."""
    step_s, pieces = STEP_S, [piece for one in segments for piece in _sentences(one)]
    while len(groups := _grouped(pieces, step_s)) > STEPS_MAX:
        step_s *= 1.5
    weights = _weights(segments)
    steps = [_step(number, group, weights) for number, group in enumerate(groups, 1)]
    _introduced(steps)
    return steps


def _introduced(steps: list[Step]) -> None:
    """Say so where the speaker only tells at first what will be shown."""
    first = steps[0].text
    if len(steps) > 1 and orders.subject_of(first) and not orders.orders(first):
        steps[0].title = INTRODUCTION


def _sentences(segment: Segment) -> list[Segment]:
    """A recogniser hears several in one breath; each gets its share of the time, by its length."""
    texts = [text for text in SENTENCES.split(segment.text) if text.strip()]
    if len(texts) < 2:
        return [segment]
    whole, start_s, before, pieces = sum(map(len, texts)), segment.start_s, 0, []
    for text in texts:
        end_s = start_s + (segment.end_s - segment.start_s) * len(text) / whole
        count = len(text.split())
        places = [place - before for place in segment.doubtful if 0 <= place - before < count]
        pieces.append(Segment(start_s, end_s, text, places))
        start_s, before = end_s, before + count
    return pieces


def _grouped(segments: list[Segment], step_s: float) -> list[list[Segment]]:
    groups: list[list[Segment]] = []
    for segment in segments:
        if not groups or _turns(groups[-1], segment, step_s):
            groups.append([])
        groups[-1].append(segment)
    return groups


def titled(segments: list[Segment]) -> str:
    """Say what the speaker says that it is about; else the words that it comes back to most."""
    opening = prose([one.text for one in segments[:OPENING_SEGMENTS]])
    if subject := orders.subject_of(opening):
        return subject[:TITLE_MAX]
    words = Counter(word for one in segments for word in _words(one.text))
    often = [word for word, count in words.most_common(3) if count > 1] or list(words)[:3]
    return f"How to: {', '.join(often)}" if often else "Instruction"


def _turns(group: list[Segment], segment: Segment, step_s: float) -> bool:
    """A new step begins after a pause, at a word that announces one, at another order, or when it
    gets long; never before the step before has something to say."""
    length = segment.start_s - group[0].start_s
    if length < step_s / 5:
        return False
    pause = segment.start_s - group[-1].end_s >= PAUSE_S
    whole = group[-1].text.rstrip().endswith((".", "!", "?"))
    long = (length >= step_s and whole) or length >= 2 * step_s
    return long or pause or bool(TURNS.match(segment.text)) or _orders_anew(group, segment, step_s)


def _orders_anew(group: list[Segment], segment: Segment, step_s: float) -> bool:
    """Say whether something else is to be done: at once behind words that order nothing, and
    otherwise where the order before had its time."""
    goes_on = group[-1].text.endswith(",") or segment.text.lower().startswith("and ")
    if goes_on or not orders.orders(segment.text):
        return False
    ordered = any(orders.orders(one.text) for one in group)
    length = segment.start_s - group[0].start_s
    return not ordered or length >= ORDER_S * step_s / STEP_S


def _weights(segments: list[Segment]) -> dict[str, float]:
    """Words that few segments share tell more."""
    seen = Counter(word for one in segments for word in set(_words(one.text)))
    return {word: math.log(1 + len(segments) / count) for word, count in seen.items()}


def _step(number: int, group: list[Segment], weights: dict[str, float]) -> Step:
    text = prose([one.text for one in group])
    return Step(
        id=f"step-{number}",
        title=orders.title_of(text)[:TITLE_MAX] or _title(text, weights),
        text=text,
        start_s=round(group[0].start_s, 2),
        end_s=round(max(one.end_s for one in group), 2),
        doubtful=_doubtful(group),
    )


def _doubtful(group: list[Segment]) -> list[int]:
    places, before = [], 0
    for one in group:
        places += [before + place for place in one.doubtful]
        before += len(one.text.split())
    return places


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
