"""The howera lifecycle: events, the editor, exporting."""

from typing import Any

import pytest

from jobrunner.check.checking import check
from jobrunner.core.decision import Decision
from jobrunner.core.messages import Edit
from tests.driving import ADA, World, bound, code, varied
from tests.plugins.howera_arranged import (
    AT_REST,
    AUTO_EDIT,
    ILLEGAL,
    REPORTS,
    STATUSES,
    TIMEOUT,
    a_file,
    answer,
    at,
    audio_extracting,
    definition,
    editing,
    exporting,
    generating,
    refused,
    regenerating,
)


@pytest.fixture
def world() -> World:
    return World(definition)


def test_event_has_one_effect(world: World) -> None:
    """H10-H13 H64: the same event again is answered with what is true now, and writes nothing."""
    job_id = audio_extracting(world)
    at_ms = world.now
    world.callback(job_id, "e1", "AUDIO_READY", at=at_ms, artifacts={"audio_uri": "a"})
    world.callback(job_id, "e2", "TRANSCRIBING", at=at_ms)
    job = world.jobs[job_id]
    said = world.callback(job_id, "e1", "AUDIO_READY", at=at_ms, artifacts={"audio_uri": "a"})
    assert code(said) == "event_replayed"
    assert answer(said) == {
        "job_id": job_id,
        "event_id": "e1",
        "replayed": True,
        "current_status": "TRANSCRIBING",
        "latest_applied_occurred_at": at_ms,
    }
    assert world.jobs[job_id] is job


def test_event_that_says_other_things(world: World) -> None:
    """H12 H-r4"""
    job_id = audio_extracting(world)
    world.callback(job_id, "e1", "AUDIO_EXTRACTING", at=world.now)
    said = refused(world.callback(job_id, "e1", "AUDIO_READY", at=world.now))
    assert (said.code, said.status) == ("EVENT_ID_PAYLOAD_MISMATCH", 409)
    assert said.extra["event_id"] == "e1"


def test_event_ids_belong_to_a_job(world: World) -> None:
    """H14"""
    for job_id in (audio_extracting(world), audio_extracting(world)):
        assert code(world.callback(job_id, "e1", "AUDIO_READY")) == "moved"


def test_refused_event_is_not_remembered(world: World) -> None:
    """H20 H-r27: it may come again when its time has come, and nothing of it was merged."""
    job_id = audio_extracting(world)
    when = world.now + 1_000
    said = world.callback(job_id, "e1", "TRANSCRIBING", at=when, artifacts={"metrics": 1})
    assert code(said) == ILLEGAL
    assert world.jobs[job_id].value("metrics") is None
    world.callback(job_id, "e2", "AUDIO_READY", at=when)
    assert code(world.callback(job_id, "e1", "TRANSCRIBING", at=when)) == "moved"


def test_order_of_events(world: World) -> None:
    """H-r7: older than the last accepted is refused, equal passes."""
    job_id = audio_extracting(world)
    when = world.now
    world.callback(job_id, "e1", "AUDIO_READY", at=when)
    said = refused(world.callback(job_id, "e2", "TRANSCRIBING", at=when - 1))
    assert said.code == "CALLBACK_OUT_OF_ORDER"
    assert said.extra["latest_applied_occurred_at"] == when
    assert code(world.callback(job_id, "e2", "TRANSCRIBING", at=when)) == "moved"


def test_replay_of_the_event_that_ended_the_job(world: World) -> None:
    """H12 H-r6: answered as a replay, not as a final state."""
    job_id = exporting(world)
    when = world.now
    world.callback(job_id, "e1", "DONE", at=when, **REPORTS["DONE"])
    assert code(world.callback(job_id, "e1", "DONE", at=when, **REPORTS["DONE"])) == (
        "event_replayed"
    )


@pytest.mark.parametrize("how", ["callback", "stage"])
def test_editor_that_opens_by_itself(how: str) -> None:
    """H27: with the setting, the draft's arrival and the editor's opening are one commit."""
    here = varied(definition if how == "callback" else bound(definition), settings=AUTO_EDIT)
    assert check(here) == ()
    world = World(definition)
    job_id = generating(world)
    world.definition = here
    if how == "callback":
        said = world.callback(job_id, "e1", "DRAFT_READY")
    else:
        world.fire(job_id, "deadline")
        world.fire(job_id, "backoff")
        world.start(job_id)
        said = world.ended(job_id, "done", **a_file("draft"))
    assert isinstance(said, Decision)
    assert [hop.to_status for hop in said.hops] == ["DRAFT_READY", "EDITING"]
    assert world.jobs[job_id].live is False


