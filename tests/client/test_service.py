"""Both clients against a running service."""

import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from jobrunner.client import (
    AsyncClient,
    Client,
    InConflict,
    InvalidRequest,
    NotPermitted,
    NotThere,
    RetryLimits,
    TryLater,
    records,
)
from jobrunner.client.place import place_of
from jobrunner.errors import Misconfigured, Refused
from tests.served import Served, clean, serving

ONCE = RetryLimits(tries=1)


def test_a_job_from_its_submission_to_its_result(client: Any) -> None:
    job = client.submit("hello", {"name": "Ada"}, labels={"a": "b"}, priority=3)
    done = client.wait(job.id)
    assert (done.ended, done.succeeded, done.status) == (True, True, "greeted")
    assert done.result == {"greeting": "Hello, Ada!"}
    assert (done.labels, done.priority, done.params) == ({"a": "b"}, 3, {"name": "Ada"})
    assert done.created_at < done.completed_at
    assert done.said["job_id"] == job.id
    assert [hop.to_status for hop in client.history(job.id)] == ["queued", "greeting", "greeted"]
    assert [one.outcome for one in client.attempts(job.id)] == ["done"]
    again = client.rerun(job.id)
    assert again.forked_from == job.id
    assert client.wait(again.id).ended
    client.delete_job(job.id)
    with pytest.raises(NotThere):
        client.job(job.id)


def test_a_wait_ends_with_the_time(client: Any) -> None:
    job = client.submit("howera")
    found = client.wait(job.id, timeout_s=0.2)
    assert not found.ended
    assert client.changed(found, wait_s=0.1) == found
    moved = client.cancel(job.id, reason="enough")
    assert client.changed(found, wait_s=30).version == moved.version
    assert client.wait(job.id).ended_as == "canceled"


def test_a_key_leads_to_the_same_job(client: Any) -> None:
    first = client.submit("hello", key=f"key-{id(client)}")
    second = client.submit("hello", key=f"key-{id(client)}")
    assert (second.id, second.replayed, first.replayed) == (first.id, True, False)
    assert client.submit("hello").id != client.submit("hello").id


def test_of_a_singletons_key_one_is_open(client: Any) -> None:
    wish = {"key": f"one-{id(client)}", "mode": "first"}
    first = client.submit("howera", singleton=wish)
    assert client.submit("howera", singleton=wish).id == first.id
    newer = client.submit("howera", singleton=wish | {"mode": "replace"})
    assert client.job(first.id).ended_as == "canceled"
    client.cancel(newer.id)


def test_refusals_are_errors_by_who_must_act(client: Any, served: Served, kind: Any) -> None:
    with pytest.raises(InvalidRequest) as malformed:
        client.submit("hello", {"name": 7})
    assert malformed.value.code == "INVALID_PARAMS"
    assert malformed.value.extra["errors"][0]["path"] == "$.params.name"
    assert "$.params.name: " in malformed.value.detail
    with pytest.raises(InvalidRequest, match="UNKNOWN_WORKFLOW"):
        client.submit("nothing")
    ended = client.submit("hello", wait_s=20)
    with pytest.raises(NotThere) as missing:
        client.command(ended.id, "nothing")
    assert missing.value.code == "UNKNOWN_COMMAND"
    assert missing.value.correlation_id
    with pytest.raises(InConflict, match="TERMINAL_STATE"):
        client.pause(ended.id)
    with kind(served.url, "jr_guessed", limits=ONCE) as stranger, pytest.raises(NotPermitted):
        stranger.job(ended.id)
    assert all(issubclass(one, Refused) for one in (InvalidRequest, NotThere, TryLater))


def test_rows_come_page_by_page(client: Any) -> None:
    label = {"page": str(id(client))}
    made = [client.submit("howera", labels=label).id for _ in range(5)]
    assert [job.id for job in client.jobs(labels=label, page=2)] == made[::-1]
    client.cancel(made[0])
    some = client.jobs(labels=label, order="oldest", include="params", status=["CANCELLED", "X"])
    assert [(job.id, job.params is None) for job in some] == [(made[0], False)]


