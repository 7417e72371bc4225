"""The howera lifecycle, shown in the pure core: no clock, no store, no HTTP."""

from typing import Any

import msgspec
import pytest
from jobrunner_howera import definition as shipped
from jobrunner_howera.params import ConfirmUpload, Export, Fail, Nothing, Regenerate
from msgspec.structs import replace

from jobrunner.check.checking import check
from jobrunner.core.decision import Decision, NoOp, StopStage
from jobrunner.core.declaration.workflow import Definition
from jobrunner.core.job import Actor, Asset, Failure, Snapshot
from jobrunner.core.messages import Do, Edit, Ended, Fired, Recovered, Report
from jobrunner.errors import Refused
from tests.driving import ADA, ADMIN, EVE, WORKER, Arrange, World, bound, code, outside, varied

definition = outside(shipped)

STATUSES = (
    "CREATED",
    "UPLOADING",
    "UPLOADED",
    "AUDIO_EXTRACTING",
    "AUDIO_READY",
    "TRANSCRIBING",
    "TRANSCRIPT_READY",
    "GENERATING",
    "DRAFT_READY",
    "EDITING",
    "REGENERATING",
    "EXPORTING",
    "DONE",
    "FAILED",
    "CANCELLED",
)
FINAL = ("DONE", "FAILED", "CANCELLED")
OPEN = STATUSES[:12]
RETRYABLE = ("AUDIO_EXTRACTING", "TRANSCRIBING", "GENERATING")
NAMED = {
    "CREATED": ("UPLOADING", "UPLOADED"),
    "UPLOADING": ("UPLOADED",),
    "UPLOADED": ("AUDIO_EXTRACTING",),
    "AUDIO_EXTRACTING": ("AUDIO_EXTRACTING", "AUDIO_READY"),
    "AUDIO_READY": ("TRANSCRIBING",),
    "TRANSCRIBING": ("TRANSCRIBING", "TRANSCRIPT_READY"),
    "TRANSCRIPT_READY": ("GENERATING",),
    "GENERATING": ("GENERATING", "DRAFT_READY"),
    "DRAFT_READY": ("EDITING",),
    "EDITING": ("REGENERATING", "EXPORTING"),
    "REGENERATING": ("EDITING",),
    "EXPORTING": ("DONE", "EDITING"),
}
MOVES = {(a, b) for a, targets in NAMED.items() for b in (*targets, "CANCELLED", "FAILED")}

VIDEO = "s3://videos/one.mp4"
WHY: dict[str, Any] = {
    "failure_code": "BAD_CODEC",
    "failure_message": "the video cannot be read",
    "failed_stage": "AUDIO_EXTRACTING",
}
REPORTS: dict[str, dict[str, Any]] = {
    "DONE": {"artifacts": {"export_uri": "s3://exports/one.pdf"}},
    "FAILED": WHY,
}
AUTO_EDIT = {"auto_edit": True}
TIMEOUT = Failure("STAGE_TIMEOUT", "it took too long")
BAD_CODEC = Failure("BAD_CODEC", "the video cannot be read", retryable=False)


def created(world: World) -> str:
    return world.born()


def uploading(world: World) -> str:
    job_id = created(world)
    world.do(job_id, "start-upload")
    return job_id


def uploaded(world: World) -> str:
    job_id = created(world)
    assert code(world.do(job_id, "confirm-upload", video_uri=VIDEO)) == "moved"
    return job_id


def audio_extracting(world: World) -> str:
    job_id = uploaded(world)
    assert code(world.do(job_id, "run")) == "moved"
    return job_id


def on(world: World, job_id: str, *path: str) -> str:
    """An orchestrator takes the job along, saying what each stage made."""
    made = {
        "AUDIO_READY": {"audio_uri": "s3://audio/one"},
        "TRANSCRIPT_READY": {"transcript_uri": "s3://text/one"},
        "DRAFT_READY": {"draft_uri": "s3://draft/one", "draft": "# One"},
    }
    for status in path:
        event = f"{status}-{world.count}"
        assert code(world.callback(job_id, event, status, artifacts=made.get(status, {}))) == (
            "moved"
        )
    return job_id


def audio_ready(world: World) -> str:
    return on(world, audio_extracting(world), "AUDIO_READY")


def transcribing(world: World) -> str:
    return on(world, audio_ready(world), "TRANSCRIBING")


def transcript_ready(world: World) -> str:
    return on(world, transcribing(world), "TRANSCRIPT_READY")


def generating(world: World) -> str:
    return on(world, transcript_ready(world), "GENERATING")


def draft_ready(world: World) -> str:
    return on(world, generating(world), "DRAFT_READY")


def editing(world: World) -> str:
    job_id = draft_ready(world)
    assert code(world.do(job_id, "edit")) == "moved"
    return job_id


def regenerating(world: World) -> str:
    job_id = editing(world)
    assert code(world.do(job_id, "regenerate", client_request_id="r1")) == "moved"
    return job_id


def exporting(world: World) -> str:
    job_id = editing(world)
    assert code(world.do(job_id, "export", format="PDF")) == "moved"
    return job_id


def done(world: World) -> str:
    job_id = exporting(world)
    world.callback(job_id, "done", "DONE", **REPORTS["DONE"])
    return job_id


def failed(world: World) -> str:
    job_id = audio_extracting(world)
    world.callback(job_id, "failed", "FAILED", **WHY)
    return job_id


def cancelled(world: World) -> str:
    job_id = uploaded(world)
    world.do(job_id, "cancel")
    return job_id


