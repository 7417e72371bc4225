"""Keys by which a state may take its jobs one at a time, without a function of the plugin's own."""

from collections.abc import Callable
from typing import Any

import msgspec

from jobrunner.core.declaration.ask import Ask

KEY_MAX = 200


def by_user(ask: Ask) -> str:
    """The jobs of one user are one after the other."""
    return ask.actor.name if ask.job is None else ask.job.user_id


def by_param(ask: Ask, name: str) -> str:
    """Jobs with the same value of a parameter are; those without one wait for nobody."""
    value = ask.params.get(name)
    return "" if value is None else msgspec.json.encode(value, order="sorted").decode()[:KEY_MAX]


TURN_KEYS: dict[str, Callable[..., Any]] = {"by_user": by_user, "by_param": by_param}
