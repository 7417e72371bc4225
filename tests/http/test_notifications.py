"""Notifications of a running service, to a receiver on loopback: what is told, signed, logged, told
again, and refused."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.config.settings import DownloadsSection, NotifySettings, WorkflowSettings
from tests.http.serving import Caller, House, definitions, opened
from tests.receiving import Receiver, receiving, says, silence

pytestmark = pytest.mark.anyio

LAMP = {"product_id": "lamp-7"}
PATIENCE_S = 120


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


@pytest.fixture
async def house(tmp_path: Path, receiver: Receiver) -> AsyncIterator[House]:
    async with at_work(tmp_path, receiver) as found:
        yield found


def at_work(folder: Path, receiver: Receiver) -> AbstractAsyncContextManager[House]:
    downloads = DownloadsSection(allow_private=(receiver.place,))
    return opened(folder, downloads=downloads, registry=definitions(names=("cutx",)))


async def born(caller: Caller, receiver: Receiver, **more: Any) -> str:
    given = {"job_type": "copy", "params": LAMP, "notify_url": receiver.url("/hook?key=s3cret")}
    job = await caller.submit("cutx", **{**given, **more})
    return str(job["id"])


async def canceled(caller: Caller, job_id: str) -> None:
    said = await caller.post(f"/jobs/{job_id}/cancel")
    assert said.status == 200, said.raw


async def log_of(caller: Caller, job_id: str, *statuses: str) -> Any:
    """The job's deliveries, as soon as they have these statuses."""
    with anyio.move_on_after(PATIENCE_S):
        while True:
            found = (await caller.get(f"/jobs/{job_id}/deliveries")).json["deliveries"]
            if sorted(one["status"] for one in found) == sorted(statuses):
                return found
            await anyio.sleep(0.01)
    raise AssertionError(f"the deliveries of {job_id} are not {statuses}: {found}")


