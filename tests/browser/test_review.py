"""The work of people: what waits for whom, answered and done from one page; and the page of a
question, for a person who has nothing but its address."""

import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.conftest import Station
from tests.browser.looking import DESKTOP, GRAVE, PATIENCE_MS, PHONE, Looker, ask, looking
from tests.browser.test_hostile import ALL
from tests.served import Served

expect.set_options(timeout=PATIENCE_MS)

POLLS = 5000
ROWS = 20


def asked(station: Station, token: str = "", **params: Any) -> tuple[str, str]:
    """A job whose stage has asked, and the address of its question."""
    order = {"workflow": "press", "params": params}
    token = token or station.user
    job = ask(station.service, token, "POST", "/jobs", order)["id"]
    told = Path(station.service.folder / f"{job}.url")
    for _ in range(POLLS):
        found = ask(station.service, token, "GET", f"/answers?job_id={job}")["answers"]
        if found and told.is_file() and told.read_text():
            break
    token = told.read_text().rpartition("/")[2]
    return job, f"{station.service.url}/callbacks/{token}"


def job_of(station: Station, job: str, token: str = "") -> Any:
    return ask(station.service, token or station.user, "GET", f"/jobs/{job}?wait=30&until=ended")


def test_a_question_is_answered_by_hand(browser: Browser, station: Station) -> None:
    hand = {"name": "hand", "role": "user"}
    token = ask(station.service, station.service.token, "POST", "/admin/tokens", hand)["token"]
    job, _ = asked(station, token, text=ALL, timeout_s=3600, default=False)
    with looking(browser, station.service.url, token) as looker:
        page = looker.page
        expect(page.get_by_role("link", name=re.compile("^For me 1"))).to_be_visible()
        looker.press("F")
        expect(page.get_by_role("heading", level=1)).to_have_text("For me")
        looker.sees("1 question")
        looker.press("j")
        page.wait_for_url(re.compile(f"#/review/{job}/approval"))
        item = page.locator("li.open")
        expect(item).to_contain_text("<script>window.harmed=1</script>")
        expect(item.locator("form pre")).to_contain_text("nobody said so")
        assert not looker.faults()
        assert page.evaluate("window.harmed") is None
        item.get_by_label(re.compile("approved")).select_option("true")
        item.get_by_label("note").fill(ALL)
        item.get_by_role("button", name="Give this answer").click()
        assert job_of(station, job, token)["result"]["answer"] == {"approved": True, "note": ALL}
        expect(page.locator("li.open")).to_contain_text("waits for you no longer")
        expect(page.get_by_role("link", name=re.compile("^For me$"))).to_be_visible()


def test_a_job_that_rests_is_moved_on_from_there(browser: Browser, station: Station) -> None:
    order = {"workflow": "howera", "labels": {"of": "review"}}
    job = ask(station.service, station.user, "POST", "/jobs", order)["id"]
    with looking(browser, station.service.url, station.user, phone=True) as looker:
        page = looker.page
        looker.open(f"review/{job}", "li.open .actions")
        item = page.locator("li.open")
        expect(item.get_by_role("button", name="export", exact=True)).to_be_disabled()
        assert not looker.faults()
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, "nothing is cut off"
        item.get_by_role("button", name="cancel", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="cancel", exact=True).click()
        expect(item.locator(".badge").first).to_have_text("CANCELLED")
        looker.sees("waits for you no longer")


def test_everybody_sees_what_is_theirs(browser: Browser, station: Station) -> None:
    service = station.service
    tokens = {
        role: ask(service, service.token, "POST", "/admin/tokens", {"name": role, "role": role})
        for role in ("user", "reader")
    }
    job, _ = asked(station, text="Ada's")
    with looking(browser, service.url, tokens["user"]["token"]) as looker:
        looker.open("review")
        looker.sees("Nothing waits for you")
        _more_than_a_page(looker, service, tokens["user"]["token"])
    with looking(browser, service.url, service.token) as looker:
        looker.open("review")
        looker.sees("May this be printed: Ada's?")
    with looking(browser, service.url, tokens["reader"]["token"]) as looker:
        expect(looker.page.get_by_role("link", name="For me")).to_have_count(0)
        looker.open("review", "main")
        looker.sees("There is nothing at this address")
    ask(service, station.user, "POST", f"/jobs/{job}/cancel")


