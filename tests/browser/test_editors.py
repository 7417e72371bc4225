"""The panels of the five workflows, each doing what its work needs; and what strangers wrote is
shown in them as what it is."""

import base64
import json
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import Browser, FrameLocator, expect

from tests.browser.conftest import Station
from tests.browser.looking import PATIENCE_MS, Looker, ask, looking
from tests.browser.test_hostile import ALL, CORPUS

expect.set_options(timeout=PATIENCE_MS)

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwADBwIAMCbHYQAAAABJRU5ErkJggg=="
)


def post(station: Station, path: str, body: Any = None, token: str = "") -> Any:
    return ask(station.service, token or station.user, "POST", path, body)


def opened(looker: Looker, job: str) -> FrameLocator:
    looker.open(f"jobs/{job}", ".panel iframe")
    return looker.page.frame_locator(".panel iframe")


def pressed(frame: FrameLocator, name: str) -> None:
    """By key: the page around makes the frame as high as what stands in it, and so moves it."""
    button = frame.get_by_role("button", name=name, exact=True)
    expect(button).to_be_enabled()
    button.press("Enter")


def unharmed(looker: Looker) -> None:
    for frame in looker.page.frames:
        assert frame.evaluate("window.harmed") is None
        planted = "main :is(script, iframe:not([sandbox]), base, object, embed)"
        assert frame.locator(planted).count() == 0


def test_a_plan_is_agreed_on(browser: Browser, station: Station) -> None:
    draft = {
        "analysis": {"kind": "ols", "outcome": CORPUS[0], "predictors": [CORPUS[1], "price"]},
        "data": {"rows": 2, "columns": [{"name": ALL, "kind": "numeric"}], "notes": [ALL]},
        "questions": [
            {"id": "year", "required": True, "question": ALL},
            {"id": "kind", "options": ["ols", CORPUS[3]]},
            {"id": "predictors", "options": [CORPUS[2], "price"]},
        ],
    }
    job = post(station, "/jobs", {"workflow": "ss", "params": {"requirement": ALL}})["id"]
    post(station, f"/jobs/{job}/draft", {"draft": draft})
    with looking(browser, station.service.url, station.user) as looker:
        frame = opened(looker, job)
        agree = frame.get_by_role("button", name="Agree and run")
        expect(agree).to_be_disabled()
        expect(agree).to_have_attribute("title", "answers are missing: year")
        assert not looker.faults()
        frame.locator("#answer-year").fill("2024")
        frame.get_by_label("price").check()
        agree.click()
        expect(frame.get_by_role("heading", name="The plan")).to_be_visible()
        expect(frame.locator("#answer-year")).to_have_count(0)
        plan = ask(station.service, station.user, "GET", f"/jobs/{job}/artifacts/plan")["value"]
        assert plan["answers"] == {"year": "2024", "predictors": ["price"]}
        unharmed(looker)


def walked(station: Station, draft: Any, transcript: Any = None) -> str:
    """A guide that a worker elsewhere has drafted, or what it has heard."""
    job: str = post(station, "/jobs", {"workflow": "howera"})["id"]
    post(station, f"/jobs/{job}/confirm-upload", {"video_uri": "s3://videos/one.mp4"})
    way = {
        "AUDIO_EXTRACTING": {},
        "AUDIO_READY": {"audio_uri": "s3://a"},
        "TRANSCRIBING": {},
        "TRANSCRIPT_READY": {"transcript_uri": "s3://t"},
        "GENERATING": {},
        "DRAFT_READY": {"draft_uri": "s3://d", "draft": draft},
    }
    if transcript is not None:
        way = {**way, "TRANSCRIPT_READY": {"transcript_uri": "s3://t", "transcript": transcript}}
        way = {status: way[status] for status in list(way)[:4]}
    for status, artifacts in way.items():
        report = {"to": status, "artifact_updates": artifacts}
        post(station, f"/jobs/{job}/transitions", report, station.service.token)
    return job


