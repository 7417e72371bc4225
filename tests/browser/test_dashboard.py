"""The dashboard in a real browser, as admin, user and reader."""

import re
import shutil
from functools import reduce

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Shop
from tests.browser.looking import PATIENCE_MS, ask, looking, sign_in
from tests.deploy.proxied import PREFIX, nginx, proxied

expect.set_options(timeout=PATIENCE_MS)

ROLES = ("admin", "user", "reader")
VIEWS = (
    "overview",
    "jobs",
    "jobs?workflow=howera&kind=waiting",
    "jobs/HOWERA",
    "jobs/DONE?tab=history",
    "jobs/DONE?tab=raw",
    "jobs/DONE?tab=notifications",
    "jobs/DONE?tab=decisions",
    "jobs?text=Ann&param=name:Ann",
    "batches",
    "batches/BATCH",
    "workflows",
    "workflows/howera",
    "credits",
)
TABS = ("dead", "endpoints", "limits", "declarations", "bulks", "tokens", "audit", "file")
OPERATING = [*(f"operations?tab={tab}" for tab in TABS), "schedules", "schedules/nightly"]
ACTING = ("tour", "tour?at=9", "new", "new?workflow=ss", "new?like=DONE")


def addressed(view: str, shop: Shop) -> str:
    names = {"HOWERA": shop.howera, "DONE": shop.done, "BATCH": shop.batch}
    return reduce(lambda text, name: text.replace(name, names[name]), names, view)


ALL = [(role, scheme) for role in ROLES for scheme in ("light", "dark")]
LOOKS = [
    pytest.param(*look, marks=() if look in (ALL[0], ALL[-1]) else pytest.mark.long) for look in ALL
]


@pytest.mark.parametrize(("role", "scheme"), LOOKS)
def test_every_view_is_whole_and_readable(
    browser: Browser, shop: Shop, role: str, scheme: str
) -> None:
    views = [*VIEWS, *(ACTING if role != "reader" else ()), *(OPERATING if role != "user" else ())]
    with looking(browser, shop.url, shop.tokens[role], scheme=scheme) as looker:
        for view in views:
            looker.open(addressed(view, shop))
            looker.page.wait_for_load_state("load")
            assert looker.faults() == [], view


def test_on_a_phone_nothing_is_cut_off(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["admin"], phone=True) as looker:
        for view in (*VIEWS, *ACTING, *OPERATING):
            looker.open(addressed(view, shop))
            width = looker.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, view
            assert looker.faults() == [], view


