"""A real browser on the dashboard of a real service. Whatever the browser complains about fails the
test: errors in its console, breaches of the page's policy, requests to anybody else."""

import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from tests.served import Served

PROGRAM = "chromium"
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
).split()
# It would write to the frames of panels, as to its own origin; theirs is nobody's, and the browser
# complains. It could not look into them.
ASKED_OF_AXE = {"resultTypes": ["violations"], "iframes": False}
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PATIENCE_MS = 120_000
GRAVE = {"serious", "critical"}
# A refusal that a test provokes is in the console as well, for that is where browsers write it.
REFUSED = "Failed to load resource: the server responded with a status of 4"


@contextmanager
def browsing() -> Iterator[Browser]:
    found = shutil.which(PROGRAM)
    if found is None:
        pytest.skip(f"make system installs {PROGRAM}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIET)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Looker:
    """Somebody at the page, signed in with a token."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def open(self, address: str, wait_for: str = "main h1") -> None:
        self.page.goto(f"{self.url}/#/{address}")
        self.page.wait_for_selector(wait_for)

    def sees(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for()

    def faults(self) -> list[str]:
        """What a screen reader or weak eyes would stumble over in this view."""
        found = Axe().run(self.page, options=ASKED_OF_AXE).response["violations"]
        return [
            f"{one['id']}: {node['target']} {node.get('failureSummary', '')}"
            for one in found
            if one["impact"] in GRAVE
            for node in one["nodes"]
        ]

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)


@contextmanager
def looking(
    browser: Browser, url: str, token: str, *, scheme: Any = "light", phone: bool = False,
    refusals: bool = False, **more: Any,
) -> Iterator[Looker]:  # fmt: skip
    """Sign in; at the end nothing must have been complained about. ``refusals``: but for those of
    the service, which this test provokes."""
    context = browser.new_context(
        viewport=PHONE if phone else DESKTOP,  # type: ignore[arg-type]
        color_scheme=scheme,
        **more,
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    looker = Looker(page, url)
    _complaining(looker, refusals)
    try:
        page.goto(f"{url}/")
        sign_in(page, token)
        yield looker
    except (PlaywrightError, AssertionError) as error:
        error.add_note(f"complaints: {looker.complaints}\nthe page says:\n{_words(page)}")
        raise
    finally:
        context.close()
    assert looker.complaints == [], looker.complaints


def _words(page: Page) -> str:
    return page.locator("body").inner_text() if not page.is_closed() else "nothing: it is closed"


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("navigation", name="Pages").wait_for()


def _complaining(looker: Looker, refusals: bool) -> None:
    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            if not (refusals and message.text.startswith(REFUSED)):
                looker.complaints.append(f"console: {message.text}")

    def asked(request: Request) -> None:
        if not request.url.startswith((f"{looker.url}/", "data:", "blob:")):
            looker.complaints.append(f"asked elsewhere: {request.url}")

    def opened(dialog: Any) -> None:
        looker.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    looker.page.on("console", said)
    looker.page.on("pageerror", lambda error: looker.complaints.append(f"error: {error}"))
    looker.page.on("request", asked)
    looker.page.on("dialog", opened)


def ask(service: Served, token: str, method: str, path: str, body: Any = None) -> Any:
    """What a program asks meanwhile."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(service.url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=120) as said:
        text = said.read()
    return json.loads(text) if text else None
