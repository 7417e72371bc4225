"""Answers from anywhere: what is asked, by whom it may be given, and how it is told.

A stage asks a question under a name and is told a token, which nobody can guess. Who has the token
may answer, once; so may those whose role the question names, by the job's id and the name. The
token itself is in no file: it follows from a key beside the database and from what the question
has in its attempt, so a stage that runs again from the top is told the same one.
"""

import base64
import hashlib
import hmac
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.core.features.answers.posed import MARK, Posed, Standing
from jobrunner.core.job import Actor, Attempt, Snapshot

PREFIX = "jr_"


class Pose(Struct, frozen=True, tag=True):
    """The stage of an in-process attempt asks somebody something, under a name of its own. It is
    open for ``timeout_s`` (0: for as long as the attempt)."""

    serial: int
    name: str
    posed: Posed
    timeout_s: float = 0


class Give(Struct, frozen=True, tag=True):
    """An answer, in the form that was asked for. ``said`` is its digest; with ``digest``, that of
    the token, the giver is whoever has that one."""

    actor: Actor
    name: str
    value: Any
    said: str
    digest: str = ""


class PendingAnswer(Struct, frozen=True):
    """A question as the store finds it; ``id`` is where a page of them goes on."""

    id: int
    job_id: str
    workflow: str
    user_id: str
    name: str
    standing: Standing
    posed: Posed


class AnswerFilter(Struct, frozen=True):
    """Open questions: of one user's jobs, of one job, of these workflows (none named: all).
    ``after`` is the ``id`` of the last one seen, newest first."""

    user_id: str | None = None
    job_id: str | None = None
    workflows: tuple[str, ...] = ()
    limit: int = 20
    after: int | None = None


def token_of(key: bytes, job_id: str, name: str, nonce: str) -> str:
    """Derive the token of a question."""
    said = f"{job_id}:{name}:{nonce}".encode()
    drawn = base64.urlsafe_b64encode(hmac.digest(key, said, hashlib.sha256)).decode()
    return PREFIX + drawn.rstrip("=")


def digest_of(token: str) -> str:
    """The form in which a token is stored and looked for."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def said_by(value: Any) -> str:
    """Tell answers apart, whatever order their fields came in."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def may_give(posed: Posed, roles: frozenset[str]) -> bool:
    """Say whether somebody of these roles may answer without the token."""
    return "admin" in roles or bool(roles & set(posed.by))


def awaited_in(attempt: Attempt | None) -> tuple[str, Posed] | None:
    """Find the question for whose answer a parked attempt waits, if it is one."""
    if attempt is None or attempt.status != "parked" or not attempt.awaits.startswith(MARK):
        return None
    name = attempt.awaits.removeprefix(MARK)
    posed = attempt.questions.get(name)
    return (name, posed) if posed is not None else None


def asks_person(job: Snapshot) -> bool:
    """Say whether a stage waits for somebody who is not a program."""
    awaited = awaited_in(job.attempt)
    return awaited is not None and awaited[1].by != ("workflow",)


def open_in(attempt: Attempt | None) -> dict[str, Posed]:
    """The questions of an attempt that wait for an answer."""
    found = attempt.questions if attempt is not None else {}
    return {name: posed for name, posed in found.items() if posed.standing == "open"}
