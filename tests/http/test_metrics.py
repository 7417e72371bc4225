"""``GET /metrics``: who may see it, that it is true, and that nobody outside can make it grow."""

import random
from pathlib import Path

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobrunner.config.settings import ServerSection
from jobrunner.core.features.meter import Meter, Readings
from jobrunner.core.questions import Gauges
from jobrunner.http.frame.origins import is_local
from jobrunner.stages import Registry
from jobrunner.telemetry import Figures, Telemetry
from tests.docs.pages import code, rows
from tests.http.posting import KEY, STRANGER, TYPE, VARIABLE, listening, saying, secret, signed
from tests.http.serving import Caller, House, Said, opened

pytestmark = pytest.mark.anyio

HERE = {"Host": "localhost:8080"}
FORWARDED = {"X-Forwarded-For": "203.0.113.7"}
TOLD_WEBHOOKS = "jobrunner_webhooks_total"
ENDED = "jobrunner_jobs_ended_total"
Labels = tuple[tuple[str, str], ...]


def figures(said: Said) -> dict[tuple[str, Labels], float]:
    """Every sample by its name and labels, read by the parser of Prometheus' own library."""
    assert said.status == 200, said.raw
    families = list(text_string_to_metric_families(said.raw.decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), "a family stands there twice"
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def at(found: dict[tuple[str, Labels], float], name: str, **labels: str) -> float:
    return found.get((f"jobrunner_{name}", tuple(sorted(labels.items()))), 0.0)


async def seen(house: House) -> dict[tuple[str, Labels], float]:
    return figures(await house.nobody.get("/metrics"))


def strangely(house: House) -> Caller:
    """Somebody whose requests no document has foreseen."""
    return Caller(house.session, house.service.url, None, house.ada.token)


# ---------------------------------------------------------------- who


async def test_from_this_machine_nobody_is_asked_for_a_token(house: House) -> None:
    said = await house.nobody.get("/metrics")
    assert said.status == 200
    assert said.headers["Content-Type"].startswith("text/plain; version=")
    assert (await house.nobody.ask("HEAD", "/metrics")).status == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "x-real-ip"])
async def test_through_a_proxy_it_needs_an_admin(house: House, header: str) -> None:
    """A proxy here would otherwise show the figures to everybody."""
    sent = {header: "for=203.0.113.7"}
    assert (await house.nobody.ask("GET", "/metrics", headers=sent)).code == "UNAUTHORIZED"
    assert (await house.ada.ask("GET", "/metrics", headers=sent)).code == "FORBIDDEN"
    assert (await house.worker.ask("GET", "/metrics", headers=sent)).code == "FORBIDDEN"
    assert (await house.admin.ask("GET", "/metrics", headers=sent)).status == 200


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("192.168.0.7", False),
        ("203.0.113.7", False),
        ("::", False),
        ("", False),
        (None, False),
        ("localhost", False),
    ],
)
def test_what_is_here(address: str | None, here: bool) -> None:
    assert is_local(address, HERE) is here
    assert not is_local(address, HERE | FORWARDED)
    assert not is_local(address, {"Host": "jobs.example.com"})


async def test_operators_may_have_it_to_themselves(tmp_path: Path) -> None:
    apart = ServerSection(port=0, drain_seconds=1, admin_host="127.0.0.1", admin_port=0)
    async with opened(tmp_path, server=apart) as house:
        public = Caller(house.session, house.service.url, None)
        inside = Caller(house.session, house.service.admin_url, None)
        assert (await public.get("/metrics")).status == 404
        assert (await inside.get("/metrics")).status == 200


# ---------------------------------------------------------------- what


async def test_the_page_lists_every_figure(house: House) -> None:
    families = text_string_to_metric_families((await house.nobody.get("/metrics")).raw.decode())
    there = {
        family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        for family in families
        if family.name.startswith("jobrunner_")
    }
    there |= {"jobrunner_build_info"} if "jobrunner_build" in there else set()
    told = [code(row[0]) for row in rows("docs/monitoring.md", "metric")]
    assert told.pop() == "process_*", "the last row is of what is no metric of ours"
    assert len(told) == len(set(told))
    assert set(told) == there


async def test_jobs_are_counted_by_workflow_and_status(house: House) -> None:
    before = await seen(house)
    for _ in range(3):
        await house.ada.submit("howera")
    job = await house.ada.submit("howera")
    assert (await house.ada.post(f"/jobs/{job['id']}/cancel")).status == 200
    after = await seen(house)

    def grew(name: str, **labels: str) -> float:
        return at(after, name, **labels) - at(before, name, **labels)

    assert grew("jobs", workflow="howera", status="CREATED") == 3
    assert grew("jobs", workflow="howera", status="CANCELLED") == 1
    assert grew("submissions_total", workflow="howera") == 4
    shown = (await house.admin.get("/jobs?workflow=howera&status=CREATED&limit=100")).json["jobs"]
    assert at(after, "jobs", workflow="howera", status="CREATED") == len(shown)


