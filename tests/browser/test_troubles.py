"""Troubles that were planted are found on the overview and cured by clicks, by somebody who has not
read how. Whoever only looks at the page finds each of them; the clicks are counted."""

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser import troubled
from tests.browser.looking import PATIENCE_MS, Looker, ask, looking
from tests.served import Served, serving

expect.set_options(timeout=PATIENCE_MS)
LINE_MAX = 3


@dataclass
class Mill:
    """A service with workflows that can be broken, and somebody who sends them work."""

    service: Served
    troubles: Path
    miller: str

    @contextmanager
    def broken(self, what: str) -> Iterator[None]:
        """For as long as it is not repaired."""
        mark = self.troubles / what
        mark.touch()
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)

    def repair(self, what: str) -> None:
        (self.troubles / what).unlink()

    def submits(self, workflow: str, name: str = "x") -> str:
        order = {"workflow": workflow, "params": {"name": name}}
        return str(ask(self.service, self.miller, "POST", "/jobs", order)["id"])

    def status(self, job_id: str) -> str:
        return str(ask(self.service, self.miller, "GET", f"/jobs/{job_id}")["status"])


class Operator:
    """Somebody with a mouse. What a repair outside takes is not counted."""

    def __init__(self, looker: Looker) -> None:
        self.page: Page = looker.page
        self.clicks = 0
        self._began_s = time.perf_counter()
        looker.open("overview")

    def clicks_on(self, where: Locator) -> None:
        self.clicks += 1
        where.click()

    def reads(self, words: str) -> Locator:
        """What the overview says about what needs attention."""
        found: Locator = self.page.locator(".attention li", has_text=re.compile(words)).first
        expect(found).to_be_visible()
        return found

    def follows(self, words: str) -> None:
        self.clicks_on(self.reads(words).get_by_role("link").first)

    def opens_job(self, job_id: str) -> None:
        self.clicks_on(self.page.locator(f'tr[data-id="{job_id}"] a').first)

    def presses(self, name: str, **how: bool) -> None:
        self.clicks_on(self.page.get_by_role("button", name=name, **how))  # type: ignore[arg-type]

    def tells(self, trouble: str) -> None:
        took_s = time.perf_counter() - self._began_s
        print(f"{trouble}: {self.clicks} clicks, {took_s:.1f} s")


@pytest.fixture(scope="module")
def mill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mill]:
    folder = tmp_path_factory.mktemp("mill")
    info = folder / "plugins" / "jobrunner_troubled-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(troubled.__file__, folder / "plugins" / "jobrunner_troubled.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jobrunner-troubled\nVersion: 1.0")
    (info / "entry_points.txt").write_text(troubled.ENTRIES)
    (folder / "troubles").mkdir()
    settings = {
        "JOBRUNNER_PLUGINS__PATH": str(folder / "plugins"),
        "JOBRUNNER_LIMITS__QUEUED_JOBS": str(LINE_MAX),
        "TROUBLES": str(folder / "troubles"),
    }
    with serving(folder, **settings) as service:
        made = ask(
            service, service.token, "POST", "/admin/tokens", {"name": "miller", "role": "user"}
        )
        yield Mill(service, folder / "troubles", made["token"])


@contextmanager
def operating(browser: Browser, mill: Mill, trouble: str) -> Iterator[Operator]:
    with looking(browser, mill.service.url, mill.service.token) as looker:
        operator = Operator(looker)
        yield operator
        operator.tells(trouble)


def test_a_stuck_job(browser: Browser, mill: Mill) -> None:
    with mill.broken("guard"):
        job_id = mill.submits("sieve")
        with operating(browser, mill, "a stuck job") as operator:
            operator.reads("The function through of sieve fails")
            operator.follows("1 stuck in sieve")
            operator.opens_job(job_id)
            expect(operator.page.locator(".notice.bad")).to_contain_text("through")
            mill.repair("guard")
            operator.presses("release", exact=True)
            expect(operator.page.locator("main .title .badge")).to_have_text("done")
            assert operator.clicks == 3
            operator.page.goto(f"{mill.service.url}/#/overview")
            operator.page.locator(".attention").wait_for()
            expect(operator.page.locator(".attention", has_text="through")).to_have_count(0)


@pytest.mark.long
def test_a_provider_that_fails(browser: Browser, mill: Mill) -> None:
    """The work is held back until the provider is there again."""
    with mill.broken("provider"):
        job_id = mill.submits("mill")
        with operating(browser, mill, "a provider that fails") as operator:
            line = operator.reads("1 of mill failed with PROVIDER_AWAY")
            expect(line).to_contain_text("wind")
            attempts_keep_their_place(operator.page, f"{mill.service.url}/#/jobs/{job_id}")
            operator.page.goto(f"{mill.service.url}/#/overview")
            operator.clicks_on(line.get_by_role("link", name="to mill, to pause it"))
            operator.presses("Pause", exact=True)
            expect(operator.page.locator(".notice.wait")).to_contain_text("Paused by")
            mill.repair("provider")
            operator.presses("Resume", exact=True)
            operator.clicks_on(operator.page.get_by_role("link", name="Its jobs"))
            row = operator.page.locator(f'tr[data-id="{job_id}"]')
            expect(row.locator(".badge")).to_have_text("done")
            assert operator.clicks == 4


