"""Makes the pictures of docs/dashboard.md anew: ``python -m tests.browser.pictures``. With a folder
all looks of every panel are put there, to be looked at, and the docs are left as they are."""

import math
import random
import sqlite3
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from PIL import Image
from playwright.sync_api import Browser

from jobrunner.core.keeping.charts import EVERYTHING, SPANS, Counted
from tests.browser.looking import ask, browsing, looking
from tests.browser.worked import OUTSIDE, panels_shown, worked
from tests.served import Served, serving

PLACE = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = {"width": 1200, "height": 780}
SETTINGS = {"JOBRUNNER_WORKFLOWS__IMAGE_GENERATION__RECORD": "decisions"}
# The frame of a panel has no storage.
QUIET = "try { localStorage.setItem('jobrunner.tour', '\"taken\"') } catch {}"
SHOP: tuple[dict[str, Any], ...] = (
    *({"workflow": "howera"} for _ in range(6)),
    *({"workflow": "hello", "params": {"name": name}} for name in ("Ann", "Bo", "Cy")),
    {"workflow": "asset-pattern", "params": {}},
    {"workflow": "cutx", "job_type": "copy", "params": {"product_id": "lamp-7"}},
)
VIEWS = {
    "overview": "overview",
    "jobs": "jobs",
    "job": "jobs/JOB",
    "travel": "jobs/JOB?tab=decisions&step=2",
    "tour": "tour",
}
SETTLES_MS = 800
COLOURS = 160
WHOLE = {"overview"}
# What is scrolled to, below the bar that stays.
BELOW = {"job": "main .two", "travel": ".tabs"}
TO = "what => scrollTo(0, document.querySelector(what).offsetTop - 60)"
PAST = (("howera", 0.2, 600_000), ("image-generation", 1, 9_000), ("hello", 0.5, 300))
PROMPTS = ("a lighthouse at dusk", "a mole with a lamp", "a kite over dunes")


def submitted(service: Served) -> tuple[str, str]:
    """Fill the service; say the id of a job with a picture, and its owner's token."""
    for name in ("ada", "bob"):
        order = {"name": name, "role": "user"}
        token = ask(service, service.token, "POST", "/admin/tokens", order)["token"]
        grant = {"amount": 90, "reason": "a start"}
        ask(service, service.token, "POST", f"/admin/credits/{name}/grant", grant)
        for one in SHOP if name == "ada" else ():
            ask(service, token, "POST", "/jobs?wait=3", one)
    jobs = [
        ask(service, token, "POST", "/jobs?wait=60", order_of(place, prompt))
        for place, prompt in enumerate(PROMPTS)
    ]
    return jobs[0]["id"], token


def remembered(folder: Path) -> None:
    """Put a past into a file that nobody has, so that there is something to chart."""
    with serving(folder):
        pass
    (folder / "stderr").unlink()
    luck, now = random.Random(1), int(time.time() * 1000)
    with sqlite3.connect(folder / "data" / "jobrunner.db") as db:
        for span in SPANS.values():
            for number in range(span.count):
                wave = 1 + math.sin(9 * number / span.count) * 0.6
                at = span.begins_at(now) + number * span.step_ms
                line = Counted(waits_ms=int(wave * luck.randint(9_000, 21_000)), in_line=int(wave))
                rows = {EVERYTHING: line} | {
                    name: busy(luck, share * wave, took_ms, ill=number % 60 > 52)
                    for name, share, took_ms in PAST
                }
                db.executemany(
                    "INSERT INTO charts VALUES (?, ?, ?, ?)",
                    [
                        (span.step_s, at, name, msgspec.json.encode(counted).decode())
                        for name, counted in rows.items()
                    ],
                )


def busy(luck: random.Random, share: float, took_ms: int, *, ill: bool) -> Counted:
    found = Counted(made=int(luck.gauss(20, 4) * share))
    for _ in range(found.made):
        failed = luck.random() < (0.3 if ill else 0.02)
        found.end("failed" if failed else "completed", int(luck.lognormvariate(0, 0.6) * took_ms))
    return found


def order_of(place: int, prompt: str) -> dict[str, Any]:
    params = {"prompt": prompt}
    return {"workflow": "image-generation", "params": params, "idempotency_key": f"p{place}"}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PLACE
    with TemporaryDirectory() as data, browsing() as browser:
        remembered(Path(data))
        (Path(data) / "config.toml").write_text(OUTSIDE)
        with serving(Path(data), **SETTINGS) as service:
            job, token = submitted(service)
            show(browser, service, job, folder)
            jobs = worked(service, token)
            panels_shown(browser, service, token, jobs, folder, all_=folder != PLACE)
            with looking(browser, service.url, service.token, scheme="dark", phone=True) as looker:
                looker.open("overview", ".uplot")
                looker.page.wait_for_timeout(SETTLES_MS)
                clip: Any = {"x": 0, "y": 0, "width": 390, "height": 1500}
                path = folder / "dashboard-overview-phone.png"
                looker.page.screenshot(path=path, full_page=True, clip=clip)
        lighten(folder)


def lighten(folder: Path) -> None:
    """Leave so few colours that a picture is a third as large, which nobody sees."""
    for path in (*folder.glob("dashboard-*.png"), *folder.glob("panel-*.png")):
        with Image.open(path) as whole:
            few = whole.convert("RGB").quantize(COLOURS)
        few.save(path, optimize=True)


def show(browser: Browser, service: Served, job: str, folder: Path) -> None:
    with looking(browser, service.url, service.token) as looker:
        looker.page.add_init_script(QUIET)
        looker.page.set_viewport_size(SIZE)  # type: ignore[arg-type]
        looker.page.reload()
        for name, view in VIEWS.items():
            looker.open(view.replace("JOB", job))
            looker.page.wait_for_load_state("load")
            if name == "travel":
                looker.page.locator(".travel .diagram").wait_for()
            looker.page.wait_for_timeout(SETTLES_MS)
            if name in BELOW:
                looker.page.evaluate(TO, BELOW[name])
            path = folder / f"dashboard-{name}.png"
            looker.page.screenshot(path=path, full_page=name in WHOLE)


if __name__ == "__main__":
    main()
