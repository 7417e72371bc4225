"""Panels of plugins: the one that ``plugin new --panel`` writes works, and one that is hostile gets
at nothing: no session, no other job, no page around it, no network."""

import json
import re
import socket
from contextlib import suppress
from typing import Any, Self

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from tests.browser.conftest import Station
from tests.browser.looking import PATIENCE_MS, ask, looking, sign_in
from tests.browser.panelled import BAD, GOOD

expect.set_options(timeout=PATIENCE_MS)

# The page around hears of a press only after the frame has asked: its first look finds nothing.
LATE = """() => {
  const { get } = Object.getOwnPropertyDescriptor(Document.prototype, "activeElement");
  window.looks = 0;
  Object.defineProperty(document, "activeElement", {
    get: () => (window.looks++ ? get.call(document) : document.body),
  });
}"""
# What stands in the frame is a line and a box with a line.
AS_HIGH = """() => {
  const high = document.querySelector(".panel iframe").clientHeight;
  return 60 < high && high < 300;
}"""


def test_the_panel_of_a_new_plugin_shows_its_job(browser: Browser, station: Station) -> None:
    sent: list[Request] = []
    with looking(browser, station.service.url, station.user) as looker:
        looker.page.on("request", lambda one: sent.extend([one]))
        looker.open(f"jobs/{station.greeted}")
        frame = looker.page.frame_locator("iframe[title='The greeting']")
        expect(frame.locator("strong")).to_have_text("Hello, Ada!")
        expect(frame.locator("pre")).to_have_text("Hello, Ada!")
        assert not looker.faults()
        looker.press("t")
        expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
        looker.page.wait_for_function(AS_HIGH)
        parts = [one for one in sent if "/panels/" in one.url and "index.html" not in one.url]
        told = [answer.headers for one in parts if (answer := one.response())]
        assert {one.get("x-dns-prefetch-control") for one in told} == {"off"}
        assert len(parts) >= 4
        assert not [one.url for one in parts if "cookie" in one.all_headers()], "its own requests"


@pytest.mark.parametrize("is_late", [False, True])
def test_a_panel_acts_when_somebody_presses_something(
    browser: Browser, station: Station, is_late: bool
) -> None:
    service = station.service
    ask(service, service.token, "POST", f"/admin/workflows/{GOOD}/pause")
    order = {"workflow": GOOD, "params": {"name": "Bob"}}
    job = ask(service, station.user, "POST", "/jobs", order)["id"]
    with looking(browser, service.url, station.user) as looker:
        looker.open(f"jobs/{job}")
        frame = looker.page.frame_locator(".panel iframe")
        if is_late:
            looker.page.evaluate(LATE)
        frame.get_by_role("button", name="Cancel it").click()
        expect(looker.page.locator("main .title .badge")).to_have_text("canceled")
        expect(frame.get_by_role("button")).to_have_count(0)
    ask(service, service.token, "POST", f"/admin/workflows/{GOOD}/resume")


class Ear:
    """Somebody outside to whom nobody may say anything."""

    def __enter__(self) -> Self:
        self.web = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        for one in (self.web, self.udp):
            one.setblocking(False)
        return self

    def __exit__(self, *_: object) -> None:
        self.web.close()
        self.udp.close()

    def heard(self) -> list[bytes]:
        """Whatever was said; a browser that has closed its connections has said all. It connects
        before it has looked whether it may, and then says nothing."""
        found = []
        with suppress(BlockingIOError):
            found.append(self.udp.recv(100))
        with suppress(BlockingIOError):
            while True:
                connection, _ = self.web.accept()
                connection.settimeout(PATIENCE_MS / 1000)
                with connection:
                    found.append(connection.recv(100))
        return [said for said in found if said]


def plan(ear: Ear, station: Station, **more: Any) -> str:
    ports = {"web": ear.web.getsockname()[1], "udp": ear.udp.getsockname()[1]}
    return json.dumps({**ports, "other": station.greeted, "file": station.file, **more})


def shown(browser: Browser, station: Station, job: str) -> Page:
    """The job's page, without the usual rule that nothing is complained about."""
    page = browser.new_context().new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{station.service.url}/")
    sign_in(page, station.user)
    page.goto(f"{station.service.url}/#/jobs/{job}")
    page.wait_for_selector(".panel iframe")
    return page


REFUSED = re.compile(
    "refused|silence|SecurityError|TypeError|EvalError|PANEL_REFUSED|UNKNOWN_COMMAND"
)


def test_a_hostile_panel_gets_at_nothing(browser: Browser, station: Station) -> None:
    with Ear() as ear:
        page = shown(browser, station, station.order(BAD, plan(ear, station)))
        address = page.url
        told = page.frame_locator(".panel iframe").locator("#found").inner_text()
        found = json.loads(told)
        assert len(found) > 20
        assert not {name: said for name, said in found.items() if not REFUSED.fullmatch(said)}
        for name in ("otherFile", "otherArtifact", "otherCommand", "actsAlone", "deletes"):
            assert found[name] in ("PANEL_REFUSED", "UNKNOWN_COMMAND"), name
        assert page.url == address
        assert len(page.context.pages) == 1
        page.context.close()
        assert ear.heard() == []


@pytest.mark.parametrize(
    "leaves",
    [
        "elsewhere",
        *(pytest.param(one, marks=pytest.mark.long) for one in ("by a form", "/", "/jobs")),
    ],
)
def test_a_panel_that_goes_elsewhere_is_told_nothing(
    browser: Browser, station: Station, leaves: str
) -> None:
    with Ear() as ear:
        page = shown(browser, station, station.order(BAD, plan(ear, station, leaves=leaves)))
        page.wait_for_function("document.querySelector('.panel iframe').contentWindow.length === 0")
        page.get_by_role("tab", name="History").click()
        expect(page.get_by_role("tabpanel")).to_contain_text("greeted")
        if leaves.startswith("/"):
            inside = page.frames[-1].locator("nav").count()
            assert not inside, "the page of this service is in no frame"
        else:
            _is_told_of_silence(page, station)
        page.context.close()
        assert ear.heard() == []


def _is_told_of_silence(page: Page, station: Station) -> None:
    """A panel whose script does not come says nothing; that is told where it should stand, and to
    whoever looks after the service."""
    page.route("**/panels/**/index.html", lambda route: route.fulfill(body="..."))
    page.clock.install()
    page.goto(f"{station.service.url}/#/jobs/{station.greeted}")
    expect(page.locator(".panel [role=status]")).to_have_text("It has not said anything yet.")
    with page.expect_response(re.compile("/silence")) as told:
        page.clock.fast_forward(11_000)
    assert told.value.status == 204
    expect(page.locator(".panel .notice")).to_contain_text("This panel has not started")
    seen = ask(station.service, station.service.token, "GET", "/overview")["system"]["troubles"]
    assert (seen[0]["kind"], seen[0]["name"]) == ("panel", GOOD)
    assert "ada" in seen[0]["error"]


def test_a_part_that_is_opened_by_itself_has_no_session(browser: Browser, station: Station) -> None:
    panel = ask(station.service, station.user, "GET", f"/workflows/{GOOD}")["panel"]
    with looking(browser, station.service.url, station.user) as looker:
        looker.page.goto(station.service.url + panel["url"])
        asked = "() => { try { return document.cookie } catch (fault) { return fault.name } }"
        assert looker.page.evaluate(asked) == "SecurityError"