def test_commands_pauses_and_artifacts(client: Any) -> None:
    job = client.submit("howera")
    assert client.pause(job.id, reason="wait").paused.reason == "wait"
    assert client.resume(job.id).paused is None
    assert client.explain(job.id)
    with pytest.raises(NotThere):
        client.artifact(job.id, "draft")
    assert client.command(job.id, "cancel", fields={}, reason="no").status == "CANCELLED"


def test_files_there_and_back(client: Any) -> None:
    file = client.upload_at_once(b"some bytes", name="a.txt")
    assert client.file(file.id) == file
    into = io.BytesIO()
    assert client.download(file.id, into) == 10
    assert into.getvalue() == b"some bytes"
    rest = io.BytesIO(b"some ")
    rest.seek(0, 2)
    assert client.download(file.id, rest, start=5) == 10
    assert rest.getvalue() == b"some bytes"
    assert file.id in [one.id for one in client.files()]
    client.delete_file(file.id)
    with pytest.raises(NotThere):
        client.download(file.id, into)


def test_a_file_for_a_job(client: Any) -> None:
    job = client.submit("howera")
    film = client.upload(b"film" * 1000, name="film.mp4", job_id=job.id)
    assert (film.job_id, film.file_size) == (job.id, 4000)
    assert [one.id for one in client.files(job.id)] == [film.id]
    moved = client.upload_for(client.submit("howera").id, b"film", name="film.mp4")
    assert (moved.status, moved.said["status"], moved.etag) == (
        "UPLOADING",
        "UPLOADING",
        f'"{moved.version}"',
    )
    with pytest.raises(NotThere, match="UNKNOWN_UPLOAD"):
        client.upload_for(moved.id, b"film", slot="audio")


def test_credits(client: Any, served: Served) -> None:
    name = f"user-{id(client)}"
    made = client.ask("POST", "/admin/tokens", body={"name": name, "role": "user"})
    assert made.status == 201
    before = client.credits(name).balance
    assert client.grant(name, 5, "gift", key="once").balance == before + 5
    assert client.grant(name, 5, "gift", key="once").balance == before + 5
    with pytest.raises(InConflict, match="IDEMPOTENCY_MISMATCH"):
        client.grant(name, 6, "gift", key="once")
    assert next(row.amount for row in client.ledger(name)) == 5


def test_upgrades(client: Any) -> None:
    (today,) = [one for one in client.declarations() if one.workflow == "hello"]
    assert (today.today, today.version, today.lacks) == (True, "1", [])
    tried = client.migrate("hello", dry_run=True, reason="to see")
    assert (tried.ended, tried.moved, tried.stays, tried.reason) == (True, 0, [], "to see")
    moved = client.migrate("hello", timeout_s=60)
    assert (moved.digest, moved.dry_run) == (today.digest, False)
    assert [one.id for one in client.upgrades()][:2] == [moved.id, tried.id]
    assert client.upgrade(moved.id, wait_s=1) == moved
    assert client.abort_upgrade(moved.id).status == "done"
    with pytest.raises(NotThere):
        client.migrate("nobodys")


def test_schedules(client: Any) -> None:
    name = f"nightly-{id(client)}"
    made = client.keep_schedule(
        name, "hello", "ann", cron="30 2 * * *", zone="Europe/Berlin", overlap="allow", catch_up=60
    )
    assert (made.cron, made.catch_up, made.state, made.owner) == (
        "30 2 * * *",
        60,
        "active",
        "http",
    )
    assert name in [one.name for one in client.schedules()]
    assert [one.local[11:16] for one in client.schedule(name, next_times=3).next] == ["02:30"] * 3
    first = client.trigger_schedule(name, key="k")
    assert client.trigger_schedule(name, key="k").job_id == first.job_id
    (job,) = client.jobs(schedule=name)
    assert (job.id, job.schedule.name) == (first.job_id, name)
    said = {"text": "worl", "params": {"name": "world"}, "schedule": name}
    assert [one.id for one in client.jobs(**said)] == [job.id]
    assert list(client.jobs(text="nobody says this")) == []
    since, until = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 4, tzinfo=UTC)
    assert client.backfill_schedule(name, since, until, dry_run=True).total == 3
    assert [client.backfill_schedule(name, since, until).fired for _ in range(2)] == [3, 0]
    assert [one.outcome for one in client.firings(name)] == ["fired"] * 4
    assert client.pause_schedule(name, reason="tea").paused.reason == "tea"
    assert client.resume_schedule(name).paused is None
    client.remove_schedule(name)
    with pytest.raises(NotThere):
        client.schedule(name)


