"""Tokens of role workflow that are for some workflows only: to them the jobs of others are a
stranger's, and of files they read what their own jobs are about."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from jobrunner.http.routes.table import CORE
from tests.http.serving import Caller, House, opened

pytestmark = pytest.mark.anyio

MISSING = "01900000-0000-7000-8000-000000000000"
BODIES: dict[str, Any] = {
    "moveJob": {"to": "CANCELLED"},
    "reportStatus": {"event_id": "e", "status": "X", "occurred_at": "2026-01-01T00:00:00Z"},
    "editArtifact": {"value": "mine"},
    "commandJob": {},
    "giveAnswer": {"yes": True},
    "reportOutcome": {"id": "o", "claim": 1, "outcome": "done"},
    "reportCheckpoint": {"id": "o", "claim": 1},
    "keepValue": {"claim": 1, "name": "n", "value": 1},
}
ON_A_JOB = [
    endpoint
    for endpoint in CORE
    if endpoint.path.startswith(("/jobs/{id}", "/internal/jobs/{id}"))
    and endpoint.roles
    and "workflow" in endpoint.roles
]


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with opened(tmp_path_factory.mktemp("bound")) as house:
        gift = {"amount": 1000, "reason": "tests"}
        assert (await house.admin.post("/admin/credits/ada/grant", gift)).status == 200
        yield house


async def bound(house: House, *workflows: str, name: str = "narrow") -> Caller:
    order = {"name": name, "role": "workflow", "workflows": list(workflows)}
    made = await house.admin.post("/admin/tokens", order)
    assert made.status == 201, made.raw
    assert made.json["workflows"] == sorted(workflows)
    return house.caller(made.json["token"])


@pytest.mark.parametrize("endpoint", ON_A_JOB, ids=lambda one: f"{one.method} {one.path}")
async def test_a_job_of_another_workflow_is_a_strangers(house: House, endpoint: Any) -> None:
    """Missing, byte for byte; and forbidden, where the workflow says so to strangers."""
    narrow = await bound(house, "cutx")
    job = await house.ada.submit("howera")
    before = (await house.admin.get(f"/jobs/{job['id']}")).raw
    fill = {"name": "draft", "command": "cancel", "delivery": "x"}
    told = []
    for job_id in (job["id"], MISSING):
        path, body = endpoint.path.format(id=job_id, **fill), BODIES.get(endpoint.name)
        said = await narrow.ask(endpoint.method, path, body)
        assert (said.status, said.code) == (404, "NOT_FOUND"), said.raw
        told.append(said.json["detail"].replace(job_id, "ID"))
    assert told[0] == told[1]
    assert (await house.admin.get(f"/jobs/{job['id']}")).raw == before
    batch = await house.ada.submit("asset-pattern", job_type="generation")
    path, body = endpoint.path.format(id=batch["id"], **fill), BODIES.get(endpoint.name)
    assert (await narrow.ask(endpoint.method, path, body)).status == 403
    mine = await house.ada.submit("cutx", params={"product_id": "p"})
    path = endpoint.path.format(id=mine["id"], **fill)
    if endpoint.method == "GET" and not path.endswith(("/draft", "/events")):
        assert (await narrow.get(path)).status == 200


async def test_lists_leave_them_out(house: House) -> None:
    narrow = await bound(house, "cutx", "ss")
    for workflow, params in (
        ("howera", {}),
        ("cutx", {"product_id": "p"}),
        ("ss", {"requirement": "Sum the sales for the list"}),
    ):
        await house.ada.submit(workflow, params=params)
    seen = (await narrow.get("/jobs?limit=100")).json["jobs"]
    assert {job["workflow"] for job in seen} == {"cutx", "ss"}
    assert (await narrow.get("/jobs?workflow=howera")).json["jobs"] == []
    assert (await house.worker.get("/jobs?workflow=howera")).json["jobs"]
    for page in ("/jobs?limit=1", "/jobs?limit=1&order=oldest", "/jobs?user_id=ada&limit=1"):
        assert (await narrow.get(page)).json["jobs"][0]["workflow"] in ("cutx", "ss")


async def test_streams_leave_them_out(house: House) -> None:
    narrow = await bound(house, "cutx")
    timeout = aiohttp.ClientTimeout(total=30)
    headers = {"Authorization": f"Bearer {narrow.token}"}
    url = f"{house.service.url}/events"
    async with house.session.get(url, headers=headers, timeout=timeout) as stream:
        other = await house.ada.submit("howera")
        moved = {"to": "UPLOADING"}
        assert (await house.ada.post(f"/jobs/{other['id']}/transitions", moved)).status == 200
        beating = await house.admin.submit("asset-pattern", job_type="generation")
        assert (await house.worker.post(f"/jobs/{beating['id']}/claim")).status == 200
        beat = {"progress": 7}
        assert (await house.worker.post(f"/jobs/{beating['id']}/progress", beat)).status == 200
        mine = await house.ada.submit("cutx", params={"product_id": "p"})
        told = b""
        while mine["id"].encode() not in told:
            told += await stream.content.readline()
    assert other["id"].encode() not in told
    assert beating["id"].encode() not in told


async def test_it_looks_for_work_in_its_workflows_alone(house: House) -> None:
    narrow = await bound(house, "cutx")
    said = await narrow.post("/internal/claims", {"workflow": "howera"})
    assert (said.status, said.code) == (403, "FORBIDDEN")
    assert (await narrow.post("/internal/claims", {"workflow": "nothing"})).status == 422
    await house.ada.submit("cutx", params={"product_id": "p"})
    assert (await narrow.post("/internal/claims", {"workflow": "cutx"})).json["claims"]


async def uploaded(house: House, owner: Caller) -> str:
    said = await owner.ask(
        "POST", "/assets?name=table.csv", data=b"a,b\n1,2\n", headers={"Content-Type": "text/csv"}
    )
    assert said.status == 201, said.raw
    return str(said.json["id"])


async def test_files_that_its_jobs_name_are_readable(house: House) -> None:
    """In params, or in an artifact; of the same owner, and of no other workflow's job."""
    narrow = await bound(house, "ss")
    named, other = await uploaded(house, house.ada), await uploaded(house, house.ada)
    evil = await uploaded(house, house.eve)
    for asset in (named, other, evil):
        assert (await narrow.get(f"/assets/{asset}")).status == 404
        assert (await narrow.get(f"/assets/{asset}/content")).status == 404
        assert (await house.worker.get(f"/assets/{asset}")).status == 200
    params = {"requirement": f"Sum the sales of {evil}", "inputs": {"fingerprint": named}}
    await house.ada.submit("ss", params=params)
    assert (await narrow.get(f"/assets/{named}")).status == 200
    assert (await narrow.get(f"/assets/{named}/content")).raw == b"a,b\n1,2\n"
    for asset in (other, evil):
        assert (await narrow.get(f"/assets/{asset}/content")).status == 404
    wide = await bound(house, "cutx", name="cutter")
    assert (await wide.get(f"/assets/{named}/content")).status == 404