AT_REST: dict[str, Arrange] = {
    "CREATED": created,
    "UPLOADING": uploading,
    "UPLOADED": uploaded,
    "AUDIO_EXTRACTING": audio_extracting,
    "AUDIO_READY": audio_ready,
    "TRANSCRIBING": transcribing,
    "TRANSCRIPT_READY": transcript_ready,
    "GENERATING": generating,
    "DRAFT_READY": draft_ready,
    "EDITING": editing,
    "REGENERATING": regenerating,
    "EXPORTING": exporting,
    "DONE": done,
    "FAILED": failed,
    "CANCELLED": cancelled,
}
BY_CALLBACK: dict[str, tuple[str, ...]] = {
    "AUDIO_EXTRACTING": ("UPLOADED", "AUDIO_EXTRACTING"),
    "AUDIO_READY": ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY"),
    "TRANSCRIBING": ("UPLOADED", "AUDIO_EXTRACTING", "AUDIO_READY", "TRANSCRIBING"),
}


@pytest.fixture
def world() -> World:
    return World(definition)


def at(world: World, status: str) -> Snapshot:
    """A job that stands there."""
    job = world.jobs[AT_REST[status](world)]
    assert job.status == status
    return job


def refused(said: Any) -> Refused:
    assert isinstance(said, Refused), said
    return said


def answer(said: Any) -> dict[str, Any]:
    assert isinstance(said, Decision | NoOp), said
    return said.answer


# ---------------------------------------------------------------- the table


def test_declaration_is_sound() -> None:
    assert check(definition) == ()
    assert check(bound(definition)) == ()


def test_states_are_the_fifteen(world: World) -> None:
    """H2 H3 H8: fifteen, three of them final, and a job begins in the first."""
    assert tuple(definition.states) == STATUSES
    assert tuple(name for name, one in definition.states.items() if one.kind == "final") == FINAL
    assert world.jobs[created(world)].status == "CREATED"


def test_pairs_are_forty_two() -> None:
    """H17 H20: what the table lists is what the sheet lists."""
    listed = {(source, target) for source, row in definition.table.items() for target in row}
    assert listed == MOVES
    assert len(listed) == 42


TRIGGERS = {
    ("AUDIO_READY", "TRANSCRIBING"): "EUW",
    ("TRANSCRIPT_READY", "GENERATING"): "EUW",
    ("DRAFT_READY", "EDITING"): "EUW",
    ("AUDIO_EXTRACTING", "AUDIO_READY"): "SW",
    ("TRANSCRIBING", "TRANSCRIPT_READY"): "SW",
    ("GENERATING", "DRAFT_READY"): "SW",
    ("EXPORTING", "DONE"): "SW",
    ("REGENERATING", "EDITING"): "ESTW",
    ("EXPORTING", "EDITING"): "ESTW",
    **{(status, status): "ESTW" for status in RETRYABLE},
    **{(status, "CANCELLED"): "TUW" for status in OPEN},
    **{(status, "FAILED"): "ESTW" for status in OPEN},
}


@pytest.mark.parametrize("pair", sorted(MOVES))
def test_triggers(pair: tuple[str, str]) -> None:
    """H9 H17 H36: who may take each edge, beside an operator's hand; an orchestrator takes all."""
    by = definition.table[pair[0]][pair[1]].by
    assert "".join(sorted(one[0].upper() for one in by)) == TRIGGERS.get(pair, "UW")


@pytest.mark.parametrize("how", ["hand", "callback"])
@pytest.mark.parametrize("to", STATUSES)
@pytest.mark.parametrize("status", STATUSES)
def test_pair(world: World, how: str, status: str, to: str) -> None:
    """H4 H17-H25 H30-H36 H61-H63: 39 pairs move, three re-enter, the other 183 are refused with
    both states named and nothing changed; by an operator's hand and by a callback alike."""
    before = at(world, status)
    seen = len(world.events)
    report = REPORTS.get(to, {})
    if how == "hand":
        said = world.move(before.id, to, ADMIN, **report)
    else:
        said = world.callback(before.id, "the-event", to, **report)
    job = world.jobs[before.id]
    if (status, to) in MOVES:
        assert (code(said), job.status, job.version) == ("moved", to, before.version + 1)
        assert world.path(job.id)[-1] == to
        return
    told = refused(said)
    assert (told.code, told.status) == (
        "TERMINAL_STATE" if status in FINAL else "ILLEGAL_TRANSITION",
        409,
    )
    assert told.extra["current_status"] == status
    assert told.extra["attempted_status"] == to
    assert told.extra["allowed_next_statuses"] == sorted(b for a, b in MOVES if a == status)
    assert job is before
    assert len(world.events) == seen


BY_OWNER = {
    ("CREATED", "UPLOADING"),
    ("CREATED", "UPLOADED"),
    ("UPLOADING", "UPLOADED"),
    ("UPLOADED", "AUDIO_EXTRACTING"),
    ("AUDIO_READY", "TRANSCRIBING"),
    ("TRANSCRIPT_READY", "GENERATING"),
    ("DRAFT_READY", "EDITING"),
    ("EDITING", "REGENERATING"),
    ("EDITING", "EXPORTING"),
} | {(status, "CANCELLED") for status in OPEN}


@pytest.mark.parametrize("pair", sorted(MOVES))
def test_what_an_owner_may_take(world: World, pair: tuple[str, str]) -> None:
    """H20 H36: an owner neither reports on stages nor fails a job."""
    before = at(world, pair[0])
    report = {"artifacts": {"video_uri": VIDEO}} if pair[1] == "UPLOADED" else {}
    said = world.move(before.id, pair[1], ADA, **(report or REPORTS.get(pair[1], {})))
    assert code(said) == ("moved" if pair in BY_OWNER else "FORBIDDEN")
    assert (world.jobs[before.id] is before) == (pair not in BY_OWNER)