def test_workflows(client: Any) -> None:
    assert "hello" in [one.name for one in client.workflows()]
    assert client.workflow("hello")["states"]


def test_too_many_requests_are_sent_again_when_the_service_says(tmp_path: Path, kind: Any) -> None:
    limits = {
        "JOBRUNNER_LIMITS__REQUESTS_PER_SECOND": "1",
        "JOBRUNNER_LIMITS__BURST": "1",
    }
    with serving(tmp_path, **limits) as served:
        with kind(served.url, served.token, limits=ONCE) as hasty:
            hasty.workflows()
            with pytest.raises(TryLater) as refused:
                [hasty.workflows() for _ in range(3)]
        assert refused.value.code == "RATE_LIMITED"
        assert refused.value.retry_after_s >= 1
        with kind(served.url, served.token) as patient:
            assert [len(patient.workflows()) > 0 for _ in range(3)] == [True] * 3
    told = [line.get("error_code") for line in served.log()]
    assert told.count("RATE_LIMITED") >= 2


# ---------------------------------------------------------------- the client as it is offered


def test_both_clients_have_the_same_methods() -> None:
    def offered(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert offered(Client) == offered(AsyncClient)


SHOWN = {
    "ArtifactRecord": "ArtifactValue",
    "AttemptRecord": "AttemptEntry",
    "BackfillRecord": "BackfillView",
    "BackfilledRecord": "BackfilledMoment",
    "CreditsRecord": "Credits",
    "CreditsOfJob": "JobCredits",
    "FileRecord": "AssetEntry",
    "FiringRecord": "FiringView",
    "HopRecord": "HistoryEntry",
    "JobRecord": "Job",
    "LedgerRecord": "LedgerEntry",
    "MomentRecord": "NextMoment",
    "MoveRecord": "TransitionEvent",
    "NextSteps": "AllowedNext",
    "PauseRecord": "HeldBack",
    "ScheduleOfJob": "ScheduleOf",
    "ScheduleRecord": "ShownSchedule",
    "StuckRecord": "Stuck",
    "TriggerRecord": "Triggered",
    "VersionRecord": "ArtifactVersion",
    "WorkflowRecord": "WorkflowEntry",
}
OURS = {"JobRecord": {"etag", "said"}}
LEFT_OUT = {"JobRecord": {"job_id"}}  # id once more


@pytest.mark.parametrize("name", SHOWN)
def test_records_have_what_the_service_documents(name: str, client: Client) -> None:
    document = client.ask("GET", "/openapi.json").body
    schemas = json.loads(document)["components"]["schemas"]
    shown = set(schemas[SHOWN[name]]["properties"]) - LEFT_OUT.get(name, set())
    assert {one.name for one in fields(getattr(records, name))} - OURS.get(name, set()) == shown


def test_the_library_for_loops_is_loaded_when_it_is_used() -> None:
    asked = "import sys, jobrunner.client; print('aiohttp' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, env=clean(), text=True, check=True
    )
    assert said.stdout.strip() == "False"


def test_the_environment_says_where_and_who(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBRUNNER_URL", served.url)
    monkeypatch.setenv("JOBRUNNER_TOKEN", served.token)
    with Client() as client:
        assert client.workflows()


@pytest.mark.parametrize(
    "url", ["ftp://a.invalid", "127.0.0.1:80", "http://a.invalid:x", "http://"]
)
def test_what_is_no_address_is_said_so(url: str) -> None:
    with pytest.raises(Misconfigured, match="no address"):
        place_of(url, None, {})


def test_a_service_below_a_path() -> None:
    place = place_of("https://jobs.example.invalid/runner/", "t", {})
    assert (place.tls, place.port, place.prefix) == (True, 443, "/runner")
    assert place.headers == {"Authorization": "Bearer t"}
