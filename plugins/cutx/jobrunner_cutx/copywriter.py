"""The built-in copywriter: five variants of an advertisement out of what is known of a product.

It knows patterns and no more: each variant takes another angle, the tone chooses the words, and the
platform how many there may be. It says whole sentences, as many as there is room for, and nothing
of the product that was not given. Of the customer's instructions it takes what stands in quotation
marks, word for word: it cannot follow the rest. The same order is the same text.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256

from msgspec import Struct

from jobrunner_cutx.params import Copy, Product

LIMITS = {
    "meta": (40, 125), "tiktok": (60, 100), "google": (30, 90), "linkedin": (70, 150),
    "pinterest": (100, 300), "universal": (60, 220),
}  # fmt: skip
LENGTHS = {"short": 0.5, "hook": 0.4, "long": 1.6, "story": 1.8}
CALLS = {
    "professional": ("Learn more", "See how it works", "Request details"),
    "casual": ("Take a look", "Give it a try", "Get yours"),
    "urgent": ("Order today", "Get it now", "Do not wait"),
    "luxe": ("Discover it", "Experience it", "Explore the collection"),
    "playful": ("Go on, try it", "Treat yourself", "Say hello"),
    "bold": ("Make the switch", "Own it", "Start now"),
}
OPENERS = {
    "professional": "Good tools save time.",
    "casual": "Been putting it off?",
    "urgent": "Later is too late.",
    "luxe": "Some things deserve a choice.",
    "playful": "Warning: you may like this.",
    "bold": "Enough of almost good enough.",
}
CLOSERS = {
    "professional": "The facts speak for themselves.",
    "casual": "That is really all there is to it.",
    "urgent": "There is no reason to put it off.",
    "luxe": "Take all the time you like.",
    "playful": "You have been warned.",
    "bold": "No excuses left.",
}
MARKS = '"\u201c\u201d\u201e\u00ab\u00bb'
QUOTED = re.compile(f"[{MARKS}]([^{MARKS}]{{1,200}})[{MARKS}]")
ENDS = (".", "!", "?", "\u2026", "\u3002")


class Variant(Struct, frozen=True):
    angle: str
    headline: str
    text: str
    call_to_action: str


class Draft(Struct, frozen=True):
    """The words of one angle, best first: headlines, of which one is taken, and sentences, of
    which as many as fit. The last of each is short enough for every platform."""

    headlines: tuple[str, ...]
    sentences: tuple[str, ...]


class Known(Struct, frozen=True):
    """A product as sentences."""

    name: str
    facts: tuple[str, ...]
    told: tuple[str, ...]
    product: Product
    tone: str


def write(order: Copy) -> list[Variant]:
    known = _known(order)
    return [_variant(order, known, angle) for angle in ANGLES]


def _known(order: Copy) -> Known:
    product = order.product or Product()
    name = _plain(product.name or "") or _plain(order.product_id) or "this product"
    told = re.split(r"(?<=[.!?])\s+", product.description or "")
    return Known(
        name,
        tuple(filter(None, map(_sentence, product.features))),
        tuple(filter(None, map(_sentence, told))),
        product,
        order.tone or "casual",
    )


def _variant(order: Copy, known: Known, angle: str) -> Variant:
    headline_max, text_max = LIMITS[order.platform]
    text_max = int(text_max * LENGTHS.get(order.format or "", 1.0))
    draft = ANGLES[angle](known)
    wanted = tuple(map(_sentence, QUOTED.findall(order.custom_instructions or "")))
    return Variant(
        angle,
        _headline(draft.headlines, headline_max),
        _text(draft.sentences, wanted, text_max),
        _picked(CALLS[known.tone], f"{order.product_id}{angle}"),
    )


def _headline(choices: Iterable[str], longest: int) -> str:
    return next(one for one in choices if len(one) <= longest)


def _text(sentences: tuple[str, ...], wanted: tuple[str, ...], longest: int) -> str:
    """The first sentence always, for it is what tells the variants apart; then whatever fits, each
    once. What the customer wants to hear comes last, and is thought of before the rest."""
    lead, *more, short = sentences
    lead = lead if len(lead) <= longest else short
    end = _joined(wanted, longest - len(lead) - 1)
    room = longest - len(end) - 1 if end else longest
    return f"{_joined((lead, *more), room)} {end}".strip()


def _joined(sentences: Iterable[str], longest: int) -> str:
    said = ""
    for sentence in dict.fromkeys(filter(None, sentences)):
        longer = f"{said} {sentence}".strip()
        if len(longer) <= longest:
            said = longer
    return said


def _benefit(known: Known) -> Draft:
    """Say what it does, and for whom."""
    facts = known.facts or known.told
    first = _clause(facts[0]) if facts else ""
    headlines = (f"{known.name}: {first}",) if first else ()
    audience = known.product.audience
    made_for = (f"Made for {_clause(_sentence(audience))}.",) if audience else ()
    brand = _by(known)
    return Draft(
        (*headlines, f"Say hello to {known.name}", "Say hello to something good"),
        (*facts[:1], f"That is {known.name}{brand}.", *made_for, *facts[1:], *_price(known),
         "Good to have."),
    )  # fmt: skip


def _problem(known: Known) -> Draft:
    """The trouble that it ends."""
    kind = _clause(_sentence(known.product.category or ""))
    article = "An" if kind[:1].lower() in tuple("aeiou") else "A"
    without = (f"{article} {kind} without the usual trouble.",) if kind else ()
    opener = OPENERS[known.tone]
    return Draft(
        (opener.rstrip("."), opener.rstrip(".")),
        (opener, f"Meet {known.name}.", *without, *known.facts[:2],
         *known.told[:1], CLOSERS[known.tone], "There is a better way."),
    )  # fmt: skip


def _proof(known: Known) -> Draft:
    """One thing after the other."""
    reasons = known.facts or known.told
    count = f"{len(reasons)} reasons for {known.name}" if len(reasons) > 1 else ""
    headlines = (count, f"Why {known.name}") if count else (f"Why {known.name}",)
    lead = f"Why {known.name}?"
    listed = tuple(f"{number}. {fact}" for number, fact in enumerate(reasons, 1))
    return Draft(
        (*headlines, "Why this one"),
        (lead, *(listed if len(listed) > 1 else reasons), *_price(known), CLOSERS[known.tone],
         "See for yourself."),
    )  # fmt: skip


def _detail(known: Known) -> Draft:
    """Tell of it in peace."""
    told = known.told or known.facts[1:]
    return Draft(
        (f"Look closer at {known.name}", f"A closer look: {known.name}", "Look closer"),
        (f"Look closer at {known.name}.", *told, *known.facts[1:], *_price(known),
         "It is worth a closer look."),
    )  # fmt: skip


def _invitation(known: Known) -> Draft:
    """A name, a last word, and a price."""
    brand = _by(known)
    last = known.facts[-1:] or known.told[-1:]
    return Draft(
        (f"{known.name}{brand}", known.name, "This is for you"),
        (f"This is {known.name}{brand}.", *last, *_price(known), CLOSERS[known.tone],
         "This one is for you."),
    )  # fmt: skip


def _by(known: Known) -> str:
    brand = _plain(known.product.brand or "")
    return f" by {brand}" if brand and brand.lower() not in known.name.lower() else ""


def _price(known: Known) -> Iterator[str]:
    if price := _plain(known.product.price or ""):
        yield f"Yours for {price}."


def _plain(text: str) -> str:
    return " ".join(text.split())


def _sentence(text: str) -> str:
    plain = _plain(text)
    if not plain:
        return ""
    plain = plain[:1].upper() + plain[1:]
    return plain if plain.endswith(ENDS) else f"{plain.rstrip(',;:')}."


def _clause(sentence: str) -> str:
    """A sentence as a part of another: "USB port" keeps its letters."""
    bare = sentence.rstrip(".!?")
    small = bare[1:2].islower() or bare[1:2] == " "
    return bare[:1].lower() + bare[1:] if small else bare


def _picked(choices: tuple[str, ...], by: str) -> str:
    return choices[sha256(by.encode()).digest()[0] % len(choices)]


ANGLES = {
    "benefit": _benefit,
    "problem": _problem,
    "proof": _proof,
    "detail": _detail,
    "invitation": _invitation,
}
