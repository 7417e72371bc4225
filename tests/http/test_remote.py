"""The stage of a claimed attempt, run by somebody with the same plugins: what it is told, and what
its word does, over HTTP. The job goes the way that it goes when the stage runs in the service."""

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest
from jobrunner_hello import definition as hello

from jobrunner.config.overrides import laid_over
from jobrunner.core.features import kept_values
from jobrunner.stages import Registry
from tests.http.serving import OUTSIDE, Caller, House, Said, opened

pytestmark = pytest.mark.anyio
RUNS = [{"state": "greeting", "job_type": "greeting", "stage": "hello.greet"}]
NUMBERS = count()


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    registry = Registry(lambda workflow: laid_over(workflow, OUTSIDE))
    registry.add(hello)
    async with opened(tmp_path_factory.mktemp("remote"), registry=registry) as house:
        yield house


async def claimed(house: House, name: str = "Ada") -> Any:
    """A fresh job, claimed by whoever runs its stage."""
    job = await house.ada.submit("hello", params={"name": name})
    found = await look(house.worker)
    assert found["job"]["id"] == job["id"]
    return found


async def look(caller: Caller, **more: Any) -> Any:
    said = await caller.post("/internal/claims", {"workflow": "hello", "runs": RUNS, **more})
    assert said.status == 200, said.raw
    return said.json["claims"][0] if said.json["claims"] else None


async def ended(caller: Caller, found: Any, outcome: str, **more: Any) -> Said:
    marks = {"id": f"outcome-{next(NUMBERS)}", "claim": found["claim"]}
    path = f"/internal/jobs/{found['job']['id']}/outcome"
    return await caller.post(path, {**marks, "outcome": outcome, **more})


async def test_a_claim_brings_all_that_a_stage_is_told(house: House) -> None:
    found = await claimed(house)
    brief = found["brief"]
    assert (brief["stage"], brief["state"]) == ("hello.greet", "greeting")
    assert brief["params"] == {"name": "Ada"}
    assert (brief["seconds"], brief["kept"], brief["files"]) == (10, {}, {})
    assert (await ended(house.worker, found, "done", result={"a": 1})).status == 200


async def test_the_end_of_a_stage_is_that_of_one_here(house: House) -> None:
    """Where it leads is the declaration's to say, and who went there was the stage."""
    found = await claimed(house)
    said = await ended(house.worker, found, "done", result={"greeting": "Hi"}, log=["one line"])
    assert (said.json["status"], said.json["result"]) == ("greeted", {"greeting": "Hi"})
    attempts = (await house.admin.get(f"/jobs/{said.json['id']}/attempts")).json["attempts"]
    assert [(one["outcome"], one["log"]) for one in attempts] == [("done", ["one line"])]
    history = (await house.admin.get(f"/jobs/{said.json['id']}/history")).json["history"]
    assert history[-1]["trigger"] == "stage" or history[0]["trigger"] == "stage"


async def test_an_end_that_is_told_twice_happens_once(house: House) -> None:
    found = await claimed(house)
    body = {"id": "twice", "claim": found["claim"], "outcome": "done", "result": {"n": 1}}
    path = f"/internal/jobs/{found['job']['id']}/outcome"
    first, again = [await house.worker.post(path, body) for _ in range(2)]
    assert (first.json["replayed"], again.json["replayed"]) == (False, True)
    assert first.json["version"] == again.json["version"]
    other = await house.worker.post(path, {**body, "result": {"n": 2}})
    assert other.code == "EVENT_ID_PAYLOAD_MISMATCH"


async def test_a_failure_follows_the_policy_of_the_state(house: House) -> None:
    """Another attempt after a passing one, as late as the provider asked; the end after one for
    good."""
    found = await claimed(house)
    failure = {"code": "NETWORK", "message": "no line", "retry_after_s": 3600}
    said = (await ended(house.worker, found, "failed", failure=failure)).json
    assert (said["status"], said["attempt"], said["retry_count"]) == ("greeting", 2, 1)
    assert said["next_attempt_at"] > said["updated_at"]
    found = await claimed(house)
    failure = {"code": "BAD_CODEC", "message": "nobody reads it", "retryable": False}
    said = (await ended(house.worker, found, "failed", failure=failure)).json
    assert (said["status"], said["failure_code"]) == ("failed", "BAD_CODEC")


