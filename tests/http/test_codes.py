"""Codes that need a service in a certain condition: quotas, a workflow that is gone, a bug."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from jobrunner.config.settings import QuotaSettings, WorkflowSettings
from jobrunner.core.declaration.workflow import (
    Deadline,
    Definition,
    Edge,
    JobType,
    Lock,
    Retry,
    Route,
    State,
    Workflow,
)
from jobrunner.errors import Refused
from jobrunner.stages import Registry
from tests.http.serving import OUTSIDE, House, definitions, opened

pytestmark = pytest.mark.anyio

CROWDED = WorkflowSettings(stages=OUTSIDE.stages, quota=QuotaSettings(open_jobs=2))


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


def broken(call: Any, job: Any) -> Any:
    raise KeyError(f"the secret ingredient of {job.user_id}")


def refusing(body: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    raise Refused("TOO_ODD", "we do not do odd ones", status=418, oddity=body)


def odd() -> Definition:
    """A workflow with two doors: one is plain, and one refuses in its own words."""
    return Definition(
        Workflow(
            name="odd",
            version="1",
            initial="queued",
            states=(
                State("queued", "queued", onward={"*": "working"}),
                State(
                    "working",
                    "active",
                    stage={"*": "external"},
                    done="done",
                    deadline=Deadline(60, ("failed",)),
                    retry=Retry("inside", failed=("failed",)),
                ),
                State("done", "final", ends="completed"),
                State("failed", "final", ends="failed"),
            ),
            edges=(
                Edge("queued", "working", by=("engine", "workflow")),
                Edge("working", "done", by=("stage", "workflow")),
                Edge("working", "failed", by=("stage", "workflow", "engine", "timer")),
            ),
            job_types=(JobType("odd", params="nothing"),),
            locks=(Lock("job", guarded=("working",)),),
            routes=(
                Route("POST", "/odd/bug", job_type="odd", body="nothing"),
                Route("POST", "/odd/no", job_type="odd", body="nothing", read="refusing"),
            ),
            codes={"TOO_ODD": 418},
        ),
        functions={"refusing": refusing},
        structs={"nothing": Nothing},
    )


def with_odd() -> Registry:
    registry = Registry()
    registry.add(odd())
    assert not registry.refused["workflows"], registry.refused["workflows"]
    return registry


async def test_too_many_open_jobs(tmp_path: Path) -> None:
    """I16: the limit and where the caller stands."""
    async with opened(tmp_path, registry=definitions(CROWDED, ("howera",))) as house:
        for _ in range(2):
            await house.ada.submit("howera")
        said = await house.ada.post("/jobs", {"workflow": "howera"})
        assert (said.status, said.code) == (429, "QUOTA_EXCEEDED")
        assert (said.json["limit"], said.json["current"]) == (2, 2)
        assert int(said.headers["Retry-After"]) > 0
        assert (await house.eve.post("/jobs", {"workflow": "howera"})).status == 201


async def test_a_prompt_that_is_not_taken(tmp_path: Path) -> None:
    """I15: 422, and nothing is written or paid."""
    strict = WorkflowSettings(stages=OUTSIDE.stages, settings={"blocked_words": ["basilisk"]})
    registry = definitions(strict, ("image_generation",))
    async with opened(tmp_path, registry=registry) as house:
        before = (await house.ada.get("/credits")).json
        order = {"workflow": "image-generation", "params": {"prompt": "a basilisk, asleep"}}
        said = await house.ada.post("/jobs", order)
        assert (said.status, said.code) == (422, "PROMPT_BLOCKED")
        assert (await house.ada.get("/credits")).json == before
        assert (await house.ada.get("/jobs")).json["jobs"] == []


async def test_a_draft_that_is_locked(house: House) -> None:
    """S24: after confirming, the draft stays as it was agreed upon."""
    job = await house.ada.submit("ss", params={"requirement": "sum the sales"})
    path = f"/jobs/{job['id']}"
    assert (await house.ada.post(f"{path}/draft", {"draft": "the plan"})).status == 200
    said = await house.ada.post(f"{path}/confirm", {"confirmed": True})
    assert said.status == 200, said.raw
    for late in (
        await house.ada.post(f"{path}/draft", {"draft": "another"}),
        await house.ada.put(f"{path}/artifacts/draft", {"value": "another"}),
    ):
        assert (late.status, late.code) == (409, "JOB_LOCKED")


async def test_jobs_outlive_their_workflow(tmp_path: Path) -> None:
    """They can be read, listed and deleted; what would move them waits for the workflow."""
    async with opened(tmp_path) as house:
        kept = await house.ada.submit("howera")
        ended = await house.ada.submit("howera")
        await house.ada.post(f"/jobs/{ended['id']}/cancel")
        token = house.ada.token
    async with opened(tmp_path, registry=definitions(OUTSIDE, ("ss",))) as house:
        ada = house.caller(token)
        path = f"/jobs/{kept['id']}"
        read = (await ada.get(path)).json
        assert (read["status"], read["workflow_version"]) == ("CREATED", None)
        assert read["allowed"] == {"statuses": [], "commands": []}
        assert len((await ada.get("/jobs?workflow=howera")).json["jobs"]) == 2
        for sub in ("history", "attempts", "assets", "explain"):
            assert (await ada.get(f"{path}/{sub}")).status == 200
        event = {"event_id": "e", "status": "UPLOADING", "occurred_at": "2026-01-01T00:00:00Z"}
        for said in (
            await ada.post(f"{path}/cancel"),
            await house.admin.post(f"{path}/transitions", {"to": "UPLOADING"}),
            await house.worker.post(f"/internal{path}/status", event),
        ):
            assert (said.status, said.code) == (503, "WORKFLOW_UNAVAILABLE"), said.raw
            assert int(said.headers["Retry-After"]) > 0
        assert (await ada.post("/jobs", {"workflow": "howera"})).code == "UNKNOWN_WORKFLOW"
        assert (await ada.delete(f"/jobs/{ended['id']}")).status == 204


async def test_a_workflow_that_was_refused_at_start(tmp_path: Path) -> None:
    registry = definitions(OUTSIDE, ("howera",))
    registry.refused["workflows"]["ss"] = ("its check failed",)
    async with opened(tmp_path, registry=registry) as house:
        said = await house.ada.post("/jobs", {"workflow": "ss"})
        assert (said.status, said.code) == (503, "WORKFLOW_UNAVAILABLE")
        listed = (await house.ada.get("/workflows")).json
        assert listed["refused"] == [{"name": "ss", "faults": ["its check failed"]}]


async def test_a_bug_is_told_to_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, registry=with_odd(), faults=1) as house:
        monkeypatch.setattr("jobrunner.http.routes.plugins.job_view", broken)
        house.ada.contract = None
        said = await house.ada.post("/odd/bug", {}, X_Request_Id="find-me")
        assert (said.status, said.code) == (500, "INTERNAL")
        assert b"secret ingredient" not in said.raw
        line = next(one for one in house.logged if one["event"] == "http.fault")
        assert (line["correlation_id"], line["path"]) == ("find-me", "/odd/bug")
        assert line["error"] == "KeyError"
        assert "in broken" in line["traceback"]
        assert "secret ingredient" not in str(house.logged), "it may be somebody's words"


async def test_a_workflow_refuses_in_its_own_words(tmp_path: Path) -> None:
    async with opened(tmp_path, registry=with_odd()) as house:
        said = await house.ada.post("/odd/no", {})
        assert (said.status, said.code) == (418, "TOO_ODD")
        assert said.json["oddity"] == {}
