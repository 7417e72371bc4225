"""Time travel in a real browser: through the decisions on record, and under another declaration."""

import re

from playwright.sync_api import Browser, expect

from tests.browser.conftest import Shop
from tests.browser.looking import PATIENCE_MS, ask, looking

expect.set_options(timeout=PATIENCE_MS)


def test_a_job_is_walked_through_again_decision_by_decision(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        page = looker.page
        looker.open(f"jobs/{shop.done}?tab=decisions")
        steps = page.locator(".decisions li")
        expect(steps).to_have_count(3)
        expect(page.locator(".travel h2").first).to_contain_text("greeted")
        looker.press("[")
        page.wait_for_url(re.compile("step=1"))
        expect(page.locator(".travel h2").first).to_contain_text("greeting")
        page.get_by_label("The first decision").click()
        expect(page.locator(".travel pre").first).to_contain_text('"name": "Ann"')
        page.get_by_label("Decision", exact=True).fill("2")
        expect(steps.nth(2).locator("[aria-current]")).to_be_visible()
        page.get_by_role("button", name=re.compile("of its day")).click()
        looker.sees("Every decision comes out the same.")
        expect(page.get_by_text("One of your own")).to_have_count(0)
        assert looker.faults() == []


def test_an_admin_sees_where_another_declaration_leads(browser: Browser, shop: Shop) -> None:
    token = shop.tokens["admin"]
    told = ask(shop.service, token, "GET", f"/jobs/{shop.done}/decisions")
    (declaration,) = told["declarations"].values()
    text = str(declaration)
    assert "greeted" in text
    with looking(browser, shop.url, token, phone=True, refusals=True) as looker:
        page = looker.page
        looker.open(f"jobs/{shop.done}?tab=decisions")
        page.get_by_text("One of your own").click()
        page.get_by_label("The declaration as JSON").fill('{"name": "hello"}')
        page.get_by_role("button", name="Try it").click()
        expect(page.get_by_role("alert")).to_contain_text("VALIDATION_ERROR")
        page.get_by_role("button", name="Begin with that of its day").click()
        field = page.get_by_label("The declaration as JSON")
        field.fill(field.input_value().replace("greeted", "welcomed"))
        page.get_by_role("button", name="Try it").click()
        looker.sees("The ways part at decision")
        page.get_by_role("status").get_by_role("link").click()
        looker.sees("Under this declaration")
        looker.sees("welcomed")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert looker.faults() == []