async def test_work_that_is_given_back_keeps_what_was_kept(house: House) -> None:
    """It spends no retry, and whoever takes it next finds the values of ``once``."""
    found = await claimed(house)
    kept = {"claim": found["claim"], "name": "order", "value": {"number": 7}}
    path = f"/internal/jobs/{found['job']['id']}"
    assert (await house.worker.post(f"{path}/kept", kept)).status == 200
    said = (await ended(house.worker, found, "interrupted")).json
    assert (said["status"], said["attempt"], said["retry_count"]) == ("greeting", 2, 0)
    late = await house.worker.post(f"{path}/kept", {**kept, "name": "late"})
    assert late.code == "STALE_RUN"
    again = await look(house.worker)
    assert again["brief"]["kept"] == {"order": {"number": 7}}
    assert (await ended(house.worker, again, "done", result={})).json["status"] == "greeted"


async def test_what_a_worker_has_us_keep_is_bounded(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value, and all of the attempt; one that comes again under its name takes its place."""
    found = await claimed(house)
    path, claim = f"/internal/jobs/{found['job']['id']}/kept", found["claim"]

    async def kept(name: str, size: int) -> Said:
        value = "x" * (size - len(name) - 2)
        return await house.worker.post(path, {"claim": claim, "name": name, "value": value})

    assert "65536 are kept" in (await kept("large", kept_values.EACH_MAX + 10)).json["detail"]
    monkeypatch.setattr(kept_values, "ALL_MAX", 100)
    for name, size in (("a", 60), ("b", 40), ("a", 60)):
        assert (await kept(name, size)).status == 200
    refused = await kept("a", 61)
    assert (refused.status, refused.code) == (400, "VALIDATION_ERROR")
    assert "the attempt would keep 101 bytes" in refused.json["detail"]
    assert (await ended(house.worker, found, "done", result={})).json["status"] == "greeted"


async def test_a_checkpoint_is_the_jobs_with_its_file(house: House) -> None:
    """The file that was sent under an id of the sender's is there once, however often it came."""
    found = await claimed(house)
    job_id, asset_id = found["job"]["id"], "019aa000-0000-7000-8000-000000000001"
    path = f"/jobs/{job_id}/assets?name=a.txt&claim={found['claim']}&id={asset_id}"
    for _ in range(2):
        sent = await house.worker.ask(
            "POST", path, data=b"a song", headers={"Content-Type": "text/plain"}
        )
        assert (sent.status, sent.json["id"]) == (201, asset_id), sent.raw
    body = {
        "id": "checkpoint-1",
        "claim": found["claim"],
        "artifacts": {"song": f"/assets/{asset_id}/content"},
        "assets": [{"id": asset_id, "asset_type": "audio"}],
    }
    for _ in range(2):
        said = await house.worker.post(f"/internal/jobs/{job_id}/checkpoint", body)
        assert said.status == 200, said.raw
    again = await house.worker.ask(
        "POST", path, data=b"a song", headers={"Content-Type": "text/plain"}
    )
    assert again.code == "ALREADY_EXISTS"
    await ended(house.worker, found, "interrupted")
    taken = await look(house.worker)
    assert taken["brief"]["files"] == {"song": asset_id}
    files = (await house.admin.get(f"/jobs/{job_id}/assets")).json["assets"]
    assert [(one["id"], one["asset_type"]) for one in files] == [(asset_id, "audio")]
    await ended(house.worker, taken, "done", result={})


async def test_other_plugins_are_named_and_get_nothing(house: House) -> None:
    job = await house.ada.submit("hello")
    body = {"workflow": "hello", "runs": RUNS, "digest": "0" * 64}
    said = await house.worker.post("/internal/claims", body)
    assert said.code == "OTHER_DECLARATION"
    known = said.json["digest"]
    other = [{"state": "greeting", "job_type": "greeting2", "stage": "hello.greet"}]
    said = await house.worker.post("/internal/claims", {**body, "digest": known, "runs": other})
    assert said.json["claims"] == []
    found = await look(house.worker, digest=known)
    assert found["job"]["id"] == job["id"]
    await ended(house.worker, found, "done", result={})


async def test_only_the_claimant_speaks_for_the_stage(house: House) -> None:
    found = await claimed(house)
    made = await house.admin.post("/admin/tokens", {"name": "bert", "role": "workflow"})
    bert = house.caller(made.json["token"])
    assert (await ended(bert, found, "done", result={})).code == "STALE_RUN"
    assert (await ended(house.ada, found, "done", result={})).code == "FORBIDDEN"
    await ended(house.worker, found, "done", result={})
