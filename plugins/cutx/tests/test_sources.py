"""What the source of the cutx plugin makes of a provider's webhooks."""

import json
from typing import Any

import msgspec
import pytest
from jobrunner_cutx import replicate

from jobrunner import Heard

PREDICTION: dict[str, Any] = {
    "id": "ufawqhfynnddngldkgtslldrkq",
    "version": "5c7d5dc6dd8bf75c1acaa8565735e7986bc5b66206b55cca93cb72c9bf15ccaa",
    "created_at": "2026-04-26T22:13:06.224088Z",
    "started_at": None,
    "completed_at": "2026-04-26T22:13:09.224088Z",
    "status": "succeeded",
    "input": {"prompt": "a lamp"},
    "output": ["https://provider.example/1.png"],
    "error": None,
    "logs": "...",
    "metrics": {"predict_time": 2.8},
    "urls": {"get": "https://provider.example/p", "cancel": "https://provider.example/c"},
}


def read(**changes: Any) -> Heard | None:
    return replicate.read(json.dumps(PREDICTION | changes).encode(), {})


@pytest.mark.parametrize("status", ["succeeded", "failed", "canceled", "aborted"])
def test_an_end_is_heard_under_the_id_of_the_prediction(status: str) -> None:
    """C-r11."""
    heard = read(status=status, error="no lamp")
    assert heard == Heard(
        PREDICTION["id"],
        {
            "id": PREDICTION["id"],
            "status": status,
            "output": PREDICTION["output"],
            "error": "no lamp",
        },
    )


@pytest.mark.parametrize("status", ["starting", "processing", "queued", "", "Succeeded"])
def test_what_comes_before_the_end_says_nothing(status: str) -> None:
    assert read(status=status) is None


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"id": 1, "status": "failed"}', b'{"id": "x"}', b"\xff"]
)
def test_what_is_no_prediction_is_not_taken_for_one(body: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
        replicate.read(body, {})
