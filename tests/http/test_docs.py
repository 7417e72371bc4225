"""The page at ``/docs``: all of it comes from here, and its policy lets nothing else happen."""

import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jobrunner.http.routes.pages import docs
from tests.http.serving import House

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "jobrunner/http/routes/pages/static"
OURS = sorted(file for file in STATIC.iterdir() if file.is_file())
VENDOR = ROOT / "jobrunner/http/routes/pages/vendor"
ABSOLUTE = re.compile(r"""(?:[a-z][a-z0-9+.-]*:)?//[a-z0-9]""", re.IGNORECASE)
HOSTS = re.compile(r"https?://([a-zA-Z0-9.-]+)")
# Named in the vendored script: namespaces, specifications and dialects, and where links of an error
# or of a document's own words would lead. `validator` is switched off in our settings.
NAMED = {
    *("www.w3.org", "json-schema.org", "spec.openapis.org", "datatracker.ietf.org"),
    *("www.rfc-editor.org", "spdx.org", "base", "example.com", "github.com", "fb.me"),
    *("reactjs.org", "redux.js.org", "swagger.io", "validator.swagger.io", "vladimirgorej.com"),
    *("instagram.com", "soundcloud.com", "twitter.com", "www.facebook.com", "www.tiktok.com"),
}


class Loads(HTMLParser):
    """What a page has the browser fetch, and what stands in it that would run or style."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.inline: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag != "a":
            self.fetched += [said[name] or "" for name in ("src", "href") if name in said]
        self.inline += [f"{tag} {name}" for name in said if name.startswith("on")]
        self.inline += [f"{tag} style"] if "style" in said else []
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style") and data.strip():
            self.inline.append(self._inside)


async def test_the_page_and_all_its_parts_come_from_here(house: House) -> None:
    page = await house.nobody.get("/docs")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    loads = Loads()
    loads.feed(page.raw.decode())
    assert not loads.inline
    fetched = [one for one in loads.fetched if one != "data:,"]
    assert {f"docs/{name}" for name in docs.PARTS} == set(fetched)
    for one in fetched:
        said = await house.nobody.get(f"/{one}")
        assert said.status == 200
        assert said.headers["X-Content-Type-Options"] == "nosniff"
        assert said.headers["Content-Type"].startswith(
            "text/css" if one.endswith(".css") else "text/javascript"
        )


async def test_the_policy_is_strict(house: House) -> None:
    for path in ("/docs", *(f"/docs/{name}" for name in docs.PARTS)):
        policy = (await house.nobody.get(path)).headers["Content-Security-Policy"]
        rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
        assert rules["default-src"] == "'none'"
        assert "unsafe" not in policy
        assert set(" ".join(rules.values()).split()) <= {"'none'", "'self'", "data:"}
        assert rules["img-src"] == "'self' data:", "nothing else may be data"


def test_our_files_name_no_other_place() -> None:
    assert {file.name for file in OURS} == {"docs.html", "docs.css", "docs.js"}
    for file in OURS:
        text = re.sub(r"^\s*// .*$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert not ABSOLUTE.search(text), file.name
    assert "validatorUrl: null" in (ROOT / "jobrunner/http/routes/pages/static/docs.js").read_text()


def test_the_vendored_files_name_only_what_was_looked_at() -> None:
    script = (VENDOR / "swagger_ui/swagger-ui-bundle.js").read_text(encoding="utf-8")
    assert set(HOSTS.findall(script)) <= NAMED
    style = (VENDOR / "swagger_ui/swagger-ui.css").read_text(encoding="utf-8")
    assert set(HOSTS.findall(style)) == {"www.w3.org"}, "the namespace of its pictures"
    places = re.findall(r"url\(\s*[\"']?([^\"')]{0,40})", style)
    assert places
    assert all(place.startswith("data:") for place in places)
    assert "@import" not in style


def test_the_policy_would_hold_a_link_back() -> None:
    """The finder of absolute places finds one."""
    assert ABSOLUTE.search('<script src="//cdn.example.com/x.js">')
    assert ABSOLUTE.search("url(https://example.com/font)")
    assert not ABSOLUTE.search('href="docs/docs.css"')


async def test_a_part_that_is_not_there(house: House) -> None:
    for name in ("..%2fdocs.py", "README.md", "LICENSE", "docs.html", "%00", "swagger-ui.css.map"):
        said = await house.nobody.get(f"/docs/{name}")
        assert said.status in (400, 404), name


async def test_a_browser_asks_whether_it_is_still_so(house: House) -> None:
    first = await house.nobody.get("/docs/docs.css")
    again = await house.nobody.get("/docs/docs.css", If_None_Match=first.headers["ETag"])
    assert (again.status, again.raw) == (304, b"")
    other = await house.nobody.get("/docs/docs.css", If_None_Match='"other"')
    assert other.raw == first.raw


def test_the_licences_are_there() -> None:
    folder = VENDOR / "swagger_ui"
    for name in ("LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt"):
        assert (folder / name).stat().st_size, name
    assert "Apache License" in (folder / "LICENSE").read_text(encoding="utf-8")
    told = (VENDOR / "README.md").read_text(encoding="utf-8")
    assert {f"`{one.name}`" for one in VENDOR.iterdir() if one.is_dir()} <= set(told.split())


@pytest.mark.long
def test_the_wheel_carries_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {"/".join(place) for place in (docs.PAGE, *docs.PARTS.values())}
    wanted |= {"vendor/swagger_ui/LICENSE", "vendor/swagger_ui/NOTICE"}
    assert {f"jobrunner/http/routes/pages/{place}" for place in wanted} <= inside


async def test_the_document_that_it_shows_is_beside_it(house: House) -> None:
    """Relative, so that a proxy may put the service below a path."""
    script = (await house.nobody.get("/docs/docs.js")).raw.decode()
    found = re.search(r'url: "([^"]+)"', script)
    assert found
    assert not urlsplit(found[1]).netloc
    assert not found[1].startswith("/")
    assert (await house.nobody.get(f"/{found[1]}")).json["openapi"] == "3.1.0"