@pytest.mark.parametrize("status", STATUSES)
def test_saving_a_draft(world: World, status: str) -> None:
    """H27 H29 H-r24: the first save opens the editor; it stays usable while a part is written
    anew; elsewhere the draft is locked."""
    before = at(world, status)
    said = world.tell(before.id, Edit(ADA, "draft", "# Mine"))
    job = world.jobs[before.id]
    if status not in ("DRAFT_READY", "EDITING", "REGENERATING"):
        assert code(said) == "JOB_LOCKED"
        assert job is before
        return
    assert job.status == ("EDITING" if status == "DRAFT_READY" else status)
    assert job.version == before.version + 1
    assert (job.value("draft"), job.artifacts["draft"].version) == ("# Mine", 2)
    assert job.value("draft_uri") == f"/jobs/{job.id}/artifacts/draft?version=2"


def test_saving_over_another_draft(world: World) -> None:
    """H43 H44: the older save loses, and is told what is current."""
    job_id = editing(world)
    assert code(world.tell(job_id, Edit(ADA, "draft", "two", base_version=1))) == "noted"
    said = refused(world.tell(job_id, Edit(ADA, "draft", "also two", base_version=1)))
    assert (said.code, said.status) == ("ARTIFACT_VERSION_CONFLICT", 409)
    assert said.extra == {"name": "draft", "base_version": 1, "current_version": 2}


def test_regenerating(world: World) -> None:
    """H28 H54 H55: the task is the run; a second one is refused with the first one's id."""
    job_id = editing(world)
    said = world.do(job_id, "regenerate", instruction="shorter", selection={"block": 2})
    job = world.jobs[job_id]
    task = answer(said)["task_id"]
    assert task == job.run_id == answer(said)["run_id"]
    assert job.value("regenerate_request") == {
        "task_id": task,
        "base_version": 1,
        "instruction": "shorter",
        "selection": {"block": 2},
    }
    other = refused(world.do(job_id, "regenerate", instruction="longer"))
    assert (other.code, other.status) == ("REGENERATE_IN_PROGRESS", 409)
    assert other.extra["active_task_id"] == task
    assert world.jobs[job_id] is job


def test_regenerate_by_its_request_id(world: World) -> None:
    """H25 H55: the same id is the same task, while it runs and after; a new one is a new task."""
    job_id = editing(world)
    wish: dict[str, Any] = {"instruction": "shorter", "base_version": 1, "client_request_id": "r1"}
    task = answer(world.do(job_id, "regenerate", **wish))["task_id"]
    said = world.do(job_id, "regenerate", **wish)
    assert answer(said) == {"replayed": True, "task_id": task, "run_id": task}
    world.callback(job_id, "e1", "EDITING", artifacts={"draft": "# Two"})
    job = world.jobs[job_id]
    assert answer(world.do(job_id, "regenerate", **wish))["task_id"] == task
    changed = world.do(job_id, "regenerate", **{**wish, "instruction": "longer"})
    assert answer(changed)["idempotency_mismatch"] is True
    assert world.jobs[job_id] is job
    fresh: dict[str, Any] = {"client_request_id": "r2", "base_version": 2}
    assert answer(world.do(job_id, "regenerate", **fresh))["task_id"] != task


def test_request_ids_are_bounded(world: World) -> None:
    """The latest fifty are remembered."""
    job_id = editing(world)
    for count in range(60):
        world.do(job_id, "regenerate", client_request_id=f"r{count}")
        world.callback(job_id, f"e{count}", "EDITING")
    requests = world.jobs[job_id].marks["requests"]
    assert list(requests) == [f"r{count}" for count in range(10, 60)]


def test_regenerate_of_an_older_draft(world: World) -> None:
    """H54"""
    job_id = editing(world)
    world.tell(job_id, Edit(ADA, "draft", "two"))
    job = world.jobs[job_id]
    said = refused(world.do(job_id, "regenerate", base_version=1))
    assert (said.code, said.status) == ("ARTIFACT_VERSION_CONFLICT", 409)
    assert said.extra == {"name": "draft", "base_version": 1, "current_version": 2}
    assert world.jobs[job_id] is job