@pytest.mark.parametrize("status", ["ARCHIVED", "RETRY_FROM_FAILED", "VALIDATING", "created"])
def test_unknown_statuses(world: World, status: str) -> None:
    """H66: not of this version, so not known, whatever the job."""
    for job_id in (created(world), failed(world)):
        said = refused(world.callback(job_id, "e1", status))
        assert (said.code, said.status) == ("VALIDATION_ERROR", 400)


@pytest.mark.parametrize("status", STATUSES)
def test_strangers_see_nothing(world: World, status: str) -> None:
    job = at(world, status)
    for command in definition.commands:
        said = refused(world.do(job.id, command, EVE, video_uri="x", format="PDF", **WHY))
        assert (said.code, said.status) == ("NOT_FOUND", 404)
    assert code(world.move(job.id, "CANCELLED", EVE)) == "NOT_FOUND"
    assert world.jobs[job.id] is job


# ---------------------------------------------------------------- commands from everywhere

ILLEGAL = "ILLEGAL_TRANSITION"
TERMINAL = "TERMINAL_STATE"
ENDED = dict.fromkeys(FINAL, TERMINAL)
FIELDS: dict[str, dict[str, Any]] = {
    "confirm-upload": {"video_uri": "s3://videos/other.mp4"},
    "export": {"format": "MD_ZIP"},
    "regenerate": {"client_request_id": "r2"},
    "fail": WHY,
}
CONFLICT = dict.fromkeys(STATUSES[2:], "VIDEO_URI_CONFLICT")
OUTCOMES: dict[str, dict[str, str]] = {
    "start-upload": {"CREATED": "UPLOADING", "UPLOADING": "satisfied", **ENDED},
    "confirm-upload": {"CREATED": "UPLOADED", "UPLOADING": "UPLOADED", **CONFLICT},
    "run": {
        "UPLOADED": "AUDIO_EXTRACTING",
        "AUDIO_EXTRACTING": "replayed",
        "AUDIO_READY": "replayed",
        "TRANSCRIBING": "replayed",
        "TRANSCRIPT_READY": "replayed",
        "GENERATING": "replayed",
        "DRAFT_READY": "EDITING",
        **ENDED,
    },
    "cancel": {**dict.fromkeys(OPEN, "CANCELLED"), **ENDED},
    "edit": {"DRAFT_READY": "EDITING", "EDITING": "satisfied", **ENDED},
    "regenerate": {
        "EDITING": "REGENERATING",
        "REGENERATING": "REGENERATE_IN_PROGRESS",
        **ENDED,
    },
    "export": {"EDITING": "EXPORTING", "EXPORTING": "JOB_ALREADY_RUNNING", **ENDED},
    "fail": {**dict.fromkeys(OPEN, "FAILED"), **ENDED},
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("command", OUTCOMES)
def test_command(world: World, command: str, status: str) -> None:
    """H26-H28 H31 H34 H42 H55 H63: what each command does from each state, and that a refused one
    changes nothing."""
    actor = ADMIN if command == "fail" else ADA
    expected = OUTCOMES[command].get(status, ILLEGAL)
    before = at(world, status)
    said = world.do(before.id, command, actor, **FIELDS.get(command, {}))
    job = world.jobs[before.id]
    if expected in STATUSES:
        assert (code(said), job.status) == ("moved", expected)
        assert job.version == before.version + 1
        return
    assert code(said) == expected
    assert job is before


@pytest.mark.parametrize("command", ["retry", "delete", "Run"])
def test_commands_that_are_not_there(world: World, command: str) -> None:
    """H21 H66: no retry, in particular none out of FAILED."""
    assert code(world.do(failed(world), command)) == "UNKNOWN_COMMAND"


@pytest.mark.parametrize(
    ("command", "actor", "status"),
    [
        ("fail", ADA, "EDITING"),
        ("fail", WORKER, "EDITING"),
        ("cancel", WORKER, "EDITING"),
        ("run", WORKER, "UPLOADED"),
        ("start-upload", ADMIN, "CREATED"),
        ("confirm-upload", ADMIN, "CREATED"),
        ("edit", ADMIN, "DRAFT_READY"),
        ("regenerate", ADMIN, "EDITING"),
        ("export", WORKER, "EDITING"),
    ],
)
def test_roles_of_commands(world: World, command: str, actor: Actor, status: str) -> None:
    job = at(world, status)
    assert code(world.do(job.id, command, actor, **FIELDS.get(command, {}))) == "FORBIDDEN"
    assert world.jobs[job.id] is job


@pytest.mark.parametrize(
    ("command", "status", "expected"),
    [
        ("start-upload", "CREATED", 200),
        ("confirm-upload", "CREATED", 200),
        ("run", "UPLOADED", 202),
        ("run", "DRAFT_READY", 200),
        ("cancel", "EDITING", 200),
        ("edit", "DRAFT_READY", 200),
        ("regenerate", "EDITING", 202),
        ("export", "EDITING", 202),
    ],
)
def test_status_of_success(world: World, command: str, status: str, expected: int) -> None:
    said = world.do(at(world, status).id, command, **FIELDS.get(command, {}))
    assert isinstance(said, Decision)
    assert said.status == expected
    assert said.answer["replayed"] is False


@pytest.mark.parametrize("command", OUTCOMES)
def test_stale_version_changes_nothing(world: World, command: str) -> None:
    """A caller that says what it saw is told when that is not so any more."""
    status = next(one for one, to in OUTCOMES[command].items() if to in STATUSES)
    job = at(world, status)
    actor = ADMIN if command == "fail" else ADA
    asked = Do(actor, command, FIELDS.get(command, {}), expected_version=99)
    said = refused(world.tell(job.id, asked))
    assert (said.code, said.extra["current_version"]) == ("JOB_VERSION_CONFLICT", job.version)
    assert world.jobs[job.id] is job
    assert code(world.tell(job.id, replace(asked, expected_version=job.version))) == "moved"


# ---------------------------------------------------------------- the video


@pytest.mark.parametrize("status", [one for one in STATUSES if one not in ("CREATED", "UPLOADING")])
def test_same_video_is_replayed_in_any_state(world: World, status: str) -> None:
    """H5: the repeat of a confirmation changes nothing; leaving the address out is one too."""
    job = at(world, status)
    for fields in ({"video_uri": VIDEO}, {"video_uri": None}):
        said = world.do(job.id, "confirm-upload", **fields)
        assert code(said) == "replayed"
        assert answer(said)["replayed"] is True
    assert world.jobs[job.id] is job


@pytest.mark.parametrize("status", ["UPLOADED", "EDITING", "DONE"])
def test_another_video_is_a_conflict(world: World, status: str) -> None:
    """H5: with both addresses, also after the end."""
    said = refused(world.do(at(world, status).id, "confirm-upload", video_uri="s3://other"))
    assert (said.code, said.status) == ("VIDEO_URI_CONFLICT", 409)
    assert said.extra == {"current_video_uri": VIDEO, "submitted_video_uri": "s3://other"}


@pytest.mark.parametrize(
    ("status", "to"),
    [
        ("UPLOADED", "AUDIO_EXTRACTING"),
        ("AUDIO_EXTRACTING", "AUDIO_EXTRACTING"),
        ("AUDIO_EXTRACTING", "AUDIO_READY"),
        ("DRAFT_READY", "EDITING"),
        ("EDITING", "CANCELLED"),
    ],
)
def test_another_video_by_callback(world: World, status: str, to: str) -> None:
    """H5 H27: both doors agree; the same address is no news."""
    job = at(world, status)
    said = world.callback(job.id, "e1", to, artifacts={"video_uri": "s3://other"})
    assert refused(said).code == "VIDEO_URI_CONFLICT"
    assert refused(said).extra["current_video_uri"] == VIDEO
    assert world.jobs[job.id] is job
    assert code(world.callback(job.id, "e1", to, artifacts={"video_uri": VIDEO})) == "moved"
    assert world.jobs[job.id].artifacts["video_uri"].version == 1


def test_video_that_came_before_it_was_confirmed(world: World) -> None:
    """H5: an address that a callback brought along is the one that counts."""
    job_id = created(world)
    world.callback(job_id, "e1", "UPLOADING", artifacts={"video_uri": VIDEO})
    said = world.callback(job_id, "e2", "UPLOADED", artifacts={"video_uri": "s3://other"})
    assert refused(said).code == "VIDEO_URI_CONFLICT"
    assert code(world.callback(job_id, "e2", "UPLOADED")) == "moved"


def test_confirming_needs_an_address(world: World) -> None:
    """H5 H57"""
    job = at(world, "CREATED")
    for said in (
        world.do(job.id, "confirm-upload"),
        world.move(job.id, "UPLOADED", ADA),
        world.move(job.id, "UPLOADED", ADA, artifacts={"video_uri": " "}),
    ):
        assert (refused(said).code, refused(said).status) == ("VALIDATION_ERROR", 400)
    assert world.jobs[job.id] is job


def test_uploaded_file_is_the_video(world: World) -> None:
    """H5: after an upload through the service its address may be left out."""
    job_id = uploading(world)
    marks = {"uploaded_url": "/assets/one/content"}
    world.jobs[job_id] = replace(world.jobs[job_id], marks=marks)
    assert code(world.do(job_id, "confirm-upload")) == "moved"
    assert world.jobs[job_id].value("video_uri") == "/assets/one/content"


def test_running_needs_a_video(world: World) -> None:
    """H5 H26: brought to UPLOADED by a callback without one, a job can be told later."""
    job_id = created(world)
    world.callback(job_id, "e1", "UPLOADED")
    job = world.jobs[job_id]
    for actor in (ADA, ADMIN):
        told = refused(world.do(job_id, "run", actor))
        assert (told.code, told.status) == ("VIDEO_MISSING", 409)
    assert code(world.move(job_id, "AUDIO_EXTRACTING", ADA)) == "VIDEO_MISSING"
    assert world.jobs[job_id] is job
    said = world.do(job_id, "confirm-upload", video_uri=VIDEO)
    assert code(said) == "noted"
    assert world.jobs[job_id].status == "UPLOADED"
    assert code(world.do(job_id, "run")) == "moved"


def test_orchestrator_needs_no_video(world: World) -> None:
    """H26 H-r9: a callback is taken at its word."""
    job_id = created(world)
    world.callback(job_id, "e1", "UPLOADED")
    assert code(world.callback(job_id, "e2", "AUDIO_EXTRACTING")) == "moved"


# ---------------------------------------------------------------- runs and their lock


@pytest.mark.parametrize("actor", [ADA, ADMIN])
def test_run_takes_the_lock(world: World, actor: Actor) -> None:
    """H26 H52 H53: one commit has status, run, lock and attempt; the repeat names the same run."""
    job_id = uploaded(world)
    said = world.do(job_id, "run", actor)
    job = world.jobs[job_id]
    lock = job.lock("pipeline")
    assert job.run is not None
    assert lock is not None
    assert (job.run.opened_by, lock.run_id) == ("run", job.run_id)
    assert answer(said)["run_id"] == job.run_id
    again = world.do(job_id, "run")
    assert answer(again) == {"replayed": True, "run_id": job.run_id}
    assert world.jobs[job_id] is job


@pytest.mark.parametrize("status", BY_CALLBACK)
@pytest.mark.parametrize("how", ["callback", "hand"])
def test_run_beside_an_orchestrator(world: World, how: str, status: str) -> None:
    """H52 H53 H-r13 H-r14: whoever began owns the pipeline."""
    job_id = created(world)
    for to in BY_CALLBACK[status]:
        world.move(job_id, to, WORKER if how == "callback" else ADMIN)
    job = world.jobs[job_id]
    said = refused(world.do(job_id, "run"))
    assert (said.code, said.extra["run_id"]) == ("JOB_ALREADY_RUNNING", job.run_id)
    assert world.jobs[job_id] is job


@pytest.mark.parametrize("status", STATUSES)
def test_lock_is_held_where_it_should_be(world: World, status: str) -> None:
    """H53 H-r19: from the first stage to the draft, and again for an export; nowhere else."""
    job = at(world, status)
    held = (*STATUSES[3:8], "EXPORTING")
    assert (job.lock("pipeline") is not None) == (status in held)
    assert (job.lock("regenerate") is not None) == (status == "REGENERATING")


def test_export_is_a_run_of_its_own(world: World) -> None:
    """H31 H53 H-r19: a fresh hold, freed when it fails."""
    job_id = editing(world)
    first = world.jobs[job_id].run_id
    run_id = answer(world.do(job_id, "export", format="PDF"))["run_id"]
    lock = world.jobs[job_id].lock("pipeline")
    assert lock is not None
    assert lock.run_id == run_id != first
    world.callback(job_id, "e1", "EDITING")
    assert world.jobs[job_id].locks == ()


def test_late_word_of_an_older_run(world: World) -> None:
    """H13 H52: a report that names a run which is over is refused."""
    job_id = audio_ready(world)
    old = world.jobs[job_id].run_id
    world.fire(job_id, "lapse")
    world.do(job_id, "run")
    job = world.jobs[job_id]
    said = refused(world.callback(job_id, "e9", "TRANSCRIPT_READY", run_id=old))
    assert (said.code, said.extra["run_id"]) == ("STALE_RUN", job.run_id)
    assert world.jobs[job_id] is job
    assert code(world.callback(job_id, "e9", "TRANSCRIPT_READY", run_id=job.run_id)) == "moved"


# ---------------------------------------------------------------- lapse and resume


@pytest.mark.parametrize(
    ("status", "onward"), [("AUDIO_READY", "TRANSCRIBING"), ("TRANSCRIPT_READY", "GENERATING")]
)
def test_silent_orchestrator_lapses(world: World, status: str, onward: str) -> None:
    """H38 H39 H42 H65 H-r14: after half an hour the run is closed and the status stays; `run`
    resumes behind the checkpoint, under a new run, and no earlier stage is entered again."""
    job_id = AT_REST[status](world)
    before, since = world.jobs[job_id], world.now
    assert code(world.do(job_id, "run")) == "replayed"
    world.fire(job_id, "lapse")
    assert world.now - since >= 1_800_000
    job = world.jobs[job_id]
    assert (job.status, job.live, job.locks) == (status, False, ())
    said = world.do(job_id, "run")
    assert isinstance(said, Decision)
    assert (said.status, [hop.to_status for hop in said.hops]) == (202, [onward])
    assert answer(said)["run_id"] == world.jobs[job_id].run_id != before.run_id
    assert world.path(job_id).count("AUDIO_EXTRACTING") == 1


def test_orchestrator_may_come_back(world: World) -> None:
    """H52: after a lapse its next callback opens a run of its own."""
    job_id = audio_ready(world)
    world.fire(job_id, "lapse")
    world.callback(job_id, "e9", "TRANSCRIBING")
    run = world.jobs[job_id].run
    assert run is not None
    assert (run.opened_by, run.live) == ("callback", True)


def test_resume_at_the_draft_opens_the_editor(world: World) -> None:
    """H40 H-r17: nothing is generated; the draft is what it was."""
    job_id = draft_ready(world)
    before = world.jobs[job_id]
    assert code(world.do(job_id, "run")) == "moved"
    job = world.jobs[job_id]
    assert (job.status, job.live) == ("EDITING", False)
    assert job.artifacts == before.artifacts


def test_artifacts_are_never_lost(world: World) -> None:
    """H43 H44 H60 H-r28: a value said again is no news, another one is a new version."""
    job_id = audio_extracting(world)
    world.callback(job_id, "e1", "AUDIO_EXTRACTING", artifacts={"audio_uri": "a", "metrics": {}})
    world.callback(job_id, "e2", "AUDIO_READY", artifacts={"audio_uri": "b", "metrics": None})
    artifacts = world.jobs[job_id].artifacts
    assert (artifacts["audio_uri"].version, artifacts["audio_uri"].value) == (2, "b")
    assert artifacts["metrics"].value == {}
    assert "video_uri" in artifacts


def test_ready_without_its_artifact(world: World) -> None:
    """H6 H41 H-r27: accepted from an orchestrator, whose word it is."""
    job_id = audio_extracting(world)
    assert code(world.callback(job_id, "e1", "AUDIO_READY")) == "moved"
    assert world.jobs[job_id].value("audio_uri") is None


# ---------------------------------------------------------------- stages in the house


def a_file(name: str) -> dict[str, Any]:
    """What a stage brings: a file, and an artifact that names it."""
    asset = Asset(f"asset-{name}", name, f"/assets/{name}/content", f"ada/{name}", 3)
    return {"assets": (asset,), "artifacts": {f"{name}_uri": asset.url}}


def house() -> World:
    return World(bound(definition))


def test_pipeline_in_the_house() -> None:
    """H1 H6 H9 H26 H52: one `run`, and each stage follows the other by itself; each next one is
    lined up in the commit that ends the one before."""
    world = house()
    job_id = audio_extracting(world)
    run_id = world.jobs[job_id].run_id
    for name, onward in (("audio", "TRANSCRIBING"), ("transcript", "GENERATING")):
        assert code(world.start(job_id)) == "noted"
        assert code(world.ended(job_id, "done", **a_file(name))) == "moved"
        job = world.jobs[job_id]
        assert (job.status, job.run_id, job.line_at) == (onward, run_id, world.now)
    world.start(job_id)
    world.ended(job_id, "done", **a_file("draft"))
    job = world.jobs[job_id]
    assert (job.status, job.live, job.locks, job.line_at) == ("DRAFT_READY", False, (), None)
    assert world.path(job_id)[2:] == list(STATUSES[3:9])


@pytest.mark.parametrize("status", RETRYABLE)
def test_stage_must_leave_its_file(world: World, status: str) -> None:
    """H6 H47: `done` without the artifact is a bad answer, and those are not repeated."""
    job_id = AT_REST[status](world)
    world.definition = bound(definition)
    world.fire(job_id, "deadline")
    world.fire(job_id, "backoff")
    world.start(job_id)
    world.ended(job_id, "done")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code, job.failed_stage) == ("FAILED", "RESULT_MISSING", status)