async def test_requests_and_refusals_are_counted(house: House) -> None:
    before = await seen(house)
    assert (await house.ada.get("/jobs/nothing")).status == 404
    assert (await house.ada.get("/credits")).status == 200
    assert (await house.nobody.get("/credits")).status == 401
    assert (await strangely(house).ask("PROPFIND", "/credits")).status == 405
    after = await seen(house)

    def grew(name: str, **labels: str) -> float:
        return at(after, name, **labels) - at(before, name, **labels)

    count = "http_request_seconds_count"
    assert grew(count, route="/jobs/{id}", method="GET", status="4xx") == 1
    assert grew(count, route="/credits", method="GET", status="2xx") == 1
    assert grew(count, route="/credits", method="GET", status="4xx") == 1
    assert grew(count, route="none", method="OTHER", status="4xx") == 1
    assert grew("http_refusals_total", code="NOT_FOUND") == 1
    assert grew("http_refusals_total", code="UNAUTHORIZED") == 1


async def test_commits_and_files_are_measured(house: House) -> None:
    before = await seen(house)
    await house.ada.submit("howera")
    after = await seen(house)
    for name in ("commit_units", "commit_seconds", "commit_fsync_seconds"):
        assert at(after, f"{name}_count") > at(before, f"{name}_count"), name
    assert at(after, "commit_fsync_seconds_sum") <= at(after, "commit_seconds_sum")
    assert at(after, "store_file_bytes") > 0
    assert at(after, "store_wal_bytes") > 0
    assert at(after, "disk_free_bytes") > 0
    assert after["process_resident_memory_bytes", ()] > 0
    assert after["process_open_fds", ()] > 0


async def test_webhooks_are_counted_by_what_became_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, secret(KEY))
    async with listening(tmp_path) as here:
        body = saying("p1")
        for key in (KEY, KEY, STRANGER):
            await here.post([*signed("m1", body, key=key), *TYPE], body)
        await here.post([*signed("m1", body), *TYPE], body, "/webhooks/nobody")
        found = figures(await here.admin.get("/metrics"))
    verdicts = {labels: value for (name, labels), value in found.items() if name == TOLD_WEBHOOKS}
    source = ("source", "postman")
    assert verdicts == {
        (source, ("verdict", verdict)): 1.0 for verdict in ("kept", "replayed", "refused")
    }


async def test_attempts_are_timed_by_stage_and_outcome(tmp_path: Path) -> None:
    """In the house, over HTTP, to the end; streams are counted while they are read."""
    registry = Registry()
    registry.load(("hello", "hello.greet"))
    async with opened(tmp_path, registry=registry) as house:
        job = await house.ada.submit("hello")
        ended = await house.ada.get(f"/jobs/{job['id']}?wait=30")
        while ended.json["kind"] != "final":
            ended = await house.ada.get(f"/jobs/{job['id']}?wait=30")
        assert ended.json["status"] == "greeted"
        found = await seen(house)
        labels = {"workflow": "hello", "stage": "hello.greet", "outcome": "done"}
        assert at(found, "stage_seconds_count", **labels) == 1
        assert at(found, "jobs", workflow="hello", status="greeted") == 1
        sent = {"Authorization": f"Bearer {house.ada.token}"}
        async with house.session.get(f"{house.service.url}/events", headers=sent) as stream:
            await stream.content.readline()
            assert at(await seen(house), "streams_open") == 1
        with anyio.fail_after(120):
            while at(await seen(house), "streams_open"):
                await anyio.sleep(0.01)


# ---------------------------------------------------------------- bounds


async def test_no_stranger_makes_a_series(house: House) -> None:
    """After the first of each kind, a thousand more of them add none."""
    luck, other = random.Random(7), strangely(house)

    def word() -> str:
        return "".join(luck.choices("abcdefghijklmnopqrstuvwxyz", k=12))

    async def strange() -> None:
        await house.nobody.get(f"/{word()}/{word()}")
        await house.ada.get(f"/jobs/{word()}")
        await other.ask(word().upper(), "/jobs")
        await other.ask(luck.choice(("PROPFIND", "MKCOL", "LOCK", "M-SEARCH")), f"/{word()}")
        await house.ada.post("/jobs", {"workflow": word()})
        await house.ada.post("/jobs", {"workflow": "howera", "job_type": word()})
        await house.ada.post(f"/webhooks/{word()}", {})
        await house.ada.ask("GET", "/jobs", headers={"X-Request-Id": word(), "traceparent": word()})

    await strange()
    await seen(house)
    before = set(await seen(house))
    for _ in range(140):
        await strange()
    assert set(await seen(house)) == before


