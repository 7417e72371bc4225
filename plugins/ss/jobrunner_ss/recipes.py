"""When two submissions are one: same user, same input, same words, same revision."""

from typing import Any

from jobrunner import Ask


def same_request(ask: Ask) -> list[Any]:
    """The parts of the derived key; what is missing counts as empty."""
    params = ask.params
    fingerprint = (params.get("inputs") or {}).get("fingerprint") or ""
    requirement = normal(params.get("requirement") or "")
    return ["ss/1", ask.actor.name, fingerprint, requirement, params.get("plan_revision") or ""]


def normal(requirement: str) -> str:
    """Trimmed, and every run of white space made one space."""
    return " ".join(requirement.split())