def test_callback_that_hands_over_to_the_house(world: World) -> None:
    """H38 H41 H47: nobody's word makes a stage of ours begin on a file that is not there."""
    job_id = audio_ready(world)
    world.fire(job_id, "lapse")
    world.definition = bound(definition)
    world.callback(job_id, "e9", "TRANSCRIBING")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code) == ("FAILED", "CORRUPT_INPUT")


def test_callback_into_work_of_our_own() -> None:
    """H52 H53: refused, while a cancel or a failure from outside is heard."""
    world = house()
    job_id = audio_extracting(world)
    world.start(job_id)
    for to in ("AUDIO_EXTRACTING", "AUDIO_READY"):
        told = refused(world.callback(job_id, "e1", to, artifacts={"audio_uri": "x"}))
        assert told.code == "JOB_ALREADY_RUNNING"
        assert told.extra["run_id"] == world.jobs[job_id].run_id
    said = world.callback(job_id, "e1", "FAILED", **WHY)
    assert isinstance(said, Decision)
    assert StopStage(1) in said.effects


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("status", "name", "onward"),
    [("AUDIO_READY", "audio", "TRANSCRIBING"), ("TRANSCRIPT_READY", "transcript", "GENERATING")],
)
def test_resume_wants_its_input_whole(
    world: World, status: str, name: str, onward: str, whole: bool
) -> None:
    """H38 H39 H41 H47 H51 H-r15 H-r16: resumed in the house, a stage begins with a file that reads
    back as recorded, or the job fails as CORRUPT_INPUT at once, naming the stage to come."""
    job_id = AT_REST[status](world)
    world.fire(job_id, "lapse")
    job = world.jobs[job_id]
    found = replace(job.artifacts[f"{name}_uri"], asset=f"asset-{name}")
    world.jobs[job_id] = replace(job, artifacts={**job.artifacts, f"{name}_uri": found})
    if whole:
        world.assets += [(job_id, asset) for asset in a_file(name)["assets"]]
    world.definition = bound(definition)
    assert code(world.do(job_id, "run")) == "moved"
    job = world.jobs[job_id]
    if whole:
        assert (job.status, job.locks[0].scope) == (onward, "pipeline")
        return
    assert (job.status, job.failure_code) == ("FAILED", "CORRUPT_INPUT")
    assert (job.failed_stage, job.retry_count) == (onward, 0)
    assert job.correlation_id


