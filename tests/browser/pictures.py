"""Makes the pictures of docs/dashboard.md anew: ``python -m tests.browser.pictures``."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.browser.looking import ask, browsing, looking
from tests.served import Served, serving

PLACE = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = {"width": 1200, "height": 780}
SETTINGS = {"JOBRUNNER_WORKFLOWS__IMAGE_GENERATION__RECORD": "decisions"}
QUIET = "localStorage.setItem('jobrunner.tour', '\"taken\"')"
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
PROMPTS = ("a lighthouse at dusk", "a mole with a lamp", "a kite over dunes")


def submitted(service: Served) -> str:
    """Fill the service; say the id of a job with a picture."""
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
    found: str = jobs[0]["id"]
    return found


def order_of(place: int, prompt: str) -> dict[str, Any]:
    params = {"prompt": prompt}
    return {"workflow": "image-generation", "params": params, "idempotency_key": f"p{place}"}


def main() -> None:
    with (
        browsing() as browser,
        TemporaryDirectory() as folder,
        serving(Path(folder), **SETTINGS) as service,
        looking(browser, service.url, service.token) as looker,
    ):
        job = submitted(service)
        looker.page.add_init_script(QUIET)
        looker.page.set_viewport_size(SIZE)  # type: ignore[arg-type]
        looker.page.reload()
        for name, view in VIEWS.items():
            looker.open(view.replace("JOB", job))
            looker.page.wait_for_load_state("load")
            if name == "travel":
                looker.page.locator(".travel .diagram").wait_for()
                looker.page.mouse.wheel(0, 600)
            looker.page.wait_for_timeout(SETTLES_MS)
            looker.page.screenshot(path=PLACE / f"dashboard-{name}.png")


if __name__ == "__main__":
    main()