def attempts_keep_their_place(page: Page, address: str) -> None:
    """The page says what failed; the one that was opened stays open, what is to come is last."""
    page.goto(address)
    expect(page.locator(".notice")).to_contain_text("the wind has gone")
    rows = page.locator(".timeline li:not(.resting)")
    rows.first.get_by_role("button").click()
    before = rows.count()
    expect(rows.nth(before)).to_be_visible()
    expect(rows.last).to_contain_text("to come")
    opened = page.locator('.timeline [aria-expanded="true"]')
    expect(opened).to_have_text(re.compile(r"^▾ working\s*mill.grind$"))


@pytest.mark.long
def test_a_line_that_is_full(browser: Browser, mill: Mill) -> None:
    """Somebody paused what it is full of."""
    ask(mill.service, mill.service.token, "POST", "/admin/workflows/oven/pause", {"reason": "cold"})
    jobs = [mill.submits("oven") for _ in range(LINE_MAX)]
    with pytest.raises(HTTPError, match="503"):
        mill.submits("oven")
    with operating(browser, mill, "a line that is full") as operator:
        full = operator.reads("The line is full: new jobs are refused")
        expect(full).to_contain_text("3 of oven, which is paused")
        expect(full.get_by_role("link", name="to oven, to resume it")).to_be_visible()
        operator.page.goto(f"{mill.service.url}/#/jobs")
        row = operator.page.locator(f'tr[data-id="{jobs[0]}"]')
        expect(row).to_contain_text("oven is paused")
        operator.page.goto(f"{mill.service.url}/#/overview")
        operator.follows("The workflow oven is paused by admin.*cold")
        operator.presses("Resume", exact=True)
        operator.clicks_on(operator.page.get_by_role("link", name="Its jobs"))
        for job_id in jobs:
            row = operator.page.locator(f'tr[data-id="{job_id}"]')
            expect(row.locator(".badge")).to_have_text("done")
        assert operator.clicks == 3
    mill.submits("oven")


@pytest.mark.long
def test_a_webhook_that_was_lost(browser: Browser, mill: Mill) -> None:
    """Nobody will bring it: the wait is ended, and the work is done again."""
    with mill.broken("post"):
        job_id = mill.submits("bellows", "lost")
        with operating(browser, mill, "a webhook that was lost") as operator:
            parked = operator.page.locator(".card", has_text="Await a callback, the longest first")
            operator.clicks_on(parked.get_by_role("link", name=re.compile(job_id[-8:])))
            expect(operator.page.locator(".notice").first).to_contain_text("callback")
            mill.repair("post")
            operator.presses("stop", exact=True)
            expect(operator.page.get_by_role("dialog")).to_contain_text("ends for good")
            operator.clicks_on(
                operator.page.get_by_role("dialog").get_by_role("button", name="stop", exact=True)
            )
            expect(operator.page.locator("main .title .badge")).to_have_text("failed")
            operator.presses("rerun", exact=True)
            operator.presses("Do it again")
            operator.page.wait_for_url(lambda url: "#/jobs/" in url and job_id not in url)
            expect(operator.page.locator("main .title .badge")).to_have_text("done")
            assert operator.clicks == 5


def test_an_answer_that_cannot_be_read_is_not_sent(browser: Browser, mill: Mill) -> None:
    with mill.broken("post"), looking(browser, mill.service.url, mill.service.token) as looker:
        job_id, page = mill.submits("bellows", "lost"), looker.page
        looker.open(f"review/{job_id}/lost", "textarea")
        expect(page.locator("li.open pre")).to_contain_text('"name": "lost"')
        page.get_by_label("Answer").fill("it is there")
        page.get_by_role("button", name="Give this answer").click()
        looker.sees("This is no JSON")
        assert mill.status(job_id) == "working"
        page.get_by_label("Answer").fill('"it is there"')
        page.get_by_role("button", name="Give this answer").click()
        expect(page.locator("li.open .stack .badge")).to_have_text("done")


@pytest.mark.long
def test_a_job_that_waits_for_a_person(browser: Browser, mill: Mill) -> None:
    job_id = mill.submits("proof")
    with operating(browser, mill, "a job that waits for a person") as operator:
        operator.follows("1 waits for a person in review of proof")
        operator.opens_job(job_id)
        operator.presses("approve", exact=True)
        expect(operator.page.locator("main .title .badge")).to_have_text("printed")
        assert operator.clicks == 3
    assert mill.status(job_id) == "printed"
