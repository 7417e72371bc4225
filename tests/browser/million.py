"""``python -m tests.browser.million --jobs 1000000``: how soon the dashboard is there, filters and
answers, with so many jobs in the file and a thousand changes a second.

The browser measures itself: from the beginning of a navigation until what was asked for stands in
the page, and from a key until the second frame after it. Whatever else the machine does is in it.
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
from playwright.sync_api import Page

from jobrunner.bench.clients import once_each
from jobrunner.bench.load import LoadOrder, load
from jobrunner.bench.measuring import Wanted, numbered, submission
from jobrunner.bench.servers import LARGE, Service, service
from jobrunner.bench.stored import Growth, grow
from tests.browser.apart import apart
from tests.browser.looking import browsing, looking

PATTERNS, TAKEN, CLIENTS, CHANGES = 200, "others", 32, 1_050
LONG_S = 3600
# A view is there when the selector is; the frames around it have been drawn.
THERE = """
([selector, since]) => new Promise((found) => {
  const look = () => document.querySelector(selector)
    ? requestAnimationFrame(() => requestAnimationFrame(() => found(performance.now() - since)))
    : requestAnimationFrame(look);
  look();
})
"""
ANSWER = """
(key) => new Promise((found) => {
  const began = performance.now();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  requestAnimationFrame(() => requestAnimationFrame(() => found(performance.now() - began)));
})
"""
FILTERED = """
([hash, selector]) => new Promise((found) => {
  const began = performance.now();
  location.hash = hash;
  const look = () => document.querySelector(selector)
    ? requestAnimationFrame(() => requestAnimationFrame(() => found(performance.now() - began)))
    : requestAnimationFrame(look);
  look();
})
"""
FILTERS = (("status=failed", ".empty"), ("status=done", "tbody tr[data-id]"))


def changing(url: str, request: bytes) -> None:
    order = LoadOrder(url, [request], CLIENTS, seconds=LONG_S, every_s=CLIENTS / CHANGES)
    asyncio.run(load(order))


@contextmanager
def changes(server: Service) -> Iterator[None]:
    """About a thousand new jobs a second, from a process of its own."""
    request = submission(Wanted(server.folder, plain=True), server.token, TAKEN)
    with apart(changing, server.url, request):
        yield


def told(name: str, found_ms: list[float]) -> None:
    middle, worst = statistics.median(found_ms), max(found_ms)
    print(f"{name}: median {middle:.0f} ms, worst {worst:.0f} ms of {len(found_ms)}", flush=True)


def look(page: Page, url: str, rounds: int) -> None:
    painted, whole, listed, filtered, answered = ([] for _ in range(5))  # type: ignore[var-annotated]
    for _ in range(rounds):
        page.goto(f"{url}/?{len(whole)}#/overview")
        whole.append(page.evaluate(THERE, [".attention", 0]))
        paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        painted.append(page.evaluate(paint) or whole[-1])
        page.goto(f"{url}/?{len(whole)}#/jobs")
        listed.append(page.evaluate(THERE, ["tbody tr[data-id]", 0]))
        for asked, selector in FILTERS:
            filtered.append(page.evaluate(FILTERED, [f"#/jobs?{asked}", selector]))
        for key in ("j", "j", "k", "x", "x"):
            answered.append(page.evaluate(ANSWER, key))
    told("first paint", painted)
    told("the overview is there", whole)
    told("the list is there", listed)
    told("a filter", filtered)
    told("a key", answered)


def rate(server: Service) -> Any:
    return sum(server.jobs(TAKEN, status) for status in ("queued", "step_1"))


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__)
    said.add_argument("--jobs", type=int, default=1_000_000)
    said.add_argument("--rounds", type=int, default=8)
    order = said.parse_args()
    with tempfile.TemporaryDirectory(prefix="jobrunner-million-") as folder:
        plan = Wanted(Path(folder))
        with service(plan.disk, LARGE, (TAKEN,)) as server:
            template = submission(plan, server.token)
            once_each(server.url, [numbered(template, one) for one in range(PATTERNS)], CLIENTS)
            server.wait_until("steps", "done", PATTERNS)
            server.stop()
            anyio.run(grow, str(server.path), Growth(order.jobs))
            server.start()
            with browsing() as browser, looking(browser, server.url, server.token) as looker:
                look(looker.page, server.url, 2)
                print("and with changes:", flush=True)
                with changes(server):
                    looker.page.wait_for_timeout(3000)
                    before, began = rate(server), asyncio.new_event_loop().time()
                    look(looker.page, server.url, order.rounds)
                    passed_s = asyncio.new_event_loop().time() - began
                    print(f"{(rate(server) - before) / passed_s:.0f} changes a second")


if __name__ == "__main__":
    main()
