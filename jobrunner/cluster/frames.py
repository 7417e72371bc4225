"""The frames between the service and a stage on a cluster: those of a stage in a process, and what
is needed besides because the disk is another one. A word with a number has an answer with that
number, so several may be asked at a time."""

from typing import Any

import msgspec
from msgspec import Struct

from jobrunner.stages.given import Given
from jobrunner.stages.process.wire import (
    Acknowledged,
    Keeping,
    Line,
    Making,
    Over,
    ProgressSaid,
)
from jobrunner.stages.requests import Answer, CarriedFault, Question

PIECE = 1024 * 1024
FRAME_MAX = 32 * 1024 * 1024


class SeatOrder(Struct, frozen=True):
    """Dask hands this to the worker: the stage, and where to call. ``token`` is good once."""

    host: str
    port: int
    token: str
    key: str
    stage: str
    params: str
    given: Given
    silence_s: float
    floor: int


class CallFrame(Struct, frozen=True, tag=True):
    """The first word of a worker."""

    token: str


class SendPiece(Struct, frozen=True, tag=True):
    """A piece of a file of the job; the last one says what the whole is."""

    path: str
    data: bytes
    at: int
    sha256: str = ""


class FetchPiece(Struct, frozen=True, tag=True):
    """Asks for a piece of a file that the stage was told of."""

    path: str
    at: int


class Piece(Struct, frozen=True, tag=True):
    data: bytes


class AliveFrame(Struct, frozen=True, tag=True):
    """There is nothing to say."""


class HaltFrame(Struct, frozen=True, tag=True):
    """To the worker: nobody wants to know any more."""


Saying = ProgressSaid | Line | Keeping | Making | Question | SendPiece | FetchPiece | Over
Telling = Acknowledged | Answer | CarriedFault | Piece


class WordFrame(Struct, frozen=True, tag=True):
    number: int
    said: Saying


class ToldWord(Struct, frozen=True, tag=True):
    number: int
    told: Telling


Frame = CallFrame | WordFrame | ToldWord | AliveFrame | HaltFrame

_frames = msgspec.msgpack.Decoder(Frame)
_orders = msgspec.msgpack.Decoder(SeatOrder)
_encode = msgspec.msgpack.Encoder().encode


def packed(frame: Frame | SeatOrder) -> bytes:
    return _encode(frame)


def unpacked(data: bytes) -> Any:
    """Raises: ValueError."""
    return _frames.decode(data)


def order_of(data: bytes) -> SeatOrder:
    """Raises: ValueError."""
    return _orders.decode(data)