def test_word_from_outside_is_no_file_of_ours(world: World) -> None:
    """H41 H-r16: an address that an orchestrator gave does not count for a stage in the house, not
    even with an asset that the same callback speaks of."""
    world.definition = varied_house("AUDIO_EXTRACTING")
    job_id = audio_extracting(world)
    world.callback(job_id, "e1", "AUDIO_READY", **a_file("audio"))
    job = world.jobs[job_id]
    assert (job.status, job.failure_code) == ("FAILED", "CORRUPT_INPUT")


def varied_house(*outside: str) -> Definition:
    """Everything bound in the house but these states."""
    inside = bound(definition).workflow.states
    states = (definition.states[one.name] if one.name in outside else one for one in inside)
    return varied(definition, states=tuple(states))


def test_verified_work_is_not_done_again() -> None:
    """H38 H-r15: what a stage would make is there and whole, so the stage is passed over, with an
    attempt that says so and every edge of the table walked."""
    world = house()
    job_id = uploaded(world)
    job = world.jobs[job_id]
    made = replace(job.artifacts["video_uri"], name="audio_uri", asset="asset-audio")
    world.jobs[job_id] = replace(job, artifacts={**job.artifacts, "audio_uri": made})
    world.assets += [(job_id, asset) for asset in a_file("audio")["assets"]]
    said = world.do(job_id, "run")
    assert isinstance(said, Decision)
    assert [hop.to_status for hop in said.hops] == [
        "AUDIO_EXTRACTING",
        "AUDIO_READY",
        "TRANSCRIBING",
    ]
    assert [one.outcome for one in said.attempts] == ["skipped", ""]


