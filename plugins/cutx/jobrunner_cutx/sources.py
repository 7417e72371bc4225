"""Reads the webhooks of the provider of pictures and films about an order of ours, a prediction."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from jobrunner import Heard, Source

TERMINAL = frozenset({"succeeded", "failed", "canceled", "aborted"})


class Prediction(Struct, frozen=True):
    """The part of it that matters here; there is much more."""

    id: str
    status: str
    output: Any = None
    error: Any = None


def read(body: bytes, headers: Mapping[str, str]) -> Heard | None:
    """Its end, and nothing before that: what it says while it works decides nothing."""
    prediction = msgspec.json.decode(body, type=Prediction)
    if prediction.status not in TERMINAL:
        return None
    return Heard(prediction.id, msgspec.to_builtins(prediction))


replicate = Source("replicate", read)