def test_regenerated_draft_is_stored(world: World) -> None:
    """H30: back to the editor with a new version, whose address is renewed."""
    job_id = regenerating(world)
    world.callback(job_id, "e1", "EDITING", artifacts={"draft": "# Two"})
    job = world.jobs[job_id]
    assert (job.status, job.value("draft"), job.locks) == ("EDITING", "# Two", ())
    assert job.value("draft_uri").endswith("?version=2")


def test_regenerate_does_not_overwrite_people(world: World) -> None:
    """H29 H30: saved meanwhile, the person's text stays; the job comes back all the same."""
    job_id = regenerating(world)
    world.tell(job_id, Edit(ADA, "draft", "# Mine"))
    report = {"draft": "# Machine", "draft_uri": "s3://machine", "metrics": {"tokens": 7}}
    assert code(world.callback(job_id, "e1", "EDITING", artifacts=report)) == "moved"
    job = world.jobs[job_id]
    assert (job.status, job.value("draft")) == ("EDITING", "# Mine")
    assert job.value("draft_uri").endswith("?version=2")
    assert job.value("metrics") == {"tokens": 7}


def test_regenerate_of_an_orchestrator_has_no_base(world: World) -> None:
    """H30: begun by a callback, it brings what it brings, whatever was asked for earlier."""
    job_id = regenerating(world)
    world.callback(job_id, "e1", "EDITING")
    world.tell(job_id, Edit(ADA, "draft", "# Mine"))
    world.callback(job_id, "e2", "REGENERATING")
    world.callback(job_id, "e3", "EDITING", artifacts={"draft": "# Machine"})
    assert world.jobs[job_id].value("draft") == "# Machine"


@pytest.mark.parametrize(
    ("status", "command"), [("REGENERATING", "regenerate"), ("EXPORTING", "export")]
)
def test_failed_work_of_the_editor_leads_back(status: str, command: str) -> None:
    """H30 H32: three tries without a row in the history, then EDITING; the failure stays in its
    attempt and the job carries none."""
    world = World(definition)
    job_id = editing(world)
    world.definition = bound(definition)
    world.do(job_id, command, format="PDF")
    hops = len(world.hops)
    for _ in range(2):
        world.start(job_id)
        world.ended(job_id, "failed", TIMEOUT)
        assert world.jobs[job_id].status == status
        world.fire(job_id, "backoff")
    world.start(job_id)
    said = world.ended(job_id, "failed", TIMEOUT)
    assert isinstance(said, Decision)
    job = world.jobs[job_id]
    assert (job.status, job.failure_code, job.locks) == ("EDITING", None, ())
    assert len(world.hops) == hops + 1
    assert [one.failure.code for one in said.attempts if one.failure] == ["STAGE_TIMEOUT"]


@pytest.mark.parametrize("status", ["REGENERATING", "EXPORTING"])
def test_lost_work_of_the_editor_leads_back(world: World, status: str) -> None:
    """H30 H32: nobody outside says a word in time."""
    job_id = AT_REST[status](world)
    world.fire(job_id, "deadline")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code, job.locks) == ("EDITING", None, ())


def test_export_is_recognised(world: World) -> None:
    """H31 H53: the same one again is the same run; another one has to wait."""
    job_id = editing(world)
    run_id = answer(world.do(job_id, "export", format="PDF", version=1))["run_id"]
    job = world.jobs[job_id]
    again = world.do(job_id, "export", format="PDF", version=1)
    assert answer(again) == {"replayed": True, "run_id": run_id}
    for fields in ({"format": "MD_ZIP", "version": 1}, {"format": "PDF"}):
        said = refused(world.do(job_id, "export", **fields))
        assert (said.code, said.extra["run_id"]) == ("JOB_ALREADY_RUNNING", run_id)
    assert world.jobs[job_id] is job


def test_export_of_an_earlier_run_is_not_this_one(world: World) -> None:
    """H31: one that an orchestrator began is nobody's repeat."""
    job_id = exporting(world)
    world.callback(job_id, "e1", "EDITING")
    world.callback(job_id, "e2", "EXPORTING")
    assert code(world.do(job_id, "export", format="PDF")) == "JOB_ALREADY_RUNNING"


def test_export_of_a_version_that_is_not_there(world: World) -> None:
    """H31"""
    job = at(world, "EDITING")
    said = refused(world.do(job.id, "export", format="PDF", version=2))
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)
    assert world.jobs[job.id] is job