# ---------------------------------------------------------------- retries


@pytest.mark.parametrize("status", RETRYABLE)
def test_reported_failures_spend_the_budget(world: World, status: str) -> None:
    """H24 H25 H45 H48 H49 H-r29: twice the same stage again, each time an edge and an event; the
    third failure takes the self edge and FAILED in one commit."""
    job_id = AT_REST[status](world)
    why = {**WHY, "failed_stage": status}
    for count in (1, 2):
        said = world.callback(job_id, f"r{count}", status, **why)
        assert isinstance(said, Decision)
        assert [(hop.from_status, hop.to_status) for hop in said.hops] == [(status, status)]
        job = world.jobs[job_id]
        assert (job.retry_count, job.attempts, job.failure_code) == (count, count + 1, None)
        assert len(world.logged(job_id, "job.retry_scheduled")) == count
    said = world.callback(job_id, "r3", status, **why)
    assert isinstance(said, Decision)
    assert [hop.to_status for hop in said.hops] == [status, "FAILED"]
    job = world.jobs[job_id]
    assert (job.failure_code, job.failure_message) == ("BAD_CODEC", "the video cannot be read")
    assert (job.failed_stage, job.correlation_id, job.locks) == (status, job.run_id, ())


@pytest.mark.parametrize("status", RETRYABLE)
def test_reentry_without_a_failure_is_free(world: World, status: str) -> None:
    """H24 H25 H-r20 H-r29: a sign of life, as often as it likes; own reports are no contention."""
    job_id = AT_REST[status](world)
    for count in range(5):
        assert code(world.callback(job_id, f"r{count}", status)) == "moved"
    job = world.jobs[job_id]
    assert (job.status, job.retry_count, job.attempts) == (status, 0, 1)