def test_a_guide_is_edited_and_ordered(browser: Browser, station: Station) -> None:
    step = {"text": ALL, "start_s": 1.0, "end_s": 65.0, "images": []}
    foreign = f"/assets/{station.file}/content"
    draft = {
        "title": ALL,
        "steps": [
            {"id": "step-1", "title": CORPUS[1], "image": CORPUS[4], **step},
            {"id": "step-2", "title": CORPUS[0], "image": foreign, **step},
        ],
    }
    job = walked(station, draft)
    with looking(browser, station.service.url, station.user, phone=True) as looker:
        frame = opened(looker, job)
        expect(frame.get_by_label("Step 1: title")).to_have_value(CORPUS[1])
        expect(frame.locator("figure code").nth(1)).to_have_text(foreign)
        assert not looker.faults()
        wide = frame.locator("html").evaluate("one => one.scrollWidth - innerWidth")
        assert wide <= 0, "nothing is cut off"
        expect(frame.get_by_role("button", name="Export PDF")).to_be_disabled()
        frame.get_by_label("Title", exact=True).fill("How to switch it on")
        pressed(frame, "Step 2: up")
        expect(frame.get_by_label("Step 2: title")).to_have_value(CORPUS[1])
        pressed(frame, "Step 2: leave out")
        expect(frame.get_by_label("Step 2: title")).to_have_count(0)
        pressed(frame, "Save")
        expect(frame.locator("strong").first).to_have_text("Version 2")
        saved = ask(station.service, station.user, "GET", f"/jobs/{job}/artifacts/draft")["value"]
        assert saved["title"] == "How to switch it on"
        assert [one["id"] for one in saved["steps"]] == ["step-2"]
        frame.get_by_role("button", name="Export PDF").click()
        expect(looker.page.locator("main .title .badge")).to_have_text("EXPORTING")
        unharmed(looker)


def test_what_was_heard_is_corrected_and_a_moment_chosen(
    browser: Browser, station: Station
) -> None:
    one = {"start_s": 1.0, "end_s": 5.0, "text": f"Plug {ALL}", "doubtful": [0]}
    heard = walked(station, None, {"warnings": [ALL], "segments": [one]})
    step = {"id": "step-1", "title": "Unplug it", "image_s": 2.5, **one}
    job = walked(station, {"title": "A guide", "warnings": [ALL], "steps": [step]})
    post(station, f"/jobs/{job}/edit", {})
    with looking(browser, station.service.url, station.user) as looker:
        frame = opened(looker, heard)
        expect(frame.locator("mark")).to_have_text("Plug")
        expect(frame.locator(".notice")).to_have_text(ALL)
        frame.get_by_label("Heard 1").fill("Unplug the machine.")
        frame.get_by_role("button", name="Save", exact=True).click()
        expect(frame.get_by_role("button", name="Save", exact=True)).to_be_disabled()
        expect(frame.get_by_label("Heard 1")).to_have_value("Unplug the machine.")
        saved = ask(station.service, station.user, "GET", f"/jobs/{heard}/artifacts/transcript")
        assert saved["value"]["segments"] == [
            {**one, "text": "Unplug the machine.", "doubtful": []}
        ]
        frame = opened(looker, job)
        expect(frame.locator("mark")).to_have_text("Plug")
        expect(frame.get_by_label("Step 1: moment in seconds")).to_have_value("2.5")
        frame.get_by_label("Step 1: moment in seconds").fill("4.5")
        frame.get_by_label("Step 1: take this moment").click()
        expect(looker.page.locator("main .title .badge")).to_have_text("REGENERATING")
        wanted = ask(station.service, station.user, "GET", f"/jobs/{job}")["artifacts"]
        assert wanted["regenerate_request"]["moment_s"] == 4.5
        assert wanted["regenerate_request"]["selection"] == "step-1"
        unharmed(looker)


def shelved(station: Station) -> str:
    """A picture of one dot in the library of the user."""
    headers = {"Authorization": f"Bearer {station.user}", "Content-Type": "image/png"}
    request = urllib.request.Request(f"{station.service.url}/assets", DOT, headers, method="POST")
    with urllib.request.urlopen(request, timeout=120) as said:
        found: str = json.loads(said.read())["id"]
    return found


def made(station: Station, workflow: str) -> str:
    lamp = {"product_id": "lamp", "product": {"name": CORPUS[0], "features": [CORPUS[1]]}}
    orders: dict[str, dict[str, Any]] = {
        "cutx": {"job_type": "copy", "params": lamp},
        "image-generation": {"params": {"prompt": ALL, "size": "64x64"}},
    }
    if workflow == "asset-pattern":
        inputs = [shelved(station), "00000000-0000-7000-8000-000000000000"]
        orders[workflow] = {"job_type": "generation", "params": {"inputs": inputs}}
    job: str = post(station, "/jobs?wait=60", {"workflow": workflow, **orders[workflow]})["id"]
    return job


@pytest.mark.long
@pytest.mark.parametrize(
    ("workflow", "shows"),
    [("cutx", "article"), ("image-generation", "figure img"), ("asset-pattern", ".gallery img")],
)
def test_what_was_made_is_looked_at(
    browser: Browser, station: Station, workflow: str, shows: str
) -> None:
    job = made(station, workflow)
    with looking(browser, station.service.url, station.user) as looker:
        frame = opened(looker, job)
        expect(frame.locator(shows).first).to_be_visible()
        if shows.endswith("img"):
            picture = frame.locator(shows).first
            assert picture.evaluate("one => one.decode().then(() => one.naturalWidth)") > 0
        if workflow == "asset-pattern":
            expect(frame.locator("body")).to_contain_text("2 of 2 inputs, 1 files, 1 failed")
        assert not looker.faults()
        unharmed(looker)
