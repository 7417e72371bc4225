"""Batches, schedules, limits, backups, searches and time travel in a real browser: seen by all who
may, and done by an admin."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Shop
from tests.browser.looking import PATIENCE_MS, Looker, ask, looking
from tests.browser.test_hostile import CORPUS

expect.set_options(timeout=PATIENCE_MS)


def test_a_schedule_is_held_fired_and_filled_up(browser: Browser, shop: Shop) -> None:
    token = shop.tokens["admin"]
    with looking(browser, shop.url, token) as looker:
        page = looker.page
        looker.open("schedules")
        page.get_by_role("link", name="nightly").click()
        page.get_by_role("button", name="pause").click()
        expect(page.locator("main .title .badge")).to_have_text("paused")
        page.get_by_role("button", name="resume").click()
        expect(page.locator("main .title .badge")).to_have_text("active")
        page.get_by_role("button", name="trigger").click()
        expect(page.get_by_role("row").filter(has_text="trigger")).to_contain_text("fired")
        page.get_by_role("button", name="backfill").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("From").fill("2026-01-01T00:00")
        dialog.get_by_label("Up to, and without").fill("2026-01-03T00:00")
        dialog.get_by_role("button", name="Look what it would do").click()
        expect(dialog.get_by_role("status")).to_contain_text("2 moments")
        before = ask(shop.service, token, "GET", "/jobs?schedule=nightly")["jobs"]
        assert len(before) == 1, "only looked at"
        dialog.get_by_role("button", name="Make the jobs").click()
        expect(dialog.get_by_role("status")).to_contain_text("2 made")
        assert looker.faults() == []
        dialog.get_by_role("button", name="Close").last.click()
        page.get_by_role("link", name="its jobs").click()
        expect(page.locator("tbody tr")).to_have_count(3)


def test_a_limit_is_changed_and_put_back(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["admin"]) as looker:
        page = looker.page
        looker.open("operations?tab=limits")
        row = page.get_by_role("row").filter(has_text="limits.per_user_active")
        row.get_by_role("button", name="Change").click()
        page.get_by_label("Value").fill("5")
        page.get_by_label("Why").fill("a test")
        page.get_by_role("button", name="Change it").click()
        expect(row).to_contain_text("set by admin")
        expect(row.locator("strong")).to_have_text("5")
        expect(row).to_contain_text("a test")
        row.get_by_role("button", name="reset").click()
        expect(row.locator("strong")).to_have_text("8")
        _is_read_page_by_page(looker)


def _is_read_page_by_page(looker: Looker) -> None:
    """Of the audit, as if two records were a page."""
    page = looker.page
    page.route("**/admin/audit?*", lambda one: one.continue_(url=_of_two(one.request.url)))
    looker.open("operations?tab=audit", "#told tbody tr")
    rows = page.locator("#told tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Older ones").click()
    expect(rows).to_have_count(4)
    told = rows.locator("code").all_inner_texts()
    assert told[:2] != told[4:6], "others than before"


def _of_two(url: str) -> str:
    return url.replace("limit=50", "limit=2")


def test_a_backup_is_made_and_read_again(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["admin"]) as looker:
        page = looker.page
        looker.open("operations?tab=file")
        page.get_by_role("button", name="Make one now").click()
        page.get_by_role("button", name="drill").click()
        looker.sees("can be put back")


def test_a_batch_shows_what_was_refused_and_is_deleted(browser: Browser, shop: Shop) -> None:
    token = shop.tokens["user"]
    order = {"jobs": [{"workflow": "hello", "params": {"name": "Cy"}}, {"workflow": "gone"}]}
    batch = ask(shop.service, token, "POST", "/batches", order)["id"]
    with looking(browser, shop.url, token) as looker:
        page = looker.page
        looker.open(f"batches/{batch}")
        looker.sees("UNKNOWN_WORKFLOW")
        page.get_by_role("link", name="its jobs").click()
        expect(page.locator("tbody tr")).to_have_count(1)
        page.locator("tbody a.mono").first.click()
        page.locator("dl.facts").get_by_role("link", name=re.compile(batch[-8:])).click()
        expect(page.locator("main .title .badge")).to_have_text("ended")
        page.get_by_role("button", name="delete").click()
        page.wait_for_url(re.compile("#/batches$"))


@pytest.mark.parametrize("role", ["reader", "user"])
def test_who_may_not_act_is_offered_nothing(browser: Browser, shop: Shop, role: str) -> None:
    with looking(browser, shop.url, shop.tokens[role]) as looker:
        page = looker.page
        looker.open(f"batches/{shop.batch}")
        navigation = page.get_by_role("navigation", name="Pages")
        if role == "user":
            expect(page.get_by_role("button", name="delete")).to_be_visible()
            expect(navigation.get_by_role("link", name="Schedules")).to_have_count(0)
            return
        expect(page.get_by_role("button", name="delete")).to_have_count(0)
        shown = {"schedules/nightly": "dl", "operations?tab=limits": "table"}
        for view, part in {**shown, "operations?tab=file": "table"}.items():
            looker.open(view)
            page.locator(f"main {part}").first.wait_for()
            for name in ("trigger", "Change", "drill", "Make one now"):
                expect(page.get_by_role("button", name=re.compile(name))).to_have_count(0)


def test_a_text_is_searched_and_a_view_kept(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        page = looker.page
        looker.open("jobs")
        page.get_by_label("Text").fill("Ann")
        looker.press("Enter")
        page.wait_for_url(re.compile("text=Ann"))
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_role("note")).to_have_text("All jobs were looked at.")
        page.get_by_label("Parameter").fill("name:Nobody")
        looker.press("Enter")
        looker.sees("No job is like this")
        page.get_by_label("Parameter").fill("name:Ann")
        looker.press("Enter")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody tr.pale")).to_have_count(0)


def test_what_was_proved_is_shown_by_example(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        looker.open("workflows/hello")
        looker.page.get_by_text("without queued → greeting").click()
        looker.sees("here: there is no edge queued -> greeting")


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
        expect(page.get_by_role("alert")).to_contain_text("INVALID_PARAMS")
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


def test_a_first_start_leads_to_a_tour(browser: Browser, shop: Shop) -> None:
    found = re.search(r"^sign in at (\S+)\r$", shop.greeting, re.MULTILINE)
    assert found
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(found[1])
    page.get_by_role("link", name="Take the tour").click()
    assert "key=" not in page.url
    page.get_by_role("link", name="hello", exact=True).click()
    page.get_by_role("button", name="Submit the example").click()
    expect(page.locator(".state.now")).to_contain_text("greeted")
    page.get_by_role("link", name="Next: ").click()
    page.get_by_role("button", name="Submit the example").click()
    page.locator(".state.now").wait_for()
    assert Looker(page, shop.url).faults() == []
    page.get_by_role("link", name="Leave it").click()
    page.get_by_role("heading", name="Overview").wait_for()
    expect(page.get_by_role("link", name="Take the tour")).to_have_count(0)
    page.reload()
    page.get_by_role("heading", name="Overview").wait_for()
    expect(page.get_by_role("link", name="Take the tour")).to_have_count(0)
    page.context.close()
    again = browser.new_page()
    again.goto(found[1])
    expect(again.get_by_role("alert")).to_contain_text("UNAUTHORIZED")
    again.context.close()


def test_the_children_of_a_job_are_a_tree(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["admin"]) as looker:
        page = looker.page
        page.route(re.compile(r"/jobs\?parent="), lambda route: route.fulfill(json=family(shop)))
        looker.open(f"jobs/{shop.done}")
        tree = page.locator("ul.tree").first
        expect(tree.locator("li")).to_have_count(1)
        tree.get_by_role("button", name=re.compile("Children of")).click()
        expect(tree.locator("ul.tree li")).to_have_count(1)
        assert looker.faults() == []


def family(shop: Shop) -> Any:
    """The answer that a parent would have: no workflow that comes with the service has children."""
    job = ask(shop.service, shop.tokens["admin"], "GET", f"/jobs/{shop.howera}")
    return {"jobs": [job], "next_cursor": None}


def test_tables_and_markdown_are_shown_and_nothing_of_them_runs(
    browser: Browser, shop: Shop
) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        page = looker.page
        looker.open("jobs")
        told = page.evaluate(PREVIEWS, [CORPUS, TABLE])
        assert told["rows"] == [["a", 'b "c"'], ["1;2", "x\ny"], ["", ""]]
        assert told["tags"] == ["A", "CODE", "DIV", "EM", "LI", "P", "SPAN", "STRONG", "UL"]
        assert told["links"] == ["https://example.invalid/"]
        assert page.evaluate("window.harmed") is None


TABLE = 'a,"b ""c"""\r\n"1;2","x\ny"\n,\n'
PREVIEWS = """
async ([corpus, table]) => {
  const script = document.querySelector('script[type="module"]').src;
  const at = new URL("previews.js", script);
  const [{ Markdown, rows }, { html, render }] = await Promise.all(
    [import(at), import(new URL("preact.js", script))]);
  const place = document.createElement("div");
  document.body.append(place);
  const text = `# ${corpus.join(" ")}\\n- *soft* **strong** \\`code\\`\\n- [go](https://example.invalid/)\\n\\n`
    + corpus.join("\\n\\n");
  render(html`<${Markdown} text=${text} />`, place);
  const all = [...place.querySelectorAll("*")];
  await new Promise(requestAnimationFrame);
  const found = { rows: rows(table),
    tags: [...new Set(all.map((one) => one.tagName))].sort(),
    links: all.filter((one) => one.href).map((one) => one.href) };
  place.remove();
  return found;
}
"""