def test_a_meter_alone_hears_nothing() -> None:
    meter = Meter()
    meter.committed(1, 0.1, 0.1)
    meter.refused("NOT_FOUND")
    meter.answered("/jobs", "GET", 200, 0.1)


def test_both_forms_hear_all_that_there_is_to_hear() -> None:
    told = {name for name in vars(Meter) if not name.startswith("_")}
    assert told <= set(vars(Figures)), "figures are deaf to something"
    assert {"submitted", "attempted", "delivered"} <= set(vars(Telemetry))


def test_what_is_told_is_in_the_text() -> None:
    figures_ = Figures("1")
    figures_.fired(-1)
    figures_.fired(0.3)
    figures_.lagged(0.002)
    text, kind = figures_.exposition(Readings(file=Gauges(by_status=(("a", "b", 7),), parked=3)))
    assert kind.startswith("text/plain")
    assert b'jobrunner_jobs{status="b",workflow="a"} 7.0' in text
    assert b"jobrunner_attempts_parked 3.0" in text
    assert b"jobrunner_timer_lag_seconds_count 2.0" in text


# ---------------------------------------------------------------- what somebody should look at


async def until(house: House, name: str, value: float, **labels: str) -> None:
    """The census is not taken anew for everybody who asks."""
    with anyio.fail_after(120):
        while at(await seen(house), name, **labels) != value:
            await anyio.sleep(0.01)


async def test_jobs_that_rest_are_counted_by_workflow(tmp_path: Path) -> None:
    async with opened(tmp_path) as house:
        for _ in range(3):
            await house.ada.submit("howera")
        held = await house.ada.submit("howera")
        assert (await house.ada.post(f"/jobs/{held['id']}/pause")).status == 200
        await house.ada.submit("asset-pattern", job_type="generation")
        await until(house, "jobs_paused", 1, workflow="howera")
        await until(house, "jobs_unclaimed", 1, workflow="asset-pattern")
        await until(house, "jobs_waiting", 4, workflow="howera")
        found = await seen(house)
        for name in ("jobs_stuck", "jobs_paused", "jobs_unclaimed", "jobs_waiting"):
            of = {labels for (one, labels) in found if one == f"jobrunner_{name}"}
            assert of == {(("workflow", "asset-pattern"),), (("workflow", "howera"),)}, name
        assert at(found, "jobs_stuck", workflow="howera") == 0
        assert at(found, "waiting_oldest_seconds", workflow="howera") > 0
        assert at(found, "unclaimed_oldest_seconds", workflow="asset-pattern") > 0
        assert at(found, "unclaimed_oldest_seconds", workflow="howera") == 0


async def test_ends_are_counted_by_what_the_declaration_calls_them(tmp_path: Path) -> None:
    async with opened(tmp_path) as house:
        job = await house.ada.submit("howera")
        assert (await house.ada.post(f"/jobs/{job['id']}/cancel")).status == 200
        for to, more in (("failed", {"failure_message": "no"}), ("completed", {})):
            made = await house.ada.submit("asset-pattern", job_type="generation")
            path = f"/jobs/{made['id']}"
            assert (await house.worker.post(f"{path}/claim")).status == 200
            sent = {"to": to, **more}
            assert (await house.worker.post(f"{path}/transitions", sent)).status == 200
            assert (await house.worker.post(f"{path}/transitions", sent)).status == 200
        found = await seen(house)
        ends = {labels: value for (name, labels), value in found.items() if name == ENDED}
        assert ends == {
            (("outcome", outcome), ("workflow", workflow)): 1
            for workflow, outcome in (
                ("howera", "canceled"),
                ("asset-pattern", "failed"),
                ("asset-pattern", "completed"),
            )
        }
        await until(house, "dead_letters", 1)
        assert at(await seen(house), "dead_letter_timestamp_seconds") > 1_700_000_000


async def test_pauses_of_workflows_are_shown_with_their_age(house: House) -> None:
    assert not [one for one, _ in await seen(house) if one == "jobrunner_pause_seconds"]
    said = await house.admin.post("/admin/workflows/howera/pause", {"reason": "no lamp"})
    assert said.status == 200, said.raw
    found = await seen(house)
    [labels] = [labels for one, labels in found if one == "jobrunner_pause_seconds"]
    assert labels == (("name", "howera"), ("scope", "workflow"))
    assert found["jobrunner_pause_seconds", labels] >= 0


async def test_settings_and_readiness_are_there_to_compare_with(house: House) -> None:
    found = await seen(house)
    assert at(found, "limit", key="limits.queued_jobs") == 100_000
    assert at(found, "limit", key="store.wal_max") == 64 * 1024**2
    assert at(found, "limit", key="backup.every") == 0
    assert at(found, "ready") == 1
