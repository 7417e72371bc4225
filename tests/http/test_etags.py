"""ETags: what is to be changed must be the very version that was seen; to be shown, it need not."""

from typing import Any

import pytest

from tests.http.serving import House, Said

pytestmark = pytest.mark.anyio

PACKERS = {"Accept-Encoding": "gzip, deflate, br, zstd"}
CHANGES: list[tuple[str, str, Any, dict[str, str]]] = [
    ("POST", "/transitions", {"to": "UPLOADING"}, {}),
    ("POST", "/transitions", {"to": "UPLOADING", "expected_version": 1}, {}),
    ("POST", "/cancel", None, {}),
    ("POST", "/cancel", {"expected_version": 1}, {}),
    ("POST", "/pause", {}, {}),
    ("PUT", "/artifacts/draft", {"value": {}}, {}),
    ("PUT", "/upload", None, {"Content-Type": "video/mp4"}),
    ("DELETE", "", None, {}),
]


async def asked(house: House, change: Any, job_id: str, tag: str) -> Said:
    method, path, body, more = change
    data = b"film" if path == "/upload" else None
    headers = more | {"If-Match": tag}
    return await house.ada.ask(method, f"/jobs/{job_id}{path}", body, data=data, headers=headers)


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: f"{one[0]} {one[1]} {one[2]}")
@pytest.mark.parametrize("tag", ['W/"1"', 'W/"1.3"'])
async def test_a_weak_tag_is_as_good_as_a_stale_one(house: House, change: Any, tag: str) -> None:
    """It says that two things are alike, which is not enough to change one of them."""
    job = await house.ada.submit("howera")
    said = await asked(house, change, job["id"], tag)
    assert (said.status, said.code) == (409, "JOB_VERSION_CONFLICT"), said.raw
    assert said.json["current_version"] == 1
    stale = await asked(house, change, job["id"], '"9"')
    assert stale.status in (409, 400)
    assert (await house.ada.get(f"/jobs/{job['id']}")).json["version"] == 1


async def test_two_of_them_are_no_answer(house: House) -> None:
    job = await house.ada.submit("howera")
    path = f"{house.service.url}/jobs/{job['id']}/cancel"
    headers = [("Authorization", f"Bearer {house.ada.token}")]
    headers += [("If-Match", '"1"'), ("If-Match", '"2"')]
    async with house.session.post(path, headers=headers) as said:
        assert said.status == 400


@pytest.mark.parametrize("tag", ['"1"', 'W/"1"', '"x", W/"1"', "*"])
async def test_what_was_seen_is_not_shown_again(house: House, tag: str) -> None:
    job = await house.ada.submit("howera")
    said = await house.ada.ask("GET", f"/jobs/{job['id']}", headers={"If-None-Match": tag})
    assert (said.status, said.raw) == (304, b"")
    assert said.headers["ETag"] == '"1"'


@pytest.mark.parametrize("tag", ["*", "W/"])
async def test_the_same_for_the_page(house: House, tag: str) -> None:
    tag += "" if tag == "*" else (await house.nobody.get("/docs")).headers["ETag"]
    said = await house.nobody.ask("GET", "/docs", headers={"If-None-Match": tag})
    assert said.status == 304


async def test_a_job_is_never_packed(house: House) -> None:
    """Its tag is of the bytes as they are: packed ones would have to have another."""
    made = await house.ada.ask(
        "POST", "/jobs", {"workflow": "howera", "labels": {"a": "x" * 200}}, headers=PACKERS
    )
    path = f"/jobs/{made.json['id']}"
    shown = await house.ada.ask("GET", path, headers=PACKERS)
    moved = await house.ada.ask("POST", f"{path}/cancel", headers=PACKERS)
    for said in (made, shown, moved):
        assert said.headers["ETag"].startswith('"')
        assert "Content-Encoding" not in said.headers
