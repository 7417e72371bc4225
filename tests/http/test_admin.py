"""What operators ask: money, tokens, records, pictures, health."""

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from tests.http.serving import House

pytestmark = pytest.mark.anyio


async def test_a_new_user_starts_with_credits_and_sees_its_own(house: House) -> None:
    made = await house.admin.post("/admin/tokens", {"name": "fay", "role": "user"})
    fay = house.caller(made.json["token"])
    assert (await fay.get("/credits")).json == {"user_id": "fay", "balance": 25, "held": 0}
    rich = await house.admin.post("/admin/tokens", {"name": "gil", "role": "user", "credits": 500})
    gil = house.caller(rich.json["token"])
    assert (await gil.get("/credits")).json["balance"] == 500
    second = await house.admin.post("/admin/tokens", {"name": "gil", "role": "user"})
    assert second.status == 201
    assert (await house.caller(second.json["token"]).get("/credits")).json["balance"] == 500


async def test_credits_are_granted_and_written_down(house: House) -> None:
    before = (await house.eve.get("/credits")).json["balance"]
    said = await house.admin.post("/admin/credits/eve/grant", {"amount": 7, "reason": "goodwill"})
    assert said.json == {"user_id": "eve", "balance": before + 7, "held": 0, "replayed": False}
    page = (await house.eve.get("/credits/history?limit=1")).json
    entry = page["history"][0]
    assert (entry["kind"], entry["amount"], entry["reason"]) == ("grant", 7, "goodwill")
    assert entry["balance_after"] == before + 7
    older = (await house.eve.get(f"/credits/history?cursor={page['next_cursor']}")).json
    assert entry not in older["history"]
    theirs = (await house.admin.get("/credits/history?user_id=eve&limit=1")).json
    assert theirs["history"] == page["history"]
    assert (await house.eve.get("/credits/history?user_id=ada")).code == "FORBIDDEN"


@pytest.mark.parametrize(
    "body", [{}, {"amount": 0, "reason": "x"}, {"amount": 1}, {"amount": 1.5, "reason": "x"},
             {"amount": 10**10, "reason": "x"}, {"amount": 1, "reason": ""}]
)  # fmt: skip
async def test_grants_that_cannot_be_meant(house: House, body: dict[str, object]) -> None:
    said = await house.admin.post("/admin/credits/eve/grant", body)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_nobody_by_that_name_gets_credits(house: House) -> None:
    said = await house.admin.post("/admin/credits/evve/grant", {"amount": 1, "reason": "x"})
    assert (said.status, said.code) == (404, "NOT_FOUND")


async def test_a_token_is_shown_once_and_ends_when_it_is_revoked(house: House) -> None:
    made = (await house.admin.post("/admin/tokens", {"name": "hal", "role": "user"})).json
    hal = house.caller(made["token"])
    assert (await hal.get("/credits")).status == 200
    listed = (await house.admin.get("/admin/tokens")).json["tokens"]
    entry = next(one for one in listed if one["id"] == made["id"])
    assert entry == {**{k: v for k, v in made.items() if k != "token"}}
    assert (await house.admin.delete(f"/admin/tokens/{made['id']}")).status == 204
    assert (await hal.get("/credits")).code == "UNAUTHORIZED"
    assert (await house.admin.delete("/admin/tokens/nothing")).code == "NOT_FOUND"


async def test_all_tokens_of_a_name_end_together(house: House) -> None:
    callers = []
    for _ in range(2):
        made = (await house.admin.post("/admin/tokens", {"name": "ivy", "role": "user"})).json
        callers.append(house.caller(made["token"]))
        assert (await callers[-1].get("/credits")).status == 200
    assert (await house.admin.delete("/admin/tokens/ivy")).status == 204
    for caller in callers:
        assert (await caller.get("/credits")).status == 401


async def test_a_token_may_expire(house: House) -> None:
    for soon_s in (0.15, 2, 30):  # on a busy machine a moment may be over before it is said
        soon = (datetime.now(UTC) + timedelta(seconds=soon_s)).isoformat()
        body = {"name": "jo", "role": "user", "expires_at": soon}
        made = await house.admin.post("/admin/tokens", body)
        if made.status == 201:
            break
    assert made.status == 201
    jo = house.caller(made.json["token"])
    with anyio.fail_after(120):
        while (said := await jo.get("/credits")).status == 200:
            await anyio.sleep(0.01)
    assert said.status == 401
    assert "expired" in said.json["detail"]
    past = {"name": "jo", "role": "user", "expires_at": "2020-01-01T00:00:00Z"}
    assert (await house.admin.post("/admin/tokens", past)).code == "VALIDATION_ERROR"


@pytest.mark.parametrize("name", ["", "Ada", "-a", "a b", "a\n", "a" * 65, "../a"])
async def test_names_of_users_are_plain(house: House, name: str) -> None:
    said = await house.admin.post("/admin/tokens", {"name": name, "role": "user"})
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")


