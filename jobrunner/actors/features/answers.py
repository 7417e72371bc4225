"""Brings questions of stages to the file, and answers to the jobs that wait for them.

The key that tokens follow from lies beside the database, so a copy of the database alone gives
nobody a token. It is made when the first question is asked.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from jobrunner.actors.commits import Answer
from jobrunner.actors.shared import World
from jobrunner.actors.supervisor import Supervisor
from jobrunner.core.features.answers.giving import (
    Give,
    PendingAnswer,
    Pose,
    digest_of,
    said_by,
    token_of,
)
from jobrunner.core.features.answers.posed import Posed
from jobrunner.core.features.answers.settling import answered_otherwise
from jobrunner.core.job import Actor
from jobrunner.errors import PermanentFailure, Refused, RetryableFailure, StorageError
from jobrunner.ports import Files, Ids
from jobrunner.stages.requests import PosedToken, Posing

NAME = "answers.secret"
TRIES = 5
AskJob = Callable[[str, Give], Awaitable[Answer]]


def keys_beside(database: str, files: Files, ids: Ids) -> Callable[[], Sequence[str]]:
    """Read the keys of the file beside the database, which the first question makes."""
    path = os.path.join(os.path.dirname(os.path.abspath(database)), NAME)
    known: list[str] = []

    def keys() -> Sequence[str]:
        if not known:
            known.extend(_read(path, files) or _made(path, files, ids))
        return known

    return keys


def _read(path: str, files: Files) -> list[str]:
    try:
        return files.read(path).decode(errors="replace").split()
    except FileNotFoundError:
        return []
    except OSError as error:
        text = f"{NAME} cannot be read: {error.strerror}; no question can be asked"
        raise RetryableFailure("STORAGE", text) from error


def _made(path: str, files: Files, ids: Ids) -> list[str]:
    key = ids.secret()
    try:
        files.write_private(path, f"{key}\n".encode())
    except OSError as error:
        text = f"{NAME} cannot be written: {error.strerror}; no question can be asked"
        raise RetryableFailure("STORAGE", text) from error
    return [key]


async def asked_of(
    world: World, supervisor: Supervisor, job_id: str, serial: int, asking: Posing
) -> PosedToken:
    """Store a question; return its token when it is on the disk.

    Raises: PermanentFailure, RetryableFailure.
    """
    job = supervisor.kept(job_id) or await world.reader.job(job_id)
    stage = world.registry.stage(job.attempt.stage) if job is not None and job.attempt else None
    known = [one.__name__ for one in stage.asks] if stage is not None else []
    if asking.struct and asking.struct not in known:
        text = f"question {asking.name}: write asks=[{asking.struct}] into the stage's @stage(...)"
        raise PermanentFailure("BAD_REQUEST", text)
    keys, nonce = world.surroundings.answer_keys(), world.ids.fresh()
    token = token_of(keys[0].encode(), job_id, asking.name, nonce)
    posed = Posed(
        digest_of(token), nonce, "", 0, asking.struct, asking.text, asking.by,
        default=asking.default,
    )  # fmt: skip
    message = Pose(serial, asking.name, posed, asking.timeout_s)
    stored = await _stored(supervisor, job_id, message)
    every = (token_of(key.encode(), job_id, asking.name, stored.nonce) for key in keys)
    return PosedToken(next((one for one in every if digest_of(one) == stored.digest), ""))


async def _stored(supervisor: Supervisor, job_id: str, message: Pose) -> Posed:
    try:
        answer = await supervisor.tell(job_id, message)
    except StorageError as fault:
        text = "a question could not be stored: the disk says no"
        raise RetryableFailure("STORAGE", text, excerpt=str(fault)) from fault
    except Refused as refused:
        raise PermanentFailure(refused.code, refused.detail) from refused
    posed = answer.fields.get("posed")
    if not isinstance(posed, Posed):
        raise PermanentFailure("LATE", "the attempt that asks is over")
    return posed


async def give(
    world: World, ask: AskJob, found: PendingAnswer, actor: Actor, value: Any, *, by_token: bool
) -> bool:
    """Give an answer to a question that was found; say whether it had been given before. Who is
    faster than us changes what is true of it, so it is looked at again until that is settled.

    Raises: Refused.
    """
    said, digest = said_by(value), found.posed.digest
    message = Give(actor, found.name, value, said, digest if by_token else "")
    for _ in range(TRIES):
        if _is_given(found, said, world.clock.now()):
            return True
        answer = await ask(found.job_id, message)
        if answer.replayed or answer.fields.get("applied"):
            return answer.replayed
        found = await world.reader.question_of(digest) or found
    raise Refused("OVERLOADED", "too much happens around this question; send it again")


def _is_given(found: PendingAnswer, said: str, now: int) -> bool:
    """Raises: Refused, where no answer counts any more, or another one did."""
    if found.standing == "given" and found.posed.said != said:
        raise answered_otherwise()
    if found.standing == "over" or (found.standing == "open" and found.posed.expired(now)):
        raise Refused("ANSWER_OVER", "nobody waits for this answer any more")
    return found.standing == "given"
