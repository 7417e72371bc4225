"""The frames between the service and a stage in a process of its own: data, never code. Each frame
is its length in four bytes and a MessagePack value; one that is longer than allowed, or is none of
these, ends the conversation.
"""

from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.core.messages import Ended, Report
from jobrunner.stages.given import Given
from jobrunner.stages.requests import Answer, CarriedFault, Question

FRAME_MAX = 16 * 1024 * 1024
HEAD = 4


class Task(Struct, frozen=True, tag=True):
    """Sent to the stage, once. ``run`` and ``params`` are where its function and its struct are
    found: ``module:name``."""

    run: str
    params: str
    given: Given


class Acknowledged(Struct, frozen=True, tag=True):
    """Sent to the stage: what it wanted kept is on disk; or it may begin."""


class ProgressSaid(Struct, frozen=True, tag=True):
    percent: int | None
    message: str | None


class Line(Struct, frozen=True, tag=True):
    text: str


class Keeping(Struct, frozen=True, tag=True):
    name: str
    value: Any


class Making(Struct, frozen=True, tag=True):
    """The stage tells what it has made so far."""

    made: Report


class Loaded(Struct, frozen=True, tag=True):
    """The stage and its parameters are there; it works when it is told to."""


class Over(Struct, frozen=True, tag=True):
    """The last word of a stage."""

    ended: Ended


Told = Task | Acknowledged | Answer | CarriedFault
Said = ProgressSaid | Line | Keeping | Making | Question | Loaded | Over

_told = msgspec.msgpack.Decoder(Told)
_said = msgspec.msgpack.Decoder(Said)
_encode = msgspec.msgpack.Encoder().encode


def framed(message: Told | Said) -> bytes:
    data = _encode(message)
    return len(data).to_bytes(HEAD, "big") + data


def length(head: bytes) -> int:
    """Raises: ValueError, for what is no head of a frame."""
    size = int.from_bytes(head, "big")
    if len(head) != HEAD or size > FRAME_MAX:
        raise ValueError(f"a frame of {size} bytes")
    return size


def told(data: bytes) -> Told:
    message: Told = _told.decode(data)
    return message


def said(data: bytes) -> Said:
    """Raises: ValueError."""
    message: Said = _said.decode(data)
    return message
