"""One trace per job, from its submission to the last notification, and nothing in it that is
nobody's business."""

import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import jobrunner_hello
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jobrunner import Context, Done, PlainContext, Stage, stage, telemetry
from jobrunner.actors.keeping import measures
from jobrunner.config import settings
from jobrunner.errors import Misconfigured
from jobrunner.stages import Registry
from jobrunner.telemetry import Telemetry, open_telemetry
from jobrunner.telemetry.exporting import traces_url
from jobrunner.telemetry.traces import Traces
from tests.http.posting import KEY, VARIABLE, listening, secret
from tests.http.serving import House, opened
from tests.receiving import receiving

pytestmark = pytest.mark.anyio

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
SECRET = "sesame-open-yourself"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What a service that starts now lets go, kept here instead of being sent."""
    exporter = InMemorySpanExporter()

    def kept(version: str, endpoint: str, environ: Mapping[str, str]) -> Telemetry:
        return Telemetry(version, Traces(SimpleSpanProcessor(exporter), Resource.create()))

    monkeypatch.setattr(telemetry, "open_telemetry", kept)
    return exporter


def hello() -> Registry:
    registry = Registry()
    registry.load(("hello", "hello.greet"))
    return registry


async def greeted(
    house: House, notify_url: str | None = None, name: str = SECRET, **headers: str
) -> Any:
    """A job of one stage, from its submission to its end."""
    body = {"workflow": "hello", "params": {"name": name}, "notify_url": notify_url}
    made = await house.ada.ask("POST", "/jobs", body, headers=headers)
    assert made.status == 201, made.raw
    job = made.json
    while job["kind"] != "final":
        job = (await house.ada.get(f"/jobs/{job['id']}?wait=30")).json
    assert job["status"] == "greeted"
    return job


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    found = exporter.get_finished_spans()
    assert len({span.context.span_id for span in found if span.context}) == len(found)
    return {span.name: span for span in found}


def ids(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> str:
    return f"{span.parent.span_id:016x}" if span.parent else ""


async def test_a_job_is_one_trace_below_its_caller(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    async with opened(tmp_path, registry=hello()) as house:
        job = await greeted(house, traceparent=PARENT)
    found = by_name(spans)
    assert set(found) == {"submit", "wait slot", "attempt hello.greet"}
    submit, attempt = found["submit"], found["attempt hello.greet"]
    assert parent_of(found["wait slot"]) == ids(submit)[1]
    assert found["wait slot"].attributes == {
        "jobrunner.job_id": job["id"],
        "jobrunner.workflow": "hello",
        "jobrunner.job_type": "greeting",
        "jobrunner.state": "queued",
    }
    assert {ids(span)[0] for span in found.values()} == {TRACE}
    assert parent_of(submit) == SPAN
    assert submit.parent is not None
    assert submit.parent.is_remote
    assert parent_of(attempt) == ids(submit)[1]
    assert attempt.attributes == {
        "jobrunner.job_id": job["id"],
        "jobrunner.workflow": "hello",
        "jobrunner.job_type": "greeting",
        "jobrunner.state": "greeting",
        "jobrunner.stage": "hello.greet",
        "jobrunner.run_id": job["run_id"],
        "jobrunner.attempt": 1,
        "jobrunner.outcome": "done",
    }
    for span in found.values():
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time


async def test_an_attempt_of_an_outside_worker_is_a_span_too(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    """Nobody here watches it work: it is as long as the job says."""
    async with opened(tmp_path) as house:
        job = await house.ada.submit("asset-pattern", job_type="generation")
        path = f"/jobs/{job['id']}"
        claimed = (await house.worker.post(f"{path}/claim")).json
        assert (await house.worker.post(f"{path}/transitions", {"to": "completed"})).status == 200
        [listed] = (await house.ada.get(f"{path}/attempts")).json["attempts"]
    found = by_name(spans)
    assert set(found) == {"submit", "wait claim", "attempt external"}
    attempt, wait = found["attempt external"], found["wait claim"]
    assert parent_of(wait) == ids(found["submit"])[1]
    assert wait.end_time == attempt.start_time
    assert wait.start_time == _millis(job["created_at"]) * 1_000_000
    assert parent_of(attempt) == ids(found["submit"])[1]
    assert attempt.attributes == {
        "jobrunner.job_id": job["id"],
        "jobrunner.workflow": "asset-pattern",
        "jobrunner.job_type": "generation",
        "jobrunner.state": "processing",
        "jobrunner.stage": "external",
        "jobrunner.run_id": claimed["run_id"],
        "jobrunner.attempt": 1,
        "jobrunner.outcome": listed["outcome"],
    }
    stamps = [attempt.start_time, attempt.end_time]
    assert [ns and ns // 1_000_000 for ns in stamps] == [
        _millis(listed["started_at"]),
        _millis(listed["ended_at"]),
    ]


def _millis(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)


async def test_nothing_is_worked_out_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no traces leave, no commit looks for what its job has waited for."""
    looked: list[object] = []

    def look(*jobs: object) -> tuple[()]:
        looked.append(jobs)
        return ()

    monkeypatch.setattr(measures, "waits_over", look)
    async with opened(tmp_path, registry=hello()) as house:
        await greeted(house)
    assert looked == []


