"""The guards of prompts, and of the number of pictures.

A prompt may not contain the words that the operator lists under ``blocked_words``.

Both sides are brought to one form (compatibility characters, case, invisible characters), and a
letter also matches the digit or sign that is commonly written for it. A match must be a whole
word, so a blocked word inside an innocent place name does no harm; letters spaced out one by one
are still the word, and so are letters with accents or strokes on them, and the letters of other
alphabets that look the same. What the options say in words is read like the prompt: both go to the
provider.

This is a fence, not a judge. What a model finds unsafe is the provider's to say, later.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jobrunner import Ask, Refused

PLAIN = str.maketrans("013457@$", "oieastas")
DISGUISES = {"o": "o0", "i": "i1", "l": "l1", "e": "e3", "a": "a4", "s": "s5", "t": "t7"}
AS_LETTERS, AS_GAPS = str.maketrans("@$", "as"), str.maketrans("@$", "  ")
LOOK_ALIKES = str.maketrans("асеорхуіјѕһԁԛԝӏαοικνρτυıɡø", "aceopxyijshdqwlaoikvptuigo")
INVISIBLE = {"Cf", "Mn", "Me"}
PICTURE = "image"
SEPARATOR = r"[\W_]+"
WORD_STARTS = r"(?<![^\W_])"
WORD_ENDS = r"(?![^\W_])"


def prompt_allowed(ask: Ask) -> Refused | None:
    """Refuses without saying which word it was: the list is the operator's own."""
    blocked = _pattern(tuple(ask.settings.get("blocked_words", ())))
    if blocked is None or not any(map(blocked.search, _readings(ask.params))):
        return None
    detail = "the prompt contains words that this service does not accept; change it and try again"
    return Refused("PROMPT_BLOCKED", detail, status=422)


def one_picture(ask: Ask) -> Refused | None:
    """Exactly one: in this report or stored before."""
    pictures = ask.snapshot.asset_types.get(PICTURE, 0)
    if pictures == 1:
        return None
    if not pictures:
        detail = f"{ask.target} needs an asset of type {PICTURE!r}, in this report or stored before"
        return Refused("RESULT_MISSING", detail, status=409)
    detail = f"a job has one picture, and with this report it would have {pictures}; leave it out"
    return Refused("TOO_MANY_PICTURES", detail, status=409)


def _readings(params: Mapping[str, Any]) -> Iterator[str]:
    """A sign that may be a letter or a gap is read as the one everywhere, then as the other. A
    pattern that could take it for either wherever it stands would try all the ways there are."""
    for text in _texts(params):
        normal = _normal(text)
        yield normal.translate(AS_LETTERS)
        if "@" in normal or "$" in normal:
            yield normal.translate(AS_GAPS)


def _texts(params: Mapping[str, Any]) -> Iterator[str]:
    yield str(params.get("prompt", ""))
    yield from (value for value in params.get("options", {}).values() if isinstance(value, str))


@lru_cache(maxsize=16)
def _pattern(words: tuple[str, ...]) -> re.Pattern[str] | None:
    forms = [form for word in words for form in _forms(word)]
    return re.compile(WORD_STARTS + "(?:" + "|".join(forms) + ")" + WORD_ENDS) if forms else None


def _forms(word: str) -> list[str]:
    """A word or phrase written normally, and with its letters spaced out."""
    parts = re.split(SEPARATOR, _normal(word).translate(PLAIN))
    phrase = [[_either(letter) for letter in part] for part in parts if part]
    if not phrase:
        return []
    together = SEPARATOR.join("".join(letters) for letters in phrase)
    apart = SEPARATOR.join(letter for letters in phrase for letter in letters)
    return [together, apart]


def _either(letter: str) -> str:
    if letter in DISGUISES:
        return f"[{re.escape(DISGUISES[letter])}]"
    return re.escape(letter)


def _normal(text: str) -> str:
    folded = unicodedata.normalize("NFKD", text).casefold().translate(LOOK_ALIKES)
    plain = unicodedata.normalize("NFKD", folded)
    return "".join(sign for sign in plain if unicodedata.category(sign) not in INVISIBLE)