async def until_sent(receiver: Receiver, count: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while len(receiver.sent) < count:
            await anyio.sleep(0.01)


async def test_the_end_of_a_job_is_told_signed_and_logged(house: House, receiver: Receiver) -> None:
    """R22: once, with the job's own version in its id, nothing private in its body."""
    job_id = await born(house.ada, receiver)
    await canceled(house.ada, job_id)
    (logged,) = await log_of(house.ada, job_id, "delivered")
    (sent,) = receiver.sent
    assert sent.id == logged["id"] == f"{job_id}-2-job"
    assert (sent.json["type"], sent.json["data"]["status"]) == ("job.ended", "canceled")
    assert "lamp-7" not in sent.body.decode()
    (secret,) = (await house.ada.get("/notifications/secret")).json["secrets"]
    assert sent.is_signed_with(secret)
    assert (await house.eve.get("/notifications/secret")).json["secrets"] != [secret]
    (one,) = logged["tries"]
    assert (one["number"], one["http_status"], one["error"]) == (1, 200, None)
    assert logged["url"] == receiver.url("/hook")
    assert "s3cret" not in str(house.logged)


async def test_a_replayed_submission_is_not_told_of_again(house: House, receiver: Receiver) -> None:
    on = {"notify_on": ["transition"], "idempotency_key": "k"}
    job_id = await born(house.ada, receiver, **on)
    assert await born(house.ada, receiver, **on) == job_id
    assert [one["type"] for one in await log_of(house.ada, job_id, "delivered")] == [
        "job.transition"
    ]
    assert (await house.ada.get(f"/jobs/{job_id}")).json["notify_on"] == ["transition"]


async def test_what_failed_is_told_again_on_demand_under_its_id(
    house: House, receiver: Receiver
) -> None:
    receiver.scripts = [says("500 No"), says("200 OK")]
    job_id = await born(house.ada, receiver)
    await canceled(house.ada, job_id)
    await until_sent(receiver, 1)
    (logged,) = await log_of(house.ada, job_id, "due")
    path = f"/jobs/{job_id}/deliveries/{logged['id']}/redeliver"
    assert (await house.eve.post(path)).status == 404
    assert (await house.worker.post(path)).status == 403
    said = await house.ada.post(path)
    assert (said.status, said.json["id"]) == (202, logged["id"])
    (logged,) = await log_of(house.ada, job_id, "delivered")
    assert [one["http_status"] for one in logged["tries"]] == [500, 200]
    assert len({sent.id for sent in receiver.sent}) == 1

    again = await house.admin.post(f"/admin/deliveries/{logged['id']}/redeliver")
    assert again.status == 202
    await until_sent(receiver, 3)
    assert len({sent.id for sent in receiver.sent}) == 1
    events = [row["event"] for row in (await house.admin.get("/admin/audit")).json["audit"]]
    assert events.count("delivery.redelivered") == 2


async def test_gone_disables_and_an_admin_enables(house: House, receiver: Receiver) -> None:
    receiver.scripts = [says("410 Gone"), says("200 OK")]
    first = await born(house.ada, receiver)
    await canceled(house.ada, first)
    (logged,) = await log_of(house.ada, first, "disabled")
    second = await born(house.ada, receiver)
    await canceled(house.ada, second)
    await log_of(house.ada, second, "disabled")
    assert len(receiver.sent) == 1

    said = await house.ada.post(f"/jobs/{first}/deliveries/{logged['id']}/redeliver")
    assert (said.status, said.code) == (409, "ENDPOINT_DISABLED")
    assert said.json["endpoint"] == logged["endpoint"]
    (shown,) = (await house.admin.get("/admin/endpoints")).json["endpoints"]
    assert (shown["owner"], shown["id"]) == ("ada", logged["endpoint"])
    assert shown["disabled_at"] is not None

    path = f"/admin/endpoints/{shown['id']}/enable"
    assert (await house.ada.post(path)).status == 403
    enabled = await house.admin.post(path)
    assert (enabled.status, enabled.json["disabled_at"]) == (200, None)
    assert (await house.admin.post(path)).status == 200
    await log_of(house.ada, first, "delivered")
    await log_of(house.ada, second, "delivered")
    assert (await house.admin.get("/admin/endpoints")).json["endpoints"] == []
    every = (await house.admin.get("/admin/endpoints?all=true")).json["endpoints"]
    assert [one["id"] for one in every] == [shown["id"]]


async def test_the_log_of_all_is_for_admins_and_paged(house: House, receiver: Receiver) -> None:
    receiver.scripts = [says("404 No"), says("200 OK")]
    for status in ("due", "delivered", "delivered"):
        job_id = await born(house.ada, receiver)
        await canceled(house.ada, job_id)
        await log_of(house.ada, job_id, status)
        await until_sent(receiver, 1)
    assert (await house.ada.get("/admin/deliveries")).status == 403
    page = (await house.admin.get("/admin/deliveries?limit=2")).json
    rest = (await house.admin.get(f"/admin/deliveries?cursor={page['next_cursor']}")).json
    assert (len(page["deliveries"]), len(rest["deliveries"])) == (2, 1)
    made = (await house.admin.get("/admin/deliveries?status=delivered")).json["deliveries"]
    assert len(made) == 2
    mine = (await house.admin.get(f"/admin/deliveries?job_id={job_id}")).json["deliveries"]
    assert [one["job_id"] for one in mine] == [job_id]
    assert (await house.admin.get("/admin/deliveries?status=lost")).status == 400


@pytest.mark.parametrize("key", ["0", "-1", "1e3", "9" * 30, "x", "1"])
async def test_an_endpoint_that_is_not_there(house: House, key: str) -> None:
    assert (await house.admin.post(f"/admin/endpoints/{key}/enable")).status == 404


async def test_a_delivery_that_is_not_there(house: House, receiver: Receiver) -> None:
    mine, other = await born(house.ada, receiver), await born(house.ada, receiver)
    await canceled(house.ada, other)
    (logged,) = await log_of(house.ada, other, "delivered")
    said = await house.ada.post(f"/jobs/{mine}/deliveries/{logged['id']}/redeliver")
    assert said.status == 404
    assert (await house.admin.post("/admin/deliveries/x/redeliver")).status == 404
    assert (await house.eve.get(f"/jobs/{mine}/deliveries")).status == 404


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "https://ann:word@hooks.example.com/",
        "https://127.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://localhost/x",
        "https://hooks.example.com:8443/",
        "https://hooks.example.com/#x",
    ],
)
async def test_a_url_that_leads_inside_is_refused_at_the_door(house: House, url: str) -> None:
    """R9"""
    body = {"workflow": "cutx", "job_type": "copy", "params": LAMP, "notify_url": url}
    said = await house.ada.post("/jobs", body)
    assert (said.status, said.code) == (400, "VALIDATION_ERROR")
    assert [fault["path"] for fault in said.json["errors"]] == ["$.notify_url"]
    assert "word" not in said.raw.decode()


