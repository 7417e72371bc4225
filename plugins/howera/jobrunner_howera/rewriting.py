"""Changes to the text of a step that need no understanding: a title, shorter, a list, as
orders, or tidier. No sentence is ever left out; what one says while thinking is.
"""

import re
from typing import Any

UNDERSTOOD = "shorter, list, as text, as orders, tidy, title: …"
SHORTER = ("short", "brief", "concise", "crisp")
ORDERS = ("order", "imperative", "direct", "command")
LISTED = ("list", "bullet", "points")
PLAIN = ("text", "tidy", "clean", "clear", "prose", "anew", "again")
WORDS = SHORTER + ORDERS + LISTED + PLAIN
TITLE = re.compile(r"title\s*[:=]\s*(.+)", re.IGNORECASE)
TOLD = re.compile(
    r"^(?:(?:so|now|then|next|and),?\s+)*(?:you|we)(?:\s+(?:need|have|want|are going)\s+to"
    r"|['’](?:re|ll)\s+(?:going\s+to\s+)?|\s+(?:should|must|can|will))\s+",
    re.IGNORECASE,
)
THINKING = re.compile(r"\b(?:um+|uh+|you know|basically|sort of|kind of)\b,?\s*", re.IGNORECASE)
LONG = (
    ("in order to", "to"),
    ("so as to", "to"),
    ("due to the fact that", "because"),
    ("for the reason that", "because"),
    ("at this point in time", "now"),
    ("at the moment", "now"),
    ("in the event that", "if"),
    ("as soon as", "once"),
    ("a large number of", "many"),
    ("a lot of", "many"),
    ("is able to", "can"),
    ("are able to", "can"),
    ("go ahead and ", ""),
    ("make sure that", "make sure"),
    ("what you want to do is ", ""),
    ("the next thing to do is to ", ""),
)
IDLE = re.compile(
    r"\b(?:just|really|very|actually|simply|quite|obviously|of course|pretty much|as you can see"
    r"|as i said|i mean|i think|please note that|note that)\b,?\s*",
    re.IGNORECASE,
)


def understands(wish: str) -> bool:
    """Say whether there is a word in it that means something here; no wish means: tidier."""
    words = wish.lower()
    return not wish.strip() or bool(TITLE.search(wish)) or any(one in words for one in WORDS)


def rewrite(step: dict[str, Any], wish: str) -> None:
    if title := TITLE.search(wish):
        step["title"] = title[1].strip().strip("\"'")[:200]
        return
    words = wish.lower()
    sentences = [_tidy(one) for one in _sentences(str(step.get("text") or ""))]
    if any(word in words for word in SHORTER):
        sentences = [_shorter(one) for one in sentences]
    if any(word in words for word in ORDERS):
        sentences = [_ordered(one) for one in sentences]
    as_list = any(word in words for word in LISTED)
    step["text"] = "\n".join(f"- {one}" for one in sentences) if as_list else " ".join(sentences)


def _sentences(text: str) -> list[str]:
    """Also those that stand in a list."""
    lines = [line.removeprefix("- ").strip() for line in text.split("\n")]
    return [one for line in lines for one in re.split(r"(?<=[.!?])\s+", line) if one]


def _shorter(sentence: str) -> str:
    """The same said in fewer words."""
    plain = IDLE.sub("", sentence)
    for long, short in LONG:
        plain = re.sub(rf"\b{long}", short, plain, flags=re.IGNORECASE)
    return _capital(_ordered(plain).strip()) if re.search(r"\w", plain) else sentence


def _ordered(sentence: str) -> str:
    """Say what to do, without the words that one is told to do it."""
    return _capital(TOLD.sub("", sentence))


def _tidy(sentence: str) -> str:
    """Without what one says while thinking, unless that is all there is."""
    bare = THINKING.sub("", sentence).strip()
    plain = _capital(bare if re.search(r"\w", bare) else sentence.strip())
    return plain if plain.endswith((".", "!", "?")) else f"{plain.rstrip(',;:')}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
