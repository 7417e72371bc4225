"""Orders, found in what somebody says: ``so now you want to take out the water tank`` orders to
take out the water tank.

Speech orders in several ways: plainly, by what one needs to do, by what the speaker does, by what
should be done. Each way is a pattern; what follows it, from its verb on, is the order, cut where it
begins to tell of something else.
"""

import re

from msgspec import Struct

from jobrunner_howera import verbs

WORDS_MAX = 9
WORDS_MIN = 2
MARKERS = re.compile(
    r"^(?:(?:so|okay|ok|well|now|then|and|but|next|um+|uh+|alright|all right|right|first of all|"
    r"first(?:ly)?|second(?:ly)?|third(?:ly)?|finally|lastly|at last|after (?:that|this)|"
    r"to (?:start|begin)(?: with)?|just|please|also|again|once (?:that|this) is done|you know|"
    r"there|here|hi|hello|everybody|everyone|simply|carefully|gently|slowly|afterwards?|or)"
    r"\b[, ]*)+",
    re.IGNORECASE,
)
ADVERBS = (
    r"(?:(?:now|then|also|just|simply|always|usually|first|next|all|carefully|really|still)\s+)*"
)
# Each with how surely an order follows it.
ASKED = tuple(
    (re.compile(pattern, re.IGNORECASE), sure)
    for pattern, sure in (
        (r"\b(?:you|we|i)\s+(?:need|want|have)\s+to\s+do\b[\w ]{0,20}?\bis(?:\s+to)?\s+", 3.0),
        (r"\b(?:thing|step|job|part|trick)\b[\w' ]{0,24}?\bis(?:\s+to)?\s+", 3.0),
        (r"\b(?:it's|it is|its)\s+time\s+to\s+", 3.0),
        (r"\b(?:you|we|i)(?:'ll|\s+will)?\s+(?:need|want|have|ought|got)\s+to\s+", 3.0),
        (r"\b(?:let's|let us|lets)\s+", 3.0),
        (r"\b(?:go ahead and|be sure to|make sure to|remember to|don't forget to|try to)\s+", 3.0),
        (r"\b(?:you|we|i)(?:'re|'m|\s+are|\s+am)\s+(?:just\s+)?(?:going to|gonna)\s+", 2.6),
        (r"\b(?:you|we|i)\s+(?:should|must)\s+", 2.6),
        (r"\b(?:you|we|i)(?:'ll|\s+(?:can|could|will|may|would))\s+", 2.2),
        (rf"\b(?:you|we|i)\s+(?={ADVERBS}(\w+))", 2.2),
    )
)
SPELT_OUT = (0, 1)  # they begin with ``what`` themselves
BY_DOING = re.compile(
    r"\b(?:begin|start|starts|begins|starting|beginning)(?:\s+off)?\s+(?:by|with)\s+(\w+ing)\s+",
    re.IGNORECASE,
)
TO_BE_DONE = re.compile(
    r"\b((?:the|a|an|your|this|that|these|those|it|they|each|both|all)\b[\w' ]{0,40}?)\s+"
    r"(?:should|must|has to|have to|needs to|need to|can)\s+(?:(?:now|then|also)\s+)?be\s+"
    r"(\w+)\b",
    re.IGNORECASE,
)
# What follows one of these tells when, why or which, not what to do.
ASIDE = frozenset(
    "that which who where how what if when because before after once until as while than why since"
    " unless whether though whatever whenever till".split()
)
ENDING = re.compile(
    r"\s+(?:until|so that|because|by \w+ing|which|where|when|before|after|if|while|so|once|since|"
    r"in order to|that is|that are|as)\s.*$",
    re.IGNORECASE,
)
SHORTER = frozenset(
    "in on at with from into onto to for by of over under through between behind along around"
    " beside inside and or that out".split()
)
NOUN = re.compile(
    r"(?<!\bof )\b(?:the|a|an|your|my|our|some|this|these|both|each|another)\s+"
    r"((?:[\w'-]+\s?){1,4})",
    re.IGNORECASE,
)
STANDS_FOR = re.compile(r"^(\w+(?:\s+(?:in|on|out|off|up|down))?)\s+(it|them)\b", re.IGNORECASE)
SMALL = frozenset(
    "the a an your my our some this these both each another is are was were be been will would can"
    " could may might should must has have had do does did not very too it its they them we you he"
    " she i there here then now just also that which who when where if because so but and or than"
    " of in on at with from into onto to for by over under through between behind along around up"
    " down off out until before after while as all again together".split()
)
FORBIDDEN = re.compile(r"\b(?:don't|do not|never|not)\b", re.IGNORECASE)
WEAK = frozenset("begin start make let watch look wait be get go".split())


