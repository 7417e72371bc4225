"""When two submissions are one: same user, same words, same options, same minute.

The minute is that of receipt. A repeat that crosses it is a new job; whoever must be sure sends a
key of their own.
"""

from typing import Any

from jobrunner import Ask

MINUTE_MS = 60_000


def same_minute(ask: Ask) -> list[Any]:
    """The parts of the derived key. Defaults are filled in before, so that leaving a parameter out
    and naming its default are the same wish."""
    others = {name: value for name, value in ask.params.items() if name != "prompt"}
    minute = ask.now // MINUTE_MS
    return ["image-generation/1", ask.actor.name, ask.params["prompt"], others, minute]
