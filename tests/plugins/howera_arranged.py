"""The howera lifecycle, arranged for tests in the pure core: no clock, no store, no HTTP."""

from typing import Any

from jobrunner_howera import definition as shipped

from jobrunner.core.decision import Decision, NoOp
from jobrunner.core.job import Asset, Failure, Snapshot
from jobrunner.errors import Refused
from tests.driving import Arrange, World, code, outside

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
AUTO_EDIT = {"auto_edit": True, "review_transcript": False}
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


ILLEGAL = "ILLEGAL_TRANSITION"


def a_file(name: str) -> dict[str, Any]:
    """What a stage brings: a file, and an artifact that names it."""
    asset = Asset(f"asset-{name}", name, f"/assets/{name}/content", f"ada/{name}", 3)
    return {"assets": (asset,), "artifacts": {f"{name}_uri": asset.url}}