@pytest.mark.parametrize("status", RETRYABLE)
def test_permanent_failure_reported(world: World, status: str) -> None:
    """H47 H50: no further try."""
    job_id = AT_REST[status](world)
    world.callback(job_id, "r1", status, **{**WHY, "failed_stage": status, "retryable": False})
    assert world.path(job_id)[-2:] == [status, "FAILED"]


@pytest.mark.parametrize(("failure", "tries"), [(TIMEOUT, 3), (BAD_CODEC, 1)])
def test_failing_stage(failure: Failure, tries: int) -> None:
    """H45-H51: retryable with backoff and a logged edge each, then FAILED alone; permanent at once;
    the four fields are there either way."""
    world = house()
    job_id = audio_extracting(world)
    for count in range(1, tries + 1):
        world.start(job_id)
        said = world.ended(job_id, "failed", failure)
        assert isinstance(said, Decision)
        last = count == tries
        assert [hop.to_status for hop in said.hops] == ["FAILED" if last else "AUDIO_EXTRACTING"]
        if not last:
            assert world.jobs[job_id].line_at is None
            world.fire(job_id, "backoff")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code, job.failed_stage) == (
        "FAILED",
        failure.code,
        "AUDIO_EXTRACTING",
    )
    assert job.correlation_id == job.run_id
    assert len(world.logged(job_id, "job.retry_scheduled")) == tries - 1


def test_rate_limit_is_waited_for() -> None:
    """H45 H46: what the provider asks for is what is waited, when that is longer."""
    world = house()
    job_id = audio_extracting(world)
    world.start(job_id)
    world.ended(job_id, "failed", Failure("RATE_LIMITED", "slower", retry_after_s=120))
    timer = world.jobs[job_id].timer("backoff")
    assert timer is not None
    assert timer.due_at == world.now + 120_000


def test_budget_is_per_stage() -> None:
    """H48: two failures of the first stage leave the second its three attempts."""
    world = house()
    job_id = audio_extracting(world)
    for _ in range(2):
        world.start(job_id)
        world.ended(job_id, "failed", TIMEOUT)
        world.fire(job_id, "backoff")
    world.start(job_id)
    world.ended(job_id, "done", **a_file("audio"))
    for _ in range(2):
        world.start(job_id)
        world.ended(job_id, "failed", TIMEOUT)
        assert world.jobs[job_id].status == "TRANSCRIBING"
        world.fire(job_id, "backoff")


def test_crash_spends_nothing() -> None:
    """H1 H48: the attempt that died with the process is followed by another, in place."""
    world = house()
    job_id = audio_extracting(world)
    world.start(job_id)
    hops = len(world.hops)
    world.tell(job_id, Recovered())
    job = world.jobs[job_id]
    assert (job.status, job.retry_count, job.attempts) == ("AUDIO_EXTRACTING", 0, 2)
    assert len(world.hops) == hops


@pytest.mark.parametrize("status", RETRYABLE)
def test_stage_outside_runs_out_of_time(world: World, status: str) -> None:
    """H45 H48 H49: a deadline is a retryable failure; three of them are the end."""
    job_id = AT_REST[status](world)
    for _ in range(3):
        assert world.jobs[job_id].status == status
        world.fire(job_id, "deadline")
    job = world.jobs[job_id]
    assert (job.status, job.failure_code) == ("FAILED", "STAGE_TIMEOUT")


