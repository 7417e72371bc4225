"""Rotation of tokens: those that a new one takes the place of."""

from collections.abc import Iterable

from jobrunner.core.questions import Token
from jobrunner.errors import Refused


def replaced(tokens: Iterable[Token], which: str, now: int) -> tuple[Token, ...] | Refused:
    """The one of this id, or all of this NAME, as far as they are still good. All of one role and
    for the same workflows: the new one is one token, and can be of only one kind."""
    fitting = [token for token in tokens if which in (token.id, token.name)]
    good = [token for token in fitting if _is_good(token, now)]
    if not fitting:
        return Refused("NOT_FOUND", f"no token has the id or name {which!r}")
    if not good:
        return Refused("NOT_FOUND", f"no token of {which!r} is still good; make a new one")
    roles = sorted({token.role for token in good})
    if len(roles) > 1:
        ids = ", ".join(f"{token.id} ({token.role})" for token in good)
        errors = [{"path": "id", "message": f"tokens of the roles {', '.join(roles)}"}]
        detail = f"{which!r} has tokens of more than one role; name one by its id: {ids}"
        return Refused("VALIDATION_ERROR", detail, errors=errors)
    if len({frozenset(token.workflows) for token in good}) > 1:
        ids = ", ".join(f"{token.id} ({_meant_for(token)})" for token in good)
        errors = [{"path": "id", "message": "tokens for different workflows"}]
        detail = f"{which!r} has tokens for different workflows; name one by its id: {ids}"
        return Refused("VALIDATION_ERROR", detail, errors=errors)
    return tuple(good)


def _meant_for(token: Token) -> str:
    return ", ".join(token.workflows) or "all workflows"


def _is_good(token: Token, now: int) -> bool:
    return token.revoked_at is None and (token.expires_at is None or token.expires_at > now)
