"""A service that others reach under a path of its own: every link that it tells begins there."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jobrunner.config.settings import ServerSection
from tests.http.serving import Caller, House, Said, definitions, opened

pytestmark = pytest.mark.anyio

PUBLIC = "https://jobs.example.com/runner/"
BASE = "/runner"
OURS = ("/jobs/", "/assets/", "/uploads/", "/admin/")
GIVEN = ("params", "artifacts", "result")  # what was said to us is said again as it was
TUS = {"Tus-Resumable": "1.0.0"}
PIECE = {**TUS, "Content-Type": "application/offset+octet-stream"}


class Reader(Caller):
    """Finds a link that leads past the path, wherever it stands in an answer."""

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Said:
        said = await super().ask(method, path, body, **more)
        for name in ("Location", "Content-Location"):
            assert said.headers.get(name, BASE).startswith(BASE), (method, path, name)
        if said.raw and "json" in said.headers.get("Content-Type", "") and path != "/openapi.json":
            assert list(bare(said.json)) == [], (method, path)
        return said


def bare(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        for key, one in value.items():
            inner = key in GIVEN and not (isinstance(one, dict) and "ref" in str(one))
            yield from () if inner else bare(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from bare(one, name)
    elif isinstance(value, str) and value.startswith(OURS):
        yield name, value


@pytest.fixture(scope="module")
async def house(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[House]:
    server = ServerSection(port=0, drain_seconds=1, public_url=PUBLIC)
    async with opened(
        tmp_path_factory.mktemp("links"), server=server, registry=definitions()
    ) as house:
        yield house


def reading(house: House, who: Caller) -> Reader:
    return Reader(house.session, house.service.url, house.contract, who.token)


def inside(link: str) -> str:
    """As the proxy passes it on."""
    assert link.startswith(f"{BASE}/")
    assert not link.startswith(f"{BASE}{BASE}")
    return link.removeprefix(BASE)


async def test_a_job_and_its_file(house: House) -> None:
    ada = reading(house, house.ada)
    made = await ada.post("/jobs", {"workflow": "howera"})
    where = inside(made.headers["Location"])
    assert (await ada.get(where)).json["id"] == made.json["id"]
    film = {"Content-Type": "video/mp4"}
    sent = await ada.ask("PUT", f"{where}/upload", data=b"film", headers=film)
    url = sent.json["asset"]["url"]
    assert (await ada.get(inside(url))).raw == b"film"
    assert [one["url"] for one in (await ada.get(f"{where}/assets")).json["assets"]] == [url]
    assert [one["url"] for one in (await ada.get("/assets")).json["assets"]] == [url]
    assert (await ada.get(inside(url).removesuffix("/content"))).json["url"] == url


async def test_a_file_before_its_job(house: House) -> None:
    ada = reading(house, house.ada)
    shelved = await ada.ask("POST", "/assets", data=b"x", headers={"Content-Type": "text/csv"})
    assert (await ada.get(inside(shelved.headers["Location"]))).json == shelved.json
    assert (await ada.get(inside(shelved.json["url"]))).raw == b"x"


async def test_a_file_in_pieces(house: House) -> None:
    ada = reading(house, house.ada)
    made = await ada.ask("POST", "/uploads", headers={**TUS, "Upload-Length": "4"})
    where = inside(made.headers["Location"])
    headers = {**PIECE, "Upload-Offset": "0"}
    sent = await ada.ask("PATCH", where, data=b"four", headers=headers)
    asked = await ada.ask("HEAD", where, headers=TUS)
    assert sent.headers["Content-Location"] == asked.headers["Content-Location"]
    assert (await ada.get(inside(sent.headers["Content-Location"]))).json["file_size"] == 4


async def test_what_became_of_a_job(house: House) -> None:
    """An address of elsewhere stays, one of ours begins where we are reached, however it was said;
    what is too large to be shown is referred to."""
    ada, worker = reading(house, house.ada), reading(house, house.worker)
    for said, shown in (
        ("https://cdn.example/1.png", "https://cdn.example/1.png"),
        ("/assets/one/content", "/runner/assets/one/content"),
        ("/runner/assets/one/content", "/runner/assets/one/content"),
    ):
        body = {"workflow": "asset-pattern", "params": {"prompt": "a leaf"}}
        job = (await ada.post("/jobs", body)).json
        where = f"/jobs/{job['id']}"
        moved = await worker.post(f"{where}/transitions", {"to": "processing"})
        assert moved.status == 200, moved.raw
        report = {
            "to": "completed",
            "assets": [{"asset_type": "image", "url": said}],
            "artifact_updates": {"large": "x" * 5000},
        }
        done = await worker.post(f"{where}/transitions", report)
        assert done.status == 200, done.raw
        assert done.json["result_url"] == shown
        ref = done.json["artifacts"]["large"]["ref"]
        assert (await ada.get(inside(ref))).json["value"] == "x" * 5000
        newest = (await ada.get("/assets")).json["assets"][0]
        gone = await ada.get(f"/assets/{newest['id']}/content")
        assert (gone.code, gone.json["url"]) == ("ASSET_GONE", shown)


async def test_what_a_workflow_answers_on_a_route_of_its_own(house: House) -> None:
    ada = reading(house, house.ada)
    await house.admin.post("/admin/credits/ada/grant", {"amount": 100, "reason": "test"})
    made = await ada.post("/api/generate/video", {"product_id": "p", "prompt": "a lamp"})
    assert made.status < 300, made.raw
    inside(made.headers["Location"])


async def test_many_at_once(house: House) -> None:
    admin = reading(house, house.admin)
    ids = [(await house.ada.submit("howera"))["id"]]
    made = await admin.post("/admin/bulk", {"command": "cancel", "ids": ids})
    assert (await admin.get(inside(made.headers["Location"]))).json["id"] == made.json["id"]


async def test_the_document_says_where(house: House) -> None:
    document = (await house.nobody.get("/openapi.json")).json
    assert document["servers"] == [{"url": BASE}, {"url": "https://jobs.example.com/runner"}]


async def test_without_a_path_links_are_as_they_were(tmp_path: Path) -> None:
    server = ServerSection(port=0, drain_seconds=1, public_url="https://jobs.example.com")
    registry = definitions(names=("howera",))
    async with opened(tmp_path, server=server, registry=registry) as house:
        made = await house.ada.post("/jobs", {"workflow": "howera"})
        assert made.headers["Location"] == f"/jobs/{made.json['id']}"
        document = (await house.nobody.get("/openapi.json")).json
        assert document["servers"] == [{"url": "/"}, {"url": "https://jobs.example.com"}]
    async with opened(tmp_path, registry=registry) as house:
        assert (await house.nobody.get("/openapi.json")).json["servers"] == [{"url": "/"}]
