"""Many clients at once over real HTTP: one of them wins, for good, and the money agrees."""

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from tests.whole.process import Place, Said, at_once, event, place

pytestmark = pytest.mark.anyio

STATIC_AD = {"workflow": "cutx", "job_type": "static_ad", "params": {"product_id": "shoe"}}
COST = 3


@pytest.fixture(scope="module")
async def service(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[Place]:
    async with place(tmp_path_factory.mktemp("races"), outside=True) as home:
        await home.start()
        await home.user("worker", "workflow")
        yield home
        assert await home.stop() == 0
        assert home.faults() == ()


async def balance(service: Place, who: str) -> tuple[int, int]:
    purse = await service.get("/credits", who)
    return purse["balance"], purse["held"]


def statuses(answers: list[Said]) -> Counter[int]:
    return Counter(said.status for said in answers)


async def running(service: Place, who: str) -> Any:
    """A cutx job that an outside worker holds."""
    job = await service.submit("cutx", who, job_type="static_ad", params={"product_id": "shoe"})
    claimed = await service.post(f"/jobs/{job['id']}/claim", who="worker")
    assert claimed.status == 200, claimed
    return claimed.body


# ---------------------------------------------------------------- submissions


async def test_twenty_submissions_with_one_key_are_one_job_and_one_charge(service: Place) -> None:
    """R2 R3 C35 C37 C38: one job, one charge, and nineteen times the same answer."""
    ada = await service.user("ada-key")
    body = STATIC_AD | {"idempotency_key": "once"}
    answers = await at_once([partial(service.post, "/jobs", body, ada) for _ in range(20)])
    assert statuses(answers) == {201: 1, 200: 19}
    assert len({said.body["id"] for said in answers}) == 1
    assert Counter(said.body["replayed"] for said in answers) == {False: 1, True: 19}
    assert await balance(service, ada) == (25 - COST, 0)
    assert [row["kind"] for row in (await service.get("/credits/history", ada))["history"]] == [
        "charge",
        "grant",
    ]
    assert len((await service.get("/jobs", ada))["jobs"]) == 1


@pytest.mark.parametrize("key", [None, "once"])
async def test_twenty_pictures_of_one_prompt_are_one_job_and_one_hold(
    service: Place, key: str | None
) -> None:
    """R2 R3 I17 I18: by the key that the prompt, the params and the minute make, or the client's
    own. (A minute may end meanwhile: then there are two jobs at most, each with its hold.)"""
    ada = await service.user(f"ada-picture-{key}".lower())
    body: dict[str, Any] = {"workflow": "image-generation", "params": {"prompt": "a lighthouse"}}
    body |= {"idempotency_key": key} if key else {}
    answers = await at_once([partial(service.post, "/jobs", body, ada) for _ in range(20)])
    made = {said.body["id"] for said in answers}
    jobs = [await service.get(f"/jobs/{job_id}", ada) for job_id in sorted(made)]
    minutes = {job["created_at"][:16] for job in jobs}
    assert len(made) == (1 if key else len(minutes))
    assert statuses(answers) == {201: len(made), 200: 20 - len(made)}
    assert await balance(service, ada) == (25 - len(made), len(made))
    assert [job["credits"]["state"] for job in jobs] == ["held"] * len(made)


async def test_different_submissions_cannot_spend_the_same_credits(service: Place) -> None:
    """R3: twenty jobs at 3, and 25 credits: eight are charged, twelve refused."""
    ada = await service.user("ada-poor")
    answers = await at_once([partial(service.post, "/jobs", STATIC_AD, ada) for _ in range(20)])
    assert statuses(answers) == {201: 8, 402: 12}
    refused = [said.body for said in answers if said.status == 402]
    assert {body["error_code"] for body in refused} == {"INSUFFICIENT_CREDITS"}
    assert await balance(service, ada) == (1, 0)
    assert len((await service.get("/jobs", ada))["jobs"]) == 8


# ---------------------------------------------------------------- callbacks


async def test_two_hundred_copies_of_one_event_have_one_effect(service: Place) -> None:
    """R4 H11-H13: one is applied, 199 are told so, and a restart changes none of it."""
    job = await service.submit("howera")
    assert (await service.event(job["id"], "UPLOADED", 1)).status == 204
    same = partial(service.event, job["id"], "AUDIO_EXTRACTING", 2)
    answers = await at_once([same for _ in range(200)])
    assert statuses(answers) == {204: 1, 200: 199}
    told = [said.body for said in answers if said.status == 200]
    assert all(body["replayed"] and body["event_id"] == "event-2" for body in told)
    before = await service.get(f"/jobs/{job['id']}")
    moves = await service.moves(job["id"])
    assert before["version"] == 3
    assert [move["to_status"] for move in moves] == ["CREATED", "UPLOADED", "AUDIO_EXTRACTING"]

    await service.kill()
    await service.start()
    answers = await at_once([same for _ in range(200)])
    assert statuses(answers) == {200: 200}
    assert await service.get(f"/jobs/{job['id']}") == before
    assert await service.moves(job["id"]) == moves


async def test_one_event_id_with_two_contents_is_applied_once(service: Place) -> None:
    """R4 H13: whichever came first counts; the others are told that they say something else."""
    job = await service.submit("howera")
    asks = []
    for number in range(40):
        body = event(
            "contested", "UPLOADED", 5, artifact_updates={"video_uri": f"file:{number % 2}"}
        )
        asks.append(partial(service.post, f"/internal/jobs/{job['id']}/status", body))
    answers = await at_once(asks)
    assert statuses(answers) == {204: 1, 200: 19, 409: 20}
    codes = {said.code for said in answers if said.status == 409}
    assert codes == {"EVENT_ID_PAYLOAD_MISMATCH"}
    assert len(await service.moves(job["id"])) == 2


# ---------------------------------------------------------------- versions, claims, retries


async def test_of_two_racers_on_one_version_one_wins(service: Place) -> None:
    """S24 S25 S27: the loser learns where the job is now, and its draft is nowhere."""
    ada = await service.user("ada-racers")
    for round_ in range(20):
        job = await service.submit("ss", ada, params={"plan_revision": str(round_)})
        path = f"/jobs/{job['id']}"
        report = {"to": "draft_ready", "artifact_updates": {"draft": "theirs"}}
        asks = [
            partial(service.post, f"{path}/draft", {"draft": "hers", "expected_version": 1}, ada),
            partial(service.post, f"{path}/transitions", report | {"expected_version": 1}),
        ]
        answers = await at_once(asks[:: 1 if round_ % 2 else -1])
        assert statuses(answers) == {200: 1, 409: 1}
        won, lost = sorted(answers, key=lambda said: said.status)
        assert (lost.code, lost.body["current_version"]) == ("JOB_VERSION_CONFLICT", 2)
        assert len(await service.moves(job["id"])) == 2
        draft = await service.get(f"{path}/artifacts/draft")
        assert draft["value"] == won.body["artifacts"]["draft"]
        assert draft["version"] == 1


async def test_of_twenty_claims_one_wins(service: Place) -> None:
    """R2: nobody else works on the job, and each of them is told whose run it is."""
    ada = await service.user("ada-claims")
    job = await service.submit("cutx", ada, job_type="static_ad", params={"product_id": "shoe"})
    claim = partial(service.post, f"/jobs/{job['id']}/claim", who="worker")
    answers = await at_once([claim for _ in range(20)])
    assert statuses(answers) == {200: 1, 409: 19}
    won = next(said.body for said in answers if said.status == 200)
    for said in answers:
        if said.status == 409:
            assert (said.code, said.body["run_id"]) == ("JOB_ALREADY_RUNNING", won["run_id"])
    attempts = (await service.get(f"/jobs/{job['id']}/attempts"))["attempts"]
    assert [attempt["status"] for attempt in attempts] == ["running"]


async def test_workers_who_look_for_work_share_it(service: Place) -> None:
    """R2: twelve workers and ten jobs: each job is given to one of them."""
    ada = await service.user("ada-work", credits=100)
    for number in range(10):
        await service.submit("cutx", ada, job_type="tts", params={"text": f"{number}"})
    look = {"workflow": "cutx", "job_type": "tts"}
    answers = await at_once(
        [partial(service.post, "/internal/claims", look, "worker") for _ in range(12)]
    )
    given = [claim["job"]["id"] for said in answers for claim in said.body["claims"]]
    assert len(given) == len(set(given)) == 10


async def test_concurrent_retries_charge_once(service: Place) -> None:
    """R3 C40 C41: one retry is charged and in line again; the others find nothing to retry."""
    ada = await service.user("ada-retry")
    job = await running(service, ada)
    failed = {"to": "failed", "failure_message": "no", "retryable": False}
    path = f"/jobs/{job['id']}"
    assert (await service.post(f"{path}/transitions", failed, "worker")).status == 200
    assert await balance(service, ada) == (25, 0)
    answers = await at_once([partial(service.post, f"{path}/retry") for _ in range(20)])
    assert statuses(answers) == {200: 1, 409: 19}
    assert await balance(service, ada) == (25 - COST, 0)
    kinds = [row["kind"] for row in (await service.get("/credits/history", ada))["history"]]
    assert kinds == ["charge", "refund", "charge", "grant"]
    assert (await service.get(path))["status"] == "queued"


async def test_a_cancel_and_a_completion_race_fifty_times(service: Place) -> None:
    """R3 R5 C9 C11: one of them wins, for ever, and the money says the same."""
    ada = await service.user("ada-cancel", credits=1000)
    start, spent = (await balance(service, ada))[0], 0
    ends: Counter[str] = Counter()
    for round_ in range(50):
        job = await running(service, ada)
        path = f"/jobs/{job['id']}"
        complete = {"to": "completed", "result": {"text": "done"}}
        asks = [
            partial(service.post, f"{path}/cancel", {}, ada),
            partial(service.post, f"{path}/transitions", complete, "worker"),
        ]
        answers = await at_once(asks[:: 1 if round_ % 2 else -1])
        assert statuses(answers) == {200: 1, 409: 1}
        assert next(said for said in answers if said.status == 409).code == "TERMINAL_STATE"
        now = await service.get(path)
        ends[now["status"]] += 1
        spent += COST if now["status"] == "completed" else 0
        assert (
            now["credits"]["state"]
            == {"completed": "charged", "canceled": "refunded"}[now["status"]]
        )
        for ask in asks:
            assert (await ask()).code == "TERMINAL_STATE"
        assert await service.get(path) == now
    assert await balance(service, ada) == (start - spent, 0)
    print(f"who won: {dict(ends)}")
