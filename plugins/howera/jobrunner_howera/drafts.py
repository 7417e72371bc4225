"""A draft as people leave it: whatever they saved, read as far as it can be understood."""

import math
import re
import unicodedata
from typing import Any

NAME_MAX = 60
UNNAMED = "instruction"
LANGUAGE = re.compile(r"[a-z]{2,3}")
Draft = dict[str, Any]
Images = dict[str, str]


def title_of(draft: Draft) -> str:
    return str(draft.get("title") or "").strip() or UNNAMED.capitalize()


def language_of(draft: Draft) -> str:
    named = draft.get("language")
    return named if isinstance(named, str) and LANGUAGE.fullmatch(named) else "en"


def file_name_of(draft: Draft) -> str:
    """The title, as far as it can be a name of a file anywhere; without an ending."""
    plain = unicodedata.normalize("NFKD", title_of(draft)).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", plain.lower())
    while len("-".join(words)) > NAME_MAX:
        words = words[:-1] or [words[0][:NAME_MAX]]
    return "-".join(words) or UNNAMED


def steps_of(draft: Draft) -> list[dict[str, Any]]:
    steps = draft.get("steps")
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def pictures_of(step: dict[str, Any]) -> list[str]:
    """The addresses of its pictures, the first one first."""
    further = step.get("images")
    named = [step.get("image"), *(further if isinstance(further, list) else [])]
    return [one for one in named if isinstance(one, str) and one.startswith("/assets/")]


def when_of(step: dict[str, Any]) -> str:
    times = [step.get("start_s"), step.get("end_s")]
    known = [time for time in times if isinstance(time, int | float) and math.isfinite(time)]
    return f"{_clock(known[0])} – {_clock(known[1])}" if len(known) == 2 else ""


def _clock(seconds: float) -> str:
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
