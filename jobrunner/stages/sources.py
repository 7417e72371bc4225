"""Sources of webhooks: a provider's own format, read for the stages that await what it says."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

SOURCE = re.compile(r"[a-z][a-z0-9_-]{0,63}")


class Heard(Struct, frozen=True):
    """The content of a webhook. ``key`` is the provider's name for the piece of work, which a stage
    awaits with ``ctx.await_callback(key, source=...)``; ``value`` is what that call returns."""

    key: str
    value: Any = None


Read = Callable[[bytes, Mapping[str, str]], Heard | None]


class Source(Struct, frozen=True):
    """Entry points of the group ``jobrunner.sources`` lead to these. ``read`` is given the body
    of a webhook whose signature is good, with its headers; None means that it has nothing to say
    yet. It runs in the service: it neither waits nor works for long. What it raises is its bug;
    the webhook is then answered, logged, and without effect."""

    name: str
    read: Read


def unfit_source(source: Source) -> str:
    """Say what is wrong with its name, which stands in the address of its webhooks."""
    fits = SOURCE.fullmatch(source.name)
    return "" if fits else f"is no name for a source; {SOURCE.pattern} is"