async def test_a_worker_looks_into_the_library_while_it_holds_a_claim(house: House) -> None:
    """Where the declaration says so, as long as the claim lasts, and of nobody else."""
    narrow = await bound(house, "asset-pattern", "cutx", name="librarian")
    asset, evil = await uploaded(house, house.ada), await uploaded(house, house.eve)
    job = await house.ada.submit("asset-pattern", job_type="generation")
    other = await house.ada.submit("cutx", params={"product_id": "p"})
    assert (await narrow.post(f"/jobs/{other['id']}/claim")).status == 200
    for path in ("/assets?user_id=ada", "/assets?user_id=eve"):
        assert (await narrow.get(path)).code == "FORBIDDEN"
    assert (await narrow.get(f"/assets/{asset}/content")).status == 404
    assert (await narrow.post(f"/jobs/{job['id']}/claim")).status == 200
    listed = (await narrow.get("/assets?user_id=ada&limit=100")).json["assets"]
    assert asset in [one["id"] for one in listed]
    assert (await narrow.get(f"/assets/{asset}/content")).raw == b"a,b\n1,2\n"
    assert (await narrow.get("/assets?user_id=eve")).code == "FORBIDDEN"
    assert (await narrow.get(f"/assets/{evil}/content")).status == 404
    assert (await house.worker.get("/assets?user_id=ada")).code == "FORBIDDEN"
    done = await narrow.post(f"/jobs/{job['id']}/transitions", {"to": "completed"})
    assert done.status == 200
    assert (await narrow.get("/assets?user_id=ada")).code == "FORBIDDEN"
    assert (await narrow.get(f"/assets/{asset}")).status == 404


async def test_files_of_jobs(house: House) -> None:
    job = await house.ada.submit("asset-pattern", job_type="generation")
    await house.worker.post(f"/jobs/{job['id']}/claim")
    done = {"to": "completed", "assets": [{"asset_type": "t", "url": "https://cdn.example/1.txt"}]}
    assert (await house.worker.post(f"/jobs/{job['id']}/transitions", done)).status == 200
    (asset,) = (await house.ada.get(f"/jobs/{job['id']}/assets")).json["assets"]
    mine, others = await bound(house, "asset-pattern"), await bound(house, "cutx")
    assert (await mine.get(f"/assets/{asset['id']}")).status == 200
    assert (await others.get(f"/assets/{asset['id']}")).status == 404


async def test_a_token_that_takes_its_place_is_bound_as_it_was(house: House) -> None:
    """And what the old one had claimed is the new one's; of tokens for different workflows none
    can take the place."""
    old = await bound(house, "cutx", name="turner")
    job = await house.ada.submit("cutx", params={"product_id": "p"})
    claim = (await old.post(f"/jobs/{job['id']}/claim")).json["claim"]
    for _ in range(2):
        turned = await house.admin.post("/admin/tokens/turner/rotate", {"grace": 60})
        assert turned.status == 201, turned.raw
        assert turned.json["workflows"] == ["cutx"]
    new, other = house.caller(turned.json["token"]), await bound(house, "cutx", name="another")
    path = f"/jobs/{job['id']}/progress"
    assert (await other.post(path, {"claim": claim})).code == "STALE_RUN"
    for heir in (old, new):
        assert (await heir.post(path, {"claim": claim})).status == 200
    assert (await new.get(f"/jobs/{(await house.ada.submit('howera'))['id']}")).status == 404
    await bound(house, "ss", name="turner")
    refused = await house.admin.post("/admin/tokens/turner/rotate", {})
    assert (refused.status, refused.code) == (400, "VALIDATION_ERROR")
    assert "different workflows" in refused.json["detail"]


async def test_only_workers_are_bound_and_only_to_what_is_there(house: House) -> None:
    for role in ("user", "admin"):
        order = {"name": "x", "role": role, "workflows": ["cutx"]}
        said = await house.admin.post("/admin/tokens", order)
        assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    order = {"name": "x", "role": "workflow", "workflows": ["nothing"]}
    said = await house.admin.post("/admin/tokens", order)
    assert (said.status, said.code) == (422, "UNKNOWN_WORKFLOW")
    listed = (await house.admin.get("/admin/tokens")).json["tokens"]
    assert [one["workflows"] for one in listed if one["name"] == "ada"] == [[]]