async def test_what_admins_do_is_on_record(house: House) -> None:
    await house.admin.post("/admin/credits/ada/grant", {"amount": 1, "reason": "for the record"})
    page = (await house.admin.get("/admin/audit?limit=1")).json
    assert page["audit"][0]["actor"] == "admin"
    assert page["audit"][0]["fields"]["reason"] == "for the record"
    older = (await house.admin.get(f"/admin/audit?cursor={page['next_cursor']}")).json
    assert older["audit"][0]["id"] < page["audit"][0]["id"]
    text = str((await house.admin.get("/admin/audit?limit=100")).json)
    assert (house.ada.token or "-") not in text


async def test_work_that_was_given_up_is_listed(house: House) -> None:
    """C42: a failed CutX job leaves a record for review."""
    job = await house.ada.submit("cutx", job_type="scrape", params={"url": "https://a.example/"})
    failed = {"to": "failed", "failure_message": "no page"}
    await house.admin.post(f"/jobs/{job['id']}/transitions", failed)
    letters = (await house.admin.get("/admin/dead-letters")).json["dead_letters"]
    assert letters[0]["job_id"] == job["id"]
    assert letters[0]["failure_message"] == "no page"
    assert (await house.admin.get("/admin/dead-letters?hidden=1")).status == 200


async def test_stop_and_release_need_something_to_act_on(house: House) -> None:
    job = await house.ada.submit("howera")
    for act in ("stop", "release"):
        said = await house.admin.post(f"/admin/jobs/{job['id']}/{act}", {"reason": "test"})
        assert said.status in (200, 409), said.raw


async def test_the_file_is_examined(house: House) -> None:
    said = await house.admin.post("/admin/db/check")
    assert said.json == {"ok": True, "faults": []}


async def test_the_declarations_are_published(house: House) -> None:
    listed = (await house.ada.get("/workflows")).json
    assert [one["name"] for one in listed["workflows"]] == [
        "asset-pattern", "cutx", "howera", "image-generation", "ss"
    ]  # fmt: skip
    howera = (await house.ada.get("/workflows/howera")).json
    assert (howera["initial"], len(howera["states"]), len(howera["edges"])) == ("CREATED", 15, 42)
    cutx = (await house.ada.get("/workflows/cutx")).json
    assert cutx["prices"]["ugc_video"] == 40
    assert cutx["job_types"]["scrape"]["params_schema"]
    assert {one["name"] for one in cutx["commands"]} == {"cancel", "retry", "refund"}
    assert (await house.ada.get("/workflows/nothing")).code == "NOT_FOUND"


async def test_artifacts_and_results_are_published_with_form_and_writers(house: House) -> None:
    listed = {one["name"]: one for one in (await house.ada.get("/workflows/ss")).json["artifacts"]}
    assert listed["plan"]["writers"] == []
    assert "plan_id" in listed["plan"]["value_schema"]["required"]
    assert listed["draft"]["source"] == ["created", "draft_ready"]
    assert {one["type"] for one in listed["draft"]["value_schema"]["anyOf"]} == {"string", "object"}
    cutx = (await house.ada.get("/workflows/cutx")).json["job_types"]
    assert cutx["copy"]["result_schema"] == {"type": "object", "minProperties": 1}
    pattern = (await house.ada.get("/workflows/asset-pattern")).json
    assert (pattern["artifacts"], pattern["job_types"]["export"]["result_schema"]) == ([], None)


async def test_and_drawn(house: House) -> None:
    mermaid = await house.ada.get("/workflows/howera?format=mermaid")
    assert mermaid.headers["Content-Type"].startswith("text/plain")
    assert b"TRANSCRIBING" in mermaid.raw
    svg = await house.ada.get("/workflows/howera?format=svg")
    assert svg.headers["Content-Type"] == "image/svg+xml"
    assert "Content-Security-Policy" in svg.headers
    assert svg.raw.startswith(b"<svg")
    assert (await house.ada.get("/workflows/howera?format=png")).status == 400


async def test_health(house: House) -> None:
    assert (await house.nobody.get("/healthz")).json["status"] == "ok"
    assert (await house.nobody.get("/readyz")).json["ready"] is True


async def test_in_drain_only_new_work_is_refused(house: House) -> None:
    """A replay is answered, a job is read and moved; readiness fails at once."""
    order = {"workflow": "howera", "idempotency_key": "before-drain"}
    job = (await house.ada.post("/jobs", order)).json
    world = house.service.facade.world
    world.draining = True
    try:
        refused = await house.ada.post("/jobs", {"workflow": "howera"})
        assert (refused.status, refused.code) == (503, "DRAINING")
        assert int(refused.headers["Retry-After"]) > 0
        assert (await house.ada.post("/jobs", order)).json["id"] == job["id"]
        assert (await house.ada.post(f"/jobs/{job['id']}/cancel")).status == 200
        ready = await house.nobody.get("/readyz")
        assert (ready.status, ready.json["ready"]) == (503, False)
        assert (await house.nobody.get("/healthz")).status == 200
    finally:
        world.draining = False
