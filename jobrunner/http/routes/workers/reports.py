"""Reports of those who work outside: results, files, progress, or why it failed."""

from typing import Annotated, Any, ClassVar

from msgspec import Meta

from jobrunner.core.messages import Beat
from jobrunner.http.frame.endpoint import MOVING, WORKERS, Body, Endpoint, HttpCall, HttpReply
from jobrunner.http.frame.inputs import SPACE, ArtifactName, Count, Name, Word, job_id_of, needs_one
from jobrunner.http.frame.views import Job, reply_answer

Percent = Annotated[int, Meta(ge=0, le=100)]
FILE_URL = rf"^(https?://[^/{SPACE}]+[^{SPACE}]*|/[^/{SPACE}][^{SPACE}]*)(?!\n)$"
Path = Annotated[
    str,
    Meta(
        max_length=1024,
        pattern=r"^(?!\.)[A-Za-z0-9._-]{1,100}(/(?!\.)[A-Za-z0-9._-]{1,100})*(?!\n)$",
        description="Relative, of plain names; one that is not below the job's own folder is made"
        " anew",
    ),
]


class ReportedAsset(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``id`` is that of a file that was sent for this attempt (with ``asset_type`` where that is to
    be another one); a file that lies elsewhere has ``asset_type`` and ``url``."""

    rules: ClassVar[tuple[dict[str, Any], ...]] = (
        {
            "anyOf": [
                {**needs_one("id"), "not": needs_one("url", "storage_path", "file_size", "sha256")},
                {"allOf": [needs_one("asset_type"), needs_one("url")], "not": needs_one("id")},
            ]
        },
    )
    id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    asset_type: Name | None = None
    url: Annotated[str, Meta(max_length=2048, pattern=FILE_URL)] | None = None
    storage_path: Path | None = None
    file_size: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{64}(?!\n)$")] | None = None


class Progress(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Without any field it is a heartbeat."""

    progress: Percent | None = None
    message: str | None = None
    run_id: Word | None = None
    attempt: Count | None = None
    claim: Count | None = None


class Reported(Progress, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The report that may accompany a move: results, files, progress, or why it failed. ``run_id``,
    ``attempt`` and ``claim`` say which work it is of, as the claim was answered."""

    artifact_updates: dict[ArtifactName, Any] | None = None
    assets: list[ReportedAsset] | None = None
    result: dict[str, Any] | None = None
    failure_code: Word | None = None
    failure_message: Annotated[str, Meta(min_length=1)] | None = None
    failed_stage: Word | None = None
    retryable: bool | None = None


@Endpoint(
    "POST", "/jobs/{id}/progress", {200: Job}, WORKERS, body=Progress, empty=True, codes=MOVING
)
async def report_progress(call: HttpCall) -> HttpReply:
    """Report progress; an empty body is a heartbeat."""
    body: Progress = call.body
    message = Beat(call.actor, body.progress, body.message, body.run_id, body.attempt, body.claim)
    return reply_answer(call, await call.door.facade.ask(job_id_of(call), message), 200)
