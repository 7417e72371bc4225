"""The page at ``/``: all of it comes from here, its policy lets nothing else happen, and a browser
keeps its parts."""

import gzip
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from jobrunner.config.settings import ServerSection
from jobrunner.http.routes.pages import dashboard
from tests.http.serving import House, Said, definitions, opened
from tests.http.test_docs import ABSOLUTE, Loads

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
OURS = sorted((ROOT / "jobrunner/http/routes/pages/static/dashboard").iterdir())
VENDOR = ROOT / "jobrunner/http/routes/pages/vendor"
WEIGHT_MAX = 250 * 1024
LINES_MAX = 400
IMPORTED = re.compile(r'from "\./([a-z.-]+)";|import\("\./([a-z.-]+)"\)')
COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("dashboard")
    async with opened(folder, registry=definitions(names=("howera",))) as house:
        yield house


async def plain(house: House, path: str, **headers: str) -> Said:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        ClientSession(auto_decompress=False, skip_auto_headers=["Accept-Encoding"]) as session,
        session.get(house.service.url + path, headers=sent) as response,
    ):
        return Said(response.status, response.headers, await response.read())


async def test_the_page_and_all_its_parts_come_from_here(house: House) -> None:
    page = await house.nobody.get("/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    loads = Loads()
    loads.feed(page.raw.decode())
    assert not loads.inline
    assert loads.fetched
    for one in loads.fetched:
        assert one.startswith(f"page/{dashboard.build()}/")
        assert (await house.nobody.get(f"/{one}")).status == 200


async def test_every_part_has_its_kind_and_is_asked_for_by_another(house: House) -> None:
    asked = {"app.js", "answer.js", "look.css", "mark.svg", "uplot.css"}
    for name, part in dashboard.parts().items():
        said = await house.nobody.get(f"/page/{dashboard.build()}/{name}")
        assert said.status == 200
        assert said.headers["Content-Type"] == part.kind
        assert said.headers["X-Content-Type-Options"] == "nosniff"
        if name not in dashboard.VENDORED and name.endswith(".js"):
            asked |= {one or other for one, other in IMPORTED.findall(part.data.decode())}
    assert asked == set(dashboard.parts())


async def test_the_policy_is_strict(house: House) -> None:
    policy = (await house.nobody.get("/")).headers["Content-Security-Policy"]
    rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert rules["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in policy
    assert "*" not in policy


def test_our_files_name_no_other_place() -> None:
    for file in OURS:
        text = COMMENT.sub("", file.read_text(encoding="utf-8")).replace("http://www.w3.org", "")
        assert not ABSOLUTE.search(text), file.name
        assert "innerHTML" not in text
        assert "dangerously" not in text


def test_our_files_are_short() -> None:
    for file in OURS:
        assert len(file.read_text(encoding="utf-8").splitlines()) <= LINES_MAX, file.name


def test_all_of_it_is_light() -> None:
    assert sum(len(part.packed) for part in dashboard.parts().values()) <= WEIGHT_MAX


def test_the_licences_are_there() -> None:
    told = (VENDOR / "README.md").read_text(encoding="utf-8")
    for folder, _ in dashboard.VENDORED.values():
        licences = list((VENDOR / folder).glob("LICENSE*"))
        assert licences, folder
        assert all(file.stat().st_size for file in licences)
        assert f"`{folder}`" in told


async def test_parts_are_kept_for_good_and_the_page_is_asked_for(house: House) -> None:
    name = f"/page/{dashboard.build()}/app.js"
    part, page = await house.nobody.get(name), await house.nobody.get("/")
    assert "immutable" in part.headers["Cache-Control"]
    assert page.headers["Cache-Control"] == "no-cache"
    other = await house.nobody.get("/page/0123456789abcdef/app.js")
    assert (other.status, other.headers["Cache-Control"]) == (200, "no-cache")
    for path, said in ((name, part), ("/", page)):
        again = await house.nobody.get(path, If_None_Match=said.headers["ETag"])
        assert (again.status, again.raw) == (304, b"")


async def test_another_part_is_another_build(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dashboard.build()
    found = dashboard.parts()
    changed = found | {"app.js": found["app.js"]._replace(tag='"other"')}
    monkeypatch.setattr(dashboard, "parts", lambda: changed)
    assert dashboard.build.__wrapped__() != before


async def test_it_comes_packed_to_whoever_takes_it_so(house: House) -> None:
    for path in ("/", f"/page/{dashboard.build()}/look.css"):
        packed, whole = await plain(house, path, Accept_Encoding="gzip"), await plain(house, path)
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.raw) == whole.raw
        assert packed.headers["ETag"] != whole.headers["ETag"]
        assert packed.headers["Vary"] == whole.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("name", ["..%2fdashboard.py", "README.md", "index.html", "%00", "docs.js"])
async def test_a_part_that_is_not_there(house: House, name: str) -> None:
    assert (await house.nobody.get(f"/page/now/{name}")).status in (400, 404)


async def test_below_a_path_the_page_leads_there(tmp_path: Path) -> None:
    server = ServerSection(port=0, drain_seconds=1, public_url="https://jobs.invalid/runner")
    async with opened(tmp_path, server=server) as house:
        loads = Loads()
        loads.feed((await house.nobody.get("/")).raw.decode())
        assert all(one.startswith(f"/runner/page/{dashboard.build()}/") for one in loads.fetched)