async def test_without_a_caller_the_trace_has_the_jobs_id(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    """What is no traceparent is no reason to refuse a job."""
    async with opened(tmp_path, registry=hello()) as house:
        job = await greeted(house, traceparent="00-not-one-at-all")
    found = by_name(spans)
    assert {ids(span)[0] for span in found.values()} == {job["id"].replace("-", "")}
    assert parent_of(found["submit"]) == ""


async def test_a_caller_who_does_not_sample_is_kept_to(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    async with opened(tmp_path, registry=hello()) as house:
        await greeted(house, traceparent=f"00-{TRACE}-{SPAN}-00")
    assert spans.get_finished_spans() == ()


async def test_nothing_private_is_in_a_span(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    async with opened(tmp_path, registry=hello()) as house:
        await greeted(house)
        tokens = [caller.token for caller in (house.ada, house.admin)]
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    assert told
    for private in (SECRET, "Hello, ", *tokens):
        assert private
        assert private not in told


async def test_a_repeat_is_no_second_submission(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    async with opened(tmp_path, registry=hello()) as house:
        body = {"workflow": "hello", "idempotency_key": "once"}
        first = await house.ada.post("/jobs", body)
        again = await house.ada.post("/jobs", body)
        assert (first.status, again.status) == (201, 200)
    names = [span.name for span in spans.get_finished_spans()]
    assert names.count("submit") == 1


async def test_every_try_of_a_notification_is_a_span(
    tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    async with receiving() as receiver:
        wanted = settings.DownloadsSection(allow_private=(receiver.place,))
        async with opened(tmp_path, registry=hello(), downloads=wanted) as house:
            await greeted(house, receiver.url("/hook/secret-path"), traceparent=PARENT)
            with anyio.fail_after(120):
                while not [span for span in spans.get_finished_spans() if span.name == "delivery"]:
                    await anyio.sleep(0.01)
    found = by_name(spans)
    delivery = found["delivery"]
    assert ids(delivery)[0] == TRACE
    assert parent_of(delivery) == ids(found["submit"])[1]
    assert delivery.attributes is not None
    assert delivery.attributes["jobrunner.delivery_id"] == receiver.sent[0].id
    assert delivery.attributes["jobrunner.outcome"] == "delivered"
    assert "secret-path" not in delivery.to_json()


async def test_each_leg_of_an_attempt_is_a_span_of_its_own(
    tmp_path: Path, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for a callback is nobody's work meanwhile."""
    monkeypatch.setenv(VARIABLE, secret(KEY))
    async with listening(tmp_path) as here:
        job_id = await here.listens("one")
        await here.say("m1", "one")
        await here.at(job_id, "done", "heard", "ended", "completed", "finished")
    legs = [span for span in spans.get_finished_spans() if span.name.startswith("attempt ")]
    assert len({ids(leg)[1] for leg in legs}) == 2
    outcomes = [leg.attributes["jobrunner.outcome"] for leg in legs if leg.attributes]
    assert outcomes == ["parked", "done"]
    (submit,) = [span for span in spans.get_finished_spans() if span.name == "submit"]
    assert {parent_of(leg) for leg in legs} == {ids(submit)[1]}
    waits = [span for span in spans.get_finished_spans() if span.name.startswith("wait ")]
    # What it awaited came while a slot was free, so it went on in the same commit.
    assert [span.name for span in waits] == ["wait slot", "wait callback"]
    assert {parent_of(wait) for wait in waits} == {ids(submit)[1]}
    assert len({ids(wait)[1] for wait in waits}) == 2


# ---------------------------------------------------------------- what a stage has of it


@stage("hello.greet")
async def asking(ctx: Context[Any]) -> Done:
    await ctx.http.get(ctx.params.name)
    await ctx.http.get(ctx.params.name, headers={"TraceParent": "of its own"})
    return Done(result={"place": ctx.traceparent})


@stage("hello.greet", how="thread")
def asking_plainly(ctx: PlainContext[Any]) -> Done:
    ctx.http.get(ctx.params.name)
    ctx.http.get(ctx.params.name, headers={"TraceParent": "of its own"})
    return Done(result={"place": ctx.traceparent})


@pytest.mark.parametrize("greet", [asking, asking_plainly], ids=["loop", "thread"])
async def test_a_stage_knows_its_place_and_sends_it_along(
    tmp_path: Path, greet: Stage, spans: InMemorySpanExporter
) -> None:
    registry = Registry()
    registry.add(greet)
    registry.add(jobrunner_hello.definition)
    async with receiving() as server:
        wanted = settings.DownloadsSection(allow_private=(server.place,))
        async with opened(tmp_path, registry=registry, downloads=wanted) as house:
            job = await greeted(house, name=server.url("/"), traceparent=PARENT)
    attempt = by_name(spans)["attempt hello.greet"]
    place = f"00-{TRACE}-{ids(attempt)[1]}-01"
    assert job["result"] == {"place": place}
    assert [sent.headers["traceparent"] for sent in server.sent] == [place, "of its own"]


# ---------------------------------------------------------------- over the wire


async def test_they_leave_over_otlp(tmp_path: Path) -> None:
    """To a collector of loopback, in the protocol's own words; the last ones before the service
    ends."""
    async with receiving() as collector:
        wanted = settings.TelemetrySection(f"http://{collector.place}")
        async with opened(tmp_path, registry=hello(), telemetry=wanted) as house:
            await greeted(house, traceparent=PARENT)
    names, services = [], set()
    for sent in collector.sent:
        assert sent.line.startswith("POST /v1/traces "), sent.line
        batch = ExportTraceServiceRequest.FromString(sent.body)
        for resource in batch.resource_spans:
            services |= {
                one.value.string_value
                for one in resource.resource.attributes
                if one.key == "service.name"
            }
            for scope in resource.scope_spans:
                names += [span.name for span in scope.spans]
                assert {span.trace_id.hex() for span in scope.spans} == {TRACE}
    assert sorted(names) == ["attempt hello.greet", "submit", "wait slot"]
    assert services == {"jobrunner"}


def test_nothing_leaves_unless_it_is_wanted() -> None:
    for environ in (
        {},
        {"OTEL_SERVICE_NAME": "x"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ):
        assert not open_telemetry("1", "", environ).traced, environ


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        ("https://otel.example.com/in/v1/traces", "https://otel.example.com/in/v1/traces"),
        ("", ""),
    ],
)
def test_where_traces_go(given: str, url: str) -> None:
    assert traces_url(given) == url


def test_without_the_library_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that was told to trace does not go on without."""
    for name in [name for name in sys.modules if name.startswith("jobrunner.telemetry.exp")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(Misconfigured, match="pip install") as told:
        open_telemetry("1", "http://127.0.0.1:4318", {})
    assert "telemetry.otlp_endpoint" in str(told.value)
