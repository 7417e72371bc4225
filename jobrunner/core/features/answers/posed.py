"""A question that an attempt has asked of somebody: a person, a script, another system.

It is part of the attempt, so that what is given to it, its token and its end go with that one.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct

MARK = "?"
Standing = Literal["open", "given", "over"]


class Posed(Struct, frozen=True, omit_defaults=True):
    """``digest`` is that of its token, which ``nonce`` and a key outside of the file lead to.
    ``struct`` is the name of the form that the stage wants its answer in (none: any JSON), ``by``
    are the roles that may give it without the token. After ``expires_at`` the answer is
    ``default``, where there is one. ``said`` is the digest of what was given, by ``giver``."""

    digest: str
    nonce: str
    stage: str
    asked_at: int
    struct: str = ""
    text: str = ""
    by: tuple[str, ...] = ()
    expires_at: int | None = None
    default: Any = UNSET
    standing: Standing = "open"
    said: str = ""
    giver: str = ""

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now


def answer_key(name: str) -> str:
    """Tell what is given to a question from callbacks, whose keys are strangers' words."""
    return f"{MARK}{name}"


__all__ = ["MARK", "Posed", "Standing", "answer_key"]