class Order(Struct, frozen=True):
    """A thing to be done, in words that make a title, and how surely it is an order."""

    text: str
    sure: float


def orders(text: str) -> list[Order]:
    """All that are found, in the order in which they are said."""
    found: list[Order] = []
    before = ""
    for sentence in sentences(text):
        order = _order(sentence, before)
        if order is not None:
            found.append(order)
        before = f"{before} {sentence}"
    return found


def title_of(text: str) -> str:
    """The order that is surest, of two the first; an empty string where there is none."""
    best = max(orders(text), key=lambda one: one.sure, default=None)
    return _capital(best.text) if best else ""


def subject_of(text: str) -> str:
    """Name what somebody says will be shown, as ``How to replace a filter``; else nothing."""
    for sentence in sentences(text)[:6]:
        if found := HOW_TO.search(sentence):
            told = cut(found[1])
            if told and told.split()[0].lower() not in verbs.IDLE:
                return f"How to {told}"
        elif found := TODAY.search(sentence):
            told = cut(found[1])
            if told and verbs.is_verb(told.split()[0]) and told.split()[0] not in verbs.TELLING:
                return f"How to {told}"
    return ""


HOW_TO = re.compile(r"\bhow\s+(?:to|you(?:\s+can)?|we(?:\s+can)?|i)\s+(\w+\s+.+)", re.IGNORECASE)
TODAY = re.compile(
    r"\b(?:today|in (?:this|the next)[\w ]{1,20}?|this time)[, ]+(?:we|i|you)(?:'ll|'re|\s+will|"
    r"\s+are|\s+want to)?(?:\s+going to)?\s+(\w+\s+.+)",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    return [one for one in re.split(r"(?<=[.!?])\s+|(?<=[。！？])", text.strip()) if one]


def _order(sentence: str, before: str) -> Order | None:
    """The surest one of a sentence."""
    bare = MARKERS.sub("", sentence.strip())
    if TODAY.search(bare):
        return None
    found = [
        *_asked(bare), *_by_doing(bare), *_to_be_done(bare, before), *_plain(bare),
    ]  # fmt: skip
    best = max(found, key=lambda one: one[1], default=None)
    if best is None:
        return None
    told, sure = best
    known = f"{before} {sentence[: max(sentence.find(told), 0)]}"
    named = _named(told, known)
    text = cut(named)
    if len(text.split()) < WORDS_MIN:
        return None
    return Order(text, sure - _doubt(told))


def _doubt(told: str) -> float:
    """An order that only makes sense beside another one, or forbids, makes a worse title."""
    words = told.lower().split()
    doubt = 0.5 if STANDS_FOR.match(told) else 0.0
    doubt += 0.4 if words[0] in WEAK else 0.0
    return doubt + (1.0 if FORBIDDEN.search(told) else 0.0)


def _asked(sentence: str) -> list[tuple[str, float]]:
    found = []
    for number, (pattern, sure) in enumerate(ASKED):
        for match in pattern.finditer(sentence):
            if number not in SPELT_OUT and _is_aside(sentence[: match.start()]):
                continue
            plain = number == len(ASKED) - 1
            told = _verb_first(sentence[match.end() :])
            told = _in_the_present(told) if plain else told
            word = told.split(" ", 1)[0].lower().strip(".,;:!?")
            if not word or word in verbs.IDLE or (plain and word not in verbs.VERBS):
                continue
            if word in verbs.TELLING and re.match(r"\w+\s+(?:you|how|at how|what|about)\b", told):
                continue
            found.append((told, sure))
    return found


def _in_the_present(told: str) -> str:
    """``I used a lever`` is how one does it, too."""
    form, _, rest = told.partition(" ")
    return f"{verbs.base(form)} {rest}" if form.endswith("ed") and verbs.base(form) else told


def _verb_first(told: str) -> str:
    return re.sub(rf"^{ADVERBS}", "", told, flags=re.IGNORECASE)


def _is_aside(before: str) -> bool:
    words = before.lower().replace(",", " , ").split()
    return bool(words) and words[-1] in ASIDE


def _by_doing(sentence: str) -> list[tuple[str, float]]:
    found = BY_DOING.search(sentence)
    verb = verbs.base(found[1]) if found else ""
    return [(f"{verb} {sentence[found.end() :]}", 3.1)] if found and verb else []


def _to_be_done(sentence: str, before: str) -> list[tuple[str, float]]:
    found = TO_BE_DONE.search(sentence)
    verb = verbs.base(found[2]) if found else ""
    if not found or not verb:
        return []
    what = found[1][:1].lower() + found[1][1:].strip()
    if what.lower() in ("it", "they", "this", "that"):
        what = _noun(f"{before} {sentence[: found.start()]}") or "it"
    return [(f"{verb} {what}{sentence[found.end() :]}", 2.4)]


def _plain(sentence: str) -> list[tuple[str, float]]:
    """Clauses that begin with the verb itself."""
    found = []
    place = 0
    for number, clause in enumerate(re.split(r"([,;:]\s+)", sentence)):
        if number % 2 == 0:
            bare = MARKERS.sub("", clause)
            if _begins_with_verb(bare.split()):
                rest = sentence[place + len(clause) - len(bare) :]
                found.append((rest, 2.8 if number == 0 else 2.5))
        place += len(clause)
    return found


def _begins_with_verb(words: list[str]) -> bool:
    """``Water the plant`` does, ``water may be hot`` does not."""
    return len(words) > 1 and verbs.is_verb(words[0]) and words[1].lower() not in verbs.HELPING


def _named(told: str, before: str) -> str:
    """Say what ``it`` is, where that was said before."""
    found = STANDS_FOR.match(told)
    noun = _noun(before) if found else ""
    return f"{found[1]} {noun}{told[found.end() :]}" if found and noun else told


def _noun(before: str) -> str:
    """The thing that was named last, with its article."""
    last = ""
    for found in NOUN.finditer(before):
        article = found[0].split(maxsplit=1)[0]
        kept: list[str] = []
        for word in found[1].split():
            if word.lower() in SMALL or (kept and verbs.is_form(word) and not word.endswith("ing")):
                break
            kept.append(word)
        if kept:
            definite = (
                "the" if article.lower() in ("a", "an", "some", "another") else article.lower()
            )
            last = " ".join((definite, *kept))
    return last


def cut(told: str) -> str:
    """As much of it as makes a title: no other sentence, and nine words at most."""
    clause = re.split(r"[.!?;:,](?:\s|$)|[.!?。]$", told.strip(), maxsplit=1)[0].strip()
    words = clause.split()
    if len(words) > WORDS_MIN + 1 and len(shorter := ENDING.sub("", clause).split()) > WORDS_MIN:
        words = shorter
    if len(words) > WORDS_MAX:
        ends = [n for n in range(3, WORDS_MAX + 1) if words[n].lower() in SHORTER]
        words = words[: ends[-1]] if ends else words[:WORDS_MAX]
    while len(words) > WORDS_MIN and words[-1].lower() in (SHORTER - {"out", "on", "in"}) | {
        "the", "a", "then", "now", "please", "your",
    }:  # fmt: skip
        words = words[:-1]
    return " ".join(words)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
