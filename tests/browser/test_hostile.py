"""Whatever a stranger can write is shown as what it is: text. A script that ran would be seen by a
mark that it leaves, by the page's policy, or by a request."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Shop
from tests.browser.looking import PATIENCE_MS, ask, looking

expect.set_options(timeout=PATIENCE_MS)

# Each would leave a mark if it ran, in one of the places where texts become markup.
CORPUS = (
    "<script>window.harmed=1</script>",
    "<img src=x onerror=window.harmed=1>",
    "<svg onload=window.harmed=1><animate onbegin=window.harmed=1 attributeName=x>",
    "\"><iframe srcdoc='<script>parent.harmed=1</script>'>",
    "javascript:window.harmed=1",
    "'-window.harmed=1-'",
    "${window.harmed=1}{{constructor.constructor('window.harmed=1')()}}",
    "<style>@import '//elsewhere.invalid/x'</style><link rel=stylesheet href=//elsewhere.invalid>",
    "<base href=//elsewhere.invalid/><meta http-equiv=refresh content='0;url=//elsewhere.invalid'>",
    "[a](javascript:window.harmed=1) ![b](//elsewhere.invalid/y.png)",
    "__proto__",
    "\u202eevil\u2066\u0007",
)
ALL = " ".join(CORPUS)
# The frame that a plugin's panel is shown in is the page's own.
OURS = ".panel > iframe[sandbox='allow-scripts allow-forms']"


@pytest.fixture(scope="module")
def hostile(shop: Shop) -> Iterator[list[str]]:
    """Jobs whose every field says something that should not be believed."""
    service, user = shop.service, shop.tokens["user"]
    labels = {f"k{place}": text[:250] for place, text in enumerate(CORPUS)}
    labels |= {"__proto__": "x", "<b>": "<i>"}

    def told(method: str, path: str, body: Any, token: str = user) -> Any:
        return ask(service, token, method, path, body)

    hello = {"workflow": "hello", "params": {"name": ALL}, "labels": labels}
    greeted = told("POST", "/jobs?wait=60", hello)["id"]
    howera = told("POST", "/jobs", {"workflow": "howera", "labels": labels})["id"]
    told("POST", f"/jobs/{howera}/pause", {"reason": ALL})
    told("POST", f"/jobs/{howera}/resume", {"reason": ALL})
    told("POST", f"/jobs/{howera}/confirm-upload", {"video_uri": f"s3://x/{CORPUS[1]}"})
    failed = told("POST", "/jobs", {"workflow": "howera", "labels": labels})["id"]
    report = {
        "to": "FAILED",
        "reason": ALL,
        "failure_code": "LOST",
        "failure_message": ALL,
        "failed_stage": "TRANSCRIBING",
        "artifact_updates": {"notes": {"text": ALL, "link": "javascript:window.harmed=1"}},
        "result": {"html": ALL, "url": "javascript:window.harmed=1"},
    }
    told("POST", f"/jobs/{failed}/transitions", report, service.token)
    told("POST", "/admin/workflows/ss/pause", {"reason": ALL}, service.token)
    told("POST", "/admin/bulk", {"command": "pause", "ids": [howera], "reason": ALL}, service.token)
    nightly = {"workflow": "hello", "user": "admin", "params": {"name": ALL}, "labels": labels}
    put = "/admin/schedules/hostile"
    told("PUT", put, {**nightly, "cron": "0 4 1 1 *"}, service.token)
    told("POST", f"{put}/pause", {"reason": ALL}, service.token)
    limit = {"value": 7, "reason": ALL}
    told("PUT", "/admin/limits/limits.per_user_active", limit, service.token)
    yield [greeted, howera, failed]
    told("DELETE", "/admin/limits/limits.per_user_active", None, service.token)
    told("DELETE", put, None, service.token)
    told("POST", "/admin/workflows/ss/resume", {}, service.token)


def test_nothing_that_strangers_write_runs(
    browser: Browser, shop: Shop, hostile: list[str]
) -> None:
    views = ["overview", "jobs", "workflows/ss", "schedules", "schedules/hostile"]
    views += [f"operations?tab={tab}" for tab in ("audit", "dead", "limits", "bulks")]
    views += [f"jobs/{hostile[0]}?tab=decisions&step={step}" for step in (0, 2)]
    for job in hostile:
        views += [f"jobs/{job}"]
        views += [f"jobs/{job}?tab={tab}" for tab in ("history", "raw", "notifications")]
        views += [f"new?like={job}"]
    with looking(browser, shop.url, shop.tokens["admin"]) as looker:
        for view in views:
            looker.open(view)
            looker.page.wait_for_load_state("networkidle") if "overview" not in view else None
            for summary in looker.page.locator("main details > summary").all():
                summary.click()
            for attempt in looker.page.locator(".timeline button[aria-expanded=false]").all():
                attempt.click()
            assert looker.page.evaluate("window.harmed") is None, view
            frames = f"iframe:not({OURS})"
            planted = f"main :is(script, {frames}, img[src=x], base, meta, style, object, embed)"
            assert looker.page.locator(planted).count() == 0, view
            links = looker.page.eval_on_selector_all("a", "all => all.map((one) => one.href)")
            assert not [one for one in links if not one.startswith("http://127.0.0.1")], view


def test_it_is_shown_as_it_was_written(browser: Browser, shop: Shop, hostile: list[str]) -> None:
    with looking(browser, shop.url, shop.tokens["admin"]) as looker:
        looker.open(f"jobs/{hostile[2]}")
        expect(looker.page.locator("main .notice.bad")).to_contain_text(CORPUS[0])
        expect(looker.page.locator(".facts")).to_contain_text(CORPUS[1])
        looker.page.get_by_role("tab", name="History").click()
        expect(looker.page.get_by_role("tabpanel")).to_contain_text(CORPUS[2])


def test_addresses_are_texts_of_strangers_too(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["admin"], refusals=True) as looker:
        for text in CORPUS[:6]:
            for view in (
                "jobs?workflow={0}&status={0}&label=a:{0}",
                "jobs?text={0}&param=a:{0}&schedule={0}&batch={0}&parent={0}",
                "schedules/{0}",
                "batches/{0}",
                "jobs?id={0}",
                "new?workflow={0}",
            ):
                looker.page.goto("about:blank")
                address = view.format(looker.page.evaluate("encodeURIComponent", text))
                looker.open(address)
                assert looker.page.evaluate("window.harmed") is None, address