# ---------------------------------------------------------------- failing


@pytest.mark.parametrize("missing", sorted(WHY))
def test_failure_needs_its_fields(world: World, missing: str) -> None:
    """H51 H59 H-r12: each of the three is wanted."""
    job = at(world, "TRANSCRIBING")
    partly = {name: value for name, value in WHY.items() if name != missing}
    for said in (world.callback(job.id, "e1", "FAILED", **partly), world.move(job.id, "FAILED")):
        assert (refused(said).code, refused(said).status) == ("VALIDATION_ERROR", 400)
    assert world.jobs[job.id] is job


@pytest.mark.parametrize("stage", ["EDITING", "CREATED", "nowhere"])
def test_failed_stage_is_a_stage(world: World, stage: str) -> None:
    """H51"""
    job = at(world, "TRANSCRIBING")
    said = world.callback(job.id, "e1", "FAILED", **{**WHY, "failed_stage": stage})
    assert refused(said).code == "VALIDATION_ERROR"


@pytest.mark.parametrize("status", OPEN)
def test_operator_gives_up(world: World, status: str) -> None:
    """H36 H51: from every state that is not final; audited, locks and timers gone."""
    job_id = AT_REST[status](world)
    world.do(job_id, "fail", ADMIN, **WHY)
    job = world.jobs[job_id]
    assert (job.status, job.locks, job.timers, job.attempt) == ("FAILED", (), (), None)
    assert (job.failure_code, job.failure_message, job.failed_stage) == tuple(WHY.values())
    assert job.correlation_id
    assert "job.fail" in [record.event for record in world.audited(job_id)]


# ---------------------------------------------------------------- cancelling


@pytest.mark.parametrize("status", OPEN)
def test_cancel_frees_everything(world: World, status: str) -> None:
    """H33-H35 H-r21 H-r22: from everywhere; attempt, locks, timers and run are over; what comes
    later is refused and merges nothing."""
    job_id = AT_REST[status](world)
    world.do(job_id, "cancel")
    job = world.jobs[job_id]
    assert (job.status, job.locks, job.timers, job.attempt, job.live) == (
        "CANCELLED",
        (),
        (),
        None,
        False,
    )
    late = world.callback(job_id, "late", "AUDIO_READY", artifacts={"audio_uri": "late"})
    assert refused(late).code == "TERMINAL_STATE"
    assert code(world.do(job_id, "cancel")) == "TERMINAL_STATE"
    assert world.jobs[job_id] is job


def test_cancel_stops_the_stage() -> None:
    """H35: whoever works in the house is told to stop, and its result is late."""
    world = house()
    job_id = audio_extracting(world)
    world.start(job_id)
    said = world.do(job_id, "cancel")
    assert isinstance(said, Decision)
    assert said.effects == (StopStage(1),)
    job = world.jobs[job_id]
    late = Ended(1, "done", Report(**a_file("audio")))
    assert code(world.tell(job_id, late)) == "late_result"
    assert world.jobs[job_id] is job


@pytest.mark.parametrize("status", ["CREATED", "UPLOADING"])
def test_cleanup_of_what_was_never_uploaded(status: str) -> None:
    """H34: off by default; switched on, the timer cancels."""
    world = World(definition)
    assert at(world, status).timers == ()
    states = tuple(
        replace(one, deadline=replace(one.deadline, after_s=60))
        if one.name in ("CREATED", "UPLOADING") and one.deadline
        else one
        for one in definition.workflow.states
    )
    world = World(varied(definition, states=states))
    job_id = AT_REST[status](world)
    world.fire(job_id, "deadline")
    assert world.jobs[job_id].status == "CANCELLED"


# ---------------------------------------------------------------- events


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


# ---------------------------------------------------------------- the editor


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


# ---------------------------------------------------------------- exporting


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


# ---------------------------------------------------------------- submissions and bodies


def test_submissions_are_told_apart_by_the_clients_key(world: World) -> None:
    """H3: two jobs without a key are two jobs; a key leads to its job in every state."""
    assert created(world) != created(world)
    job_id = world.born(key="mine")
    world.do(job_id, "cancel")
    assert code(world.submit(key="mine")) == "replayed"
    assert code(world.submit(key="mine", actor=EVE)) == "moved"


def test_timers_that_come_late(world: World) -> None:
    """H1: a timer of a state that was left does nothing."""
    job_id = audio_ready(world)
    timer = world.jobs[job_id].timer("lapse")
    assert timer is not None
    on(world, job_id, "TRANSCRIBING")
    world.now = timer.due_at + 1
    assert code(world.tell(job_id, Fired("lapse", timer.due_at))) == "timer_gone"


@pytest.mark.parametrize(
    ("struct", "body"),
    [
        (Nothing, {"video_uri": VIDEO}),
        (ConfirmUpload, {"video_uri": ""}),
        (ConfirmUpload, {"video_uri": "  "}),
        (ConfirmUpload, {"video_uri": 7}),
        (Regenerate, {"base_version": 0}),
        (Regenerate, {"instruction": ""}),
        (Regenerate, {"model": "x"}),
        (Export, {}),
        (Export, {"format": "DOCX"}),
        (Export, {"format": "PDF", "version": 0}),
        (Fail, {"failure_code": "X", "failure_message": "y"}),
        (Fail, {**WHY, "failed_stage": "EDITING"}),
    ],
)
def test_bodies_that_are_not_taken(struct: type, body: dict[str, Any]) -> None:
    """H57: missing, unknown or out of range."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, struct)