def _more_than_a_page(looker: Looker, service: Served, token: str) -> None:
    """The newest is on the second page; whoever has its address sees it at once."""
    page = looker.page
    order = {"jobs": [{"workflow": "howera"}] * (ROWS + 1)}
    ask(service, token, "POST", "/batches", order)
    expect(page.locator(".review li")).to_have_count(ROWS)
    looker.sees(f"{ROWS} of {ROWS + 1} things are shown.")
    newest = ask(service, token, "GET", "/jobs?limit=1")["jobs"][0]["id"]
    looker.open(f"review/{newest}", "li.open .actions")
    expect(page.locator("li.open .line")).not_to_contain_text("no longer")
    page.get_by_role("button", name="More of them").click()
    expect(page.locator("li.open .line")).to_contain_text("howera")
    expect(page.locator(".review li")).to_have_count(ROWS + 1)


@pytest.mark.parametrize(
    "viewport",
    [
        pytest.param(PHONE, id="phone"),
        pytest.param(DESKTOP, id="desktop", marks=pytest.mark.long),
    ],
)
def test_whoever_has_the_address_answers_once(
    browser: Browser, station: Station, viewport: Any
) -> None:
    job, url = asked(station, text=ALL, timeout_s=3600, default=True)
    sent: list[Request] = []
    said: list[str] = []
    page = _stranger(browser, viewport, sent, said)
    page.goto(url)
    expect(page.locator(".asked")).to_contain_text("<script>window.harmed=1</script>")
    give = page.get_by_role("button", name="Give this answer")
    give.click()
    expect(page.get_by_role("alert")).to_contain_text("VALIDATION_ERROR")
    page.get_by_label(re.compile("approved")).select_option("false")
    page.get_by_label("note").fill("no")
    faults = Axe().run(page).response["violations"]
    assert not [one["id"] for one in faults if one["impact"] in GRAVE]
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    give.click()
    expect(page.get_by_role("status")).to_have_text("Thank you. Your answer was taken.")
    assert job_of(station, job)["result"]["answer"] == {"approved": False, "note": "no"}
    page.goto(url)
    expect(page.locator(".asked")).to_have_text("This question has been answered.")
    expect(page.get_by_role("button")).to_have_count(0)
    assert page.evaluate("window.harmed") is None
    heads = [one.all_headers() for one in sent]
    assert not [one for one in heads if one.get("referer") or "cookie" in one]
    assert {one.url.partition("/callbacks/")[0] for one in sent if "/page/" not in one.url} == {
        station.service.url
    }
    refused = "Failed to load resource: the server responded with a status of 400"
    assert not [text for text in said if not text.startswith(refused)]
    page.context.close()


def _stranger(browser: Browser, viewport: Any, sent: list[Request], said: list[str]) -> Page:
    """Somebody without an account: what the browser sends and complains about is kept."""
    page = browser.new_context(viewport=viewport).new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("request", lambda one: sent.extend([one]))
    page.on("console", lambda one: said.extend([one.text] if one.type == "error" else []))
    page.on("pageerror", lambda one: said.extend([str(one)]))
    return page


def test_who_comes_too_late_is_told_so(browser: Browser, station: Station) -> None:
    job, url = asked(station)
    page = _stranger(browser, DESKTOP, [], [])
    page.goto(url)
    page.get_by_label(re.compile("approved")).select_option("true")
    ask(station.service, station.user, "POST", f"/jobs/{job}/cancel")
    page.get_by_role("button", name="Give this answer").click()
    expect(page.get_by_role("status")).to_contain_text("Yours was not taken")
    page.goto(url)
    expect(page.locator(".asked")).to_contain_text("Nobody waits for an answer any more")
    page.goto(f"{url}x")
    expect(page.locator(".asked")).to_contain_text("Nothing is asked at this address")
    page.context.close()
