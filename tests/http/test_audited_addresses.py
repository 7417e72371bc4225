"""Every row of the audit that a request left says from which address it came."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from jobrunner.config.settings import DownloadsSection, ServerSection
from jobrunner.core.features.upgrades.upgrades import NewUpgrade, Upgrade
from jobrunner.core.messages import SetAside
from tests.http.fickle import work
from tests.http.serving import Caller, House, Said, definitions, opened
from tests.http.serving import _fits as fits
from tests.http.uploading import VIDEO
from tests.receiving import receiving, says
from tests.stages import asking

pytestmark = pytest.mark.anyio

CLIENT = "198.51.100.7"
OTHER = "2001:db8::7"
HERE = "127.0.0.1"
FILM = b"film" * 9
TUS = {"Tus-Resumable": "1.0.0"}
PIECE = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0", **TUS}
NAMED = "filename ZmlsbS5tcDQ=,filetype dmlkZW8vbXA0"
LOST = {"to": "failed", "failure_code": "NETWORK", "failure_message": "x", "retryable": False}
TO_A_DRAFT = ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING", "TRANSCRIPT_READY",
              "GENERATING", "DRAFT_READY")  # fmt: skip


@dataclass
class Behind(Caller):
    """The same client, through a proxy that says for whom it asks."""

    client: str = CLIENT

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        data: Any = None,
    ) -> Said:
        sent = {"X-Forwarded-For": self.client, **(headers or {})}
        said = await super().ask(method, path, body, headers=sent, data=data)
        assert said.status < 300, f"{method} {path}: {said.status} {said.raw!r}"
        self.seen.append((method, path.partition("?")[0], said.status))
        return said


def behind(caller: Caller, client: str = CLIENT) -> Behind:
    session, url, contract, token = caller.session, caller.url, caller.contract, caller.token
    return Behind(session, url, contract, token, caller.seen, client)


@dataclass
class Scene:
    """A service, an admin who comes by a proxy, and an endpoint of the owner of all jobs."""

    house: House
    admin: Behind
    hook: str

    async def video(self, *statuses: str) -> str:
        job = await self.house.ada.submit("howera")
        for status in statuses:
            moved = await self.house.admin.post(f"/jobs/{job['id']}/transitions", {"to": status})
            assert moved.status == 200, moved.raw
        return f"/jobs/{job['id']}"

    async def image(self, *, claimed: bool = False, failed: bool = False) -> str:
        given = {"params": {"prompt": "a mole"}, "idempotency_key": f"k{self._count()}"}
        path = f"/jobs/{(await self.house.ada.submit('image-generation', **given))['id']}"
        if claimed or failed:
            assert (await self.house.worker.post(f"{path}/claim")).status == 200
        if failed:
            assert (await self.house.admin.post(f"{path}/transitions", LOST)).status == 200
        return path

    def _count(self) -> int:
        return len(self.house.logged)

    async def rows(self, after: int = 0) -> list[Any]:
        found = (await self.house.admin.get("/admin/audit?limit=100")).json["audit"]
        return [row for row in found if row["id"] > after]

    async def delivery(self, status: str) -> tuple[str, Any]:
        """A job whose one notification came to this."""
        job = await self.house.ada.submit(
            "cutx", job_type="copy", params={"product_id": "lamp-7"}, notify_url=self.hook
        )
        path = f"/jobs/{job['id']}"
        assert (await self.house.ada.post(f"{path}/cancel")).status == 200
        with anyio.fail_after(120):
            while True:
                found = (await self.house.ada.get(f"{path}/deliveries")).json["deliveries"]
                if [one["status"] for one in found] == [status]:
                    return path, found[0]
                await anyio.sleep(0.01)


async def make_token(scene: Scene) -> None:
    await scene.admin.post("/admin/tokens", {"name": "kim", "role": "user"})


async def rotate_token(scene: Scene) -> None:
    await scene.admin.post("/admin/tokens/eve/rotate", {"grace": 0})


async def revoke_token(scene: Scene) -> None:
    await scene.admin.delete("/admin/tokens/eve")


async def grant(scene: Scene) -> None:
    await scene.admin.post("/admin/credits/ada/grant", {"amount": 90, "reason": "goodwill"})


async def command(scene: Scene) -> None:
    await scene.admin.post(f"{await scene.video()}/cancel", {"reason": "a mistake"})


async def alias(scene: Scene) -> None:
    job = await scene.house.ada.submit("cutx", job_type="copy", params={"product_id": "lamp-7"})
    failed = {"to": "failed", "failure_message": "no page"}
    said = await scene.house.admin.post(f"/jobs/{job['id']}/transitions", failed)
    assert said.status == 200, said.raw
    await scene.admin.post(f"/api/admin/jobs/{job['id']}/retry", {"reason": "again"})


async def annotate(scene: Scene) -> None:
    await scene.admin.post(f"{await scene.image(failed=True)}/annotate", {"note": "a bad prompt"})


async def transition(scene: Scene) -> None:
    await scene.admin.post(f"{await scene.video()}/transitions", {"to": "UPLOADED"})


async def edit(scene: Scene) -> None:
    path = await scene.video(*TO_A_DRAFT)
    await scene.admin.put(f"{path}/artifacts/draft", {"value": "one"})


async def claim(scene: Scene) -> None:
    await scene.admin.post(f"{await scene.image()}/claim")


async def claim_any(scene: Scene) -> None:
    await scene.image()
    wanted = {"workflow": "image-generation", "max": 1, "wait": 0}
    assert len((await scene.admin.post("/internal/claims", wanted)).json["claims"]) == 1


async def callback(scene: Scene) -> None:
    path = await scene.image(claimed=True)
    told = {"event_id": "e1", "status": "rejected", "occurred_at": "2026-01-01T00:00:00Z"}
    await behind(scene.house.worker).post(f"/internal{path}/status", told)


async def upload(scene: Scene) -> None:
    path = f"{await scene.video()}/upload?name=film.mp4"
    await scene.admin.ask("PUT", path, data=FILM, headers=VIDEO)


async def upload_in_pieces(scene: Scene) -> None:
    begun = {"Upload-Length": str(len(FILM)), "Upload-Metadata": NAMED, **TUS}
    said = await scene.admin.ask("POST", f"{await scene.video()}/uploads", headers=begun)
    where = said.headers["Location"].removeprefix(scene.admin.url)
    await scene.admin.ask("PATCH", where, data=FILM, headers=PIECE)


async def upload_begun_whole(scene: Scene) -> None:
    begun = {"Upload-Length": str(len(FILM)), "Upload-Metadata": NAMED, **TUS}
    sent = {"Content-Type": PIECE["Content-Type"], **begun}
    await scene.admin.ask("POST", f"{await scene.video()}/uploads", data=FILM, headers=sent)


async def stop(scene: Scene) -> None:
    path = await scene.image(claimed=True)
    await scene.admin.post(f"/admin{path}/stop", {"reason": "enough"})


async def release(scene: Scene) -> None:
    path = await scene.image()
    await scene.house.service.facade.ask(path.removeprefix("/jobs/"), SetAside("a test"))
    await scene.admin.post(f"/admin{path}/release", {"reason": "looked at"})


async def pause_and_resume(scene: Scene) -> None:
    path = await scene.video()
    await behind(scene.house.ada).post(f"{path}/pause", {"reason": "wait"})
    await scene.admin.post(f"{path}/resume")


async def pause_and_resume_all(scene: Scene) -> None:
    for place in ("/admin/workflows/cutx", "/admin/stages/fickle.work"):
        await scene.admin.post(f"{place}/pause", {"reason": "wait"})
        await scene.admin.post(f"{place}/resume")


async def rerun(scene: Scene) -> None:
    await scene.admin.post(f"{await scene.image(failed=True)}/rerun", {"reason": "typo"})


async def delete(scene: Scene) -> None:
    path = await scene.video()
    assert (await scene.house.ada.post(f"{path}/cancel")).status == 200
    await behind(scene.house.ada).delete(path)


async def bulk(scene: Scene) -> None:
    video, image = await scene.video(), await scene.image(failed=True)
    anew = {"fields": {"params": {"prompt": "a vole"}}}
    for name, path, more in (
        ("cancel", video, {}), ("delete", video, {}), ("rerun", image, anew),
    ):  # fmt: skip
        order = {"command": name, "ids": [path.removeprefix("/jobs/")], **more}
        said = await scene.admin.post("/admin/bulk", order)
        assert said.json["done"] == 1, said.raw


async def redeliver(scene: Scene) -> None:
    path, row = await scene.delivery("delivered")
    await behind(scene.house.ada).post(f"{path}/deliveries/{row['id']}/redeliver")
    await scene.admin.post(f"/admin/deliveries/{row['id']}/redeliver")


MORNING = {"from": "2026-03-28T00:30:00Z", "to": "2026-03-28T02:30:00Z"}
Act = Callable[[Scene], Awaitable[None]]
BULK = ("bulk.started", "bulk.done")


async def look_after_the_file(scene: Scene) -> None:
    folder = f"{scene.house.service.store.path}.backups"
    for act, order in (("prune", {}), ("compact", {}), ("backup", {"folder": folder})):
        said = await scene.admin.post(f"/admin/db/{act}", order)
        assert said.status == 200, said.raw


async def limit(scene: Scene) -> None:
    place = "/admin/limits/limits.active_jobs"
    said = await scene.admin.ask("PUT", place, {"value": 3, "reason": "a quiet day"})
    assert said.status == 200, said.raw
    assert (await scene.admin.delete(place)).status in (200, 204)


async def schedule(scene: Scene) -> None:
    order = {"workflow": "howera", "user": "ada", "every": 3600}
    place = "/admin/schedules/hourly"
    for verb, path, body in (
        ("PUT", place, order),
        ("POST", f"{place}/pause", {}),
        ("POST", f"{place}/resume", {}),
        ("POST", f"{place}/trigger", {}),
        (
            "POST",
            f"{place}/backfill",
            MORNING,
        ),
        ("DELETE", place, None),
        ("POST", "/admin/schedules", order | {"name": "daily"}),
    ):
        said = await scene.admin.ask(verb, path, body)
        assert said.status < 300, (verb, path, said.raw)


async def migrate(scene: Scene) -> None:
    said = await scene.admin.post("/admin/upgrades", {"workflow": "howera"})
    assert said.status < 300, said.raw


async def upgrade_aborted(scene: Scene) -> None:
    """One that is not begun, so that it is still running when it is aborted."""
    digest = "0" * 64
    await scene.house.service.store.commit(
        NewUpgrade(Upgrade("u1", "howera", digest, "1", "engine", 1_700_000_000_000))
    )
    assert (await scene.admin.delete("/admin/upgrades/u1")).json["status"] == "aborted"


async def batch_of(scene: Scene, job: dict[str, Any]) -> tuple[str, str]:
    told = (await behind(scene.house.ada).post("/batches", {"jobs": [job]})).json
    return f"/batches/{told['id']}", f"/jobs/{told['results'][0]['job_id']}"


async def cancel_batch(scene: Scene) -> None:
    batch, _ = await batch_of(scene, {"workflow": "howera"})
    last = (await scene.rows())[0]["id"]
    await behind(scene.house.ada).post(f"{batch}/cancel")
    with anyio.fail_after(120):
        while "bulk.done" not in {row["event"] for row in await scene.rows(last)}:
            await anyio.sleep(0.01)


async def rerun_batch(scene: Scene) -> None:
    newt = {"workflow": "image-generation", "params": {"prompt": "a newt"}, "key": "newt"}
    batch, job = await batch_of(scene, newt)
    assert (await scene.house.worker.post(f"{job}/claim")).status == 200
    assert (await scene.house.admin.post(f"{job}/transitions", LOST)).status == 200
    await behind(scene.house.ada).post(f"{batch}/rerun", {"key": "again"})


async def answer(scene: Scene) -> None:
    job = await scene.house.ada.submit("press", params={"by": ["user"]})
    with anyio.fail_after(120):
        while await scene.house.service.store.reader.question_named(job["id"], "approval") is None:
            await anyio.sleep(0.01)
    yes = {"approved": True, "note": ""}
    await behind(scene.house.ada).post(f"/jobs/{job['id']}/answers/approval", yes)


ACTS: dict[Act, tuple[str, ...]] = {
    make_token: ("token.created", "credits.granted"),
    rotate_token: ("token.rotated",),
    grant: ("credits.granted",),
    revoke_token: ("token.revoked",),
    command: ("job.cancel",),
    alias: ("job.retry",),
    annotate: ("job.annotate",),
    transition: ("job.transition",),
    edit: ("job.edit",),
    claim: ("job.claim",),
    claim_any: ("job.claim",),
    callback: ("SAFE_BLOCK",),
    upload: ("job.upload", "job.upload"),
    upload_in_pieces: ("job.upload", "job.upload"),
    upload_begun_whole: ("job.upload", "job.upload"),
    stop: ("job.stop",),
    release: ("job.release",),
    pause_and_resume: ("job.pause", "job.resume"),
    pause_and_resume_all: ("workflow.pause", "workflow.resume", "stage.pause", "stage.resume"),
    rerun: ("job.rerun",),
    delete: ("job.deleted",),
    bulk: (*BULK * 3, "job.cancel", "job.deleted", "job.rerun"),
    look_after_the_file: ("db.backup", "store.compacted"),
    redeliver: ("delivery.redelivered", "delivery.redelivered"),
    limit: ("limit.set", "limit.reset"),
    schedule: (
        *("schedule.made",) * 2,
        "schedule.paused",
        "schedule.resumed",
        "schedule.triggered",
        "schedule.backfilled",
        "schedule.removed",
    ),
    upgrade_aborted: ("upgrade.aborted",),
    cancel_batch: BULK,
    rerun_batch: ("job.rerun",),
    answer: ("answer.give",),
    migrate: ("upgrade.ordered",),
}


async def enable(scene: Scene) -> None:
    await scene.delivery("disabled")
    (shown,) = (await scene.house.admin.get("/admin/endpoints")).json["endpoints"]
    await scene.admin.post(f"/admin/endpoints/{shown['id']}/enable")


# Nothing stands in the audit for these, whoever asks.
UNAUDITED = {
    "createJob", "sendAsset", "createAsset", "deleteAsset", "createUpload",
    "getUploadOptions", "endUpload", "reportProgress", "checkDatabase", "hearWebhook",
    "apiGenerateCopy", "apiGenerateStaticAd", "apiGenerateVideo",
    "openSession", "endSession", "reportCheckpoint", "keepValue", "answerQuestion",
    "createBatch", "appendToBatch", "closeBatch", "deleteBatch",
    "replayDecisions", "verifyBackup", "tellOfSilence",
}  # fmt: skip
# File moves are tried where there is a store of objects.
UNTRIED = {"reportOutcome", "orderFileMove", "abortFileMove"}
GONE = [says("410 Gone"), says("200 OK")]


@asynccontextmanager
async def scene_of(
    folder: Path, *, trusted: bool = True, gone: bool = False
) -> AsyncIterator[Scene]:
    server = ServerSection(port=0, drain_seconds=1, trusted_proxies=(HERE,) if trusted else ())
    registry, outside = asking.registry(), definitions()
    registry.add(work)
    for name in outside.names():
        if definition := outside.current(name):
            registry.add(definition)
    async with receiving(*(GONE if gone else ())) as receiver:
        more: dict[str, Any] = {"downloads": DownloadsSection(allow_private=(receiver.place,))}
        async with opened(folder, server=server, registry=registry, **more) as house:
            yield Scene(house, behind(house.admin), receiver.url())


async def came_from(scene: Scene, act: Act) -> list[tuple[str, str]]:
    """Event and address of each row that is there since."""
    before = max(row["id"] for row in await scene.rows())
    await act(scene)
    return sorted(
        (row["event"], row["fields"].get("address", HERE)) for row in await scene.rows(before)
    )


async def test_behind_a_trusted_proxy_it_is_the_clients(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        for act, events in ACTS.items():
            rows = await came_from(scene, act)
            assert {address for _, address in rows} <= {CLIENT, HERE}, act
            found = [event for event, address in rows if address == CLIENT]
            assert found == sorted(events), act
        seen = [(method, path) for method, path, _ in scene.admin.seen + scene.house.ada.seen]
        seen += [(method, path) for method, path, _ in scene.house.worker.seen]
        asked = {name_of(scene.house, *one) for one in seen}
        left = operations(scene.house) - asked - UNAUDITED - UNTRIED
        assert left == {"enableEndpoint", "abortBulk"}, "of these tell the tests below"


def operations(house: House) -> set[str]:
    paths = house.contract.document["paths"]
    every = [(verb, one) for of in paths.values() for verb, one in of.items()]
    return {_name(one) for verb, one in every if verb != "get"}


def name_of(house: House, method: str, path: str) -> str:
    paths = house.contract.document["paths"]
    fitting = [one for one in paths if fits(one, path) and method.lower() in paths[one]]
    best = min(fitting, key=lambda one: (one.count("{"), one))
    return _name(paths[best][method.lower()])


def _name(operation: dict[str, Any]) -> str:
    return "commandJob" if "x-command" in operation else str(operation["operationId"])


async def test_nobody_else_is_believed(tmp_path: Path) -> None:
    async with scene_of(tmp_path, trusted=False) as scene:
        for act, events in ACTS.items():
            rows = await came_from(scene, act)
            assert {address for _, address in rows} == {HERE}, act
            assert set(events) <= {event for event, _ in rows}, act


async def test_what_the_service_does_by_itself_has_none(tmp_path: Path) -> None:
    """Its first token, and an endpoint that it gives up; to enable that one is asked for."""
    async with scene_of(tmp_path, gone=True) as scene:
        await enable(scene)
        rows = await scene.rows()
        where = {row["event"]: (row["actor"], row["fields"].get("address")) for row in rows}
        assert where["endpoint.disabled"] == ("engine", None)
        assert where["endpoint.enabled"] == ("admin", CLIENT)
        (first,) = [row for row in rows if row["actor"] == "service"]
        assert "address" not in first["fields"]


async def test_a_bulk_has_the_address_of_its_order_after_a_restart_too(tmp_path: Path) -> None:
    async with scene_of(tmp_path) as scene:
        for _ in range(130):
            await scene.video()
        order = {"command": "pause", "filter": {"workflow": "howera"}}
        bulk_id = (await scene.admin.post("/admin/bulk", order)).json["id"]
    async with scene_of(tmp_path) as scene:
        with anyio.fail_after(120):
            while (told := (await scene.admin.get(f"/admin/bulk/{bulk_id}")).json)["left"]:
                await anyio.sleep(0.02)
        assert told["done"] == 130
        order = {"command": "resume", "filter": {"workflow": "howera"}}
        second = (await scene.admin.post("/admin/bulk", order)).json["id"]
        await behind(scene.house.admin, OTHER).delete(f"/admin/bulk/{second}")
        rows = [(row["event"], row["fields"].get("address")) for row in await scene.rows()]
    assert ("bulk.aborted", OTHER) in rows
    acted = {address for event, address in rows if event.startswith(("job.", "bulk.started"))}
    assert acted == {CLIENT}
