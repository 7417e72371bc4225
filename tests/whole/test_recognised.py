"""When two submissions are one, what a door refuses before anything exists, and the list of what
was given up: over HTTP, with the keys and the money in a real file. The clock starts with a minute,
so that none ends under a test."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobrunner.ports import SystemClock, SystemIds
from tests.driving import NOON
from tests.standing import DRAFT, PICTURE, RESULT, WHY
from tests.whole.living import Living, living

pytestmark = pytest.mark.anyio

IMAGE = "image-generation"


class FromNoon(SystemClock):
    """Runs like any other, from the first moment of a minute on; it can be set forward."""

    def __init__(self) -> None:
        self.ahead = NOON - super().now()

    def now(self) -> int:
        return super().now() + self.ahead


@pytest.fixture(scope="module")
def clock() -> FromNoon:
    return FromNoon()


@pytest.fixture(scope="module")
async def place(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str, clock: FromNoon
) -> AsyncIterator[Living]:
    folder = tmp_path_factory.mktemp("recognised")
    async with living(folder, clock=clock, ids=SystemIds(clock)) as place:
        yield place


async def money(place: Living) -> tuple[int, int]:
    purse = (await place.ada.get("/credits")).json
    return purse["balance"], purse["held"]


async def count(place: Living) -> int:
    return len((await place.ada.get("/jobs?limit=100")).json["jobs"])


async def test_a_second_click_within_the_minute_costs_nothing(
    place: Living, clock: FromNoon
) -> None:
    """I14 I17 I18 I37 I38 I40: 201, then 200 with the same job; a default spelled out is no
    difference, another prompt, size, user or minute is."""
    order: dict[str, Any] = {"workflow": IMAGE, "params": {"prompt": "a lighthouse"}}
    balance, held = await money(place)
    first = await place.ada.post("/jobs", order)
    assert (first.status, first.json["replayed"], first.json["status"]) == (201, False, "queued")
    assert await money(place) == (balance - 1, held + 1)
    spelled: dict[str, Any] = {"prompt": "a lighthouse", "size": "1024x1024", "seed": None}
    for params in ({"prompt": "a lighthouse"}, spelled):
        again = await place.ada.post("/jobs", {**order, "params": params})
        assert (again.status, again.json["replayed"]) == (200, True)
        assert again.json["id"] == first.json["id"]
    assert await money(place) == (balance - 1, held + 1)
    ids = {first.json["id"]}
    for params in ({"prompt": "a lighthouse "}, {"prompt": "a lighthouse", "seed": 7}):
        ids.add((await place.ada.post("/jobs", {**order, "params": params})).json["id"])
    ids.add((await place.eve.post("/jobs", order)).json["id"])
    clock.ahead += 60_000
    ids.add((await place.ada.post("/jobs", order)).json["id"])
    assert len(ids) == 5


async def test_what_failed_may_be_wanted_again(place: Living) -> None:
    """I9 I33 I39 I40 I41: while it waits to be tried again the old job gives way: it ends, its hold
    comes back, its timer is gone; the key leads to the new one, and reviewers are not shown it."""
    order: dict[str, Any] = {"workflow": IMAGE, "params": {"prompt": "a harbour"}}
    old = (await place.ada.post("/jobs", order)).json["id"]
    await place.worker.post(f"/jobs/{old}/claim")
    purse = await money(place)
    assert (await place.moved(old, "failed", **WHY)).json["next_attempt_at"] is not None
    made = await place.ada.post("/jobs", order)
    assert (made.status, made.json["replayed"]) == (201, False)
    assert made.json["id"] != old
    assert await money(place) == purse
    ended = (await place.ada.get(f"/jobs/{old}")).json
    assert (ended["status"], ended["next_attempt_at"]) == ("dead_letter", None)
    assert ended["credits"]["state"] == "released"
    past = (await place.ada.get(f"/jobs/{old}/history")).json["history"]
    assert past[-1]["reason"] == "superseded"
    assert (await place.ada.post("/jobs", order)).json["id"] == made.json["id"]
    assert old not in await listed(place)
    assert old in await listed(place, "?hidden=1")
    assert await place.service.store.check() == ()


async def listed(place: Living, query: str = "") -> set[str]:
    letters = (await place.admin.get(f"/admin/dead-letters{query}")).json["dead_letters"]
    return {letter["job_id"] for letter in letters}


async def test_what_was_given_up_is_there_to_be_looked_at(place: Living) -> None:
    """I12 I33 I41: listed with its reason, annotated for the record, and never moved again."""
    order: dict[str, Any] = {"workflow": IMAGE, "params": {"prompt": "a pier"}}
    job = (await place.ada.post("/jobs", order)).json["id"]
    await place.worker.post(f"/jobs/{job}/claim")
    await place.moved(job, "failed", failure_message="says 400", retryable=False)
    letters = (await place.admin.get("/admin/dead-letters")).json["dead_letters"]
    (letter,) = [one for one in letters if one["job_id"] == job]
    assert (letter["reason"], letter["failure_message"]) == ("permanent", "says 400")
    assert (letter["workflow"], letter["user_id"], letter["hidden"]) == (IMAGE, "ada", False)
    said = await place.admin.post(f"/jobs/{job}/annotate", {"note": "a bad prompt"})
    assert (said.status, said.json["status"]) == (200, "dead_letter")
    audit = (await place.admin.get("/admin/audit?limit=5")).json["audit"]
    (note,) = [row for row in audit if row["job_id"] == job and row["event"] == "job.annotate"]
    assert (note["actor"], note["fields"]["note"]) == ("admin", "a bad prompt")
    assert (await place.admin.get("/admin/dead-letters")).json["dead_letters"] == letters
    assert (await place.ada.get("/admin/dead-letters")).code == "FORBIDDEN"


async def test_a_refused_prompt_leaves_nothing_behind(place: Living) -> None:
    """I15 I19: 422 at the door: no job, no money, no key, and the words are not in the log."""
    order: dict[str, Any] = {"workflow": IMAGE, "params": {"prompt": "a nude at dusk"}}
    before = await count(place), await money(place)
    for _ in range(2):
        said = await place.ada.post("/jobs", order)
        assert (said.status, said.code) == (422, "PROMPT_BLOCKED")
    assert (await count(place), await money(place)) == before
    assert not [line for line in place.lines() if "dusk" in str(line)]


async def test_no_credit_no_job(place: Living) -> None:
    """I16 I18 I19 C18 C38: 402 with both figures and nothing made; the repeat of the order that
    took the last credit still gets its job."""
    token = (
        await place.admin.post("/admin/tokens", {"name": "zoe", "role": "user", "credits": 1})
    ).json["token"]
    zoe = place.caller(token)
    order: dict[str, Any] = {"workflow": IMAGE, "params": {"prompt": "a boat"}}
    job = (await zoe.post("/jobs", order)).json["id"]
    again = await zoe.post("/jobs", order)
    assert (again.status, again.json["id"]) == (200, job)
    other = await zoe.post("/jobs", {**order, "params": {"prompt": "two boats"}})
    assert (other.status, other.code) == (402, "INSUFFICIENT_CREDITS")
    assert (other.json["balance"], other.json["required"]) == (0, 1)
    assert [one["id"] for one in (await zoe.get("/jobs")).json["jobs"]] == [job]


async def test_a_rejection_forfeits_the_credit_and_is_on_record(place: Living) -> None:
    """I4 I11 I34 I35 I36: both edges; captured, audited by phase, with a reason even if nobody gave
    one, and no second thoughts."""
    for prompt, claims, phase in (("a mole", False, "preflight"), ("a quay", True, "provider")):
        job = (await place.ada.submit(IMAGE, params={"prompt": prompt}))["id"]
        if claims:
            await place.worker.post(f"/jobs/{job}/claim")
        balance, held = await money(place)
        assert (await place.told(job, "e1", "rejected")).status == 204
        assert await money(place) == (balance, held - 1)
        shown = (await place.ada.get(f"/jobs/{job}")).json
        assert (shown["status"], shown["credits"]["state"]) == ("rejected", "captured")
        assert (shown["failure_code"], bool(shown["failure_message"])) == ("REJECTED", True)
        audit = (await place.admin.get("/admin/audit?limit=10")).json["audit"]
        (record,) = [row for row in audit if row["job_id"] == job]
        assert record["event"] == "SAFE_BLOCK"
        assert record["fields"] == {"phase": phase, "address": "127.0.0.1"}


async def test_a_picture_is_a_picture(place: Living) -> None:
    """I5 I24 I26: a file of another kind is not what was paid for."""
    job = (await place.ada.submit(IMAGE, params={"prompt": "a gull"}))["id"]
    await place.worker.post(f"/jobs/{job}/claim")
    sound = [{"asset_type": "audio", "url": "https://cdn.example/1.ogg"}]
    reports: list[dict[str, Any]] = [
        {},
        {"assets": sound},
        {"result": {"url": "https://cdn.example/1.png"}},
    ]
    for report in reports:
        said = await place.moved(job, "completed", **report)
        assert (said.status, said.code) == (409, "RESULT_MISSING")
    assert (await place.ada.get(f"/jobs/{job}/assets")).json["assets"] == []
    assert (await place.moved(job, "completed", **PICTURE)).json["progress"] == 100


@pytest.mark.parametrize("ends", ["completed", "failed", "canceled", "expired", "processing"])
async def test_a_key_leads_to_its_job_for_good(place: Living, ends: str) -> None:
    """C34 C35 C36 C37 C38: whatever became of it: the same job, its status of today, no charge; for
    another user the same key is free."""
    key, order = f"key-{ends}", {"product_id": "lamp-7"}
    body: dict[str, Any] = {"workflow": "cutx", "params": order, "idempotency_key": key}
    job = (await place.ada.post("/jobs", body)).json["id"]
    await place.worker.post(f"/jobs/{job}/claim")
    if ends != "processing":
        reports: dict[str, dict[str, Any]] = {"completed": RESULT, "failed": WHY}
        assert (await place.moved(job, ends, **reports.get(ends, {}))).status == 200
    before = await money(place)
    again = await place.ada.post("/jobs", body)
    assert (again.status, again.json["id"], again.json["status"]) == (200, job, ends)
    assert again.json["replayed"] is True
    assert "idempotency_mismatch" not in again.json
    other = await place.ada.post("/jobs", {**body, "params": {"product_id": "chair-2"}})
    assert (other.json["id"], other.json["idempotency_mismatch"]) == (job, True)
    assert await money(place) == before
    assert (await place.eve.post("/jobs", body)).status == 201


async def test_the_same_work_is_one_job_until_a_new_revision(place: Living) -> None:
    """S10 S11 S12 S13 S18: fingerprint, words and revision; white space does not count, a missing
    part is an empty one, and a key of the client's own is added, not put in their place."""
    words = {"requirement": "Sum the sales\n by region", "inputs": {"fingerprint": "f1"}}
    job = (await place.ada.submit("ss", params=words, idempotency_key="mine"))["id"]

    async def again(params: dict[str, Any], **more: Any) -> str:
        return str((await place.ada.submit("ss", params=params, **more))["id"])

    assert await again({**words, "requirement": "  Sum the\tsales by   region "}) == job
    assert await again({**words, "plan_revision": ""}) == job
    assert await again({"requirement": "else"}, idempotency_key="mine") == job
    await place.ada.post(f"/jobs/{job}/draft", {"draft": DRAFT["artifact_updates"]["draft"]})
    assert await again(words) == job
    others = [
        {**words, "requirement": "sum the sales by region"},
        {**words, "inputs": {"fingerprint": "f2"}},
        {**words, "plan_revision": "2"},
        {"requirement": words["requirement"]},
        {"inputs": words["inputs"]},
    ]
    assert len({job, *[await again(params) for params in others]}) == 6