@pytest.mark.parametrize(
    "more", [{"notify_on": ["ended"]}, {"notify_url": "https://a.example/", "notify_on": ["born"]}]
)
async def test_what_to_hear_of_goes_with_a_url_and_is_known(house: House, more: Any) -> None:
    body = {"workflow": "cutx", "job_type": "copy", "params": LAMP, **more}
    assert (await house.ada.post("/jobs", body)).status == 400


async def test_all_of_it_goes_with_the_job(house: House, receiver: Receiver) -> None:
    """DESIGN 8.7"""
    job_id = await born(house.ada, receiver)
    await canceled(house.ada, job_id)
    await log_of(house.ada, job_id, "delivered")
    assert (await house.ada.delete(f"/jobs/{job_id}")).status == 204
    assert (await house.admin.get("/admin/deliveries")).json["deliveries"] == []
    assert (await house.admin.post("/admin/db/check")).json == {"ok": True, "faults": []}


async def test_an_operator_is_told_of_a_whole_workflow(tmp_path: Path, receiver: Receiver) -> None:
    """By the settings, to where no client may point, with a secret of its own; its owner's log does
    not show it."""
    notify = NotifySettings(url=receiver.url("/ops"), on=("ended",))
    settings = WorkflowSettings(stages={"*": "external"}, notify=notify)
    registry = definitions(settings, names=("cutx",))
    async with opened(tmp_path, registry=registry) as house:
        job = await house.ada.submit("cutx", job_type="copy", params=LAMP)
        await canceled(house.ada, job["id"])
        (logged,) = await log_of(house.admin, job["id"], "delivered")
        (sent,) = receiver.sent
        assert sent.id == logged["id"] == f"{job['id']}-2-workflow"
        deliveries = house.service.facade.deliveries
        assert sent.is_signed_with(deliveries.secrets_of("workflow:cutx")[0])
        assert (await house.ada.get(f"/jobs/{job['id']}/deliveries")).json["deliveries"] == []
        path = f"/jobs/{job['id']}/deliveries/{logged['id']}/redeliver"
        assert (await house.ada.post(path)).status == 404
        assert str(receiver.port) not in (await house.ada.get("/workflows/cutx")).raw.decode()


async def test_a_receiver_that_hangs_holds_up_neither_jobs_nor_others(
    house: House, receiver: Receiver
) -> None:
    receiver.scripts = [silence]
    slow = await born(house.ada, receiver)
    await canceled(house.ada, slow)
    await until_sent(receiver, 1)
    receiver.scripts = [says("200 OK")]
    job_id = await born(house.eve, receiver)
    await canceled(house.eve, job_id)
    await log_of(house.eve, job_id, "delivered")
    await log_of(house.ada, slow, "due")


async def test_a_restart_loses_nothing_and_repeats_nothing(
    tmp_path: Path, receiver: Receiver
) -> None:
    """R13: what was under way at the stop comes again under its id; what was delivered does not."""
    receiver.scripts = [says("200 OK"), silence, says("200 OK")]
    async with at_work(tmp_path, receiver) as house:
        first, second = await born(house.ada, receiver), await born(house.ada, receiver)
        await canceled(house.ada, first)
        await log_of(house.ada, first, "delivered")
        await canceled(house.ada, second)
        await until_sent(receiver, 2)
        (secret,) = (await house.ada.get("/notifications/secret")).json["secrets"]
    async with at_work(tmp_path, receiver) as house:
        await log_of(house.admin, second, "delivered")
        ids = [sent.id for sent in receiver.sent]
        assert ids == [f"{first}-2-job", f"{second}-2-job", f"{second}-2-job"]
        assert receiver.sent[-1].is_signed_with(secret)


async def test_the_secret_is_kept_privately_beside_the_database(
    tmp_path: Path, house: House
) -> None:
    file = tmp_path / "notify.secret"
    assert file.stat().st_mode & 0o777 == 0o600
    before = (await house.ada.get("/notifications/secret")).json["secrets"]
    file.write_text(f"{'n' * 43}\n{file.read_text()}")
    after = (await house.ada.get("/notifications/secret")).json["secrets"]
    assert after[1:] == before
    assert len(set(after)) == 2


async def test_in_a_rotation_both_secrets_sign(
    tmp_path: Path, house: House, receiver: Receiver
) -> None:
    file = tmp_path / "notify.secret"
    file.write_text(f"{'n' * 43}\n{file.read_text()}")
    job_id = await born(house.ada, receiver)
    await canceled(house.ada, job_id)
    await log_of(house.ada, job_id, "delivered")
    secrets = (await house.ada.get("/notifications/secret")).json["secrets"]
    assert [receiver.sent[0].is_signed_with(secret) for secret in secrets] == [True, True]
