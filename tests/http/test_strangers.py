"""Two users, every route: nothing of one is ever told to the other, and nothing changes."""

import re
from typing import Any

import pytest

from jobrunner.http.routes.table import CORE
from tests.http.serving import House, Said

pytestmark = pytest.mark.anyio

CANARY = "canary"
MISSING = "01900000-0000-7000-8000-000000000000"
ON_A_JOB = [
    endpoint
    for endpoint in CORE
    if "/jobs/{id}" in endpoint.path and endpoint.roles and "user" in endpoint.roles
]
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
TUS = {"Tus-Resumable": "1.0.0"}


async def of_ada(house: House, workflow: str, **more: Any) -> dict[str, Any]:
    job: dict[str, Any] = await house.ada.submit(
        workflow,
        labels={CANARY: CANARY},
        idempotency_key=f"{CANARY}-{workflow}",
        notify_url=f"https://{CANARY}.example/",
        **more,
    )
    return job


def without_ids(said: Said, *ids: str) -> str:
    text = re.sub(r'"correlation_id":"[^"]*"', "", said.raw.decode())
    for one in ids:
        text = text.replace(one, "ID")
    return text


@pytest.mark.parametrize("endpoint", ON_A_JOB, ids=lambda one: f"{one.method} {one.path}")
async def test_a_foreign_job_reads_like_a_missing_one(house: House, endpoint: Any) -> None:
    """I-, C-, S-, H-: 404 for strangers, byte for byte; the job itself stays as it is."""
    job = await of_ada(house, "howera")
    before = (await house.ada.get(f"/jobs/{job['id']}")).raw
    fill = {"name": "draft", "command": "cancel", "delivery": "x"}
    said = [
        await house.eve.ask(
            endpoint.method,
            endpoint.path.format(id=job_id, **fill),
            BODIES.get(endpoint.name),
            headers=TUS,
        )
        for job_id in (job["id"], MISSING)
    ]
    assert [one.status for one in said] == [404, 404]
    foreign, missing = (without_ids(one, job["id"], MISSING) for one in said)
    assert foreign == missing
    assert CANARY not in foreign
    assert (await house.ada.get(f"/jobs/{job['id']}")).raw == before


async def test_where_the_workflow_says_so_it_is_forbidden(house: House) -> None:
    """P-r8: asset-pattern tells a stranger 403, and still nothing else."""
    schema = (await house.ada.get("/workflows/asset-pattern")).json
    from tests.http.test_jobs import example_of

    params = example_of(schema["job_types"]["export"]["params_schema"])
    job = await of_ada(house, "asset-pattern", job_type="export", params=params)
    for endpoint in ON_A_JOB:
        path = endpoint.path.format(id=job["id"], name="draft", command="cancel", delivery="x")
        body = BODIES.get(endpoint.name)
        said = await house.eve.ask(endpoint.method, path, body, headers=TUS)
        assert (said.status, said.code) == (403, "FORBIDDEN"), endpoint.path
        assert CANARY not in said.raw.decode()


async def test_lists_credits_and_files_hold_nothing_of_others(house: House) -> None:
    await of_ada(house, "howera")
    await of_ada(house, "cutx", job_type="scrape", params={"url": f"https://{CANARY}.example/"})
    for path in (
        "/jobs",
        "/jobs?include=params,result,artifacts",
        f"/jobs?label={CANARY}:{CANARY}",
        "/assets",
        "/credits",
        "/credits/history",
        "/workflows",
    ):
        said = await house.eve.get(path)
        assert said.status == 200
        assert CANARY not in said.raw.decode(), path
        assert '"ada"' not in said.raw.decode(), path


async def test_the_same_key_of_another_user_is_another_job(house: House) -> None:
    mine = await of_ada(house, "howera")
    said = await house.eve.post(
        "/jobs", {"workflow": "howera", "idempotency_key": mine["idempotency_key"]}
    )
    assert said.status == 201
    assert said.json["id"] != mine["id"]


async def test_insiders_see_everybodys_jobs(house: House) -> None:
    job = await of_ada(house, "howera")
    for insider in (house.admin, house.worker):
        assert (await insider.get(f"/jobs/{job['id']}")).status == 200


async def test_what_is_allowed_depends_on_who_asks(house: House) -> None:
    job = await of_ada(house, "howera")
    seen = {}
    for name, caller in (("owner", house.ada), ("admin", house.admin), ("worker", house.worker)):
        seen[name] = (await caller.get(f"/jobs/{job['id']}")).json["allowed"]
    assert "FAILED" not in seen["owner"]["statuses"]
    assert "FAILED" in seen["admin"]["statuses"]
    assert "fail" in seen["admin"]["commands"]
    assert "fail" not in seen["owner"]["commands"]
    assert seen["worker"]["commands"] == []
