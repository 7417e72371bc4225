"""Questions of stages that wait for an answer, and answering them."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from jobrunner.client.talk import Talk
from jobrunner.client.talks.asking import PagedList, at, record_in, written


class AnswerRecord(Struct, frozen=True, kw_only=True):
    """An answer that is wanted; ``asks`` is its JSON Schema, ``may_give`` says whether this client
    may give it."""

    job_id: str
    workflow: str
    name: str
    text: str
    asks: dict[str, Any] | None
    by: list[str]
    may_give: bool
    asked_at: datetime
    expires_at: datetime | None
    has_default: bool


class AnswerGiven(Struct, frozen=True, kw_only=True):
    """``replayed``: the same answer had been given before."""

    name: str
    replayed: bool


def answers(job_id: str | None = None) -> PagedList[AnswerRecord]:
    """List the answers that stages wait for, newest first."""
    query = () if job_id is None else (("job_id", job_id),)
    return PagedList("/answers", AnswerRecord, "answers", query)


def give_answer(job_id: str, name: str, value: Any) -> Talk[AnswerGiven]:
    """Give the answer of this name; the same once more has no second effect."""
    path = at("jobs", job_id, "answers", name)
    return record_in((yield written("POST", path, value, repeatable=True)), AnswerGiven)