def test_a_wrong_token_is_told_so_and_a_link_survives_signing_in(
    browser: Browser, shop: Shop
) -> None:
    page = browser.new_page()
    page.goto(f"{shop.url}/#/jobs/{shop.done}")
    page.get_by_label("Token").fill("jr_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("UNAUTHORIZED")
    sign_in(page, shop.tokens["user"])
    expect(page.get_by_role("heading", level=1)).to_contain_text("hello")
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Token").wait_for()
    assert page.context.cookies() == []
    page.close()


def test_a_job_is_made_in_the_form_and_seen_to_its_end(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        page = looker.page
        looker.open("new?workflow=hello")
        page.get_by_role("textbox", name="name", exact=True).fill("Berta")
        page.get_by_text("Files, labels, when").click()
        page.get_by_label("Labels, as key:value").fill("made:here")
        page.get_by_role("button", name="Submit").click()
        page.wait_for_url(re.compile(r"#/jobs/[0-9a-f-]{36}$"))
        expect(page.locator("main .title .badge")).to_have_text("greeted")
        expect(page.locator(".state.now")).to_contain_text("greeted")
        expect(page.get_by_role("tabpanel")).to_contain_text("Berta")
        job_id = page.url.rpartition("/")[2]
        job = ask(shop.service, shop.tokens["user"], "GET", f"/jobs/{job_id}")
        assert job["params"] == {"name": "Berta"}
        assert job["labels"] == {"made": "here"}


def test_a_job_like_another_begins_with_its_parameters(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        looker.open(f"jobs/{shop.done}")
        looker.page.get_by_role("link", name="start like this one").click()
        expect(looker.page.get_by_role("textbox", name="name", exact=True)).to_have_value("Ann")


def test_the_list_lives_and_does_not_jump(browser: Browser, shop: Shop) -> None:
    token = shop.tokens["user"]
    mine = ask(shop.service, token, "POST", "/jobs", {"workflow": "howera"})["id"]
    with looking(browser, shop.url, token) as looker:
        page = looker.page
        looker.open("jobs")
        expect(page.get_by_role("status")).to_have_text("live")
        row = page.locator(f'tr[data-id="{mine}"]')
        place = row.bounding_box()
        ask(shop.service, token, "POST", "/jobs", {"workflow": "howera"})
        page.get_by_role("button", name=re.compile("1 new job")).wait_for()
        ask(shop.service, token, "POST", f"/jobs/{mine}/cancel")
        expect(row.locator(".badge")).to_have_text("CANCELLED")
        assert row.bounding_box() == place
        before = page.locator("tbody tr").count()
        page.get_by_role("button", name=re.compile("1 new job")).click()
        expect(page.locator("tbody tr")).to_have_count(before + 1)


def test_a_row_that_no_longer_fits_stays_pale(browser: Browser, shop: Shop) -> None:
    token = shop.tokens["user"]
    mine = ask(shop.service, token, "POST", "/jobs", {"workflow": "howera"})["id"]
    with looking(browser, shop.url, token) as looker:
        looker.open("jobs?status=CREATED")
        row = looker.page.locator(f'tr[data-id="{mine}"]')
        expect(row).not_to_have_class(re.compile("pale"))
        expect(looker.page.get_by_role("status")).to_have_text("live")
        ask(shop.service, token, "POST", f"/jobs/{mine}/cancel")
        expect(row).to_have_class(re.compile("pale"))


def test_many_are_chosen_seen_through_and_done(browser: Browser, shop: Shop) -> None:
    order = {"workflow": "howera", "labels": {"bulk": "here"}}
    made = [ask(shop.service, shop.tokens["user"], "POST", "/jobs", order)["id"] for _ in range(3)]
    ask(shop.service, shop.tokens["user"], "POST", f"/jobs/{made[0]}/cancel")
    with looking(browser, shop.url, shop.tokens["admin"]) as looker:
        page = looker.page
        looker.open("jobs?label=bulk:here")
        page.get_by_label("Select all shown").check()
        page.get_by_role("button", name="pause", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("2 will be done")
        expect(dialog).to_contain_text("TERMINAL_STATE")
        kinds = {
            ask(shop.service, shop.service.token, "GET", f"/jobs/{one}")["paused"] is None
            for one in made
        }
        assert kinds == {True}, "only looked at"
        dialog.get_by_role("button", name="pause 3 jobs").click()
        expect(dialog).to_contain_text("2 done")
        dialog.get_by_role("button", name="Close").last.click()
        paused = [
            ask(shop.service, shop.service.token, "GET", f"/jobs/{one}")["paused"] for one in made
        ]
        assert [one is not None for one in paused] == [False, True, True]


def test_charts_are_drawn_and_told_in_words(browser: Browser, shop: Shop) -> None:
    """A user's own jobs are in them at once; the keys do what a mouse does."""
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        page = looker.page
        looker.open("overview", ".uplot canvas")
        plot = page.locator(".plot").first
        expect(plot.locator("figcaption")).to_contain_text(re.compile("In the last hour .* made"))
        plot.locator(".canvas").focus()
        looker.press("End")
        expect(plot.locator(".at")).to_contain_text("made")
        expect(plot.locator(".at")).to_contain_text(re.compile(r"\d\d:\d\d"))
        plot.locator("summary").click()
        expect(plot.locator("tbody tr").first).to_be_visible()
        page.get_by_role("button", name="week", exact=True).click()
        expect(plot.locator("figcaption")).to_contain_text("In the last week")
        page.get_by_label("Charts of").select_option("hello")
        expect(plot.locator("figcaption")).to_contain_text("completed")
        assert looker.faults() == []


HASTY = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("nav.side")) return;
  observer.disconnect();
  location.hash = "#/jobs";
}).observe(document, { childList: true, subtree: true });
"""


def test_who_goes_elsewhere_while_a_view_is_drawn_gets_there(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        looker.page.add_init_script(HASTY)
        looker.page.reload()
        expect(looker.page.get_by_role("heading", level=1)).to_have_text("Jobs")


def test_filters_stand_in_the_address(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["admin"]) as looker:
        page = looker.page
        looker.open("jobs")
        page.get_by_label("Workflow").select_option("hello")
        page.wait_for_url(re.compile("workflow=hello"))
        page.get_by_role("button", name=re.compile("^final")).click()
        page.wait_for_url(re.compile("workflow=hello&kind=final"))
        expect(page.locator("tbody tr").first).to_contain_text("hello")
        expect(page.locator("tbody")).not_to_contain_text("howera")
        page.reload()
        expect(page.get_by_label("Workflow")).to_have_value("hello")
        expect(page.locator("tbody")).not_to_contain_text("howera")
        page.get_by_label("Label", exact=True).fill("of:tests")
        looker.press("Enter")
        page.wait_for_url(re.compile("label=of%3Atests"))
        page.get_by_role("button", name=re.compile("^greeted")).click()
        page.wait_for_url(re.compile("status=greeted"))
        page.get_by_role("link", name="clear", exact=True).click()
        page.wait_for_url(re.compile("#/jobs$"))
        page.get_by_role("button", name=re.compile("^failed")).click()
        expect(page.locator(".title ~ .empty, .title ~ * .empty")).to_have_text(
            re.compile("failed")
        )
        page.get_by_role("link", name="clear", exact=True).click()
        ended = page.get_by_role("button", name=re.compile("^final"))
        before = ended.inner_text()
        ask(shop.service, shop.tokens["user"], "POST", "/jobs?wait=60", {"workflow": "hello"})
        expect(ended).not_to_have_text(before)


def test_the_keyboard(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        page = looker.page
        looker.open("jobs", "tbody tr")
        looker.press("j", "j", "k", "x")
        expect(page.locator("tbody tr").first).to_have_class(re.compile("at"))
        expect(page.locator("tbody tr").first).to_have_attribute("aria-selected", "true")
        looker.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("Select the row")
        looker.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.get_by_role("button", name="Keys").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        looker.press("Escape")
        expect(page.get_by_role("button", name="Keys")).to_be_focused()
        for words in (shop.howera, f"…{shop.howera[-8:]}"):
            looker.press("/")
            page.keyboard.type(words)
            looker.press("Enter")
            expect(page.get_by_role("heading", level=1)).to_contain_text("howera")
            looker.press("J")
        for opens in ("o", "Enter"):
            looker.press("J")
            expect(page.locator("tbody tr").first).to_be_visible()
            looker.press("j", opens)
            page.wait_for_url(re.compile("#/jobs/[0-9a-f-]{36}$"))
        looker.press("/")
        page.keyboard.type("Ann")
        looker.press("Enter")
        expect(page.get_by_role("note")).to_have_text("All jobs were looked at.")


def test_a_reader_is_offered_nothing_to_do(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["reader"]) as looker:
        page = looker.page
        for view in ("overview", "jobs", f"jobs/{shop.howera}", "workflows/howera"):
            looker.open(view)
            names = page.locator("main button, main a.button").all_inner_texts()
            offered = {"New job", "pause", "cancel", "Pause", "rerun", "delete"} & set(names)
            assert not offered, view
        looker.open("new", "main")
        looker.sees("There is nothing at this address")


def test_what_cannot_be_done_says_why(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        page = looker.page
        looker.open(f"jobs/{shop.howera}")
        export = page.get_by_role("button", name="export", exact=True)
        expect(export).to_be_disabled()
        expect(export).to_have_attribute("title", re.compile("not in CREATED"))
        expect(page.get_by_role("button", name="cancel", exact=True)).to_be_enabled()
        expect(page.get_by_role("button", name="start-upload", exact=True)).to_be_enabled()


def test_a_command_is_given_with_its_reason(browser: Browser, shop: Shop) -> None:
    token = shop.tokens["user"]
    mine = ask(shop.service, token, "POST", "/jobs", {"workflow": "howera"})["id"]
    with looking(browser, shop.url, token) as looker:
        page = looker.page
        looker.open(f"jobs/{mine}")
        page.get_by_role("button", name="cancel", exact=True).click()
        page.get_by_label("Reason").fill("a test")
        page.get_by_role("dialog").get_by_role("button", name="cancel", exact=True).click()
        expect(page.locator("main .title .badge")).to_have_text("CANCELLED")
        page.get_by_role("tab", name="History").click()
        expect(page.get_by_role("tabpanel")).to_contain_text("a test")


def test_a_job_is_done_again_with_other_parameters(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        page = looker.page
        looker.open(f"jobs/{shop.done}")
        page.get_by_role("button", name="rerun", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox", name="name", exact=True).fill("Carla")
        dialog.get_by_role("button", name="Do it again").click()
        page.wait_for_url(lambda url: "#/jobs/" in url and shop.done not in url)
        expect(page.locator("main .title .badge")).to_have_text("greeted")
        expect(page.get_by_role("tabpanel")).to_contain_text("Carla")
        page.get_by_role("link", name=re.compile(shop.done[-8:])).wait_for()


def test_a_refusal_is_told_where_it_was_asked_for(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"], refusals=True) as looker:
        page = looker.page
        looker.open("new?workflow=image-generation")
        page.get_by_label("prompt").fill("a lighthouse")
        page.get_by_label("size").fill("huge")
        page.get_by_role("button", name="Submit").click()
        expect(page.locator("form").get_by_role("alert")).to_contain_text("INVALID_PARAMS")


def test_a_session_that_ends_leads_to_signing_in(browser: Browser, shop: Shop) -> None:
    admin = shop.service.token
    made = ask(shop.service, admin, "POST", "/admin/tokens", {"name": "guest", "role": "user"})
    with looking(browser, shop.url, made["token"], refusals=True) as looker:
        looker.open("jobs")
        ask(shop.service, admin, "DELETE", f"/admin/tokens/{made['id']}")
        looker.page.goto(f"{shop.url}/#/workflows")
        looker.page.get_by_label("Token").wait_for()


def test_theme_and_times_are_remembered(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.tokens["user"]) as looker:
        page = looker.page
        looker.open("jobs", "tbody time")
        looker.press("u", "u")
        expect(page.locator("tbody time").first).to_have_text(
            re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ$")
        )
        looker.press("t")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.locator("tbody time").first).to_have_text(re.compile("Z$"))


def test_a_token_is_made_shown_once_and_revoked(browser: Browser, shop: Shop) -> None:
    with looking(browser, shop.url, shop.service.token) as looker:
        page = looker.page
        looker.open("operations?tab=tokens")
        page.get_by_role("button", name="New token").click()
        page.get_by_label("Name").fill("zoe")
        page.get_by_role("button", name="Make it").click()
        secret = page.locator(".secret").inner_text()
        assert ask(shop.service, secret, "GET", "/credits")["user_id"] == "zoe"
        looker.press("Escape")
        row = page.locator("tr", has_text="zoe")
        row.get_by_role("button", name="revoke").click()
        page.get_by_role("button", name="Revoke it").click()
        expect(row).to_contain_text("revoked")
        tokens = ask(shop.service, shop.service.token, "GET", "/admin/tokens")["tokens"]
        assert [bool(one["revoked_at"]) for one in tokens if one["name"] == "zoe"] == [True]


def test_below_a_path_behind_tls_all_of_it_works(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for program in ("nginx", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"make system installs {program}")
    with proxied(tmp_path_factory.mktemp("way"), nginx) as way:
        token = way.service.token
        job = ask(way.service, token, "POST", "/jobs?wait=60", {"workflow": "hello"})
        with looking(browser, way.url, token, ignore_https_errors=True) as looker:
            looker.open("jobs")
            expect(looker.page.get_by_role("status")).to_have_text("live")
            looker.page.locator(f'tr[data-id="{job["id"]}"] a').first.click()
            expect(looker.page.locator(".state.now")).to_contain_text("greeted")
            (cookie,) = looker.page.context.cookies()
            assert (cookie["secure"], cookie["path"]) == (True, f"{PREFIX}/")
