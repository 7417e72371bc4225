"""Jobs of the five workflows, each where its panel has something to show, and pictures of these."""

import struct
import urllib.request
import zlib
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Browser

from tests.browser.looking import ask, looking
from tests.served import Served

OUTSIDE = """
[workflows.howera.stages]
"*" = "external"

[workflows.ss.stages]
"*" = "external"
"""
LOOKS = {"": ("light", False), "-phone": ("dark", True)}
OTHERS = {"-dark": ("dark", False), "-phone-light": ("light", True)}
SIDE = 96
SETTLES_MS = 1200
# So high that the whole of a panel stands below the bar.
HIGH = {False: {"width": 1200, "height": 1600}, True: {"width": 390, "height": 2400}}

LAMP = {
    "product_id": "lamp-7",
    "product": {"name": "Reading lamp", "features": ["dims by touch", "folds flat"]},
}
STEPS: tuple[tuple[str, str, list[int]], ...] = (
    ("Unplug the machine", "Pull the plug before you open the lid.", [1]),
    ("Open the lid", "Press both latches and lift the lid.", []),
    ("Take out the filter", "Turn the filter to the left and take it out.", [1, 2]),
)
HEARD = [(1.0, 6.5), (7.0, 14.0), (15.5, 24.0)]
DRAFT = {
    "analysis": {"kind": "ols", "outcome": "price", "predictors": ["area", "rooms"]},
    "data": {
        "rows": 412,
        "columns": [{"name": name, "kind": "numeric"} for name in ("price", "area", "rooms")],
        "notes": ["7 rows have no area and are left out"],
    },
    "questions": [
        {"id": "year", "required": True, "question": "Which year do the prices stand for?"},
        {"id": "kind", "options": ["ols", "robust"]},
        {"id": "predictors", "options": ["area", "rooms", "floor"]},
    ],
}
GUIDE = {
    "AUDIO_EXTRACTING": {},
    "AUDIO_READY": {"audio_uri": "s3://a"},
    "TRANSCRIBING": {},
    "TRANSCRIPT_READY": {"transcript_uri": "s3://t"},
    "GENERATING": {},
}


def worked(service: Served, token: str) -> dict[str, str]:
    """One job of each workflow, by its name."""
    inputs = [_shelved(service, token, turn) for turn in range(3)] + [
        "00000000-0000-7000-8000-000000000000"
    ]
    orders: dict[str, dict[str, Any]] = {
        "cutx": {"job_type": "copy", "params": LAMP},
        "image-generation": {"params": {"prompt": "a lighthouse at noon"}},
        "asset-pattern": {"job_type": "generation", "params": {"inputs": inputs}},
    }
    found: dict[str, str] = {
        name: ask(service, token, "POST", "/jobs?wait=60", {"workflow": name, **order})["id"]
        for name, order in orders.items()
    }
    wanted = {"requirement": "What makes a flat dear: its area or its rooms?"}
    found["ss"] = ask(service, token, "POST", "/jobs", {"workflow": "ss", "params": wanted})["id"]
    ask(service, token, "POST", f"/jobs/{found['ss']}/draft", {"draft": DRAFT})
    return found | {"howera": _guide(service, token)}


def _guide(service: Served, token: str) -> str:
    steps = [
        {"id": f"step-{place}", "title": title, "text": text, "doubtful": doubtful}
        | {"start_s": HEARD[place][0], "end_s": HEARD[place][1], "images": []}
        for place, (title, text, doubtful) in enumerate(STEPS)
    ]
    job: str = ask(service, token, "POST", "/jobs", {"workflow": "howera"})["id"]
    film = {"video_uri": "s3://videos/filter.mp4"}
    ask(service, token, "POST", f"/jobs/{job}/confirm-upload", film)
    draft = {"draft_uri": "s3://d", "draft": {"title": "Clean the filter", "steps": steps}}
    for status, artifacts in {**GUIDE, "DRAFT_READY": draft}.items():
        report = {"to": status, "artifact_updates": artifacts}
        ask(service, service.token, "POST", f"/jobs/{job}/transitions", report)
    return job


def _shelved(service: Served, token: str, turn: int) -> str:
    """A picture in the library of the user."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "image/png"}
    body = _picture(turn)
    request = urllib.request.Request(f"{service.url}/assets", body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=120) as said:
        found: str = msgspec.json.decode(said.read())["id"]
    return found


def _picture(turn: int) -> bytes:
    """A PNG of one colour that runs into another."""

    def part(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    rows = b"".join(
        b"\0" + b"".join(bytes((80 * turn % 256, 2 * y, 2 * x)) for x in range(SIDE))
        for y in range(SIDE)
    )
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    parts = part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def panels_shown(
    browser: Browser, service: Served, token: str, jobs: dict[str, str], folder: Path, *, all_: bool
) -> None:
    """Two looks of each panel, or all four."""
    for look, (scheme, phone) in {**LOOKS, **(OTHERS if all_ else {})}.items():
        with looking(browser, service.url, token, scheme=scheme, phone=phone) as looker:
            looker.page.set_viewport_size(HIGH[phone])  # type: ignore[arg-type]
            for workflow, job in jobs.items():
                looker.open(f"jobs/{job}", ".panel iframe")
                looker.page.wait_for_timeout(SETTLES_MS)
                panel = looker.page.locator(".panel")
                panel.screenshot(path=folder / f"panel-{workflow}{look}.png")
