"""What a prompt may not contain: the words that the operator lists under ``blocked_words``.

Both sides are brought to one form (compatibility characters, case, invisible characters), and a
letter also matches the digit or sign that is commonly written for it. A match must be a whole
word, so a blocked word inside an innocent place name does no harm; letters spaced out one by one
are still the word.

This is a fence, not a judge. What a model finds unsafe is the provider's to say, later.
"""

import re
import unicodedata
from functools import lru_cache

from jobrunner import Ask, Refused

PLAIN = str.maketrans("013457@$", "oieastas")
DISGUISES = {"o": "o0", "i": "i1", "l": "l1", "e": "e3", "a": "a4@", "s": "s5$", "t": "t7"}
SEPARATOR = r"[\W_]+"
WORD_STARTS = r"(?<![^\W_])"
WORD_ENDS = r"(?![^\W_])"


def prompt_allowed(ask: Ask) -> Refused | None:
    """Refuses without saying which word it was: the list is the operator's own."""
    blocked = _pattern(tuple(ask.settings.get("blocked_words", ())))
    if blocked is None or not blocked.search(_normal(str(ask.params.get("prompt", "")))):
        return None
    detail = "the prompt contains words that this service does not accept; change it and try again"
    return Refused("PROMPT_BLOCKED", detail, status=422)


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
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(sign for sign in folded if unicodedata.category(sign) != "Cf")