def test_done_needs_its_export(world: World) -> None:
    """H7 H31: an address in this report, or stored since the export began; none from before."""
    job_id = exporting(world)
    before = world.jobs[job_id]
    for said in (world.callback(job_id, "e1", "DONE"), world.move(job_id, "DONE")):
        assert (refused(said).code, refused(said).status) == ("EXPORT_NOT_READY", 409)
    assert world.jobs[job_id] is before
    world.callback(job_id, "e1", "EDITING", artifacts={"export_uri": "s3://half"})
    world.do(job_id, "export", format="PDF")
    assert code(world.callback(job_id, "e2", "DONE")) == "EXPORT_NOT_READY"
    said = world.callback(job_id, "e2", "DONE", artifacts={"export_uri": "s3://half"})
    assert code(said) == "moved"
    assert world.jobs[job_id].progress == 100


NO_ADDRESS: tuple[Any, ...] = ("", "  ", 0, 42, [], {}, False, ["s3://e"], {"uri": "s3://e"})


@pytest.mark.parametrize("address", [None, *NO_ADDRESS])
def test_done_needs_an_address(world: World, address: Any) -> None:
    """H7 H31: what is no address counts as none, also beside an export that was made before."""
    job_id = exporting(world)
    world.callback(job_id, "e1", "EDITING", artifacts={"export_uri": "s3://half"})
    world.do(job_id, "export", format="PDF")
    before = world.jobs[job_id]
    said = world.callback(job_id, "e2", "DONE", artifacts={"export_uri": address})
    assert (refused(said).code, refused(said).status) == ("EXPORT_NOT_READY", 409)
    assert world.jobs[job_id] is before


@pytest.mark.parametrize("address", NO_ADDRESS)
@pytest.mark.parametrize("name", ["video_uri", "audio_uri", "transcript_uri", "draft_uri"])
def test_address_has_the_form_of_one(world: World, name: str, address: Any) -> None:
    """H14: said of the field; and a known event is told before anybody looks."""
    job = at(world, "UPLOADING")
    said = refused(world.callback(job.id, "e1", "UPLOADED", artifacts={name: address}))
    assert (said.code, said.status) == ("VALIDATION_ERROR", 400)
    assert said.extra["errors"][0]["path"] == f"$.artifact_updates.{name}"
    assert world.jobs[job.id] is job
    assert code(world.callback(job.id, "e1", "UPLOADED")) == "moved"
    said = refused(world.callback(job.id, "e1", "UPLOADED", artifacts={name: address}))
    assert said.code == "EVENT_ID_PAYLOAD_MISMATCH"


@pytest.mark.parametrize("name", ["regenerate_request", "export_request"])
def test_orders_are_the_commands(world: World, name: str) -> None:
    """H28 H31: what was ordered is not exchanged by whoever carries it out."""
    job = at(world, "EXPORTING")
    order = {"format": "MD_ZIP", "version": 1, "run_id": job.run_id}
    said = world.callback(job.id, "e1", "EDITING", artifacts={name: order})
    assert code(said) == "VALIDATION_ERROR"
    assert world.jobs[job.id] is job


def test_stage_that_hands_over_no_address() -> None:
    """H7: an attempt of ours whose word has the wrong form failed, and says what was wrong."""
    world = World(definition)
    job_id = editing(world)
    world.definition = bound(definition)
    world.do(job_id, "export", format="PDF")
    world.start(job_id)
    world.ended(job_id, "done", artifacts={"export_uri": 42})
    job, tried = world.jobs[job_id], world.tried(job_id)[-1]
    assert (job.status, job.value("export_uri")) == ("EDITING", None)
    assert tried.failure is not None
    assert tried.failure.code == "STAGE_CRASHED"
    assert "export_uri: 42 is not a string" in tried.failure.message


@pytest.mark.parametrize("draft", ["", [], 0, False])
def test_saved_draft_says_something(world: World, draft: Any) -> None:
    """H29: a person cannot save what nobody could export."""
    for status in ("DRAFT_READY", "EDITING", "REGENERATING"):
        job = at(world, status)
        assert code(world.tell(job.id, Edit(ADA, "draft", draft))) == "VALIDATION_ERROR"
        assert world.jobs[job.id] is job


@pytest.mark.parametrize("command", ["regenerate", "export"])
def test_editor_comes_first(world: World, command: str) -> None:
    """H-r25: from DRAFT_READY neither is possible."""
    job = at(world, "DRAFT_READY")
    said = refused(world.do(job.id, command, format="PDF"))
    assert (said.code, said.status) == ("ILLEGAL_TRANSITION", 409)
