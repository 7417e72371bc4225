"""Artifacts that are larger than a body usually is: saved where the workflow takes them."""

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.serving import House

pytestmark = pytest.mark.anyio

KIB = 1024
USUAL, LARGE = 256 * KIB, 4 * KIB * KIB
TYPED = {"Content-Type": "application/json"}


def whole(body: Any) -> io.BytesIO:
    """Announced with its length."""
    return io.BytesIO(json.dumps(body).encode())


async def in_pieces(body: Any) -> AsyncIterator[bytes]:
    data = json.dumps(body).encode()
    for start in range(0, len(data), 64 * KIB):
        yield data[start : start + 64 * KIB]


def path(job: Any, name: str = "draft") -> str:
    return f"/jobs/{job['id']}/artifacts/{name}"


@pytest.mark.parametrize("size", [USUAL - 100, USUAL + 1, 3 * KIB * KIB])
async def test_a_large_draft_is_saved_and_read_back(house: House, size: int) -> None:
    job = await house.ada.submit("ss", params={"plan_revision": f"of {size}"})
    draft = {"text": "x" * size}
    said = await house.ada.ask("PUT", path(job), data=whole({"value": draft}), headers=TYPED)
    assert (said.status, said.json["status"]) == (200, "draft_ready")
    assert (await house.ada.get(path(job))).json["value"] == draft
    again = {"value": {"text": "y" * size}, "base_version": 1}
    sent = await house.ada.ask("PUT", path(job), data=in_pieces(again), headers=TYPED)
    assert sent.status == 200, sent.raw[:200]
    assert (await house.ada.get(path(job))).json["value"] == again["value"]


async def test_howeras_drafts_too(house: House) -> None:
    job = await house.ada.submit("howera")
    for status in ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING",
                   "TRANSCRIPT_READY", "GENERATING", "DRAFT_READY"):  # fmt: skip
        moved = await house.admin.post(f"/jobs/{job['id']}/transitions", {"to": status})
        assert moved.status == 200, moved.raw
    said = await house.ada.put(path(job), {"value": "x" * 600_000})
    assert (said.status, said.json["status"]) == (200, "EDITING")


@pytest.mark.parametrize("framed", [True, False])
async def test_there_is_an_end_to_it(house: House, framed: bool) -> None:
    job = await house.ada.submit("ss", params={"plan_revision": f"framed {framed}"})
    body = {"value": "x" * LARGE}
    data: Any = whole(body) if framed else in_pieces(body)
    said = await house.ada.ask("PUT", path(job), data=data, headers=TYPED)
    assert (said.status, said.code) == (413, "BODY_TOO_LARGE")
    assert said.json["max_bytes"] == LARGE


async def test_what_takes_no_more_takes_no_more(house: House) -> None:
    """Another artifact, another workflow, another route; and a stranger learns nothing."""
    large = {"value": "x" * USUAL}
    job = await house.ada.submit("ss")
    other = await house.ada.submit("asset-pattern", job_type="export")
    for where in (path(job, "plan"), path(other)):
        said = await house.ada.put(where, large)
        assert (said.status, said.json["max_bytes"]) == (413, USUAL)
    command = {"draft": "x" * USUAL}
    assert (await house.ada.post(f"/jobs/{job['id']}/draft", command)).status == 413
    assert (await house.eve.put(path(job), large)).status == 404
    assert (await house.nobody.put(path(job), large)).status == 401
